/* One step: tokens, the pipeline, sums over ranks, loss, norm, update. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "compute/kern/ops.h"
#include "compute/optim/curve.h"
#include "training/trainer/trainer_priv.h"

/* The number that people see. */
static unsigned long long number(const struct weft_trainer *t)
{
    return (unsigned long long)t->done + 1;
}

/* What went wrong, and in which step and micro. */
static enum weft_status blame(const struct weft_trainer *t, uint32_t micro, enum weft_status st,
                              struct weft_error *err)
{
    struct weft_error cause = {0};
    if (err != NULL)
        cause = *err;
    return WEFT_FAIL(err, st, "step %llu, micro %u: %.400s", number(t), micro, cause.msg);
}

/* -- tokens --------------------------------------------------------------------------------- */

/* Every rank needs the number of all targets. */
enum weft_status weft_trainer_read_tokens(struct weft_trainer *t, const struct weft_batch *from,
                                          uint64_t step, size_t *n_targets,
                                          struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    size_t n = (size_t)l->batch * l->seq;
    *n_targets = 0;
    for (uint32_t m = 0; m < l->micros; m++) {
        struct weft_range rows = weft_micro_range(l->batch, l->micros, m);
        enum weft_status st = weft_batch_rows(
            from, step, (uint32_t)rows.begin, (uint32_t)(rows.end - rows.begin),
            t->inputs + rows.begin * l->seq, t->targets + rows.begin * l->seq, err);
        if (st != WEFT_OK)
            return blame(t, m, st, err);
    }
    for (size_t i = 0; i < n; i++)
        *n_targets += t->targets[i] != -1;
    if (*n_targets == 0)
        return WEFT_FAIL(err, WEFT_DATA, "step %llu: no token of it is a target", number(t));
    return WEFT_OK;
}

/* -- sums over ranks ------------------------------------------------------------------------ */

/* A tensor that nothing was added to has a gradient of zero. */
static void complete(struct weft_param *p)
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
static bool join_twin(struct held_group *g)
{
    struct weft_param *a = g->params[0], *b = g->twin;
    if (a->exact != NULL)
        return weft_ops()->exact_merge(a->exact, b->exact, a->n);
    for (size_t i = 0; i < a->n; i++)
        a->fast[i] += b->fast[i];
    return false;
}

static enum weft_status start_group(struct weft_trainer *t, struct held_group *g,
                                    struct weft_error *err)
{
    g->reduced = true;
    for (size_t i = 0; i < g->plan->n_tensors; i++)
        complete(g->params[i]);
    bool bad = false;
    if (g->twin != NULL) {
        complete(g->twin);
        bad = join_twin(g);
    }
    WEFT_TRY(weft_group_reduce(g->sums, t->done, err));
    if (bad)
        return WEFT_FAIL(err, WEFT_NUMERIC, "the gradient of %s is beyond what exact sums hold",
                         g->params[0]->desc.name);
    return WEFT_OK;
}

/* A stage's gradients are complete.  Groups of one stage start; a tied weight that has two uses
 * here waits for the end. */
enum weft_status weft_trainer_reduce_stage(void *trainer, uint32_t stage,
                                           struct weft_error *err)
{
    struct weft_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        struct held_group *g = &t->groups[i];
        if (!g->reduced && g->twin == NULL && g->stages[0] == stage)
            WEFT_TRY(start_group(t, g, err));
    }
    return WEFT_OK;
}

enum weft_status weft_trainer_progress(void *trainer, struct weft_error *err)
{
    struct weft_trainer *t = trainer;
    for (size_t i = 0; i < t->n_groups; i++) {
        bool done;
        if (t->groups[i].reduced)
            WEFT_TRY(weft_group_progress(t->groups[i].sums, &done, err));
    }
    return WEFT_OK;
}

static bool is_soft(enum weft_status st)
{
    return st == WEFT_OK || st == WEFT_NUMERIC || st == WEFT_DATA;
}

