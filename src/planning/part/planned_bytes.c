/* Computes the memory of the ranks of a schedule from the bytes of the items. */
#include "planning/part/planned_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/slots.h"

/* The reduction of gradients has two buffers for pieces of at most this many elements from each
 * other member, see runtime/sync/group.c. */
enum { REDUCTION_SETS = 2, REDUCTION_PIECE = 1 << 19 };

/* Limits of the placement of slots: cells for the placement by size, which takes quadratic
 * time, and actions times cells at one time for all placements. */
enum { MAX_BY_SIZE = 512, MAX_PLACING = 1 << 22 };

/* -- micro-batches of a rank --------------------------------------------------------------- */

/* Counts one action.  A schedule without backwards frees an activation at once. */
static void count_action(struct weft_action a, bool forward_only, struct wf_stage_counts *now,
                         struct wf_stage_counts *max)
{
    switch (a.kind) {
    case WEFT_ACT_F:
        now->stored++;
        now->open++;
        break;
    case WEFT_ACT_I:
        now->open--;
        now->split++;
        break;
    case WEFT_ACT_W:
        now->stored--;
        now->split--;
        break;
    case WEFT_ACT_B:
        now->stored--;
        now->open--;
        break;
    default:
        return;
    }

    max->stored = now->stored > max->stored ? now->stored : max->stored;
    max->open = now->open > max->open ? now->open : max->open;
    max->split = now->split > max->split ? now->split : max->split;
    if (forward_only)
        *now = (struct wf_stage_counts){0};
}

enum weft_status wf_rank_counts(const struct weft_schedule *s, uint32_t rank,
                                struct wf_stage_counts *out, struct weft_error *err)
{
    uint32_t n_stages = weft_schedule_placement(s)->n_stages;
    struct weft_action_span row = weft_schedule_rank(s, rank);
    struct wf_stage_counts *now = calloc(n_stages, sizeof *now);
    bool forward_only = weft_schedule_is_forward_only(s);
    if (now == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u stages", n_stages);
    memset(out, 0, n_stages * sizeof *out);
    for (size_t i = 0; i < row.len; i++)
        if (weft_act_is_compute(row.at[i].kind))
            count_action(row.at[i], forward_only, &now[row.at[i].stage], &out[row.at[i].stage]);
    free(now);
    return WEFT_OK;
}

bool wf_rank_receives(const struct weft_placement *place, uint32_t rank, uint32_t stage)
{
    for (uint32_t pipe = 0; stage > 0 && pipe < place->n_pipes; pipe++) {
        const uint32_t *rank_of = place->rank_of + (size_t)pipe * place->n_stages;
        if (rank_of[stage] == rank && rank_of[stage - 1] != rank)
            return true;
    }
    return false;
}

size_t wf_rank_buffers(const struct weft_placement *place, bool forward_only, uint32_t rank,
                       uint32_t stage, uint32_t open)
{
    /* Evaluations have buffers of their own, see runtime/exec/program_forward.c. */
    enum { EVALUATION_OUTPUTS = 2, EVALUATION_INPUTS = 1 + WF_INPUTS_AHEAD };
    size_t n = 0;
    if (stage + 1 < place->n_stages)
        n += open + (forward_only ? 0 : wf_size_min(EVALUATION_OUTPUTS, place->n_micros));
    if (wf_rank_receives(place, rank, stage))
        n += open + WF_INPUTS_AHEAD + (forward_only ? 0 : EVALUATION_INPUTS);
    return n;
}

/* -- stages -------------------------------------------------------------------------------- */

/* Adds n times `bytes` to *sum.  Returns false if the sum overflows. */
static bool add(size_t *sum, size_t bytes, size_t n)
{
    size_t product;
    return wf_size_mul(bytes, n, &product) && wf_size_add(*sum, product, sum);
}

static void add_parts(struct weft_state_bytes *sum, const struct weft_state_bytes *b)
{
    sum->weights += b->weights; /* no overflow: the sum of all parts is checked */
    sum->packed += b->packed;
    sum->gradients += b->gradients;
    sum->moments += b->moments;
}

static void subtract_parts(struct weft_state_bytes *sum, const struct weft_state_bytes *b)
{
    sum->weights -= b->weights;
    sum->packed -= b->packed;
    sum->gradients -= b->gradients;
    sum->moments -= b->moments;
}

bool wf_stage_memory_sum(const struct weft_stage_range *r, const struct weft_items *items,
                         struct wf_stage_memory *out)
{
    bool ok = true;
    *out = (struct wf_stage_memory){.scratch = items->stage_bytes};
    size_t first = r->embedding ? 0 : (size_t)r->first_layer + 1;
    size_t end = (size_t)r->end_layer + 1 + r->head;
    for (size_t k = first; ok && k < end; k++) {
        const struct weft_item *item = &items->at[k];
        bool shares = k > r->first_layer + (size_t)1 && k < (size_t)r->end_layer + 1;
        ok = add(&out->state, item->state_bytes, 1) &&
             add(&out->all_work, item->work_bytes, 1) &&
             add(&out->scratch, shares ? 0 : item->scratch_bytes, 1);
        out->max_work = wf_size_max(out->max_work, item->work_bytes);
        add_parts(&out->parts, &item->state);
    }

