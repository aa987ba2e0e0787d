/* Searches for layouts.  A layout defines how the model is partitioned, the number of
 * micros, the schedule, and how a cluster is divided into pipelines and replicas. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/part/for_schedule.h"
#include "planning/sim/reduction.h"
#include "weft/sim.h"
#include "weft/timing.h"
#include "weft/tune.h"
#include "weft/verify.h"

/* The search enumerates all placements of pipelines on the cluster, numbers of micros,
 * schedules, numbers of chunks and partitions.  It times each layout and keeps the best
 * layouts.  A layout is pruned before its schedule is generated if a lower bound of its time
 * is not below the time of the worst kept layout.  The lower bound is all work divided
 * evenly among the ranks, or the closed forms if the placement is known. */

/* Limits of the schedules to try.  Timing larger schedules takes too long. */
enum { MAX_CELLS = 1 << 21, MAX_CHUNKS = 64 };

struct layout_search {
    const struct weft_layout_problem *problem;
    struct weft_layouts *kept;
    size_t max_layouts;          /* maximum number of layouts to keep */
    struct weft_cluster cluster; /* the cluster of one pipeline */
    bool clustered;
    struct weft_link ring; /* the link for the gradient all-reduce among replicas */
    struct weft_layout now;
    struct weft_items items; /* owned: items for micro-batches of now.rows sequences */
    double boundary;         /* bytes of a message between two stages */
};

/* -- the best layouts --------------------------------------------------------------------- */

void weft_layouts_release(struct weft_layouts *l)
{
    for (size_t i = 0; i < l->n; i++)
        weft_schedule_free(l->at[i].result);
    free(l->at);
    *l = (struct weft_layouts){0};
}

/* Returns true if a layout with this time cannot be among the best layouts. */
static bool is_pruned(const struct layout_search *c, double time)
{
    return c->kept->n == c->max_layouts && time >= c->kept->at[c->max_layouts - 1].time;
}

/* Inserts a layout into the list of the best layouts, or frees its schedule. */
static void keep(struct layout_search *c, const struct weft_layout *l)
{
    struct weft_layouts *k = c->kept;
    size_t at = k->n;
    if (is_pruned(c, l->time)) {
        weft_schedule_free(l->result);
        return;
    }
    if (k->n == c->max_layouts)
        weft_schedule_free(k->at[--at].result);
    else
        k->n++;
    for (; at > 0 && k->at[at - 1].time > l->time; at--)
        k->at[at] = k->at[at - 1];
    k->at[at] = *l;
}

/* -- one candidate ------------------------------------------------------------------------ */

/* Returns the time of a ring all-reduce of the gradients of the rank with the largest state.
 * The gradients are in fp32 and are a fifth of the state.  With d replicas, every message
 * contains 1/d of the gradients. */
static double reduction_time(const struct layout_search *c, size_t state_bytes)
{
    double d = c->now.replicas, bytes = (double)state_bytes / 5 / d;
    double unit = c->problem->unit_seconds > 0 ? c->problem->unit_seconds : 1e-3;
    return wf_reduction_seconds(d, bytes, bytes, c->ring) / unit;
}

static enum weft_status measure_time(const struct layout_search *c,
                                     const struct weft_schedule *s,
                                     const struct weft_cost *cost, struct weft_layout *l,
                                     struct weft_error *err)
{
    struct weft_metrics m;
    if (!c->clustered) {
        WEFT_TRY(weft_metrics_init(&m, s, cost, NULL, err));
    } else {
        struct weft_sim sim;
        struct weft_sim_options options = {.cost = cost,
                                           .cluster = &c->cluster,
                                           .unit_seconds = c->problem->unit_seconds,
                                           .bytes = {&c->boundary, 1}};
        WEFT_TRY(weft_sim_init(&sim, s, &options, err));
        m = sim.metrics;
        sim.metrics = (struct weft_metrics){0};
        weft_sim_release(&sim);
    }
    l->makespan = m.makespan;
    l->span = m.span;
    l->bubble = c->problem->minimize == WEFT_MINIMIZE_SPAN ? m.bubble_span : m.bubble;
    weft_metrics_release(&m);
    return WEFT_OK;
}

/* Stores the maximum total bytes of a rank in *all and the maximum state bytes of a rank in
 * *state. */
