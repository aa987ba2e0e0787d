/* Planning tick by tick: whenever a rank is free it takes the best action that is ready.
 *
 * On every stage forwards run in micro order and so do backwards, so that the whole state is two
 * counters a stage, and a rank's choice is the best of its few chunks:
 *
 *     forward of stage s is ready when   f[s] < f[s-1]             (stage 0: < M), its micro f[s]
 *     backward of stage s when           b[s] < min(f[s], b[s+1])  (the last: < f[s]), micro b[s]
 *
 * What a rank does in a tick is decided by the state at the start of that tick.  Only ranks that
 * became free or whose neighbours moved are looked at, so the time is linear in the actions.
 */
#include <stdlib.h>

#include "sched/gen/gen.h"

struct policy {
    const char *name;
    enum weft_placement_kind place;
    bool backward_first;
    uint32_t b_ticks;   /* a backward's length; a forward's is 1 */
    uint32_t in_flight; /* micros between stage 0's forward and its backward; 0: any number */
};

/* One chunk of one rank: how many forwards and backwards it has done. */
struct slot {
    uint32_t f, b;
};

/* Where a slot's stage stands; the slots of the stages around it, `stages` for none. */
struct way {
    uint32_t stage, rank, before, after;
};

struct planner {
    const struct policy *policy;
    struct weft_builder *b;
    uint32_t ranks, chunks, stages, micros;
    struct slot *slots; /* owned: (ranks, chunks), and one beyond the ends of the model */
    struct way *ways;   /* owned: (ranks, chunks) */
    /* owned: (ranks, words), a bit a chunk: what is ready.  Kept up as actions end, so that a
     * choice looks at ready chunks only, which are few. */
    uint64_t *f_ready, *b_ready;
    uint32_t words;
    uint32_t
        *running;     /* owned: (ranks), the slot of the action under way, doubled, + 1 for B */
    uint32_t *left;   /* owned: (ranks), ticks until it ends; 0: the rank is free */
    uint32_t *active; /* owned: (ranks), those that run something */
    uint32_t n_active;
    uint64_t *look; /* owned: a bit a rank, those for which something may have changed */
};

#define NONE UINT64_MAX

/* A candidate is (micro, chunk) in one number, so that the least one is the best.  Backwards
 * count their chunks from the loss. */
static inline uint64_t best_backward(const struct planner *p, uint32_t rank)
{
    const struct slot *mine = p->slots + (size_t)rank * p->chunks;
    uint64_t best = NONE;
    for (uint32_t w = 0; w < p->words; w++)
        for (uint64_t bits = p->b_ready[rank * p->words + w]; bits != 0; bits &= bits - 1) {
            uint32_t c = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t key = (uint64_t)mine[c].b << 32 | (p->chunks - 1 - c);
            best = key < best ? key : best;
        }
    return best;
}

static inline uint64_t best_forward(const struct planner *p, uint32_t rank)
{
    const struct slot *mine = p->slots + (size_t)rank * p->chunks;
    uint64_t best = NONE;
    for (uint32_t w = 0; w < p->words; w++)
        for (uint64_t bits = p->f_ready[rank * p->words + w]; bits != 0; bits &= bits - 1) {
            uint32_t c = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t key = (uint64_t)mine[c].f << 32 | c;
            best = key < best ? key : best;
        }
    return best;
}

/* For waves: the deepest chunk that is ready, and no new micro beyond those in flight. */
static uint64_t deepest_forward(const struct planner *p, uint32_t rank)
{
    const struct slot *mine = p->slots + (size_t)rank * p->chunks;
    for (uint32_t w = p->words; w-- > 0;) {
        uint64_t bits = p->f_ready[rank * p->words + w];
        if (bits == 0)
            continue;
        uint32_t c = w * 64 + 63 - (uint32_t)__builtin_clzll(bits);
        bool entry = rank == 0 && c == 0;
        bool full = entry && mine[c].f - mine[c].b >= p->policy->in_flight;
        return full ? NONE : (uint64_t)mine[c].f << 32 | c;
    }
    return NONE;
}

