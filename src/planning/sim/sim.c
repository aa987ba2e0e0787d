/* Simulates one step of a schedule and computes its metrics, idle time by cause, critical path,
 * buffers and links. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "planning/sched/metrics.h"
#include "planning/sim/hops.h"

/* Data for finding the producer that an action waited for. */
struct analysis {
    const struct weft_schedule *s;
    const struct weft_placement *place;
    const struct weft_sim_options *options;
    struct weft_sim *sim;
    /* owned: (2, stages, micros): the positions of a cell's forward and of its B or I in the
     * list of the cell's rank */
    uint32_t *forward_at, *gradient_at;
};

static size_t cell_of(const struct analysis *a, uint32_t stage, uint32_t micro)
{
    return (size_t)stage * a->place->n_micros + micro;
}

static double start_of(const struct analysis *a, uint32_t rank, size_t position)
{
    return a->sim->metrics.start[weft_schedule_offset(a->s, rank) + position];
}

/* Returns the end of an action.  The length of a pair is stored at the first action of the
 * pair. */
static double end_of(const struct analysis *a, uint32_t rank, size_t position)
{
    struct weft_action_span row = weft_schedule_rank(a->s, rank);
    if (position > 0 && row.at[position - 1].paired)
        position--;
    return start_of(a, rank, position) +
           a->sim->metrics.length[weft_schedule_offset(a->s, rank) + position];
}

static enum weft_status index_cells(struct analysis *a, struct weft_error *err)
{
    size_t cells = (size_t)a->place->n_stages * a->place->n_micros;
    a->forward_at = malloc(sizeof *a->forward_at * (2 * cells + 1));
    if (a->forward_at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to index %zu cells", cells);
    a->gradient_at = a->forward_at + cells;

    for (uint32_t r = 0; r < a->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(a->s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action act = row.at[i];
            if (act.kind == WEFT_ACT_F)
                a->forward_at[cell_of(a, act.stage, act.micro)] = (uint32_t)i;
            else if (act.kind == WEFT_ACT_B || act.kind == WEFT_ACT_I)
                a->gradient_at[cell_of(a, act.stage, act.micro)] = (uint32_t)i;
        }
    }
    return WEFT_OK;
}

/* Finds the action of a neighbouring stage whose result an action needs.  Returns false if
 * the action needs no result of another stage. */
static bool producer_of(const struct analysis *a, struct weft_action act, uint32_t *rank,
                        size_t *position)
{
    struct wf_dep_rules rules = {a->place, false};
    struct wf_dep deps[2];
    unsigned n = wf_action_deps(&rules, act, deps);
    for (unsigned i = 0; i < n; i++) {
        if (deps[i].stage == act.stage)
            continue; /* the dependency is on the same rank, and the list order satisfies it */
        size_t cell = cell_of(a, deps[i].stage, deps[i].micro);
        *rank = weft_placement_rank(a->place, deps[i].stage, deps[i].micro);
        *position = deps[i].event == WF_DONE_F ? a->forward_at[cell] : a->gradient_at[cell];
        return true;
    }
    return false;
}

/* Finds the producer of an action.  For a pair, finds the later one of the producers of both
 * actions. */
static bool producer_of_cell(const struct analysis *a, uint32_t at_rank, size_t at,
                             uint32_t *rank, size_t *position)
{
    struct weft_action_span row = weft_schedule_rank(a->s, at_rank);
    bool found = producer_of(a, row.at[at], rank, position);
    uint32_t other_rank;
    size_t other;
    if (row.at[at].paired && producer_of(a, row.at[at + 1], &other_rank, &other) &&
        (!found || end_of(a, other_rank, other) > end_of(a, *rank, *position))) {
        *rank = other_rank;
        *position = other;
        found = true;
    }
    return found;
}

/* -- idle time ------------------------------------------------------------------------------ */

static void attribute_gap(const struct analysis *a, uint32_t rank, size_t at, double gap,
                          struct weft_idle_time *idle)
{
    uint32_t from;
    size_t position;
    double under_way = 0;
    if (producer_of_cell(a, rank, at, &from, &position) && from != rank)
        under_way = start_of(a, rank, at) - end_of(a, from, position);
    if (under_way < 0)
        under_way = 0;
    double communication = under_way < gap ? under_way : gap;
    idle->communication += communication;
    idle->data += gap - communication;
}

static void attribute_idle(const struct analysis *a, uint32_t rank, double busiest)
{
    struct weft_action_span row = weft_schedule_rank(a->s, rank);
    struct weft_idle_time *idle = &a->sim->idle[rank];
    double free_at = -1;

    for (size_t i = 0; i < row.len; i += row.at[i].paired ? 2 : 1) {
        if (!weft_act_is_compute(row.at[i].kind))
            continue;
        double start = start_of(a, rank, i);
        if (free_at < 0)
            idle->warm_up = start;
        else if (start > free_at)
            attribute_gap(a, rank, i, start - free_at, idle);
        free_at = end_of(a, rank, i);
    }

    double total = a->sim->metrics.idle[rank];
    idle->drain = total - idle->warm_up - idle->communication - idle->data;
    if (idle->drain < 0)
        idle->drain = 0;

    double difference = busiest - a->sim->metrics.busy[rank];
    idle->imbalance = difference < idle->data ? difference : idle->data;
    idle->data -= idle->imbalance;
}

/* -- critical path -------------------------------------------------------------------------- */

/* Returns the position of the compute action or pair before `at` in a rank's list.  Returns
 * `at` if there is none. */
static size_t cell_before(struct weft_action_span row, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (weft_act_is_compute(row.at[i].kind))
            return i > 0 && row.at[i - 1].paired ? i - 1 : i;
    return at;
}

static void last_cell(const struct analysis *a, uint32_t *rank, size_t *position)
{
    double latest = -1;
    for (uint32_t r = 0; r < a->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(a->s, r);
        size_t last = cell_before(row, row.len);
        if (last < row.len && end_of(a, r, last) > latest) {
            latest = end_of(a, r, last);
            *rank = r;
            *position = last;
        }
    }
}

/* Appends a step to the path.  Returns false if memory allocation fails. */
static bool path_add(struct weft_sim *sim, size_t *cap, struct weft_path_step step)
{
    if (sim->n_path == *cap) {
        size_t larger = *cap == 0 ? 256 : 2 * *cap;
        struct weft_path_step *path = realloc(sim->path, sizeof *path * larger);
        if (path == NULL)
            return false;
        sim->path = path;
        *cap = larger;
    }
    sim->path[sim->n_path++] = step;
    return true;
}

static enum weft_status trace_path(struct analysis *a, struct weft_error *err)
{
    struct weft_sim *sim = a->sim;
    size_t cap = 0, at = 0;
    uint32_t rank = 0;
    double hop = 0;

