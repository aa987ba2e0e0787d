/* Creation of traces: events are added in any order and sorted at the end. */
#include "weft/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/size.h"
#include "planning/trace/grow.h"

const char *weft_lane_name(enum weft_lane lane)
{
    static const char *const names[] = {"compute", "send", "receive", "collective", "wait"};
    return names[lane];
}

void weft_trace_release(struct weft_trace *t)
{
    free(t->events);
    free(t->memory);
    free(t->first);
    free(t->stage_first);
    free(t->stages);
    *t = (struct weft_trace){0};
}

enum weft_status weft_trace_init(struct weft_trace *out, const char *name, uint32_t n_ranks,
                                 uint32_t n_stages, uint32_t n_micros, double unit_seconds,
                                 struct weft_error *err)
{
    struct weft_trace t = {.n_ranks = n_ranks, .n_stages = n_stages, .n_micros = n_micros};
    if (n_ranks == 0 || n_ranks == WEFT_NO_RANK || n_stages == 0 ||
        n_stages > WEFT_MAX_STAGES || n_micros == 0)
        return WEFT_FAIL(
            err, WEFT_DATA,
            "a trace of %u ranks, %u stages and %u micros: a size is 0 or too large", n_ranks,
            n_stages, n_micros);
    if (!isfinite(unit_seconds) || unit_seconds < 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "the unit of a trace is %g seconds; give a finite number, at least 0",
                         unit_seconds);

    t.unit_seconds = unit_seconds;
    name += strspn(name, " ");
    size_t n = wf_printable_copy(t.name, sizeof t.name, name, strlen(name));
    while (n > 0 && t.name[n - 1] == ' ')
        t.name[--n] = '\0';
    *out = t;
    return WEFT_OK;
}

/* -- adding --------------------------------------------------------------------------------- */

static bool kind_fits_lane(enum weft_lane lane, unsigned kind)
{
    switch ((enum weft_act_kind)kind) {
    case WEFT_ACT_F:
    case WEFT_ACT_B:
    case WEFT_ACT_I:
    case WEFT_ACT_W:
        return lane == WEFT_LANE_COMPUTE || lane == WEFT_LANE_WAIT;
    case WEFT_ACT_UNSHARD:
    case WEFT_ACT_RESHARD:
        return lane == WEFT_LANE_COMPUTE || lane == WEFT_LANE_COLLECTIVE;
    case WEFT_ACT_SEND_F:
    case WEFT_ACT_SEND_B:
        return lane == WEFT_LANE_SEND || lane == WEFT_LANE_WAIT;
    case WEFT_ACT_RECV_F:
    case WEFT_ACT_RECV_B:
        return lane == WEFT_LANE_RECV;
    case WEFT_ACT_WAIT_SEND_F:
    case WEFT_ACT_WAIT_SEND_B:
    case WEFT_ACT_WAIT_REDUCE_GRAD:
        return lane == WEFT_LANE_WAIT;
    case WEFT_ACT_REDUCE_GRAD:
        return true; /* valid in any lane */
    case WEFT_N_ACT_KINDS:
        break;
    }
    return false;
}

static bool action_in_range(const struct weft_trace *t, struct weft_action a)
{
    return a.kind < WEFT_N_ACT_KINDS && a.stage < t->n_stages &&
           (!weft_act_has_micro(a.kind) || a.micro < t->n_micros);
}

/* Returns true if one action is an F and the other a B or an I, in either order. */
static bool pair_valid(struct weft_action a, struct weft_action b)
{
    unsigned f = a.kind == WEFT_ACT_F ? a.kind : b.kind;
    unsigned g = a.kind == WEFT_ACT_F ? b.kind : a.kind;
    return f == WEFT_ACT_F && (g == WEFT_ACT_B || g == WEFT_ACT_I);
}