/* The slot doubled, + 1 for a backward; `micro` besides.  False when nothing is ready. */
static inline bool choose(const struct planner *p, uint32_t rank, uint32_t *task,
                          uint32_t *micro)
{
    bool backward = p->policy->backward_first;
    uint64_t best = backward ? best_backward(p, rank) : best_forward(p, rank);
    if (best == NONE) {
        backward = !backward;
        best = backward                    ? best_backward(p, rank)
               : p->policy->in_flight != 0 ? deepest_forward(p, rank)
                                           : best_forward(p, rank);
        if (best == NONE)
            return false;
    }
    uint32_t chunk = backward ? p->chunks - 1 - (uint32_t)best : (uint32_t)best;
    *task = (rank * p->chunks + chunk) * 2 + backward;
    *micro = (uint32_t)(best >> 32);
    return true;
}

static void look_at(struct planner *p, uint32_t rank)
{
    p->look[rank / 64] |= UINT64_C(1) << rank % 64;
}

static inline void start_action(struct planner *p, uint32_t rank)
{
    uint32_t task, micro;
    if (p->left[rank] != 0 || !choose(p, rank, &task, &micro))
        return;
    bool backward = task & 1;
    weft_emit(p->b, rank, backward ? WEFT_ACT_B : WEFT_ACT_F, p->ways[task / 2].stage, micro);
    p->running[rank] = task;
    p->left[rank] = backward ? p->policy->b_ticks : 1;
    p->active[p->n_active++] = rank;
}

static void start_actions(struct planner *p)
{
    for (uint32_t word = 0; word < (p->ranks + 63) / 64; word++) {
        uint64_t bits = p->look[word];
        p->look[word] = 0;
        for (; bits != 0; bits &= bits - 1)
            start_action(p, word * 64 + (uint32_t)__builtin_ctzll(bits));
    }
}

static inline void set_ready(uint64_t *ready, const struct planner *p, uint32_t slot,
                             uint32_t rank, bool is)
{
    uint32_t chunk = slot - rank * p->chunks;
    uint64_t *word = &ready[rank * p->words + chunk / 64];
    uint64_t bit = UINT64_C(1) << chunk % 64;
    *word = (*word & ~bit) | (is ? bit : 0);
}

/* Is the next backward of slot `low` ready, whose following stage is in slot `high`? */
static inline void renew_backward(struct planner *p, uint32_t low, uint32_t high)
{
    const struct slot *l = &p->slots[low];
    set_ready(p->b_ready, p, low, p->ways[low].rank, (l->b < l->f) & (l->b < p->slots[high].b));
}

/* Counts a finished action, renews what it makes ready, and looks at whom it concerns: the rank
 * itself and the one with the neighbouring stage. */
static inline void finish(struct planner *p, uint32_t rank)
{
    uint32_t task = p->running[rank], slot = task / 2;
    const struct way *way = &p->ways[slot];
    uint32_t neighbour = task & 1 ? way->before : way->after;
    if (task & 1) {
        p->slots[slot].b++;
        if (neighbour < p->stages)
            renew_backward(p, neighbour, slot);
    } else {
        uint32_t done = ++p->slots[slot].f;
        uint32_t limit = way->before < p->stages ? p->slots[way->before].f : p->micros;
        set_ready(p->f_ready, p, slot, rank, done < limit);
        if (neighbour < p->stages)
            set_ready(p->f_ready, p, neighbour, p->ways[neighbour].rank, true);
    }
    renew_backward(p, slot, way->after);
    look_at(p, rank);
    if (neighbour < p->stages)
        look_at(p, p->ways[neighbour].rank);
}

/* Makes visible what ends with this tick. */
static void end_actions(struct planner *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_active; i++) {
        uint32_t rank = p->active[i];
        if (--p->left[rank] == 0)
            finish(p, rank);
        else
            p->active[n++] = rank;
    }
    p->n_active = n;
}

static void planner_release(struct planner *p)
{
    free(p->slots);
    free(p->ways);
    free(p->f_ready);
    free(p->b_ready);
    free(p->running);
    free(p->left);
    free(p->active);
    free(p->look);
}

static uint32_t slot_of(const struct planner *p, int64_t stage)
{
    if (stage < 0 || stage >= p->stages)
        return p->stages;
    return p->b->rank_of[stage] * p->chunks + (uint32_t)stage / p->ranks;
}