    last_cell(a, &rank, &at);
    for (;;) {
        if (!path_add(sim, &cap, (struct weft_path_step){rank, at, hop}))
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the critical path");
        double start = start_of(a, rank, at);
        sim->path_compute += end_of(a, rank, at) - start;
        sim->path_hops += hop;

        /* The predecessor on the path is the previous action of the same rank or the
         * producer of the input. */
        struct weft_action_span row = weft_schedule_rank(a->s, rank);
        size_t before = cell_before(row, at), position;
        uint32_t from;
        hop = 0;
        if (before != at && end_of(a, rank, before) >= start) {
            at = before;
        } else if (producer_of_cell(a, rank, at, &from, &position)) {
            hop = from == rank ? 0 : fmax(0, start - end_of(a, from, position));
            rank = from;
            at = position > 0 && weft_schedule_rank(a->s, from).at[position - 1].paired
                     ? position - 1
                     : position;
        } else {
            sim->path_wait = start;
            return WEFT_OK;
        }
    }
}

/* -- buffers -------------------------------------------------------------------------------- */

/* A change of the number of receive buffers.  A message occupies a buffer from its arrival
 * to the end of the action that uses it.  The arrival ignores waits for the link. */
struct buffer_event {
    double time;
    int change;
};

static int by_time(const void *pa, const void *pb)
{
    const struct buffer_event *a = pa, *b = pb;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->change - b->change; /* sort releases before allocations */
}

/* Returns the arrival time of the result that the action at (from, position) produces and
 * `act` uses. */
static double arrival(const struct analysis *a, const struct wf_hops *hops,
                      struct weft_action act, uint32_t from, size_t position)
{
    bool forward = act.kind == WEFT_ACT_F;
    uint32_t pipe = weft_placement_pipe(a->place, act.micro);
    return end_of(a, from, position) +
           wf_hop_time(hops, a->place, a->options->cost, pipe, act.stage - forward, !forward);
}

/* Computes the peaks of one rank: the number of pending weight gradients and of received
 * messages. */
static void count_buffers(const struct analysis *a, const struct wf_hops *hops, uint32_t rank,
                          struct buffer_event *events)
{
    struct weft_action_span row = weft_schedule_rank(a->s, rank);
    size_t n = 0, n_pending_w = 0, n_received = 0;

    for (size_t i = 0; i < row.len; i++) {
        struct weft_action act = row.at[i];
        uint32_t from;
        size_t position;
        if (act.kind == WEFT_ACT_I && ++n_pending_w > a->sim->peak_pending_w[rank])
            a->sim->peak_pending_w[rank] = n_pending_w;
        if (act.kind == WEFT_ACT_W && n_pending_w > 0)
            n_pending_w--;
        if (!weft_act_is_compute(act.kind) || !producer_of(a, act, &from, &position) ||
            from == rank)
            continue;
        events[n++] = (struct buffer_event){arrival(a, hops, act, from, position), 1};
        events[n++] = (struct buffer_event){end_of(a, rank, i), -1};
    }

    qsort(events, n, sizeof *events, by_time);
    for (size_t i = 0; i < n; i++) {
        n_received = (size_t)((long long)n_received + events[i].change);
        if (events[i].change > 0 && n_received > a->sim->peak_receive[rank])
            a->sim->peak_receive[rank] = n_received;
    }
}

static enum weft_status count_all_buffers(const struct analysis *a, const struct wf_hops *hops,
                                          struct weft_error *err)
{
    size_t longest = 0;
    for (uint32_t r = 0; r < a->place->n_ranks; r++) {
        size_t n = weft_schedule_rank(a->s, r).len;
        longest = n > longest ? n : longest;
    }

