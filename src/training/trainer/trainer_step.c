/* One step: tokens, the pipeline, sums over ranks, loss, norm, update. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "compute/kern/ops.h"
#include "compute/optim/lr_curve.h"
#include "training/trainer/trainer_priv.h"

/* The number that people see. */
static unsigned long long number(const struct wf_trainer *t)
{
    return (unsigned long long)t->done + 1;
}

/* What went wrong, and in which step and micro. */
static enum weft_status add_context(const struct wf_trainer *t, uint32_t micro,
                                    enum weft_status st, struct weft_error *err)
{
    struct weft_error cause = {0};
    if (err != NULL)
        cause = *err;
    return WEFT_FAIL(err, st, "step %llu, micro %u: %.400s", number(t), micro, cause.msg);
}

/* -- tokens --------------------------------------------------------------------------------- */

/* Every rank needs the number of all targets. */
enum weft_status wf_trainer_read_tokens(struct wf_trainer *t, const struct wf_batch *from,
                                        uint64_t step, size_t *n_targets,
                                        struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    size_t n = (size_t)l->batch * l->seq;
    *n_targets = 0;
    for (uint32_t m = 0; m < l->micros; m++) {
        struct wf_range rows = wf_micro_range(l->batch, l->micros, m);
        enum weft_status st = wf_batch_read(
            from, step, (uint32_t)rows.begin, (uint32_t)(rows.end - rows.begin),
            t->inputs + rows.begin * l->seq, t->targets + rows.begin * l->seq, err);
        if (st != WEFT_OK)
            return add_context(t, m, st, err);
    }
    for (size_t i = 0; i < n; i++)
        *n_targets += t->targets[i] != -1;
    if (*n_targets == 0)
        return WEFT_FAIL(err, WEFT_DATA, "step %llu: no token of it is a target", number(t));
    return WEFT_OK;
}

/* -- sums over ranks ------------------------------------------------------------------------ */

/* A tensor that nothing was added to has a gradient of zero. */
static void complete(struct wf_param *p)
{
    if (!p->fresh)
        return;
    if (p->exact != NULL)
        memset(p->exact, 0, p->n * sizeof *p->exact);
    else
        memset(p->fast, 0, p->n * sizeof *p->fast);
    p->fresh = false;
}

/* Both uses of a tied weight are on this rank: one gradient. */
static bool merge_tied(struct local_group *g)
{
    struct wf_param *a = g->params[0], *b = g->tied_copy;
    if (a->exact != NULL)
        return wf_ops()->exact_merge(a->exact, b->exact, a->n);
    for (size_t i = 0; i < a->n; i++)
        a->fast[i] += b->fast[i];
    return false;
}

static enum weft_status start_reduction(struct wf_trainer *t, struct local_group *g,
                                        struct weft_error *err)
{
    g->reduced = true;
    for (size_t i = 0; i < g->plan->n_tensors; i++)
        complete(g->params[i]);
    bool overflowed = false;
    if (g->tied_copy != NULL) {
        complete(g->tied_copy);
        overflowed = merge_tied(g);
    }
    WEFT_TRY(wf_group_reduce(g->sums, t->done, err));
    if (overflowed)
        return WEFT_FAIL(err, WEFT_NUMERIC, "the gradient of %s is beyond what exact sums hold",
                         g->params[0]->desc.name);
    return WEFT_OK;
}

/* A stage's gradients are complete.  Groups of one stage start; a tied weight that has two uses
 * here waits for the end. */
enum weft_status wf_trainer_reduce_stage(void *trainer, uint32_t stage, struct weft_error *err)
{
    struct wf_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        struct local_group *g = &t->groups[i];
        if (!g->reduced && g->tied_copy == NULL && g->stages[0] == stage)
            WEFT_TRY(start_reduction(t, g, err));
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_progress(void *trainer, struct weft_error *err)
{
    struct wf_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        bool done;
        if (t->groups[i].reduced)
            WEFT_TRY(wf_group_progress(t->groups[i].sums, &done, err));
    }
    return WEFT_OK;
}

static bool is_recoverable(enum weft_status st)
{
    return st == WEFT_OK || st == WEFT_NUMERIC || st == WEFT_DATA;
}

