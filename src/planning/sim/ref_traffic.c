/* Counts the traffic of a plan in the same way as burn_dragon, the reference system.
 *
 * A transition between two stages on different ranks has one key: (source, destination, block).
 * Several transitions may have the same key.  Keys are numbered, so the cached entries of a
 * micro are a row of bits.  The queue of micros needs no memory, because it always contains the
 * `cap` micros that entered last.  So the k-th micro to enter leaves when the (k + cap)-th
 * micro enters.
 *
 *     row of a micro:   until | bits ...   valid while fewer than `until` micros have entered
 *
 * This file implements weft_cache without the hash table, and the tests compare the two.
 * Without a cache every transfer is a bypass, so the order of events does not matter and the
 * events are only counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sim/cache_priv.h"
#include "planning/sim/tick_order.h"
#include "weft/timing.h"

#define NONE UINT32_MAX

struct transition {
    uint32_t key;          /* NONE if the transition transfers nothing */
    uint32_t source, dest; /* sending and receiving rank of the forward */
    uint32_t block;
};

/* The cache lookup of an action. */
struct request {
    uint64_t bit;  /* bit of the entry in its word; 0 if the action needs no lookup */
    uint32_t word; /* index of the bit's word in the row */
    bool transfer; /* true if the action transfers data */
};

struct count {
    const struct weft_placement *place;
    const struct weft_ref_traffic_settings *settings;
    struct transition *transitions; /* owned: (pipes, stages), from each stage to the next */
    uint32_t n_keys;
    struct request *requests; /* owned: (pipes, slots) */
    /* owned: (pipes, slots), number of requests and of transfers; `sent` counts only
     * requests with a lookup, because all other requests always send */
    size_t *requested, *sent;
    size_t n_events;
    size_t width;     /* number of words per row: the word `until`, then the bits */
    uint64_t *rows;   /* owned: (micros, width) */
    uint64_t cap;     /* maximum number of micros in the queue */
    uint64_t entered; /* number of times a micro has entered the queue */
    char *trace;      /* owned */
};

const char *weft_ref_traffic_mode_name(enum weft_ref_traffic_mode mode)
{
    switch (mode) {
    case WEFT_REF_TRAFFIC_ACTIVATION_TENSOR:
        return "activation_tensor";
    case WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE:
        return "block_residual_cache";
    }
    return "?";
}

void weft_ref_traffic_release(struct weft_ref_traffic *c)
{
    free(c->stage_transmitted_bytes);
    free(c->trace);
    *c = (struct weft_ref_traffic){0};
}

/* -- transitions ---------------------------------------------------------------------------- */

static int compare_transitions(const void *a, const void *b)
{
    const struct transition *x = *(struct transition *const *)a;
    const struct transition *y = *(struct transition *const *)b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->dest != y->dest)
        return x->dest < y->dest ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

/* Numbers the keys.  Equal keys get the same number. */
static bool number_keys(struct count *c, size_t n_transitions)
{
    struct transition **sorted = malloc(sizeof(struct transition *) * (n_transitions + 1));
    size_t n = 0;
    if (sorted == NULL)
        return false;
    for (size_t i = 0; i < n_transitions; i++)
        if (c->transitions[i].key != NONE)
            sorted[n++] = &c->transitions[i];
    qsort(sorted, n, sizeof(struct transition *), compare_transitions);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || compare_transitions(&sorted[i - 1], &sorted[i]) != 0)
            c->n_keys++;
        sorted[i]->key = c->n_keys - 1;
    }
    free(sorted);
    return true;
}

static bool find_transitions(struct count *c, const struct weft_partition *p)
{
    const struct weft_placement *place = c->place;
    size_t n = (size_t)place->n_pipes * place->n_stages;
    c->transitions = malloc(sizeof *c->transitions * (n + 1));
    if (c->transitions == NULL)
        return false;
    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++) {
        const uint32_t *rank_of = place->rank_of + (size_t)pipe * place->n_stages;
        struct transition *transitions = c->transitions + (size_t)pipe * place->n_stages;
        for (uint32_t s = 0; s < place->n_stages; s++) {
            bool last = s + 1 == place->n_stages;
            bool local = last || rank_of[s] == rank_of[s + 1];
            transitions[s] =
                (struct transition){local ? NONE : 0, rank_of[s], rank_of[last ? s : s + 1],
                                    (p->at[s].end_layer - 1) / c->settings->layers_per_block};
        }
    }
    return number_keys(c, n);
}