static enum weft_status check_event(const struct weft_trace *t,
                                    const struct weft_trace_event *e, struct weft_error *err)
{
    char name[WEFT_ACTION_TEXT_MAX] = "?";
    if (e->action.kind < WEFT_N_ACT_KINDS)
        weft_action_print(e->action, name);

    if (e->rank >= t->n_ranks)
        return WEFT_FAIL(err, WEFT_DATA, "rank %u is out of range (%u ranks)", e->rank,
                         t->n_ranks);
    if (!action_in_range(t, e->action) || (e->action.paired && !action_in_range(t, e->partner)))
        return WEFT_FAIL(err, WEFT_DATA, "%s is out of range (%u stages, %u micros)", name,
                         t->n_stages, t->n_micros);
    if ((unsigned)e->lane >= WEFT_LANE_COUNT || !kind_fits_lane(e->lane, e->action.kind))
        return WEFT_FAIL(err, WEFT_DATA, "%s does not belong to lane %s", name,
                         (unsigned)e->lane < WEFT_LANE_COUNT ? weft_lane_name(e->lane) : "?");
    if (e->action.paired && !pair_valid(e->action, e->partner))
        return WEFT_FAIL(err, WEFT_DATA, "%s: an overlapped pair must be one F and one B or I",
                         name);
    if (!isfinite(e->start) || e->start < 0 || !isfinite(e->length) || e->length < 0 ||
        !isfinite(e->start + e->length))
        return WEFT_FAIL(err, WEFT_DATA,
                         "%s starts at %g and takes %g; give finite times, at least 0", name,
                         e->start, e->length);
    if (e->peer != WEFT_NO_RANK && e->peer >= t->n_ranks)
        return WEFT_FAIL(err, WEFT_DATA, "%s: peer %u is out of range (%u ranks)", name,
                         e->peer, t->n_ranks);
    return WEFT_OK;
}

static enum weft_status push_event(struct weft_trace *t, const struct weft_trace_event *e,
                                   struct weft_error *err)
{
    void *at = wf_array_grow(t->events, &t->cap_events, t->n_events, sizeof *t->events);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu events", t->n_events);
    t->events = at;
    t->events[t->n_events++] = *e;
    return WEFT_OK;
}

enum weft_status weft_trace_add_event(struct weft_trace *t,
                                      const struct weft_trace_event *event,
                                      struct weft_error *err)
{
    WEFT_TRY(check_event(t, event, err));
    return push_event(t, event, err);
}

enum weft_status weft_trace_add_memory(struct weft_trace *t,
                                       const struct weft_trace_memory *sample,
                                       struct weft_error *err)
{
    if (sample->rank >= t->n_ranks)
        return WEFT_FAIL(err, WEFT_DATA, "rank %u is out of range (%u ranks)", sample->rank,
                         t->n_ranks);
    if (!isfinite(sample->time) || sample->time < 0 || !isfinite(sample->amount))
        return WEFT_FAIL(err, WEFT_DATA,
                         "memory %g at time %g; give finite numbers and a time of at least 0",
                         sample->amount, sample->time);
    void *at = wf_array_grow(t->memory, &t->cap_memory, t->n_memory, sizeof *t->memory);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu samples", t->n_memory);
    t->memory = at;
    t->memory[t->n_memory++] = *sample;
    return WEFT_OK;
}

/* -- finishing ------------------------------------------------------------------------------ */

static bool event_greater(const struct weft_trace_event *a, const struct weft_trace_event *b)
{
    return a->rank != b->rank   ? a->rank > b->rank
           : a->lane != b->lane ? a->lane > b->lane
                                : a->start > b->start;
}

/* Merges pairs of sorted runs until one run is left.  The merge is stable. */
static void merge_events(struct weft_trace_event **at, struct weft_trace_event **spare,
                         size_t n, size_t width)
{
    for (; width < n; width *= 2) {
        const struct weft_trace_event *from = *at;
        struct weft_trace_event *to = *spare;
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t half = wf_size_min(begin + width, n);
            size_t end = wf_size_min(half + width, n), i = begin, j = half;
            for (size_t k = begin; k < end; k++)
                to[k] = j == end || (i < half && !event_greater(&from[i], &from[j]))
                            ? from[i++]
                            : from[j++];
        }
        *spare = *at;
        *at = to;
    }
}

/* Sorts the events by rank and lane with a counting sort, and then by start time.  Start times
 * are usually already in order. */
static enum weft_status sort_events(struct weft_trace *t, struct weft_error *err)
{
    size_t i = 1, n = t->n_events;
    while (i < n && !event_greater(&t->events[i - 1], &t->events[i]))
        i++;
    if (i >= n)
        return WEFT_OK;