/* Remembers the first failure that lets the ranks go on, and passes on the others. */
static enum weft_status keep_first(enum weft_status st, const struct weft_error *from,
                                   enum weft_status *first, struct weft_error *kept)
{
    if (!is_soft(st))
        return st;
    if (st != WEFT_OK && *first == WEFT_OK) {
        *first = st;
        *kept = *from;
    }
    return WEFT_OK;
}

static enum weft_status finish_sums(struct weft_trainer *t, enum weft_status *first,
                                    struct weft_error *kept, struct weft_error *err)
{
    struct weft_error own = {0};
    for (size_t i = 0; i < t->n_groups; i++) {
        enum weft_status st = WEFT_OK;
        if (!t->groups[i].reduced)
            st = start_group(t, &t->groups[i], &own);
        if (keep_first(st, &own, first, kept) == WEFT_OK) {
            st = weft_group_finish(t->groups[i].sums, &own);
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

static size_t n_report_blocks(const struct weft_layout *l, uint32_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct weft_layout_group *g = &l->groups[i];
        uint32_t holder = weft_layout_holder(g, rank);
        for (size_t k = 0; holder < g->n_holders && k < g->n_tensors; k++) {
            struct weft_range share = weft_layout_share(g, holder, k);
            n += (share.end - share.begin + WEFT_NORM_BLOCK - 1) / WEFT_NORM_BLOCK;
        }
    }
    return n;
}

static uint32_t n_report_losses(const struct weft_layout *l, uint32_t rank)
{
    struct weft_range micros = weft_layout_micros(l, rank / l->pp);
    return (uint32_t)(micros.end - micros.begin);
}

size_t weft_trainer_report_bytes(const struct weft_layout *l, uint32_t rank)
{
    return sizeof(struct report_head) +
           (n_report_losses(l, rank) + n_report_blocks(l, rank)) * sizeof(double);
}

double *weft_trainer_report_losses(void *report)
{
    return (double *)((char *)report + sizeof(struct report_head));
}

/* What the model's costs say that each rank computes in a step. */
static void plan_work(struct weft_trainer *t)
{
    const struct weft_layout *l = &t->layout;
    struct weft_cost cost = weft_layout_cost(l);
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        struct weft_action_span row =
            weft_schedule_rank(weft_layout_schedule(l, r / l->pp), r % l->pp);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_stage_cost c = weft_cost_stage(&cost, row.at[i].stage);
            const double by_kind[] = {c.f, c.b, c.i, c.w};
            if (weft_kind_is_compute(row.at[i].kind))
                t->planned_work[r] += by_kind[row.at[i].kind];
        }
    }
}

enum weft_status weft_trainer_reports_new(struct weft_trainer *t, struct weft_error *err)
{
    const struct weft_layout *l = &t->layout;
    t->report_bytes = weft_trainer_report_bytes(l, t->rank);
    t->report = calloc(1, t->report_bytes);
    bool ok = t->report != NULL;
    if (t->rank == 0) {
        t->reports = calloc(t->n_ranks, sizeof *t->reports);
        t->report_sizes = calloc(t->n_ranks, sizeof *t->report_sizes);
        t->squares = calloc(l->first_block[l->params.n] + 1, sizeof *t->squares);
        t->planned_work = calloc(t->n_ranks, sizeof *t->planned_work);
        t->window.compute_ns = calloc(t->n_ranks, sizeof *t->window.compute_ns);
        t->checkpoint_states = calloc(t->n_ranks, sizeof *t->checkpoint_states);
        ok = ok && t->checkpoint_states != NULL && t->reports != NULL &&
             t->report_sizes != NULL && t->squares != NULL && t->planned_work != NULL &&
             t->window.compute_ns != NULL;
        for (uint32_t r = 0; ok && r < t->n_ranks; r++) {
            t->report_sizes[r] = weft_trainer_report_bytes(l, r);
            t->reports[r] = calloc(1, t->report_sizes[r]);
            ok = t->reports[r] != NULL;
        }
        if (ok)
            plan_work(t);
    }
    if (!ok)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for what ranks report");
    return WEFT_OK;
}