/* Returns the transition that an action uses: the one after its stage for a forward, the one
 * before its stage for a backward.  Returns NULL if there is no such transition. */
static const struct transition *transition_of(const struct count *c, uint32_t pipe,
                                              unsigned kind, uint32_t stage)
{
    const struct transition *transitions = c->transitions + (size_t)pipe * c->place->n_stages;
    if (kind == WEFT_ACT_W || (kind != WEFT_ACT_F && stage == 0))
        return NULL;
    const struct transition *trans = &transitions[kind == WEFT_ACT_F ? stage : stage - 1];
    return trans->key == NONE ? NULL : trans;
}

static inline size_t index_of(const struct count *c, uint32_t pipe, uint32_t slot)
{
    return (size_t)pipe * WF_TICK_SLOTS * c->place->n_stages + slot;
}

static bool find_requests(struct count *c, const bool cached[2])
{
    size_t n = (size_t)c->place->n_pipes * WF_TICK_SLOTS * c->place->n_stages;
    c->requests = calloc(n + 1, sizeof *c->requests);
    c->requested = calloc(n + 1, sizeof *c->requested);
    c->sent = calloc(n + 1, sizeof *c->sent);
    if (c->requests == NULL || c->requested == NULL || c->sent == NULL)
        return false;

    for (uint32_t pipe = 0; pipe < c->place->n_pipes; pipe++)
        for (uint32_t stage = 0; stage < c->place->n_stages; stage++)
            for (unsigned kind = 0; kind < WF_TICK_SLOTS; kind++) {
                const struct transition *trans = transition_of(c, pipe, kind, stage);
                struct request *r =
                    &c->requests[index_of(c, pipe, wf_tick_slot_index(kind, stage))];
                r->transfer = trans != NULL;
                if (trans == NULL || !cached[kind != WEFT_ACT_F])
                    continue;
                r->bit = UINT64_C(1) << trans->key % 64;
                r->word = 1 + trans->key / 64;
            }
    return true;
}

/* -- without a cache ------------------------------------------------------------------------ */

static void count_all(struct count *c, const struct weft_schedule *s)
{
    for (uint32_t r = 0; r < c->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (!weft_act_is_compute(a.kind))
                continue;
            uint32_t pipe = weft_placement_pipe(c->place, a.micro);
            c->requested[index_of(c, pipe, wf_tick_slot_index(a.kind, a.stage))]++;
            c->n_events++;
        }
    }
}

/* -- with a cache --------------------------------------------------------------------------- */

static bool rows_init(struct count *c)
{
    size_t micros = c->place->n_micros;
    c->width = 2 + c->n_keys / 64;
    c->cap = wf_size_min(wf_cache_max_micros(&c->settings->cache), micros + 1);
    c->rows = calloc(micros + 1, sizeof *c->rows * c->width);
    return c->rows != NULL;
}

/* Looks up the entry of a transfer and inserts it if it is missing.  Returns true for a hit.
 * *entered is a copy of c->entered that the compiler can keep in a register. */
static inline bool look_up(const struct count *c, const struct request *r, uint32_t micro,
                           uint64_t *entered)
{
    uint64_t *row = c->rows + micro * c->width;
    if (row[0] <= *entered) {
        row[0] = ++*entered + c->cap;
        row[1] = 0;
        for (size_t i = 2; i < c->width; i++)
            row[i] = 0;
    }
    uint64_t bits = row[r->word];
    row[r->word] = bits | r->bit;
    return (bits & r->bit) != 0;
}

/* Counts an event.  Returns true if the event is a cache hit. */
static inline bool count_event(const struct count *c, size_t index, uint32_t micro,
                               uint64_t *entered)
{
    const struct request *r = &c->requests[index];
    if (r->bit == 0)
        return false;
    bool hit = look_up(c, r, micro, entered);
    c->sent[index] += !hit;
    return hit;
}

static char letter(const struct count *c, size_t index, bool hit)
{
    const struct request *r = &c->requests[index];
    return !r->transfer ? '-' : r->bit == 0 ? 'b' : hit ? 'h' : 'm';
}

/* Counts the events in the order of wf_ticks.  If wf_ticks does not support the schedule,
 * sets *done to false; the counts are then invalid. */
static enum weft_status count_ticks(struct count *c, const struct weft_schedule *s, bool *done,
                                    struct weft_error *err)
{
    struct wf_ticks t;
    WEFT_TRY(wf_ticks_init(&t, s, err));
    const struct count fixed =
        *c; /* local copies, which stores through pointers cannot change */
    const struct wf_ticks ticks = t;
    uint64_t entered = 0;