    struct buffer_event *events = malloc(sizeof *events * (2 * longest + 1));
    a->sim->peak_pending_w = calloc(a->place->n_ranks, sizeof *a->sim->peak_pending_w);
    a->sim->peak_receive = calloc(a->place->n_ranks, sizeof *a->sim->peak_receive);
    bool ok = events != NULL && a->sim->peak_pending_w != NULL && a->sim->peak_receive != NULL;
    for (uint32_t r = 0; ok && r < a->place->n_ranks; r++)
        count_buffers(a, hops, r, events);
    free(events);
    return ok ? WEFT_OK : WEFT_FAIL(err, WEFT_NOMEM, "no memory to count buffers");
}

/* -- links ---------------------------------------------------------------------------------- */

static enum weft_status count_links(struct analysis *a, const struct wf_hops *hops,
                                    struct weft_error *err)
{
    struct wf_channels links;
    struct weft_sim *sim = a->sim;
    bool forward_only = weft_schedule_is_forward_only(a->s);
    WEFT_TRY(wf_channels_init(&links, a->place, true, err));
    sim->n_links = links.n;
    sim->links = calloc(links.n + 1, sizeof *sim->links);
    if (sim->links == NULL) {
        wf_channels_release(&links);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu links", links.n);
    }

    for (size_t i = 0; i < links.n; i++) {
        sim->links[i].from = links.at[i].from;
        sim->links[i].to = links.at[i].to;
    }

    for (uint32_t pipe = 0; pipe < a->place->n_pipes; pipe++) {
        size_t micros = 0; /* number of micros of this pipe */
        for (uint32_t m = 0; m < a->place->n_micros; m++)
            micros += weft_placement_pipe(a->place, m) == pipe;
        for (uint32_t s = 0; s + 1 < a->place->n_stages; s++) {
            size_t at = (size_t)pipe * (a->place->n_stages - 1) + s;
            if (links.forward[at] == WF_CHANNEL_NONE)
                continue;
            struct weft_link_usage *forward = &sim->links[links.forward[at]];
            struct weft_link_usage *backward = &sim->links[links.backward[at]];
            double n = (double)micros;
            forward->messages += micros;
            forward->forward_bytes += n * wf_boundary_bytes(a->options, s, false);
            if (hops->forward != NULL)
                forward->busy += n * hops->forward[at].transfer;
            if (forward_only)
                continue;
            backward->messages += micros;
            backward->backward_bytes += n * wf_boundary_bytes(a->options, s, true);
            if (hops->backward != NULL)
                backward->busy += n * hops->backward[at].transfer;
        }
    }

    wf_channels_release(&links);
    return WEFT_OK;
}

static enum weft_status explain(struct analysis *a, const struct wf_hops *hops,
                                struct weft_error *err)
{
    struct weft_sim *sim = a->sim;
    double busiest = 0;
    WEFT_TRY(index_cells(a, err));
    sim->idle = calloc(a->place->n_ranks, sizeof *sim->idle);
    if (sim->idle == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", a->place->n_ranks);

    for (uint32_t r = 0; r < a->place->n_ranks; r++)
        if (sim->metrics.busy[r] > busiest)
            busiest = sim->metrics.busy[r];
    for (uint32_t r = 0; r < a->place->n_ranks; r++)
        attribute_idle(a, r, busiest);

    WEFT_TRY(trace_path(a, err));
    WEFT_TRY(count_all_buffers(a, hops, err));
    return count_links(a, hops, err);
}

enum weft_status weft_sim_init(struct weft_sim *out, const struct weft_schedule *s,
                               const struct weft_sim_options *options, struct weft_error *err)
{
    struct weft_sim sim = {0};
    struct wf_hops hops = {0};
    struct analysis a = {s, weft_schedule_placement(s), options, &sim, NULL, NULL};
    WEFT_TRY(weft_sim_check(s, options, err));
    WEFT_TRY(wf_hops_init(&hops, a.place, options, err));

    const struct wf_start_times_input in = {
        .schedule = s,
        .cost = options->cost,
        .speed = options->speed,
        .forward = hops.forward,
        .backward = hops.backward,
        .contention = options->contention,
    };
    enum weft_status st = wf_metrics_init_full(&sim.metrics, &in, options->memory, err);
    if (st == WEFT_OK)
        st = explain(&a, &hops, err);

    free(a.forward_at);
    wf_hops_release(&hops);
    if (st == WEFT_OK)
        *out = sim;
    else
        weft_sim_release(&sim);
    return st;
}

void weft_sim_release(struct weft_sim *sim)
{
    weft_metrics_release(&sim->metrics);
    free(sim->idle);
    free(sim->links);
    free(sim->path);
    free(sim->peak_pending_w);
    free(sim->peak_receive);
    *sim = (struct weft_sim){0};
}