/* Remembers the first failure that lets the ranks go on, and passes on the others. */
static enum weft_status keep_first(enum weft_status st, const struct weft_error *from,
                                   enum weft_status *first, struct weft_error *kept)
{
    if (!is_recoverable(st))
        return st;
    if (st != WEFT_OK && *first == WEFT_OK) {
        *first = st;
        *kept = *from;
    }
    return WEFT_OK;
}

static enum weft_status finish_reductions(struct wf_trainer *t, enum weft_status *first,
                                          struct weft_error *kept, struct weft_error *err)
{
    struct weft_error own = {0};
    for (size_t i = 0; i < t->n_groups; i++) {
        enum weft_status st = WEFT_OK;
        if (!t->groups[i].reduced)
            st = start_reduction(t, &t->groups[i], &own);
        if (keep_first(st, &own, first, kept) == WEFT_OK) {
            st = wf_group_finish(t->groups[i].sums, &own);
            if (keep_first(st, &own, first, kept) == WEFT_OK)
                continue;
        }
        if (err != NULL)
            *err = own;
        return st;
    }
    return WEFT_OK;
}

/* -- what ranks tell each other at the end -------------------------------------------------- */

static size_t n_summary_segments(const struct wf_topology *l, uint32_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t member = wf_topology_member(g, rank);
        for (size_t k = 0; member < g->n_members && k < g->n_tensors; k++) {
            struct wf_range share = wf_topology_shard(g, member, k);
            n += (share.end - share.begin + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
        }
    }
    return n;
}

static uint32_t n_summary_losses(const struct wf_topology *l, uint32_t rank)
{
    struct wf_range micros = wf_topology_micros(l, rank / l->pp);
    return (uint32_t)(micros.end - micros.begin);
}

size_t wf_trainer_summary_bytes(const struct wf_topology *l, uint32_t rank)
{
    return sizeof(struct step_summary) +
           (n_summary_losses(l, rank) + n_summary_segments(l, rank)) * sizeof(double);
}

double *wf_trainer_summary_losses(void *summary)
{
    return (double *)((char *)summary + sizeof(struct step_summary));
}

/* What the model's costs say that each rank computes in a step. */
static void plan_work(struct wf_trainer *t)
{
    const struct wf_topology *l = &t->topology;
    struct weft_cost cost = wf_topology_cost(l);
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        struct weft_action_span row =
            weft_schedule_rank(wf_topology_schedule(l, r / l->pp), r % l->pp);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_stage_cost c = weft_cost_stage(&cost, row.at[i].stage);
            const double by_kind[] = {c.f, c.b, c.i, c.w};
            if (weft_act_is_compute(row.at[i].kind))
                t->planned_work[r] += by_kind[row.at[i].kind];
        }
    }
}

enum weft_status wf_trainer_alloc_summaries(struct wf_trainer *t, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    t->summary_bytes = wf_trainer_summary_bytes(l, t->rank);
    t->summary = calloc(1, t->summary_bytes);
    bool ok = t->summary != NULL;
    if (t->rank == 0) {
        t->summaries = calloc(t->n_ranks, sizeof *t->summaries);
        t->summary_sizes = calloc(t->n_ranks, sizeof *t->summary_sizes);
        t->squares = calloc(l->first_segment[l->params.n] + 1, sizeof *t->squares);
        t->planned_work = calloc(t->n_ranks, sizeof *t->planned_work);
        t->window.compute_ns = calloc(t->n_ranks, sizeof *t->window.compute_ns);
        ok = ok && t->summaries != NULL && t->summary_sizes != NULL && t->squares != NULL &&
             t->planned_work != NULL && t->window.compute_ns != NULL;
        for (uint32_t r = 0; ok && r < t->n_ranks; r++) {
            t->summary_sizes[r] = wf_trainer_summary_bytes(l, r);
            t->summaries[r] = calloc(1, t->summary_sizes[r]);
            ok = t->summaries[r] != NULL;
        }
        if (ok)
            plan_work(t);
    }
    if (!ok)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for what ranks summary");
    return WEFT_OK;
}