    for (size_t n = 0; wf_ticks_next(&t); c->n_events = n) {
        const struct wf_tick_event *end = ticks.now + t.n_now;
        for (const struct wf_tick_event *at = ticks.now; at < end; at++, n++) {
            bool hit = count_event(&fixed, at->slot, at->micro, &entered);
            wf_ticks_finish(&ticks, *at);
            if (fixed.trace != NULL)
                fixed.trace[n] = letter(&fixed, at->slot, hit);
        }
    }

    c->entered = entered;
    *done = wf_ticks_complete(&t);
    for (uint32_t stage = 0; stage < c->place->n_stages; stage++) {
        c->requested[wf_tick_slot_index(WEFT_ACT_F, stage)] =
            wf_ticks_done(&t, WEFT_ACT_F, stage);
        c->requested[wf_tick_slot_index(WEFT_ACT_B, stage)] =
            wf_ticks_done(&t, WEFT_ACT_B, stage);
    }
    wf_ticks_release(&t);
    return WEFT_OK;
}

/* Counts the events of any schedule after sorting them. */
static enum weft_status count_sorted(struct count *c, const struct weft_schedule *s,
                                     struct weft_error *err)
{
    static const double tick = 1;
    struct weft_cost ticks = {.b = {&tick, 1}};
    struct weft_metrics m;
    struct weft_event *events = NULL;
    WEFT_TRY(weft_metrics_init(&m, s, &ticks, NULL, err));
    enum weft_status st = weft_event_list(s, &m, &events, &c->n_events, err);
    weft_metrics_release(&m);
    WEFT_TRY(st);

    for (size_t i = 0; i < c->n_events; i++) {
        const struct weft_event *e = &events[i];
        size_t index = index_of(c, weft_placement_pipe(c->place, e->micro),
                                wf_tick_slot_index(e->kind, e->stage));
        bool hit = count_event(c, index, e->micro, &c->entered);
        c->requested[index]++;
        if (c->trace != NULL)
            c->trace[i] = letter(c, index, hit);
    }
    free(events);
    return WEFT_OK;
}

static void count_reset(struct count *c)
{
    size_t slots = (size_t)c->place->n_pipes * WF_TICK_SLOTS * c->place->n_stages;
    memset(c->sent, 0, sizeof *c->sent * slots);
    memset(c->requested, 0, sizeof *c->requested * slots);
    if (c->rows != NULL)
        memset(c->rows, 0, sizeof *c->rows * c->width * c->place->n_micros);
    c->n_events = 0;
    c->entered = 0;
}

static enum weft_status count_in_order(struct count *c, const struct weft_schedule *s,
                                       struct weft_error *err)
{
    size_t n = weft_schedule_n_actions(s);
    bool done = false;
    if (c->settings->trace && (c->trace = malloc(n + 1)) == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace of %zu events", n);
    if (c->place->n_pipes == 1)
        WEFT_TRY(count_ticks(c, s, &done, err));
    if (!done) {
        count_reset(c);
        WEFT_TRY(count_sorted(c, s, err));
    }
    if (c->trace != NULL)
        c->trace[c->n_events] = '\0';
    return WEFT_OK;
}

/* -- the report ----------------------------------------------------------------------------- */

/* Returns the number of entries that are in the cache at the end. */
static size_t count_resident(const struct count *c)
{
    size_t n = 0;
    for (size_t micro = 0; micro < c->place->n_micros && c->rows != NULL; micro++) {
        const uint64_t *row = c->rows + micro * c->width;
        for (size_t i = 1; i < c->width && row[0] > c->entered; i++)
            n += (size_t)__builtin_popcountll(row[i]);
    }
    return n;
}

struct sums {
    size_t requested[2], sent[2]; /* index 0: forwards; index 1: backwards */
    size_t entries;               /* number of cache entries created */
    size_t *by_rank; /* borrowed: (ranks), number of transfers that each rank sends */
};

static void add_slot(const struct count *c, uint32_t pipe, unsigned kind, uint32_t stage,
                     struct sums *sums)
{
    const struct transition *trans = transition_of(c, pipe, kind, stage);
    size_t index = index_of(c, pipe, wf_tick_slot_index(kind, stage));
    bool backward = kind != WEFT_ACT_F;
    bool reply = backward && c->settings->mode == WEFT_REF_TRAFFIC_ACTIVATION_TENSOR;
    if (trans == NULL)
        return;