    if (ok && r->embedding && r->head) { /* one stage stores a tied weight once */
        out->state -= items->shared_bytes;
        subtract_parts(&out->parts, &items->shared);
    }
    return ok;
}

/* Counts the ranks that run stage a or stage b. */
static uint32_t n_ranks_of(const struct weft_placement *p, uint32_t a, uint32_t b)
{
    uint32_t n = 0, n_places = 2 * p->n_pipes; /* stages a and b of each pipe */
    for (uint32_t i = 0; i < n_places; i++) {
        const uint32_t *at = &p->rank_of[(size_t)(i / 2) * p->n_stages];
        uint32_t rank = at[i % 2 == 0 ? a : b];
        bool seen = false;
        for (uint32_t k = 0; k < i; k++)
            seen = seen ||
                   p->rank_of[(size_t)(k / 2) * p->n_stages + (k % 2 == 0 ? a : b)] == rank;
        n += !seen;
    }
    return n;
}

/* The memory of a stage, and the number of ranks that run it, with their replicas. */
struct planned_stage {
    struct wf_stage_memory sums;
    uint32_t n_members;
};

static enum weft_status sum_stages(struct planned_stage *stages, const struct weft_partition *p,
                                   const struct weft_items *items,
                                   const struct weft_placement *place, uint32_t replicas,
                                   struct weft_error *err)
{
    for (uint32_t s = 0; s < p->n_stages; s++) {
        if (!wf_stage_memory_sum(&p->at[s], items, &stages[s].sums))
            return WEFT_FAIL(err, WEFT_USAGE, "stage %u: the bytes of its items overflow", s);
        stages[s].n_members = n_ranks_of(place, s, s) * replicas;
    }
    return WEFT_OK;
}

/* -- ranks --------------------------------------------------------------------------------- */

struct rank_memory {
    struct weft_state_bytes parts;
    size_t state, activations, messages, scratch, total;
};

/* What the counts of all ranks need. */
struct planned_ranks {
    const struct weft_schedule *schedule;
    const struct weft_placement *place;
    const struct weft_items *items;
    uint32_t replicas;
    struct planned_stage *stages;   /* owned: (n_stages) */
    struct wf_stage_counts *counts; /* owned: (n_stages), of the current rank */
    size_t *act_bytes;              /* owned: (n_stages) */
};

/* Returns the buffers that a member of a group needs to sum its share of the gradients. */
static size_t reduction_buffers(const struct weft_state_bytes *group, uint32_t n_members)
{
    size_t n = group->weights / sizeof(float), share = n_members < 2 ? 0 : n / n_members;
    return n == 0 ? 0
                  : REDUCTION_SETS * (size_t)(n_members - (n_members > 0)) *
                        wf_size_min(share, REDUCTION_PIECE) * (group->gradients / n);
}

/* Adds the state of a group of parameters.  Its members divide the moments. */
static bool add_state(struct rank_memory *m, const struct weft_state_bytes *group,
                      uint32_t n_members)
{
    struct weft_state_bytes own = *group;
    own.moments = n_members > 1 ? (group->moments + n_members - 1) / n_members : own.moments;
    add_parts(&m->parts, &own);
    return add(&m->state, weft_state_bytes_total(&own), 1) &&
           add(&m->messages, reduction_buffers(group, n_members), 1);
}

/* Adds a tied weight on the first or the last of several stages.  Each of the two has a copy,
 * but a rank that runs both updates its shard once. */
static bool add_tied(const struct planned_ranks *c, uint32_t s, struct rank_memory *m)
{
    struct weft_state_bytes tied = c->items->shared;
    if (s != 0 && c->counts[0].stored > 0) {
        tied.moments = 0;
        add_parts(&m->parts, &tied);
        return add(&m->state, weft_state_bytes_total(&tied), 1);
    }
    return add_state(m, &tied, n_ranks_of(c->place, 0, c->place->n_stages - 1) * c->replicas);
}

static bool add_stage(const struct planned_ranks *c, uint32_t rank, uint32_t s,
                      struct rank_memory *m)
{
    const struct wf_stage_memory *stage = &c->stages[s].sums;
    const struct wf_stage_counts *n = &c->counts[s];
    uint32_t last = c->place->n_stages - 1;
    bool forward_only = c->schedule != NULL && weft_schedule_is_forward_only(c->schedule);
    bool tied = last > 0 && (s == 0 || s == last) && c->items->shared.weights > 0;
    struct weft_state_bytes own = stage->parts;
    if (tied) /* the weight is a group of its own */
        subtract_parts(&own, &c->items->shared);