static void fill_summary(struct wf_trainer *t, enum weft_status failed,
                         const struct weft_error *failure, struct weft_cell_id where)
{
    struct step_summary *head = (struct step_summary *)t->summary;
    struct weft_exec_times times = weft_exec_times(t->exec);
    size_t n;
    *head = (struct step_summary){.status = (uint32_t)failed,
                                  .stage = where.stage,
                                  .micro = where.micro,
                                  .stop = t->stop,
                                  .begin_ns = times.begin_ns + t->clock_offset_ns,
                                  .end_ns = times.end_ns + t->clock_offset_ns,
                                  .compute_ns = times.compute_ns};
    if (failed != WEFT_OK)
        snprintf(head->error, sizeof head->error, "%s", failure->msg);
    memcpy(wf_trainer_summary_losses(t->summary), t->losses, t->n_micros * sizeof(double));
    const double *squares = wf_optim_segment_squares(t->optim, &n);
    memcpy(wf_trainer_summary_losses(t->summary) + t->n_micros, squares, n * sizeof(double));
}

/* -- what rank 0 makes of it ---------------------------------------------------------------- */

/* Micros in their order, whatever rank and order they ran on. */
double wf_trainer_total_loss(const struct wf_trainer *t)
{
    const struct wf_topology *l = &t->topology;
    double sum = 0;
    for (uint32_t d = 0; d < l->dp; d++) {
        const struct weft_placement *place =
            weft_schedule_placement(wf_topology_schedule(l, d));
        for (uint32_t m = 0; m < place->n_micros; m++) {
            uint32_t row = weft_placement_rank(place, l->n_stages - 1, m);
            sum += wf_trainer_summary_losses(t->summaries[d * l->pp + row])[m];
        }
    }
    return sum;
}

/* The squares of all blocks, each in its place in the model. */
static void collect_squares(struct wf_trainer *t)
{
    const struct wf_topology *l = &t->topology;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const double *next =
            wf_trainer_summary_losses(t->summaries[r]) + n_summary_losses(l, r);
        for (size_t i = 0; i < l->n_groups; i++) {
            const struct wf_topology_group *g = &l->groups[i];
            uint32_t member = wf_topology_member(g, r);
            for (size_t k = 0; member < g->n_members && k < g->n_tensors; k++) {
                struct wf_range share = wf_topology_shard(g, member, k);
                size_t n = (share.end - share.begin + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
                memcpy(t->squares + l->first_segment[g->tensors[k].param] +
                           share.begin / WF_NORM_SEGMENT,
                       next, n * sizeof *next);
                next += n;
            }
        }
    }
}

static double sum_squares(const struct wf_trainer *t)
{
    double sum = 0;
    for (size_t b = 0; b < t->topology.first_segment[t->topology.params.n]; b++)
        sum += t->squares[b];
    return sum;
}

static const char *nonfinite_tensor(const struct wf_trainer *t)
{
    const struct wf_topology *l = &t->topology;
    for (size_t i = 0; i < l->params.n; i++)
        for (size_t b = l->first_segment[i]; b < l->first_segment[i + 1]; b++)
            if (!isfinite(t->squares[b]))
                return l->params.at[i].name;
    return "the model";
}

/* The failure that was first in the model's order: what follows from it comes later. */
static const struct step_summary *first_failure(const struct wf_trainer *t)
{
    const struct step_summary *first = NULL;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct step_summary *h = t->summaries[r];
        if (h->status != WEFT_OK && (first == NULL || h->micro < first->micro ||
                                     (h->micro == first->micro && h->stage < first->stage)))
            first = h;
    }
    return first;
}

/* The part of the ranks' time in which they waited.  Ranks on different hosts have different
 * clocks: only what one of them has measured by itself is compared. */
static double bubble(const struct wf_trainer *t, int64_t *longest_ns)
{
    int64_t longest = 0;
    double compute = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct step_summary *h = t->summaries[r];
        int64_t ns = h->end_ns - h->begin_ns;
        longest = ns > longest ? ns : longest;
        compute += (double)h->compute_ns;
    }
    double all = (double)longest * t->n_ranks;
    *longest_ns = longest;
    return all > 0 && compute < all ? 1 - compute / all : 0;
}