    size_t n_bins = (size_t)t->n_ranks * WEFT_LANE_COUNT;
    size_t *bins = calloc(n_bins + 1, sizeof *bins);
    struct weft_trace_event *spare = malloc(n * sizeof *spare);
    if (bins == NULL || spare == NULL) {
        free(bins);
        free(spare);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to sort %zu events", n);
    }

#define BIN(e) ((size_t)(e).rank * WEFT_LANE_COUNT + (size_t)(e).lane)
    for (i = 0; i < n; i++)
        bins[BIN(t->events[i]) + 1]++;
    for (i = 0; i < n_bins; i++)
        bins[i + 1] += bins[i];
    for (i = 0; i < n; i++)
        spare[bins[BIN(t->events[i])]++] = t->events[i];
#undef BIN
    free(bins);

    struct weft_trace_event *at = spare;
    spare = t->events;
    for (i = 1; i < n && !event_greater(&at[i - 1], &at[i]); i++)
        ;
    if (i < n)
        merge_events(&at, &spare, n, 1);
    free(spare);
    t->events = at;
    t->cap_events = n;
    return WEFT_OK;
}

/* A sample with its index, so that sorting with qsort() keeps the order of samples with the
 * same time. */
struct indexed_sample {
    struct weft_trace_memory sample;
    size_t place;
};