static void fill_report(struct weft_trainer *t, enum weft_status failed,
                        const struct weft_error *failure, struct weft_cell_name where)
{
    struct report_head *head = (struct report_head *)t->report;
    struct weft_exec_times times = weft_exec_times(t->exec);
    size_t n;
    *head = (struct report_head){.status = (uint32_t)failed,
                                 .stage = where.stage,
                                 .micro = where.micro,
                                 .stop = t->stop,
                                 .checkpoint = weft_checkpointer_state(t->checkpointer),
                                 .begin_ns = times.begin_ns + t->clock_ahead_ns,
                                 .end_ns = times.end_ns + t->clock_ahead_ns,
                                 .compute_ns = times.compute_ns};
    if (failed != WEFT_OK)
        snprintf(head->error, sizeof head->error, "%s", failure->msg);
    memcpy(weft_trainer_report_losses(t->report), t->losses, t->n_micros * sizeof(double));
    const double *squares = weft_optim_block_squares(t->optim, &n);
    memcpy(weft_trainer_report_losses(t->report) + t->n_micros, squares, n * sizeof(double));
}

/* -- what rank 0 makes of it ---------------------------------------------------------------- */

/* Micros in their order, whatever rank and order they ran on. */
double weft_trainer_total_loss(const struct weft_trainer *t)
{
    const struct weft_layout *l = &t->layout;
    double sum = 0;
    for (uint32_t d = 0; d < l->dp; d++) {
        const struct weft_placement *place =
            weft_schedule_placement(weft_layout_schedule(l, d));
        for (uint32_t m = 0; m < place->n_micros; m++) {
            uint32_t row = weft_placement_rank(place, l->n_stages - 1, m);
            sum += weft_trainer_report_losses(t->reports[d * l->pp + row])[m];
        }
    }
    return sum;
}

/* The squares of all blocks, each in its place in the model. */
static void collect_squares(struct weft_trainer *t)
{
    const struct weft_layout *l = &t->layout;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const double *next = weft_trainer_report_losses(t->reports[r]) + n_report_losses(l, r);
        for (size_t i = 0; i < l->n_groups; i++) {
            const struct weft_layout_group *g = &l->groups[i];
            uint32_t holder = weft_layout_holder(g, r);
            for (size_t k = 0; holder < g->n_holders && k < g->n_tensors; k++) {
                struct weft_range share = weft_layout_share(g, holder, k);
                size_t n = (share.end - share.begin + WEFT_NORM_BLOCK - 1) / WEFT_NORM_BLOCK;
                memcpy(t->squares + l->first_block[g->tensors[k].param] +
                           share.begin / WEFT_NORM_BLOCK,
                       next, n * sizeof *next);
                next += n;
            }
        }
    }
}

static double sum_squares(const struct weft_trainer *t)
{
    double sum = 0;
    for (size_t b = 0; b < t->layout.first_block[t->layout.params.n]; b++)
        sum += t->squares[b];
    return sum;
}

static const char *bad_tensor(const struct weft_trainer *t)
{
    const struct weft_layout *l = &t->layout;
    for (size_t i = 0; i < l->params.n; i++)
        for (size_t b = l->first_block[i]; b < l->first_block[i + 1]; b++)
            if (!isfinite(t->squares[b]))
                return l->params.at[i].name;
    return "the model";
}

/* The failure that was first in the model's order: what follows from it comes later. */
static const struct report_head *first_failure(const struct weft_trainer *t)
{
    const struct report_head *first = NULL;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct report_head *h = t->reports[r];
        if (h->status != WEFT_OK && (first == NULL || h->micro < first->micro ||
                                     (h->micro == first->micro && h->stage < first->stage)))
            first = h;
    }
    return first;
}

/* The part of the ranks' time in which they waited.  Ranks on different hosts have different
 * clocks: only what one of them has measured by itself is compared. */