    bool known = weft_state_bytes_total(&stage->parts) > 0;
    return (known ? add_state(m, &own, c->stages[s].n_members)
                  : add(&m->state, stage->state, 1)) &&
           (!tied || add_tied(c, s, m)) && add(&m->activations, stage->max_work, 1) &&
           add(&m->activations, stage->all_work, n->split) &&
           add(&m->scratch, stage->scratch, 1) &&
           add(&m->messages, c->items->boundary_bytes,
               wf_rank_buffers(c->place, forward_only, rank, s, n->open));
}

/* The stored activations of a rank. */
struct stored {
    size_t bytes;      /* as if each stage had a region of its own */
    uint64_t n_cells;  /* largest number of cells at one time, over all stages */
    uint32_t n_stages; /* stages of the rank */
};

static bool sum_regions(const struct planned_ranks *c, struct stored *out)
{
    for (uint32_t s = 0; s < c->place->n_stages; s++) {
        out->n_stages += c->counts[s].stored > 0;
        out->n_cells += c->counts[s].stored;
        if (!add(&out->bytes, c->act_bytes[s], c->counts[s].stored))
            return false;
    }
    return true;
}

/* Computes the bytes of stored activations.  Several stages share memory.  Placing their slots
 * takes time in proportion to the actions and the cells at one time, so that it is left out for
 * large schedules, where the regions are an upper bound. */
static enum weft_status count_stored(const struct planned_ranks *c, uint32_t rank, size_t *out,
                                     struct weft_error *err)
{
    struct wf_slots slots;
    struct stored stored = {0};
    if (!sum_regions(c, &stored))
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u: the bytes of its stages overflow", rank);
    *out = stored.bytes;
    if (stored.n_stages < 2 || stored.bytes == 0 ||
        weft_schedule_is_forward_only(c->schedule) ||
        stored.n_cells * weft_schedule_rank(c->schedule, rank).len > MAX_PLACING)
        return WEFT_OK;

