/* Searches for layouts.  A layout defines how the model is partitioned, the number of
 * micros, the schedule, and how a cluster is divided into pipelines and replicas. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
#include "planning/part/for_schedule.h"
#include "planning/part/planned_bytes.h"
#include "planning/sched/placement.h"
#include "planning/sim/hops.h"
#include "planning/sim/reduction.h"
#include "planning/spec/item_times.h"
#include "planning/tune/layout_priv.h"
#include "weft/timing.h"

/* layout_space.c enumerates all placements of pipelines on the cluster, numbers of micros,
 * schedules, numbers of chunks and partitions, and times each layout.  This file supplies their
 * schedules, costs and memory, and keeps the best layouts.  A layout is pruned before its
 * schedule is generated if a lower bound of its time is not below the time of the worst kept
 * layout.  The lower bound is all work divided evenly among the ranks, or the closed forms if
 * the placement is known. */

/* Limits of the schedules to try.  Timing larger schedules takes too long. */
enum { MAX_CELLS = 1 << 21, MAX_CHUNKS = 64 };

/* -- one candidate ------------------------------------------------------------------------ */

/* Returns the time of the reduction on the rank with the largest state: a reduce-scatter of the
 * gradients and an all-gather of the weights.  With d replicas, every message contains 1/d of
 * them. */
static double reduction_time(const struct wf_layout_search *c, const struct weft_state_bytes *b)
{
    double d = c->now.replicas;
    double unit = c->problem->unit_seconds > 0 ? c->problem->unit_seconds : 1e-3;
    return wf_reduction_seconds(d, (double)b->gradients / d, (double)b->weights / d, c->ring) /
           unit;
}

enum weft_status wf_layout_place_cost(const struct wf_layout_search *c,
                                      const struct weft_placement *place,
                                      const struct weft_stage_sums *sums, struct weft_cost *out,
                                      struct weft_error *err)
{
    struct weft_cost cost = weft_stage_sums_cost(sums);
    cost.hop = c->clustered ? 0 : c->problem->hop;
    cost.first_backward_in_w = c->problem->for_torch;
    const struct weft_sim_options machine = {.cost = &cost,
                                             .cluster = c->clustered ? &c->cluster : NULL,
                                             .unit_seconds = c->problem->unit_seconds,
                                             .bytes = {&c->boundary, 1}};
    return wf_cost_place(out, place, &machine, err);
}

/* Stores the maximum total bytes of a rank in *all, and the parts of the state of the rank with
 * the largest state in *state.  Items without parts have those of plain training. */
static enum weft_status measure_bytes(const struct wf_layout_search *c,
                                      const struct weft_schedule *s,
                                      const struct weft_partition *part, size_t *all,
                                      struct weft_state_bytes *state, struct weft_error *err)
{
    struct wf_planned_bytes bytes;
    uint32_t largest = 0;
    WEFT_TRY(wf_planned_bytes_init(&bytes, s, part, &c->items, c->now.replicas, err));
    *all = wf_planned_bytes_max(bytes.total, bytes.n_ranks);
    for (uint32_t r = 1; r < bytes.n_ranks; r++)
        largest = bytes.state[r] > bytes.state[largest] ? r : largest;
    *state = bytes.parts[largest];
    size_t n_params = weft_state_params(bytes.state[largest], NULL);
    wf_planned_bytes_release(&bytes);
    return c->problem->model != NULL ? WEFT_OK
                                     : weft_state_bytes_init(state, n_params, 0, NULL, err);
}

static enum weft_status measure(void *user, const struct wf_layout_candidate *candidate,
                                const struct wf_layout_built *built,
                                struct wf_layout_score *score, struct weft_error *err)
{
    struct wf_layout_search *c = user;
    struct weft_state_bytes state;
    size_t limit = c->problem->bytes_limit;
    (void)candidate;
    WEFT_TRY(measure_bytes(c, built->schedule, &c->built.partition, &score->peak_bytes, &state,
                           err));
    score->fits = limit == 0 || score->peak_bytes <= limit;
    score->reduction = reduction_time(c, &state);
    return WEFT_OK;
}

static enum weft_status keep(void *user, const struct wf_layout_candidate *candidate,
                             struct wf_layout_built *built, const struct wf_layout_score *score,
                             struct weft_error *err)
{
    struct wf_layout_search *c = user;
    struct weft_layout l = c->now;
    if (!score->fits) {
        c->kept->n_over_limit++;
        return WEFT_OK;
    }

    c->kept->n_tried++;
    snprintf(l.schedule, sizeof l.schedule, "%s", candidate->schedule);
    l.peak_bytes = score->peak_bytes;
    l.makespan = score->makespan;
    l.span = score->span;
    l.bubble = score->bubble;
    l.reduction = score->reduction;
    l.time = score->time;
    l.chunks = weft_schedule_n_chunks(built->schedule);
    l.message_bytes = c->boundary;
    if (c->clustered)
        l.cluster = c->cluster;