static double bubble(const struct weft_trainer *t, int64_t *longest_ns)
{
    int64_t longest = 0;
    double compute = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct report_head *h = t->reports[r];
        int64_t ns = h->end_ns - h->begin_ns;
        longest = ns > longest ? ns : longest;
        compute += (double)h->compute_ns;
    }
    double all = (double)longest * t->n_ranks;
    *longest_ns = longest;
    return all > 0 && compute < all ? 1 - compute / all : 0;
}

static void judge_paces(const struct weft_trainer *t, struct verdict *v)
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
static void judge_times(struct weft_trainer *t, struct verdict *v)
{
    enum { LEAST_STEPS = 3 };
    const int64_t least_ns = 2000000000;
    int64_t now = weft_clock_ns();
    v->bubble = bubble(t, &v->pipeline_ns);
    v->slow_rank = UINT32_MAX;
    if (t->slow == 0 || t->n_ranks == 1)
        return;
    if (t->window.steps == 0)
        t->window.begin_ns = now;
    else /* the first of them only starts the clock */
        for (uint32_t r = 0; r < t->n_ranks; r++)
            t->window.compute_ns[r] +=
                (double)((struct report_head *)t->reports[r])->compute_ns;
    if (t->window.steps++ < LEAST_STEPS || now - t->window.begin_ns < least_ns)
        return;
    v->paced_steps = t->window.steps - 1;
    judge_paces(t, v);
    t->window.steps = 0;
    memset(t->window.compute_ns, 0, t->n_ranks * sizeof *t->window.compute_ns);
}

static void judge(struct weft_trainer *t, size_t n_targets, struct verdict *v)
{
    const struct report_head *failure = first_failure(t);
    *v = (struct verdict){.status = WEFT_OK};
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        const struct report_head *h = t->reports[r];
        v->stop |= h->stop;
        t->checkpoint_states[r] = h->checkpoint;
    }
    judge_times(t, v);
    if (failure != NULL) {
        v->status = failure->status;
        memcpy(v->error, failure->error, sizeof v->error);
        return;
    }
    v->loss = weft_trainer_total_loss(t) / (double)n_targets;
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
                 number(t), bad_tensor(t));
    }
    if (v->status == WEFT_OK)
        v->checkpoint = weft_checkpointer_decide(t->checkpointer, number(t),
                                                 t->checkpoint_states, t->n_ranks);
}

static enum weft_status exchange(struct weft_trainer *t, size_t n_targets, struct verdict *v,
                                 struct weft_error *err)
{
    if (t->comm == NULL)
        memcpy(t->reports[0], t->report, t->report_bytes);
    else
        WEFT_TRY(weft_comm_gather(t->comm, t->report, t->report_bytes, t->reports,
                                  t->report_sizes, err));
    if (t->rank == 0)
        judge(t, n_targets, v);
    return t->comm == NULL ? WEFT_OK : weft_comm_spread(t->comm, v, sizeof *v, err);
}

/* -- the update ----------------------------------------------------------------------------- */

/* Where this rank is the only holder, what is updated is packed while it is in the cache. */
static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct weft_trainer *t = arg;
    const struct origin *o = &t->origins[tensor];
    if (o->group->plan->n_holders == 1)
        weft_tstage_pack_rows(t->stages[o->group->stages[o->tensor]],
                              o->group->params[o->tensor], row0, row1);
}

static enum weft_status give_weights(struct weft_trainer *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->n_groups; i++) {
        struct held_group *g = &t->groups[i];
        WEFT_TRY(weft_group_spread(g->sums, t->done, err));
        for (size_t k = 0; g->plan->n_holders > 1 && k < g->plan->n_tensors; k++)
            weft_trainer_pack_param(t, g->stages[k], g->params[k]);
        if (g->twin == NULL)
            continue;
        memcpy(g->twin->value, g->params[0]->value, g->twin->n * sizeof *g->twin->value);
        weft_trainer_pack_param(t, g->twin_stage, g->twin);
    }
    return WEFT_OK;
}