static bool planner_init(struct planner *p)
{
    p->slots = calloc((size_t)p->stages + 1, sizeof *p->slots);
    p->ways = calloc(p->stages, sizeof *p->ways);
    p->words = (p->chunks + 63) / 64;
    p->f_ready = calloc((size_t)p->ranks * p->words, sizeof *p->f_ready);
    p->b_ready = calloc((size_t)p->ranks * p->words, sizeof *p->b_ready);
    p->running = calloc(p->ranks, sizeof *p->running);
    p->left = calloc(p->ranks, sizeof *p->left);
    p->active = calloc(p->ranks, sizeof *p->active);
    p->look = calloc(p->ranks / 64 + 1, sizeof *p->look);
    if (p->slots == NULL || p->ways == NULL || p->f_ready == NULL || p->b_ready == NULL ||
        p->running == NULL || p->left == NULL || p->active == NULL || p->look == NULL)
        return false;
    for (uint32_t s = 0; s < p->stages; s++)
        p->ways[slot_of(p, s)] = (struct way){s, p->b->rank_of[s], slot_of(p, (int64_t)s - 1),
                                              slot_of(p, (int64_t)s + 1)};
    set_ready(p->f_ready, p, slot_of(p, 0), p->b->rank_of[0], true);
    p->slots[p->stages].b = p->micros; /* beyond the last stage nothing must be waited for */
    return true;
}

static uint64_t plan_all(struct planner *p)
{
    uint64_t tick = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        look_at(p, r);
    for (start_actions(p); p->n_active > 0; start_actions(p)) {
        end_actions(p);
        tick++;
    }
    return tick;
}

/* *ticks (may be NULL) is how long the plan is. */
static enum weft_status make(const struct policy *policy, const struct weft_params *params,
                             uint64_t *ticks, struct weft_schedule **out,
                             struct weft_error *err)
{
    struct weft_builder b;
    WEFT_TRY(
        weft_builder_init(&b, policy->name, weft_shape(params, params->chunks), 2, 0, err));
    weft_builder_place(&b, policy->place);
    struct planner p = {.policy = policy,
                        .b = &b,
                        .ranks = params->ranks,
                        .chunks = params->chunks,
                        .stages = params->ranks * params->chunks,
                        .micros = params->micros};
    bool ok = planner_init(&p);
    uint64_t length = ok ? plan_all(&p) : 0;
    planner_release(&p);
    if (!ok) {
        weft_builder_release(&b);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %u stages", policy->name,
                         p.stages);
    }
    if (ticks != NULL)
        *ticks = length;
    return weft_builder_finish(&b, out, err);
}

/* The first reference system's two planners.  Forward first keeps all micros in flight;
 * backward first is not 1F1B, for nothing limits its warm-up. */
WEFT_GENERATOR(greedy_gpipe)
{
    static const struct policy policy = {.name = "greedy-gpipe", .b_ticks = 1};
    return make(&policy, params, NULL, out, err);
}

WEFT_GENERATOR(greedy_1f1b)
{
    static const struct policy policy = {
        .name = "greedy-1f1b", .backward_first = true, .b_ticks = 1};
    return make(&policy, params, NULL, out, err);
}

/* Hanayo's waves: stages go down the ranks and up again, once or more.  P micros are in flight,
 * so a rank holds about what 1F1B's first rank does; one more is let in where that is faster. */
WEFT_GENERATOR(wave)
{
    struct policy policy = {.name = "wave",
                            .place = WEFT_PLACE_WAVE,
                            .backward_first = true,
                            .b_ticks = 2,
                            .in_flight = params->ranks};
    struct weft_schedule *plain = NULL, *more = NULL;
    uint64_t plain_ticks = 0, more_ticks = 0;
    WEFT_TRY(make(&policy, params, &plain_ticks, &plain, err));
    policy.in_flight++;
    enum weft_status st = make(&policy, params, &more_ticks, &more, err);
    bool better = st == WEFT_OK && more_ticks < plain_ticks;
    weft_schedule_free(better ? plain : more);
    *out = better ? more : plain;
    return WEFT_OK;
}