    l.result = built->schedule;
    built->schedule = NULL; /* the list owns it */
    return wf_layout_keep(c, &l, &c->built.partition, c->built.memory, err);
}

static void release(void *user, struct wf_layout_built *built)
{
    struct wf_layout_search *c = user;
    weft_schedule_free(built->schedule);
    wf_cost_release(&c->built.cost);
    weft_partition_release(&c->built.partition);
    free(c->built.limits.lists);
    c->built = (struct wf_layout_parts){0};
}

/* Partitions the model, either evenly or balanced.  Returns WEFT_USAGE if no such partition
 * fits. */
static enum weft_status cut(const struct wf_layout_search *c, const struct weft_schedule *s,
                            uint32_t stages, struct weft_partition *out, struct weft_error *err)
{
    uint32_t layers = weft_items_n_layers(&c->items);
    WEFT_TRY(weft_partition_check_filled(layers, stages, err));
    if (!c->now.balanced)
        return weft_partition_init_even(out, layers, stages, err);
    if (s == NULL || c->problem->bytes_limit == 0)
        return weft_partition_init_balanced(out, &c->items, stages, NULL, NULL, err);
    return wf_partition_init_limited(out, &c->items, s, c->now.replicas,
                                     &c->problem->bytes_limit, 1, err);
}

enum weft_status wf_layout_limits_init(struct wf_memory_limits *out,
                                       const struct wf_layout_search *c,
                                       const struct weft_partition *part,
                                       const struct weft_placement *place,
                                       struct weft_error *err)
{
    const double limit = (double)c->problem->bytes_limit;
    return wf_memory_limits_init(out, &c->items, part, place, c->now.replicas,
                                 (struct weft_values){&limit, 1}, err);
}

/* Returns `st` if memory is lacking, and otherwise WEFT_OK: any other error means that a candidate
 * is impossible.  A candidate is never dropped because of memory. */
static enum weft_status skip_impossible(enum weft_status st)
{
    return st == WEFT_NOMEM ? st : WEFT_OK;
}

/* Finds a lower bound by closed forms, or 0 if there is no bound. */
static enum weft_status quick_bound(const struct wf_layout_search *c,
                                    const struct weft_placement *place,
                                    const struct weft_cost *cost, bool whole, double *out,
                                    struct weft_error *err)
{
    struct weft_bounds b = {0};
    struct weft_bound_input in = {.placement = place,
                                  .cost = cost,
                                  .backwards =
                                      whole ? WEFT_BACKWARD_WHOLE : WEFT_BACKWARD_SPLIT,
                                  .effort = -1};
    enum weft_status st = weft_bounds_compute(&in, &b, err);
    *out = st != WEFT_OK ? 0 : c->problem->minimize == WEFT_MINIMIZE_SPAN ? b.span : b.makespan;
    return skip_impossible(st);
}

/* Searches for a schedule for the stages of c->built.  *out stays NULL if none fits. */
static enum weft_status search_schedule(struct wf_layout_search *c,
                                        const struct weft_generator *g,
                                        const struct weft_placement *place,
                                        struct weft_schedule **out, struct weft_error *err)
{
    struct wf_layout_parts *b = &c->built;
    struct weft_gen_params params = {.ranks = c->now.ranks,
                                     .micros = c->now.micros,
                                     .cost = &b->cost,
                                     .minimize = c->problem->minimize};
    if (c->problem->bytes_limit != 0) {
        WEFT_TRY(wf_layout_limits_init(&b->limits, c, &b->partition, place, err));
        params.memory = b->memory = &b->limits.memory;
    }
    enum weft_status st = weft_schedule_generate(g->name, &params, out, err);
    if (st != WEFT_OK && st != WEFT_NOMEM)
        c->kept->n_over_limit++;
    return skip_impossible(st);
}

/* Computes the costs of the stages of c->built on their ranks. */
static enum weft_status cost_stages(struct wf_layout_search *c,
                                    const struct weft_placement *place, struct weft_error *err)
{
    struct weft_stage_sums sums;
    WEFT_TRY(weft_stage_sums_init(&sums, &c->built.partition, &c->items, err));
    enum weft_status st = wf_layout_place_cost(c, place, &sums, &c->built.cost, err);
    weft_stage_sums_release(&sums);
    return st;
}

/* Builds the schedule of a generator that searches.  It needs the costs of the stages, so the
 * model is partitioned first. */