static void find_straggler(const struct wf_trainer *t, struct step_outcome *v)
{
    double fastest = INFINITY, slowest = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        double pace = t->window.compute_ns[r] / t->planned_work[r];
        fastest = pace < fastest ? pace : fastest;
        if (pace > slowest) {
            slowest = pace;
            v->slow_rank = r;
        }
    }
    v->slow_factor = slowest / fastest;
    if (v->slow_factor < t->slow)
        v->slow_rank = UINT32_MAX;
}

/* Who is slow is judged over some steps and seconds together: less is at the mercy of whatever
 * else a machine does. */
static void check_stragglers(struct wf_trainer *t, struct step_outcome *v)
{
    enum { LEAST_STEPS = 3 };
    const int64_t least_ns = 2000000000;
    int64_t now = wf_clock_ns();
    v->bubble = bubble(t, &v->pipeline_ns);
    v->slow_rank = UINT32_MAX;
    if (t->slow == 0 || t->n_ranks == 1)
        return;
    if (t->window.steps == 0)
        t->window.begin_ns = now;
    else /* the first of them only starts the clock */
        for (uint32_t r = 0; r < t->n_ranks; r++)
            t->window.compute_ns[r] +=
                (double)((struct step_summary *)t->summaries[r])->compute_ns;
    if (t->window.steps++ < LEAST_STEPS || now - t->window.begin_ns < least_ns)
        return;
    v->window_steps = t->window.steps - 1;
    find_straggler(t, v);
    t->window.steps = 0;
    memset(t->window.compute_ns, 0, t->n_ranks * sizeof *t->window.compute_ns);
}

static void decide_outcome(struct wf_trainer *t, size_t n_targets, struct step_outcome *v)
{
    const struct step_summary *failure = first_failure(t);
    *v = (struct step_outcome){.status = WEFT_OK};
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct step_summary *h = t->summaries[r];
        v->stop |= h->stop;
    }
    check_stragglers(t, v);
    if (failure != NULL) {
        v->status = failure->status;
        memcpy(v->error, failure->error, sizeof v->error);
        return;
    }
    v->loss = wf_trainer_total_loss(t) / (double)n_targets;
    collect_squares(t);
    v->norm = sqrt(sum_squares(t));
    if (!isfinite(v->loss)) {
        v->status = WEFT_NUMERIC;
        snprintf(v->error, sizeof v->error, "step %llu: the loss is not a finite number",
                 number(t));
    } else if (!isfinite(v->norm)) {
        v->status = WEFT_NUMERIC;
        snprintf(v->error, sizeof v->error,
                 "step %llu: the gradient of %s is not a finite number; weights are as before "
                 "the step",
                 number(t), nonfinite_tensor(t));
    }
}

static enum weft_status exchange_summaries(struct wf_trainer *t, size_t n_targets,
                                           struct step_outcome *v, struct weft_error *err)
{
    if (t->comm == NULL)
        memcpy(t->summaries[0], t->summary, t->summary_bytes);
    else
        WEFT_TRY(weft_comm_gather(t->comm, t->summary, t->summary_bytes, t->summaries,
                                  t->summary_sizes, err));
    if (t->rank == 0)
        decide_outcome(t, n_targets, v);
    return t->comm == NULL ? WEFT_OK : weft_comm_broadcast(t->comm, v, sizeof *v, err);
}

/* -- the update ----------------------------------------------------------------------------- */

/* Where this rank is the only member, what is updated is packed while it is in the cache. */
static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct wf_trainer *t = arg;
    const struct tensor_source *o = &t->sources[tensor];
    if (o->group->plan->n_members == 1)
        wf_tstage_pack_rows(t->stages[o->group->stages[o->tensor]], o->group->params[o->tensor],
                            row0, row1);
}