static enum weft_status measure_bytes(const struct layout_search *c,
                                      const struct weft_schedule *s,
                                      const struct weft_partition *part, size_t *all,
                                      size_t *state, struct weft_error *err)
{
    struct wf_planned_bytes bytes;
    WEFT_TRY(wf_planned_bytes_init(&bytes, s, part, &c->items, err));
    *all = wf_planned_bytes_max(bytes.total, bytes.n_ranks);
    *state = wf_planned_bytes_max(bytes.state, bytes.n_ranks);
    wf_planned_bytes_release(&bytes);
    return WEFT_OK;
}

/* Times a schedule with a partition and keeps the layout if it is among the best.  Takes
 * ownership of `s`. */
static enum weft_status evaluate(struct layout_search *c, struct weft_schedule *s,
                                 const struct weft_partition *part,
                                 const struct weft_cost *cost, struct weft_error *err)
{
    struct weft_layout l = c->now;
    size_t state = 0;
    enum weft_status st = measure_bytes(c, s, part, &l.peak_bytes, &state, err);
    if (st != WEFT_OK)
        goto drop;
    if (c->problem->bytes_limit != 0 && l.peak_bytes > c->problem->bytes_limit) {
        c->kept->n_over_limit++;
        goto drop;
    }
    st = measure_time(c, s, cost, &l, err);
    if (st != WEFT_OK)
        goto drop;
    c->kept->n_tried++;
    l.reduction = reduction_time(c, state);
    l.time = (c->problem->minimize == WEFT_MINIMIZE_SPAN ? l.span : l.makespan) + l.reduction;
    l.chunks = weft_schedule_n_chunks(s);
    l.result = s;
    keep(c, &l);
    return WEFT_OK;
drop:
    weft_schedule_free(s);
    return st;
}

/* Partitions the model, either evenly or balanced.  Returns WEFT_USAGE if no such partition
 * fits. */
static enum weft_status cut(const struct layout_search *c, const struct weft_schedule *s,
                            uint32_t stages, struct weft_partition *out, struct weft_error *err)
{
    uint32_t layers = weft_items_n_layers(&c->items);
    WEFT_TRY(weft_partition_check_filled(layers, stages, err));
    if (!c->now.balanced)
        return weft_partition_init_even(out, layers, stages, err);
    if (s == NULL || c->problem->bytes_limit == 0)
        return weft_partition_init_balanced(out, &c->items, stages, NULL, NULL, err);
    return wf_partition_init_limited(out, &c->items, s, &c->problem->bytes_limit, 1, err);
}

/* Memory costs for a generator that searches: the activations in bytes, and the part of the
 * memory limit that remains after the state is subtracted. */
struct byte_limits {
    struct weft_memory_cost memory;
    double *lists; /* owned: (2 * stages + ranks) */
};