static int compare_samples(const void *a, const void *b)
{
    const struct indexed_sample *x = a, *y = b;
    if (x->sample.rank != y->sample.rank)
        return x->sample.rank < y->sample.rank ? -1 : 1;
    if (x->sample.time != y->sample.time)
        return x->sample.time < y->sample.time ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static enum weft_status sort_memory(struct weft_trace *t, struct weft_error *err)
{
    bool sorted = true;
    for (size_t i = 1; i < t->n_memory; i++)
        sorted = sorted && (t->memory[i - 1].rank < t->memory[i].rank ||
                            (t->memory[i - 1].rank == t->memory[i].rank &&
                             t->memory[i - 1].time <= t->memory[i].time));
    if (sorted)
        return WEFT_OK;

    struct indexed_sample *list = malloc(sizeof *list * t->n_memory);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to sort %zu samples", t->n_memory);
    for (size_t i = 0; i < t->n_memory; i++)
        list[i] = (struct indexed_sample){t->memory[i], i};
    qsort(list, t->n_memory, sizeof *list, compare_samples);
    for (size_t i = 0; i < t->n_memory; i++)
        t->memory[i] = list[i].sample;
    free(list);
    return WEFT_OK;
}

static int compare_stages(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Writes the distinct stages of a rank's compute events in ascending order and returns the
 * number of stages. */
static size_t collect_stages(const struct weft_trace *t, uint32_t rank, uint32_t *out)
{
    size_t n = 0, kept = 0;
    for (size_t i = t->first[rank]; i < t->first[rank + 1]; i++) {
        const struct weft_trace_event *e = &t->events[i];
        if (e->lane != WEFT_LANE_COMPUTE)
            continue;
        if (n == 0 || out[n - 1] != e->action.stage)
            out[n++] = e->action.stage;
        if (e->action.paired)
            out[n++] = e->partner.stage;
    }
    qsort(out, n, sizeof *out, compare_stages);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || out[i] != out[i - 1])
            out[kept++] = out[i];
    return kept;
}

static enum weft_status index_stages(struct weft_trace *t, struct weft_error *err)
{
    uint32_t *all = NULL;
    size_t capacity = 0, n = 0;
    t->n_chunks = 1;
    t->stage_first[0] = 0;
    for (uint32_t r = 0; r < t->n_ranks; r++) {
        size_t need = n + 2 * (t->first[r + 1] - t->first[r]) + 1;
        uint32_t *more = need <= capacity ? all : realloc(all, sizeof *all * (need + need / 2));
        if (more == NULL) {
            free(all);
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the stages of %u ranks", r);
        }
        capacity = need <= capacity ? capacity : need + need / 2;
        all = more;

        size_t n_rank = collect_stages(t, r, all + n);
        if (n_rank > t->n_chunks)
            t->n_chunks = (uint32_t)n_rank;
        n += n_rank;
        t->stage_first[r + 1] = n;
    }
    t->stages = all;
    return WEFT_OK;
}

enum weft_status weft_trace_finish(struct weft_trace *t, struct weft_error *err)
{
    WEFT_TRY(sort_events(t, err));
    WEFT_TRY(sort_memory(t, err));
    free(t->first);
    free(t->stage_first);
    free(t->stages);
    t->stages = NULL;
    t->first = calloc((size_t)t->n_ranks + 1, sizeof *t->first);
    t->stage_first = calloc((size_t)t->n_ranks + 1, sizeof *t->stage_first);
    if (t->first == NULL || t->stage_first == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace of %u ranks", t->n_ranks);

    t->makespan = 0;
    for (size_t i = 0; i < t->n_events; i++) {
        t->first[(size_t)t->events[i].rank + 1] = i + 1;
        t->makespan = fmax(t->makespan, t->events[i].start + t->events[i].length);
    }
    for (uint32_t r = 0; r < t->n_ranks; r++)
        if (t->first[r + 1] < t->first[r])
            t->first[r + 1] = t->first[r];
    return index_stages(t, err);
}

uint32_t weft_trace_chunk(const struct weft_trace *t, uint32_t rank, uint32_t stage)
{
    size_t begin = t->stage_first[rank], end = t->stage_first[rank + 1];
    const size_t first = begin;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (t->stages[middle] < stage)
            begin = middle + 1;
        else
            end = middle;
    }
    bool found = begin < t->stage_first[rank + 1] && t->stages[begin] == stage;
    return found ? (uint32_t)(begin - first) : 0;
}

/* -- from a plan ---------------------------------------------------------------------------- */

static double memory_change(const struct weft_memory_cost *memory, struct weft_action a)
{
    struct weft_stage_memory d = weft_memory_cost_stage(memory, a.stage);
    switch (a.kind) {
    case WEFT_ACT_F:
        return d.f;
    case WEFT_ACT_B:
        return d.i + d.w;
    case WEFT_ACT_I:
        return d.i;
    case WEFT_ACT_W:
        return d.w;
    }
    return 0;
}

/* Adds a sample after a change of memory.  Several changes at the same time are merged into one
 * sample. */
static enum weft_status sample_memory(struct weft_trace *t, uint32_t rank, double time,
                                      double amount, struct weft_error *err)
{
    struct weft_trace_memory *last = t->n_memory > 0 ? &t->memory[t->n_memory - 1] : NULL;
    if (last != NULL && last->rank == rank && last->amount == amount)
        return WEFT_OK;
    if (last != NULL && last->rank == rank && last->time == time) {
        last->amount = amount;
        return WEFT_OK;
    }
    return weft_trace_add_memory(t, &(struct weft_trace_memory){time, amount, rank}, err);
}

static enum weft_status add_rank(struct weft_trace *t, const struct weft_schedule *s,
                                 const struct weft_metrics *m,
                                 const struct weft_memory_cost *memory, uint32_t rank,
                                 struct weft_error *err)
{
    struct weft_action_span row = weft_schedule_rank(s, rank);
    size_t base = weft_schedule_offset(s, rank);
    double amount = 0;
    if (memory != NULL)
        WEFT_TRY(sample_memory(t, rank, 0, 0, err));
    for (size_t i = 0; i < row.len; i += row.at[i].paired ? 2 : 1) {
        struct weft_action a = row.at[i];
        if (!weft_act_is_compute(a.kind))
            continue;

        struct weft_trace_event e = {.start = m->start[base + i],
                                     .length = m->length[base + i],
                                     .rank = rank,
                                     .lane = WEFT_LANE_COMPUTE,
                                     .action = a,
                                     .peer = WEFT_NO_RANK};
        if (a.paired)
            e.partner = row.at[i + 1];
        WEFT_TRY(push_event(t, &e, err));

        if (memory == NULL)
            continue;
        amount += memory_change(memory, a) + (a.paired ? memory_change(memory, e.partner) : 0);
        WEFT_TRY(sample_memory(t, rank, e.start, amount, err));
        if (!weft_schedule_is_forward_only(s))
            continue;
        amount = 0; /* the stage keeps nothing after its forward */
        WEFT_TRY(sample_memory(t, rank, e.start + e.length, amount, err));
    }
    return WEFT_OK;
}

enum weft_status weft_trace_init_plan(struct weft_trace *out, const struct weft_schedule *s,
                                      const struct weft_metrics *m,
                                      const struct weft_memory_cost *memory,
                                      struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    struct weft_trace t;
    WEFT_TRY(weft_trace_init(&t, weft_schedule_name(s), place->n_ranks, place->n_stages,
                             place->n_micros, 0, err));
    enum weft_status st = WEFT_OK;
    for (uint32_t r = 0; st == WEFT_OK && r < place->n_ranks; r++)
        st = add_rank(&t, s, m, memory, r, err);
    if (st == WEFT_OK)
        st = weft_trace_finish(&t, err);
    if (st == WEFT_OK)
        *out = t;
    else
        weft_trace_release(&t);
    return st;
}