    WEFT_TRY(wf_slots_init(&slots, c->schedule, rank, c->act_bytes, MAX_BY_SIZE, err));
    *out = wf_size_min(*out, slots.total);
    wf_slots_release(&slots);
    return WEFT_OK;
}

/* Adds the memory of all stages of a rank to *m and computes the total. */
static enum weft_status add_stages(const struct planned_ranks *c, uint32_t rank,
                                   struct rank_memory *m, struct weft_error *err)
{
    bool ok = true;
    for (uint32_t s = 0; ok && s < c->place->n_stages; s++)
        if (c->counts[s].stored > 0)
            ok = add_stage(c, rank, s, m);
    ok = ok && add(&m->total, m->state, 1) && add(&m->total, m->activations, 1) &&
         add(&m->total, m->messages, 1) && add(&m->total, m->scratch, 1);
    if (!ok)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u: the bytes of its stages overflow", rank);
    return WEFT_OK;
}

static enum weft_status count_rank(const struct planned_ranks *c, uint32_t rank,
                                   struct rank_memory *m, struct weft_error *err)
{
    WEFT_TRY(wf_rank_counts(c->schedule, rank, c->counts, err));
    WEFT_TRY(count_stored(c, rank, &m->activations, err));
    return add_stages(c, rank, m, err);
}

/* -- all ranks ----------------------------------------------------------------------------- */

static enum weft_status allocate(struct wf_planned_bytes *b, struct planned_ranks *c,
                                 struct weft_error *err)
{
    size_t n = b->n_ranks, n_stages = c->place->n_stages;
    b->parts = calloc(n, sizeof *b->parts);
    b->state = calloc(n, sizeof *b->state);
    b->activations = calloc(n, sizeof *b->activations);
    b->messages = calloc(n, sizeof *b->messages);
    b->scratch = calloc(n, sizeof *b->scratch);
    b->total = calloc(n, sizeof *b->total);
    c->stages = calloc(n_stages, sizeof *c->stages);
    c->counts = calloc(n_stages, sizeof *c->counts);
    if (!b->parts || !b->state || !b->activations || !b->messages || !b->scratch || !b->total ||
        !c->stages || !c->counts)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the bytes of %u ranks", b->n_ranks);
    return WEFT_OK;
}

static enum weft_status count_ranks(struct wf_planned_bytes *b, const struct planned_ranks *c,
                                    struct weft_error *err)
{
    for (uint32_t r = 0; r < b->n_ranks; r++) {
        struct rank_memory m = {0};
        WEFT_TRY(count_rank(c, r, &m, err));
        b->parts[r] = m.parts;
        b->state[r] = m.state;
        b->activations[r] = m.activations;
        b->messages[r] = m.messages;
        b->scratch[r] = m.scratch;
        b->total[r] = m.total;
    }
    return WEFT_OK;
}

enum weft_status wf_planned_bytes_init(struct wf_planned_bytes *out,
                                       const struct weft_schedule *s,
                                       const struct weft_partition *p,
                                       const struct weft_items *items, uint32_t replicas,
                                       struct weft_error *err)
{
    struct weft_stage_sums sums;
    struct planned_ranks c = {.schedule = s,
                              .place = weft_schedule_placement(s),
                              .items = items,
                              .replicas = replicas};
    struct wf_planned_bytes b = {.n_ranks = c.place->n_ranks};
    if (p->n_stages != c.place->n_stages)
        return WEFT_FAIL(err, WEFT_USAGE, "the placement has %u stages, the partition %u",
                         c.place->n_stages, p->n_stages);
    WEFT_TRY(weft_stage_sums_init(&sums, p, items, err));
    c.act_bytes = sums.act_bytes;

    enum weft_status st = allocate(&b, &c, err);
    if (st == WEFT_OK)
        st = sum_stages(c.stages, p, items, c.place, replicas, err);
    if (st == WEFT_OK)
        st = count_ranks(&b, &c, err);

    free(c.stages);
    free(c.counts);
    weft_stage_sums_release(&sums);
    if (st == WEFT_OK)
        *out = b;
    else
        wf_planned_bytes_release(&b);
    return st;
}

void wf_planned_bytes_release(struct wf_planned_bytes *b)
{
    free(b->parts);
    free(b->state);
    free(b->activations);
    free(b->messages);
    free(b->scratch);
    free(b->total);
    *b = (struct wf_planned_bytes){0};
}

/* Marks the stages of a rank, without micro-batches between F and W. */
static void mark_stages(const struct planned_ranks *c, uint32_t rank)
{
    size_t n_stages = c->place->n_stages, n = n_stages * c->place->n_pipes;
    memset(c->counts, 0, n_stages * sizeof *c->counts);
    for (size_t i = 0; i < n; i++)
        if (c->place->rank_of[i] == rank)
            c->counts[i % n_stages].stored = 1;
}

enum weft_status wf_planned_fixed_bytes(size_t *out, const struct weft_placement *place,
                                        const struct weft_partition *p,
                                        const struct weft_items *items, uint32_t replicas,
                                        struct weft_error *err)
{
    size_t n = place->n_stages;
    struct planned_ranks c = {.place = place,
                              .items = items,
                              .replicas = replicas,
                              .stages = calloc(n, sizeof *c.stages),
                              .counts = calloc(n, sizeof *c.counts)};
    enum weft_status st = c.stages == NULL || c.counts == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu stages", n)
                              : sum_stages(c.stages, p, items, place, replicas, err);
    for (uint32_t r = 0; st == WEFT_OK && r < place->n_ranks; r++) {
        struct rank_memory m = {0};
        mark_stages(&c, r);
        st = add_stages(&c, r, &m, err);
        out[r] = m.total;
    }
    free(c.stages);
    free(c.counts);
    return st;
}

size_t wf_planned_bytes_max(const size_t *bytes, uint32_t n)
{
    size_t max = 0;
    for (uint32_t r = 0; r < n; r++)
        max = bytes[r] > max ? bytes[r] : max;
    return max;
}