static enum weft_status limit_bytes(const struct layout_search *c,
                                    const struct weft_stage_sums *sums, uint32_t ranks,
                                    struct byte_limits *out, struct weft_error *err)
{
    uint32_t stages = sums->n_stages;
    double *lists = malloc(sizeof *lists * (2 * (size_t)stages + ranks));
    static const double none = 0;
    if (lists == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a layout");
    double *limit = lists + 2 * (size_t)stages;
    for (uint32_t r = 0; r < ranks; r++)
        limit[r] = (double)c->problem->bytes_limit;
    for (uint32_t s = 0; s < stages; s++) {
        uint32_t rank = s < ranks ? s : 2 * ranks - 1 - s; /* linear or V placement */
        lists[s] = (double)sums->act_bytes[s];
        lists[stages + s] = -lists[s];
        limit[rank] -= (double)sums->state_bytes[s];
    }
    for (uint32_t r = 0; r < ranks; r++)
        limit[r] = fmax(0, limit[r]);
    *out = (struct byte_limits){
        .memory = {{lists, stages}, {&none, 1}, {lists + stages, stages}, {limit, ranks}},
        .lists = lists};
    return WEFT_OK;
}

/* Returns a lower bound by closed forms for a linear or V placement, or 0 if there is no
 * bound. */
static double quick_bound(const struct layout_search *c, const struct weft_cost *cost,
                          uint32_t stages, bool whole)
{
    uint32_t ranks = c->now.ranks, *rank_of = malloc(sizeof *rank_of * stages);
    struct weft_bounds b = {0};
    if (rank_of == NULL)
        return 0;
    for (uint32_t s = 0; s < stages; s++)
        rank_of[s] = s < ranks ? s : 2 * ranks - 1 - s;
    struct weft_placement place = {ranks, stages, c->now.micros, 1, rank_of, NULL};
    struct weft_bound_input in = {.placement = &place,
                                  .cost = cost,
                                  .backwards =
                                      whole ? WEFT_BACKWARD_WHOLE : WEFT_BACKWARD_SPLIT,
                                  .effort = -1};
    bool ok = weft_bounds_compute(&in, &b, NULL) == WEFT_OK;
    free(rank_of);
    return !ok ? 0 : c->problem->minimize == WEFT_MINIMIZE_SPAN ? b.span : b.makespan;
}

/* Tries a generator that searches.  It needs the costs of the stages, so the model is
 * partitioned first. */
static enum weft_status try_search(struct layout_search *c, const struct weft_generator *g,
                                   struct weft_error *err)
{
    struct weft_partition part = {0};
    struct weft_stage_sums sums = {0};
    struct byte_limits bytes = {0};
    struct weft_schedule *s = NULL;
    uint32_t stages = c->now.ranks * g->default_chunks;
    if (cut(c, NULL, stages, &part, NULL) != WEFT_OK)
        return WEFT_OK;
    enum weft_status st = weft_stage_sums_init(&sums, &part, &c->items, err);
    if (st != WEFT_OK)
        goto done;
    struct weft_cost cost = weft_stage_sums_cost(&sums);
    cost.hop = c->clustered ? 0 : c->problem->hop;
    if (is_pruned(c, quick_bound(c, &cost, stages, strcmp(g->name, "1f1b-v") == 0))) {
        c->kept->n_pruned++;
        goto done;
    }
    struct weft_gen_params params = {.ranks = c->now.ranks,
                                     .micros = c->now.micros,
                                     .cost = &cost,
                                     .minimize = c->problem->minimize};
    if (c->problem->bytes_limit != 0) {
        st = limit_bytes(c, &sums, c->now.ranks, &bytes, err);
        params.memory = &bytes.memory;
    }
    if (st == WEFT_OK && weft_schedule_generate(g->name, &params, &s, NULL) == WEFT_OK)
        st = evaluate(c, s, &part, &cost, err);
    else if (st == WEFT_OK)
        c->kept->n_over_limit++;
done:
    free(bytes.lists);
    weft_stage_sums_release(&sums);
    weft_partition_release(&part);
    return st;
}

/* Tries a generator that does not need costs. */
static enum weft_status try_plain(struct layout_search *c, const struct weft_generator *g,
                                  uint32_t chunks, struct weft_error *err)
{
    struct weft_partition part = {0};
    struct weft_stage_sums sums = {0};
    struct weft_schedule *s = NULL;
    struct weft_gen_params params = {
        .ranks = c->now.ranks, .micros = c->now.micros, .chunks = chunks};
    if (weft_schedule_generate(g->name, &params, &s, NULL) != WEFT_OK)
        return WEFT_OK; /* the generator does not support these sizes */
    if (cut(c, s, weft_schedule_placement(s)->n_stages, &part, NULL) != WEFT_OK) {
        weft_schedule_free(s);
        return WEFT_OK;
    }
    enum weft_status st = weft_stage_sums_init(&sums, &part, &c->items, err);
    if (st == WEFT_OK) {
        struct weft_cost cost = weft_stage_sums_cost(&sums);
        cost.hop = c->clustered ? 0 : c->problem->hop;
        st = evaluate(c, s, &part, &cost, err);
    } else {
        weft_schedule_free(s);
    }
    weft_stage_sums_release(&sums);
    weft_partition_release(&part);
    return st;
}

/* -- enumeration -------------------------------------------------------------------------- */

static enum weft_status fill_items(struct layout_search *c, struct weft_error *err)
{
    const struct weft_layout_problem *p = c->problem;
    uint32_t rows = c->now.rows;
    weft_items_release(&c->items);
    if (p->model != NULL) {
        uint32_t seq = p->seq != 0 ? p->seq : p->model->ctx;
        WEFT_TRY(weft_items_init_model(&c->items, p->model, rows, seq, err));
        double unit = p->unit_seconds > 0 ? p->unit_seconds : 1e-3;
        for (size_t i = 0; p->flops > 0 && i < c->items.n; i++) {
            c->items.at[i].f /= p->flops * unit;
            c->items.at[i].i /= p->flops * unit;
            c->items.at[i].w /= p->flops * unit;
        }
        c->boundary = 4.0 * rows * seq * p->model->dim;
        return WEFT_OK;
    }
    struct weft_item all[3] = {p->layer, p->embedding, p->head};
    for (int i = 0; i < 3; i++) {
        all[i].f *= rows;
        all[i].i *= rows;
        all[i].w *= rows;
        if (__builtin_mul_overflow(all[i].act_bytes, (size_t)rows, &all[i].act_bytes))
            return WEFT_FAIL(err, WEFT_USAGE, "activations of %u sequences are too large",
                             rows);
    }
    c->boundary = p->boundary_bytes * rows;
    return weft_items_init_uniform(&c->items, p->layers, all[0], all[1], all[2], err);
}

static enum weft_status try_chunks(struct layout_search *c, const struct weft_generator *g,
                                   struct weft_error *err)
{
    uint32_t max_chunks = c->problem->max_chunks != 0 ? c->problem->max_chunks : 4;
    if (g->flags & WEFT_GEN_USES_COST)
        return g->default_chunks > max_chunks ? WEFT_OK : try_search(c, g, err);
    if (!(g->flags & WEFT_GEN_USES_CHUNKS))
        return g->default_chunks > max_chunks ? WEFT_OK : try_plain(c, g, 0, err);
    for (uint32_t v = 1; v <= max_chunks && v <= MAX_CHUNKS; v++)
        WEFT_TRY(try_plain(c, g, v, err));
    return WEFT_OK;
}

/* Tries all schedules and partitions for one number of micros. */
static enum weft_status try_micros(struct layout_search *c, struct weft_error *err)
{
    double work = 0;
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    WEFT_TRY(fill_items(c, err));
    for (size_t i = 0; i < c->items.n; i++)
        work += c->items.at[i].f + c->items.at[i].i + c->items.at[i].w;
    if (is_pruned(c, work * c->now.micros / c->now.ranks)) {
        c->kept->n_pruned++;
        return WEFT_OK;
    }
    for (size_t i = 0; i < n; i++)
        for (int balanced = 0; balanced < 2; balanced++) {
            if (all[i].flags & WEFT_GEN_UNIT_TICKS)
                continue;
            c->now.balanced = balanced;
            snprintf(c->now.schedule, sizeof c->now.schedule, "%s", all[i].name);
            WEFT_TRY(try_chunks(c, &all[i], err));
        }
    return WEFT_OK;
}

/* Tries all numbers of micros, starting with the largest.  The largest number is often the
 * best, so the other numbers can then be pruned. */
static enum weft_status try_pipelines(struct layout_search *c, struct weft_error *err)
{
    uint32_t max_chunks = c->problem->max_chunks != 0 ? c->problem->max_chunks : 4;
    if (c->problem->global_batch % c->now.replicas != 0)
        return WEFT_OK;
    uint32_t batch = c->problem->global_batch / c->now.replicas;
    for (uint32_t rows = 1; rows <= batch; rows++) {
        uint64_t cells = (uint64_t)(batch / rows) * c->now.ranks * max_chunks;
        if (batch % rows != 0 || cells > MAX_CELLS)
            continue;
        c->now.rows = rows;
        c->now.micros = batch / rows;
        WEFT_TRY(try_micros(c, err));
    }
    return WEFT_OK;
}

/* Tries pipelines of `ranks` ranks on the cluster.  Neighbouring ranks have either the
 * stages of one pipeline or the replicas of one stage. */
static enum weft_status try_cluster(struct layout_search *c, uint32_t ranks, bool close,
                                    struct weft_error *err)
{
    const struct weft_cluster *all = c->problem->cluster;
    uint32_t per_node = all->ranks_per_node, replicas = all->nodes * per_node / ranks;
    c->now.ranks = ranks;
    c->now.replicas = replicas;
    c->now.replicas_adjacent = close;
    c->cluster = *all;
    c->ring = ranks * (replicas - 1) >= per_node ? all->inter : all->intra;
    if (close) { /* the next stage is `replicas` ranks away */
        if (replicas < per_node && per_node % replicas != 0)
            return WEFT_OK;
        c->ring = replicas <= per_node ? all->intra : all->inter;
        c->cluster.ranks_per_node = replicas < per_node ? per_node / replicas : 1;
        c->cluster.nodes = (ranks + c->cluster.ranks_per_node - 1) / c->cluster.ranks_per_node;
    }
    return try_pipelines(c, err);
}

static enum weft_status try_all(struct layout_search *c, struct weft_error *err)
{
    const struct weft_layout_problem *p = c->problem;
    if (p->cluster == NULL) {
        c->now.ranks = p->ranks;
        c->now.replicas = 1;
        return try_pipelines(c, err);
    }
    c->clustered = true;
    uint32_t all = p->cluster->nodes * p->cluster->ranks_per_node;
    for (uint32_t ranks = 1; ranks <= all; ranks++)
        for (int close = 0; close < 2; close++) {
            bool same = close && (ranks == 1 || ranks == all);
            if (all % ranks == 0 && !same && (p->ranks == 0 || p->ranks == ranks))
                WEFT_TRY(try_cluster(c, ranks, close, err));
        }
    return WEFT_OK;
}

/* -- improving the best ------------------------------------------------------------------- */

/* A kept layout with its partition and costs. */
struct refined {
    struct weft_layout *layout; /* borrowed */
    struct weft_partition part;
    struct weft_stage_sums sums;
    struct weft_cost cost; /* borrows from sums */
};

static enum weft_status rebuild(struct layout_search *c, struct refined *r,
                                struct weft_error *err)
{
    const struct weft_layout *l = r->layout;
    const struct weft_generator *g = weft_generator_find(l->schedule);
    /* If a generator searched, the model was partitioned before the schedule was generated. */
    bool searched = g != NULL && (g->flags & WEFT_GEN_USES_COST);
    c->now = *l;
    WEFT_TRY(fill_items(c, err));
    WEFT_TRY(cut(c, searched ? NULL : l->result, weft_schedule_placement(l->result)->n_stages,
                 &r->part, err));
    WEFT_TRY(weft_stage_sums_init(&r->sums, &r->part, &c->items, err));
    r->cost = weft_stage_sums_cost(&r->sums);
    r->cost.hop = c->clustered ? 0 : c->problem->hop;
    return WEFT_OK;
}

static enum weft_status find_bound(const struct layout_search *c, struct refined *r,
                                   struct weft_error *err)
{
    struct weft_layout *l = r->layout;
    struct weft_bounds b = {0};
    const struct weft_bound_input in = {.placement = weft_schedule_placement(l->result),
                                        .cost = &r->cost,
                                        .backwards = WEFT_BACKWARD_ANY,
                                        .pairs = true,
                                        .known_makespan = l->makespan,
                                        .known_span = l->span};
    WEFT_TRY(weft_bounds_compute(&in, &b, err));
    l->bound = c->problem->minimize == WEFT_MINIMIZE_SPAN ? b.span : b.makespan;
    return WEFT_OK;
}

/* Returns true if weft_tune() can improve a layout.  limit_bytes() supports linear and V
 * placements only. */
static bool is_tunable(const struct layout_search *c, const struct weft_layout *l)
{
    switch (weft_schedule_placement_kind(l->result)) {
    case WEFT_PLACEMENT_LINEAR:
    case WEFT_PLACEMENT_V:
        return !c->clustered;
    case WEFT_PLACEMENT_LOOP:
    case WEFT_PLACEMENT_WAVE:
        return !c->clustered && c->problem->bytes_limit == 0;
    case WEFT_PLACEMENT_BIDIRECTIONAL:
    case WEFT_PLACEMENT_EXPLICIT:
        return false;
    }
    return false;
}

/* Searches for a better order of a layout's actions and keeps it if there is one. */
static enum weft_status tune_order(struct layout_search *c, struct refined *r,
                                   struct weft_error *err)
{
    const struct weft_layout *l = r->layout;
    bool by_span = c->problem->minimize == WEFT_MINIMIZE_SPAN;
    struct byte_limits bytes = {0};
    struct weft_tune_problem t = {.ranks = l->ranks,
                                  .micros = l->micros,
                                  .chunks = l->chunks,
                                  .placement = weft_schedule_placement_kind(l->result),
                                  .minimize = c->problem->minimize,
                                  .cost = &r->cost};
    if (c->problem->bytes_limit != 0) {
        WEFT_TRY(limit_bytes(c, &r->sums, l->ranks, &bytes, err));
        t.memory = &bytes.memory;
    }