static enum weft_status all_gather_weights(struct wf_trainer *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->n_groups; i++) {
        struct local_group *g = &t->groups[i];
        WEFT_TRY(wf_group_all_gather(g->sums, t->done, err));
        for (size_t k = 0; g->plan->n_members > 1 && k < g->plan->n_tensors; k++)
            wf_trainer_pack_param(t, g->stages[k], g->params[k]);
        if (g->tied_copy == NULL)
            continue;
        memcpy(g->tied_copy->value, g->params[0]->value,
               g->tied_copy->n * sizeof *g->tied_copy->value);
        wf_trainer_pack_param(t, g->tied_copy_stage, g->tied_copy);
    }
    return WEFT_OK;
}

static enum weft_status update(struct wf_trainer *t, double norm, double *lr,
                               struct weft_error *err)
{
    struct wf_optim_step step = {.t = t->done + 1,
                                 .lr = wf_lr_curve_at(&t->curve, t->done),
                                 .scale = wf_clip_scale(norm, t->clip)};
    *lr = step.lr;
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done + 1, WF_PHASE_UPDATE);
    wf_optim_update(t->optim, &step, pack_rows, t);
    return all_gather_weights(t, err);
}

/* -- the step ------------------------------------------------------------------------------- */

static enum weft_status run_pipeline(struct wf_trainer *t, size_t n_targets,
                                     const struct weft_error *no_tokens, struct weft_error *err)
{
    const struct weft_exec_io io = {
        .step = t->done + 1,
        .inputs = t->input_at,
        .targets = t->target_at,
        .scale = (float)(1.0 / (double)n_targets),
        .losses = t->losses,
        .failure = no_tokens,
    };
    for (uint32_t s = 0; s < t->topology.n_stages; s++)
        if (t->stages[s] != NULL)
            wf_tstage_begin_step(t->stages[s]);
    for (size_t i = 0; i < t->n_groups; i++)
        t->groups[i].reduced = false;
    memset(t->losses, 0, t->n_micros * sizeof *t->losses);
    return weft_exec_step(t->exec, &io, err);
}

/* A rank whose tokens could not be had takes part all the same: the others are to hear why. */
static enum weft_status run_micros(struct wf_trainer *t, struct step_outcome *v,
                                   struct weft_error *err)
{
    struct weft_error failure = {0}, own = {0}, tokens = {0};
    enum weft_status failed = WEFT_OK;
    struct weft_cell_id where = {t->topology.n_stages, t->topology.micros};
    size_t n_targets;
    enum weft_status got = wf_trainer_read_tokens(t, &t->batch, t->done, &n_targets, &tokens);
    if (got != WEFT_OK)
        n_targets = 1;
    enum weft_status st = run_pipeline(t, n_targets, got == WEFT_OK ? NULL : &tokens, &own);
    if (got == WEFT_OK && (st == WEFT_NUMERIC || st == WEFT_DATA)) {
        where = weft_exec_failed_at(t->exec);
        where.micro += t->first_micro;
        add_context(t, where.micro, st, &own);
    }
    if (keep_first(st, &own, &failed, &failure) != WEFT_OK) {
        if (err != NULL)
            *err = own;
        return st;
    }
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done + 1, WF_PHASE_END);
    WEFT_TRY(finish_reductions(t, &failed, &failure, err));
    fill_summary(t, failed, &failure, where);
    return exchange_summaries(t, n_targets, v, err);
}

enum weft_status wf_trainer_step(struct wf_trainer *t, struct wf_step_result *out,
                                 struct weft_error *err)
{
    int64_t begin = wf_clock_ns();
    struct step_outcome v;
    double lr;
    WEFT_TRY(run_micros(t, &v, err));
    if (v.status != WEFT_OK)
        return WEFT_FAIL(err, (enum weft_status)v.status, "%s", v.error);
    WEFT_TRY(update(t, v.norm, &lr, err));
    t->done++;
    *out = (struct wf_step_result){.step = t->done,
                                   .loss = v.loss,
                                   .grad_norm = v.norm,
                                   .lr = lr,
                                   .tokens = (uint64_t)t->batch.rows * t->topology.seq,
                                   .ns = wf_clock_ns() - begin,
                                   .pipeline_ns = v.pipeline_ns,
                                   .bubble = v.bubble,
                                   .stop = v.stop != 0,
                                   .window_steps = v.window_steps,
                                   .slow_rank = v.slow_rank,
                                   .slow_factor = v.slow_factor};
    return WEFT_OK;
}