static enum weft_status build_search(struct wf_layout_search *c, const struct weft_generator *g,
                                     struct weft_schedule **out, struct weft_error *err)
{
    uint32_t stages = c->now.ranks * g->default_chunks;
    uint32_t *rank_of = malloc(sizeof *rank_of * stages);
    const struct weft_placement place = {c->now.ranks, stages, c->now.micros, 1, rank_of, NULL};
    enum weft_status st = WEFT_OK;
    if (rank_of == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a layout");
    wf_placement_fill(rank_of, c->now.ranks, stages, wf_generator_placement(g));

    bool whole = strcmp(g->name, "1f1b-v") == 0;
    st = cut(c, NULL, stages, &c->built.partition, err);
    bool possible = st == WEFT_OK;
    double bound = 0;
    st = skip_impossible(st);
    if (possible)
        st = cost_stages(c, &place, err);
    if (possible && st == WEFT_OK)
        st = quick_bound(c, &place, &c->built.cost, whole, &bound, err);
    if (possible && st == WEFT_OK) {
        if (wf_layout_is_pruned(c, bound))
            c->kept->n_pruned++;
        else
            st = search_schedule(c, g, &place, out, err);
    }
    free(rank_of);
    return st;
}

/* Builds the schedule of a generator that does not need costs. */
static enum weft_status build_plain(struct wf_layout_search *c, const struct weft_generator *g,
                                    uint32_t chunks, struct weft_schedule **out,
                                    struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    struct weft_gen_params params = {
        .ranks = c->now.ranks, .micros = c->now.micros, .chunks = chunks};
    enum weft_status st = weft_schedule_generate(g->name, &params, &s, err);
    if (st != WEFT_OK) /* the generator does not support these sizes */
        return skip_impossible(st);
    const struct weft_placement *place = weft_schedule_placement(s);
    /* a rank has a stage of every pipe */
    bool possible = weft_schedule_n_chunks(s) <= c->space.max_chunks &&
                    !(c->problem->for_torch && place->n_pipes > 1);
    if (possible) {
        st = cut(c, s, place->n_stages, &c->built.partition, err);
        possible = st == WEFT_OK;
        st = possible ? cost_stages(c, place, err) : skip_impossible(st);
    }
    if (possible && st == WEFT_OK)
        *out = s;
    else
        weft_schedule_free(s);
    return st;
}

static enum weft_status build(void *user, const struct wf_layout_candidate *candidate,
                              struct wf_layout_built *out, bool *found, struct weft_error *err)
{
    struct wf_layout_search *c = user;
    const struct weft_generator *g = weft_generator_find(candidate->schedule);
    struct wf_layout_built b = {.cost = &c->built.cost};
    c->now.balanced = candidate->balanced;
    enum weft_status st = (g->flags & WEFT_GEN_USES_COST)
                              ? build_search(c, g, &b.schedule, err)
                              : build_plain(c, g, candidate->chunks, &b.schedule, err);
    *found = st == WEFT_OK && b.schedule != NULL;
    if (*found)
        *out = b;
    else
        release(c, &b);
    return st;
}

/* -- enumeration -------------------------------------------------------------------------- */

enum weft_status wf_layout_fill_items(struct wf_layout_search *c, struct weft_error *err)
{
    const struct weft_layout_problem *p = c->problem;
    uint32_t rows = c->now.rows;
    weft_items_release(&c->items);
    if (p->model != NULL) {
        uint32_t seq = p->seq != 0 ? p->seq : p->model->ctx;
        WEFT_TRY(weft_items_init_training(&c->items, p->model, rows, seq, p->training, err));
        wf_items_set_speed(&c->items, p->flops, p->unit_seconds);
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

static double seconds_since(const struct wf_layout_search *c)
{
    return (double)(wf_clock_ns() - c->start_ns) * 1e-9;
}

double wf_layout_seconds_left(const struct wf_layout_search *c)
{
    return c->problem->seconds > 0 ? c->problem->seconds - seconds_since(c) : HUGE_VAL;
}

/* Reports progress before a generator.  Returns false if the search must stop. */
static bool continues(void *user, const struct wf_layout_candidate *candidate, double share)
{
    struct wf_layout_search *c = user;
    const struct weft_layouts *k = c->kept;
    const struct weft_layout_progress progress = {
        .seconds = seconds_since(c),
        .share = ((double)c->n_begun - 1 + share) / (double)c->n_all,
        .n_tried = k->n_tried,
        .time = k->n > 0 ? k->at[0].time : 0,
        .schedule = candidate->schedule,
    };
    if (wf_layout_seconds_left(c) <= 0 ||
        (c->problem->progress != NULL && !c->problem->progress(&progress, c->problem->user)))
        c->kept->stopped = true;
    return !c->kept->stopped;
}

/* Prepares the items for one number of micros. */
static enum weft_status begin(void *user, const struct wf_layout_candidate *candidate,
                              bool *skip, struct weft_error *err)
{
    struct wf_layout_search *c = user;
    double work = 0;
    c->n_begun++;
    c->now.ranks = candidate->ranks;
    c->now.replicas = candidate->replicas;
    *skip =
        c->clustered && !wf_layout_arrange(c, candidate->ranks, candidate->replicas_adjacent);
    if (*skip)
        return WEFT_OK;

    c->now.rows = candidate->rows;
    c->now.micros = candidate->micros;
    WEFT_TRY(wf_layout_fill_items(c, err));
    for (size_t i = 0; i < c->items.n; i++)
        work += c->items.at[i].f + c->items.at[i].i + c->items.at[i].w;
    *skip = wf_layout_is_pruned(c, work * c->now.micros / c->now.ranks);
    c->kept->n_pruned += *skip;
    return WEFT_OK;
}

bool wf_layout_arrange(struct wf_layout_search *c, uint32_t ranks, bool replicas_adjacent)
{
    const struct weft_cluster *all = c->problem->cluster;
    uint32_t per_node = all->ranks_per_node, replicas = all->nodes * per_node / ranks;
    c->now.ranks = ranks;
    c->now.replicas = replicas;
    c->now.replicas_adjacent = replicas_adjacent;
    c->cluster = *all;
    c->ring = ranks * (replicas - 1) >= per_node ? all->inter : all->intra;
    if (replicas_adjacent) { /* the next stage is `replicas` ranks away */
        if (replicas < per_node && per_node % replicas != 0)
            return false;
        c->ring = replicas <= per_node ? all->intra : all->inter;
        c->cluster.ranks_per_node = replicas < per_node ? per_node / replicas : 1;
        c->cluster.nodes = (ranks + c->cluster.ranks_per_node - 1) / c->cluster.ranks_per_node;
    }
    return true;
}

struct wf_layout_source wf_layout_make_source(struct wf_layout_search *c)
{
    return (struct wf_layout_source){.user = c,
                                     .minimize = c->problem->minimize,
                                     .begin = begin,
                                     .continues = continues,
                                     .build = build,
                                     .measure = measure,
                                     .keep = keep,
                                     .release = release};
}

static struct wf_layout_space make_space(const struct weft_layout_problem *p)
{
    const struct weft_cluster *cluster = p->cluster;
    uint32_t total = cluster == NULL ? p->ranks : cluster->nodes * cluster->ranks_per_node;
    return (struct wf_layout_space){.min_total = total,
                                    .max_total = total,
                                    .ranks = p->ranks,
                                    .adjacent = cluster != NULL && cluster->nodes > 1,
                                    .global_batch = p->global_batch,
                                    .n_variants = 1,
                                    .even = true,
                                    .min_chunks = 1,
                                    .max_chunks = p->max_chunks != 0 ? p->max_chunks : 4,
                                    .max_cells = MAX_CELLS};
}

/* -- the search --------------------------------------------------------------------------- */

static enum weft_status check(const struct weft_layout_problem *p, struct weft_error *err)
{
    const double costs[] = {p->hop, p->flops, p->boundary_bytes, p->unit_seconds, p->seconds};
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
    if (p->max_chunks > MAX_CHUNKS)
        return WEFT_FAIL(err, WEFT_USAGE, "%u chunks per rank are too many (maximum %d)",
                         p->max_chunks, MAX_CHUNKS);
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
    struct wf_layout_search c = {.problem = problem,
                                 .kept = &kept,
                                 .max_layouts = max_layouts > 0 ? max_layouts : 1,
                                 .clustered = problem->cluster != NULL,
                                 .start_ns = wf_clock_ns()};
    WEFT_TRY(check(problem, err));
    const struct wf_layout_source source = wf_layout_make_source(&c);
    c.space = make_space(problem);
    c.n_all = wf_layout_space_count(&c.space, &source);
    kept.at = calloc(c.max_layouts, sizeof *kept.at);
    enum weft_status st = kept.at == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for layouts")
                                          : wf_layout_space_search(&c.space, &source, err);

    if (st == WEFT_OK && kept.n == 0 && kept.stopped)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "the search was stopped before it found a layout; give it more time");
    else if (st == WEFT_OK && kept.n == 0)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "no schedule fits: %zu were over the memory limit; use fewer sequences "
                       "per micro, more ranks or more memory",
                       kept.n_over_limit);
    if (st == WEFT_OK)
        st = wf_layouts_refine(&c, err);
    weft_items_release(&c.items);
    if (st == WEFT_OK)
        *out = kept;
    else
        weft_layouts_release(&kept);
    return st;
}