    struct weft_tune_result best;
    const struct weft_tune_options options = {.iterations = c->problem->iterations};
    enum weft_status st = WEFT_OK;
    if (weft_tune(&t, &options, &best, NULL) == WEFT_OK) {
        snprintf(c->now.schedule, sizeof c->now.schedule, "tuned");
        c->now.bound = by_span ? best.bounds.span : best.bounds.makespan;
        if ((by_span ? best.span : best.makespan) + l->reduction < l->time * (1 - 1e-9))
            st = evaluate(c, best.schedule, &r->part, &r->cost, err);
        else
            weft_schedule_free(best.schedule);
    }
    free(bytes.lists);
    return st;
}

/* Computes the bounds of a kept layout.  Also tunes the layout if it is the first that can
 * be tuned. */
static enum weft_status refine(struct layout_search *c, size_t i, bool tune, bool *tuned,
                               struct weft_error *err)
{
    struct refined r = {.layout = &c->kept->at[i]};
    enum weft_status st = rebuild(c, &r, err);
    if (st == WEFT_OK)
        st = find_bound(c, &r, err);
    if (st == WEFT_OK && tune && !*tuned && is_tunable(c, r.layout)) {
        *tuned = true;
        st = tune_order(c, &r, err);
    }
    weft_stage_sums_release(&r.sums);
    weft_partition_release(&r.part);
    return st;
}

static enum weft_status check(const struct weft_layout_problem *p, struct weft_error *err)
{
    const double costs[] = {p->hop, p->flops, p->boundary_bytes, p->unit_seconds};
    for (size_t i = 0; i < WEFT_LEN(costs); i++)
        if (!(costs[i] >= 0) || costs[i] > 1e300)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "a cost is %g (expected a finite number of at least 0)", costs[i]);
    if (p->global_batch == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "the global batch is 0; give at least 1");
    if (p->model == NULL && p->layers == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "give a model or its number of layers");
    if (p->cluster == NULL && p->ranks == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "give the number of ranks, or a cluster");
    uint64_t all = p->cluster == NULL
                       ? p->ranks
                       : (uint64_t)p->cluster->nodes * p->cluster->ranks_per_node;
    uint32_t layers = p->model != NULL ? p->model->layers : p->layers;
    if (p->ranks > layers)
        return WEFT_FAIL(err, WEFT_USAGE, "%u layer%s: too few for %u ranks", layers,
                         wf_plural(layers), p->ranks);
    if (all > 1 << 16)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "layouts over more than 65536 ranks are not searched");
    if (p->cluster != NULL && p->ranks != 0 && all % p->ranks != 0)
        return WEFT_FAIL(err, WEFT_USAGE, "pipelines of %u ranks do not divide %u ranks",
                         p->ranks, (unsigned)all);
    return WEFT_OK;
}

enum weft_status weft_tune_layouts(const struct weft_layout_problem *problem,
                                   size_t max_layouts, struct weft_layouts *out,
                                   struct weft_error *err)
{
    struct weft_layouts kept = {0};
    struct layout_search c = {
        .problem = problem, .kept = &kept, .max_layouts = max_layouts > 0 ? max_layouts : 1};
    WEFT_TRY(check(problem, err));
    kept.at = calloc(c.max_layouts, sizeof *kept.at);
    enum weft_status st = kept.at == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for layouts")
                                          : try_all(&c, err);
    if (st == WEFT_OK && kept.n == 0)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "no schedule fits: %zu were over the memory limit; use fewer sequences "
                       "per micro, more ranks or more memory",
                       kept.n_over_limit);
    bool tuned = false;
    for (size_t i = 0; st == WEFT_OK && i < kept.n; i++)
        if (strcmp(kept.at[i].schedule, "tuned") != 0)
            st = refine(&c, i, problem->iterations > 0, &tuned, err);
    weft_items_release(&c.items);
    if (st == WEFT_OK)
        *out = kept;
    else
        weft_layouts_release(&kept);
    return st;
}