    bool cached = c->requests[index].bit != 0;
    size_t sent = cached ? c->sent[index] : c->requested[index];
    sums->requested[backward] += c->requested[index];
    sums->sent[backward] += sent;
    sums->entries += cached ? sent : 0;
    sums->by_rank[reply ? trans->dest : trans->source] += sent;
}

/* Fills the result.  Checks only one product for overflow, because no other number is
 * larger. */
static enum weft_status report(const struct count *c, struct weft_ref_traffic *out,
                               struct weft_error *err)
{
    struct weft_cache_stats *stats = &out->cache;
    struct sums sums = {.by_rank = out->stage_transmitted_bytes};
    size_t payload = c->settings->payload_bytes;
    for (uint32_t pipe = 0; pipe < c->place->n_pipes; pipe++)
        for (uint32_t stage = 0; stage < c->place->n_stages; stage++)
            for (unsigned kind = 0; kind < WF_TICK_SLOTS; kind++)
                add_slot(c, pipe, kind, stage, &sums);

    size_t requested = sums.requested[0] + sums.requested[1];
    out->n_events = c->n_events;
    out->forward_transfer_requests = sums.requested[0];
    out->backward_transfer_requests = sums.requested[1];
    stats->cache_misses = sums.sent[0] + sums.sent[1];
    stats->cache_hits = stats->resend_count_avoided = requested - stats->cache_misses;
    stats->backward_reuse_hits = sums.requested[1] - sums.sent[1];
    stats->invalidated_entries = sums.entries - count_resident(c);

    if (!wf_size_mul(requested, payload, &stats->raw_payload_bytes_requested))
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "the sum of transferred bytes overflows (%zu transfers of %zu bytes)",
                         requested, payload);

    stats->payload_bytes_transmitted = stats->cache_misses * payload;
    out->bytes_saved = stats->cache_hits * payload;
    out->cache_hit_rate = requested == 0 ? 0 : (float)stats->cache_hits / (float)requested;
    for (uint32_t r = 0; r < out->n_ranks; r++)
        out->stage_transmitted_bytes[r] *= payload;
    return WEFT_OK;
}

static enum weft_status check(const struct weft_placement *place,
                              const struct weft_partition *p,
                              const struct weft_ref_traffic_settings *settings,
                              struct weft_error *err)
{
    if (settings->layers_per_block == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "layers per block is 0 (expected at least 1)");
    if (p->n_stages != place->n_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the partition has %u stages, but the schedule has %u", p->n_stages,
                         place->n_stages);
    for (uint32_t s = 0; s < p->n_stages; s++)
        if (p->at[s].first_layer >= p->at[s].end_layer)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "stage %u has no layer; the reference system needs one per stage",
                             s);
    return WEFT_OK;
}

enum weft_status weft_ref_traffic_compute(const struct weft_schedule *s,
                                          const struct weft_partition *p,
                                          const struct weft_ref_traffic_settings *settings,
                                          struct weft_ref_traffic *out, struct weft_error *err)
{
    struct count c = {.place = weft_schedule_placement(s), .settings = settings};
    struct weft_ref_traffic result = {.n_ranks = c.place->n_ranks};
    bool on = settings->mode == WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE &&
              wf_cache_is_on(&settings->cache);
    const bool cached[2] = {on, on && settings->cache.reuse_across_backward};
    WEFT_TRY(check(c.place, p, settings, err));
    if (weft_schedule_is_forward_only(s))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the schedule is forward-only; the reference system counts training "
                         "steps");

    result.stage_transmitted_bytes = calloc((size_t)result.n_ranks + 1, sizeof(size_t));
    enum weft_status st = WEFT_OK;
    if (result.stage_transmitted_bytes == NULL || !find_transitions(&c, p) ||
        !find_requests(&c, cached) || (on && !rows_init(&c)))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to count the traffic of %u stages",
                       c.place->n_stages);
    else if (on || settings->trace)
        st = count_in_order(&c, s, err);
    else
        count_all(&c, s);

    if (st == WEFT_OK)
        st = report(&c, &result, err);
    if (st == WEFT_OK) {
        result.trace = c.trace;
        c.trace = NULL;
        *out = result;
    } else {
        weft_ref_traffic_release(&result);
    }
    free(c.transitions);
    free(c.requests);
    free(c.requested);
    free(c.sent);
    free(c.rows);
    free(c.trace);
    return st;
}