static enum weft_status update(struct weft_trainer *t, double norm, double *lr,
                               struct weft_error *err)
{
    struct weft_optim_step step = {.t = t->done + 1,
                                   .lr = weft_curve_lr(&t->curve, t->done),
                                   .scale = weft_clip_scale(norm, t->clip)};
    *lr = step.lr;
    if (t->comm != NULL)
        weft_comm_tell(t->comm, t->done + 1, WEFT_AT_UPDATE);
    weft_optim_update(t->optim, &step, pack_rows, t);
    return give_weights(t, err);
}

/* -- the step ------------------------------------------------------------------------------- */

static enum weft_status run_pipeline(struct weft_trainer *t, size_t n_targets,
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
    for (uint32_t s = 0; s < t->layout.n_stages; s++)
        if (t->stages[s] != NULL)
            weft_tstage_step(t->stages[s]);
    for (size_t i = 0; i < t->n_groups; i++)
        t->groups[i].reduced = false;
    memset(t->losses, 0, t->n_micros * sizeof *t->losses);
    return weft_exec_step(t->exec, &io, err);
}

/* A rank whose tokens could not be had takes part all the same: the others are to hear why. */
static enum weft_status run_micros(struct weft_trainer *t, struct verdict *v,
                                   struct weft_error *err)
{
    struct weft_error failure = {0}, own = {0}, tokens = {0};
    enum weft_status failed = WEFT_OK;
    struct weft_cell_name where = {t->layout.n_stages, t->layout.micros};
    size_t n_targets;
    enum weft_status got = weft_trainer_read_tokens(t, &t->batch, t->done, &n_targets, &tokens);
    if (got != WEFT_OK)
        n_targets = 1;
    enum weft_status st = run_pipeline(t, n_targets, got == WEFT_OK ? NULL : &tokens, &own);
    if (got == WEFT_OK && (st == WEFT_NUMERIC || st == WEFT_DATA)) {
        where = weft_exec_failed_at(t->exec);
        where.micro += t->micro0;
        blame(t, where.micro, st, &own);
    }
    if (keep_first(st, &own, &failed, &failure) != WEFT_OK) {
        if (err != NULL)
            *err = own;
        return st;
    }
    if (t->comm != NULL)
        weft_comm_tell(t->comm, t->done + 1, WEFT_AT_END);
    WEFT_TRY(finish_sums(t, &failed, &failure, err));
    fill_report(t, failed, &failure, where);
    return exchange(t, n_targets, v, err);
}

enum weft_status weft_trainer_step(struct weft_trainer *t, struct weft_step_result *out,
                                   struct weft_error *err)
{
    int64_t begin = weft_clock_ns();
    struct verdict v;
    double lr;
    WEFT_TRY(run_micros(t, &v, err));
    if (v.status != WEFT_OK)
        return WEFT_FAIL(err, (enum weft_status)v.status, "%s", v.error);
    WEFT_TRY(update(t, v.norm, &lr, err));
    t->done++;
    t->checkpoint_action = (enum weft_checkpoint_action)v.checkpoint;
    *out = (struct weft_step_result){.step = t->done,
                                     .loss = v.loss,
                                     .grad_norm = v.norm,
                                     .lr = lr,
                                     .tokens = (uint64_t)t->batch.rows * t->layout.seq,
                                     .ns = weft_clock_ns() - begin,
                                     .pipeline_ns = v.pipeline_ns,
                                     .bubble = v.bubble,
                                     .stop = v.stop != 0,
                                     .paced_steps = v.paced_steps,
                                     .slow_rank = v.slow_rank,
                                     .slow_factor = v.slow_factor};
    return WEFT_OK;
}

enum weft_status weft_trainer_tend_checkpoints(struct weft_trainer *t, struct weft_error *err)
{
    enum weft_checkpoint_action action = t->checkpoint_action;
    t->checkpoint_action = WEFT_CHECKPOINT_NOTHING;
    return weft_checkpointer_act(t->checkpointer, t, action, err);
}
