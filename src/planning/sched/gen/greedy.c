/* Greedy planning.  Simulates time tick by tick.  In each tick, every free rank starts the best
 * action that is ready.
 *
 * On every stage, forwards run in micro order, and backwards run in micro order.  So the whole
 * state is two counters per stage: f[s] and b[s], the numbers of forwards and backwards done.
 * A rank chooses among its few chunks:
 *
 *     F of stage s for micro f[s] is ready if  f[s] < f[s-1]             (stage 0: < M)
 *     B of stage s for micro b[s] is ready if  b[s] < min(f[s], b[s+1])  (last stage: < f[s])
 *
 * The choice depends on the state at the start of the tick.  The planner examines only ranks
 * that became free and ranks whose neighbours made progress, so its run time is linear in the
 * number of actions.
 */
#include <stdlib.h>
#include <string.h>

#include "planning/sched/gen/gen.h"

/* Forces inlining, so that the inner loop is one function.  The functions are so small that
 * calls would cost more than the function bodies. */
#define FAST __attribute__((always_inline)) static inline

struct policy {
    const char *name;
    enum weft_placement_kind place;
    bool backward_first;
    uint32_t b_ticks; /* duration of a backward in ticks; a forward takes 1 tick */
    /* maximum number of micros after F and before B of stage 0; 0: no limit */
    uint32_t in_flight;
};

/* A slot is one chunk of one rank.  prev and next are the slots of the neighbouring stages.  If
 * there is no neighbouring stage, they are `stages`, the index of the slot beyond the model. */
struct greedy_slot {
    uint32_t stage, rank, prev, next;
};

struct task {
    uint32_t slot;
    uint32_t ticks_left;
    bool backward;
};

/* Counters of one direction.  For each slot: the number of forwards (or backwards) that are
 * done, and the limit, which is the number that the finished actions of the neighbouring stages
 * permit.  The limits are updated when neighbours progress, so that the choice of a rank reads
 * only the slots of this rank. */
struct counters {
    uint32_t *done, *limit; /* owned: (ranks, chunks), plus one entry beyond the model */
};

struct planner {
    const struct policy *policy;
    struct wf_builder *b;
    uint32_t ranks, chunks, stages, micros;
    struct counters forward, backward;
    struct greedy_slot *slots; /* owned: (ranks, chunks), plus one entry beyond the model */
    struct task *active;       /* owned: (ranks), the running tasks */
    uint32_t n_active;
    bool *busy; /* owned: (ranks) */
    /* owned: (ranks, rounded up to 8), 1 if the planner has to examine the rank */
    uint8_t *dirty;
};

#define NONE UINT32_MAX

/* Returns the ready slot with the lowest next micro.  If several slots are equal, returns the
 * slot of the first chunk, or of the last chunk with `last_first`. */
FAST uint32_t lowest_micro(const struct counters *c, uint32_t base, uint32_t chunks,
                           bool last_first)
{
    const uint32_t *done = c->done + base, *limit = c->limit + base;
    uint32_t best = NONE, micro = UINT32_MAX;
    for (uint32_t k = 0; k < chunks; k++) {
        uint32_t i = last_first ? chunks - 1 - k : k, next = done[i];
        if (next >= limit[i])
            continue;
        if (next < micro) {
            micro = next;
            best = base + i;
        }
    }
    return best;
}

/* For waves: returns the slot of the deepest chunk whose forward is ready.  A forward of stage
 * 0 is not ready while the maximum number of micros is in flight. */
static uint32_t deepest(const struct planner *p, uint32_t base)
{
    const struct counters *f = &p->forward;
    for (uint32_t i = base + p->chunks; i-- > base;) {
        bool full = i == 0 && f->done[0] - p->backward.done[0] >= p->policy->in_flight;
        if (f->done[i] < f->limit[i] && !full)
            return i;
    }
    return NONE;
}

/* Returns the slot of the best ready forward or backward, or NONE.  Among equal micros,
 * backwards prefer the stage nearest to the loss, and forwards prefer the stage nearest to the
 * input. */
FAST uint32_t choose(const struct planner *p, uint32_t rank, bool backward, bool waves)
{
    uint32_t base = rank * p->chunks;
    if (backward)
        return lowest_micro(&p->backward, base, p->chunks, true);
    return waves ? deepest(p, base) : lowest_micro(&p->forward, base, p->chunks, false);
}

/* Starts the best action of a free rank.  Returns false if nothing is ready. */
FAST bool start_action(struct planner *p, uint32_t rank, bool back_first, bool waves,
                       struct task *task)
{
    bool back = back_first;
    uint32_t slot = choose(p, rank, back_first, waves);
    if (slot == NONE) {
        back = !back_first;
        slot = choose(p, rank, !back_first, waves);
        if (slot == NONE)
            return false;
    }

    wf_builder_add(p->b, rank, back ? WEFT_ACT_B : WEFT_ACT_F, p->slots[slot].stage,
                   back ? p->backward.done[slot] : p->forward.done[slot]);
    *task = (struct task){slot, back ? p->policy->b_ticks : 1, back};
    p->busy[rank] = true;
    return true;
}

/* Starts an action on every free rank that is marked as dirty.  Each mark is one byte, so that
 * setting a mark is a plain store.  The loop tests eight marks at a time. */
FAST void start_actions(struct planner *p, bool back_first, bool waves)
{
    uint32_t n = p->n_active;
    for (uint32_t begin = 0; begin < p->ranks; begin += 8) {
        uint64_t marks;
        memcpy(&marks, p->dirty + begin, sizeof marks);
        if (marks == 0)
            continue;
        memset(p->dirty + begin, 0, sizeof marks);
        for (uint32_t rank = begin; marks != 0; rank++, marks >>= 8)
            if ((marks & 0xff) != 0 && !p->busy[rank])
                n += start_action(p, rank, back_first, waves, &p->active[n]);
    }
    p->n_active = n;
}

/* Counts a finished action and updates the limits that depend on the action.  Marks the rank of
 * the action and the rank of the dependent stage as dirty. */
FAST void finish(struct planner *p, struct task task)
{
    const struct greedy_slot *at = &p->slots[task.slot];
    uint32_t *f = p->forward.done, *b = p->backward.done, *b_limit = p->backward.limit;
    uint32_t slot = task.slot, prev = at->prev, next = at->next;
    if (task.backward) {
        b[slot]++;
        b_limit[prev] = f[prev] < b[slot] ? f[prev] : b[slot];
        p->dirty[p->slots[prev].rank] = 1;
    } else {
        f[slot]++;
        p->forward.limit[next] = f[slot];
        b_limit[slot] = f[slot] < b[next] ? f[slot] : b[next];
        p->dirty[p->slots[next].rank] = 1;
    }
    p->busy[at->rank] = false;
    p->dirty[at->rank] = 1;
}

/* Finishes the actions that end with this tick. */
static void end_actions(struct planner *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_active; i++) {
        if (--p->active[i].ticks_left == 0)
            finish(p, p->active[i]);
        else
            p->active[n++] = p->active[i];
    }
    p->n_active = n;
}

static void planner_release(struct planner *p)
{
    free(p->forward.done);
    free(p->forward.limit);
    free(p->backward.done);
    free(p->backward.limit);
    free(p->slots);
    free(p->active);
    free(p->busy);
    free(p->dirty);
}

static uint32_t slot_of(const struct planner *p, int64_t stage)
{
    if (stage < 0 || stage >= p->stages)
        return p->stages;
    return p->b->rank_of[stage] * p->chunks + (uint32_t)stage / p->ranks;
}

static bool counters_init(struct counters *c, size_t n)
{
    c->done = calloc(n, sizeof *c->done);
    c->limit = calloc(n, sizeof *c->limit);
    return c->done != NULL && c->limit != NULL;
}

static bool planner_init(struct planner *p)
{
    size_t n = (size_t)p->stages + 1;
    p->slots = calloc(n, sizeof *p->slots);
    p->active = calloc((size_t)p->ranks + 1, sizeof *p->active);
    p->busy = calloc(p->ranks, sizeof *p->busy);
    p->dirty = calloc((size_t)p->ranks + 8, sizeof *p->dirty);
    if (!counters_init(&p->forward, n) || !counters_init(&p->backward, n) || p->slots == NULL ||
        p->active == NULL || p->busy == NULL || p->dirty == NULL)
        return false;

    for (uint32_t s = 0; s < p->stages; s++)
        p->slots[slot_of(p, s)] = (struct greedy_slot){
            s, p->b->rank_of[s], slot_of(p, (int64_t)s - 1), slot_of(p, (int64_t)s + 1)};
    p->forward.limit[slot_of(p, 0)] = p->micros;
    /* backwards of the last stage depend on no other backward */
    p->backward.done[p->stages] = p->micros;
    return true;
}

/* Runs the planner.  Every caller passes constants for the policy flags, so that the compiler
 * specializes the loop for each policy. */
FAST uint64_t plan_by(struct planner *p, bool back_first, bool waves)
{
    uint64_t tick = 0;
    memset(p->dirty, 1, p->ranks);
    for (start_actions(p, back_first, waves); p->n_active > 0;
         start_actions(p, back_first, waves)) {
        end_actions(p);
        tick++;
    }
    return tick;
}

static uint64_t plan_all(struct planner *p)
{
    if (p->policy->in_flight != 0)
        return plan_by(p, true, true);
    return p->policy->backward_first ? plan_by(p, true, false) : plan_by(p, false, false);
}

/* Generates a schedule with a policy.  Stores the length of the plan in *ticks, unless `ticks`
 * is NULL. */
static enum weft_status make(const struct policy *policy, const struct weft_gen_params *params,
                             uint64_t *ticks, struct weft_schedule **out,
                             struct weft_error *err)
{
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, policy->name, wf_shape(params, params->chunks), 2, 0, err));
    wf_builder_place(&b, policy->place);
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
        wf_builder_release(&b);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %u stages", policy->name,
                         p.stages);
    }

    if (ticks != NULL)
        *ticks = length;
    return wf_builder_finish(&b, out, err);
}

/* The two greedy planners of burn_dragon.  The planner that prefers forwards keeps all micros
 * in flight.  The planner that prefers backwards does not produce 1F1B, because nothing limits
 * its warm-up. */
WF_GENERATOR(greedy_gpipe)
{
    static const struct policy policy = {.name = "greedy-gpipe", .b_ticks = 1};
    return make(&policy, params, NULL, out, err);
}

WF_GENERATOR(greedy_1f1b)
{
    static const struct policy policy = {
        .name = "greedy-1f1b", .backward_first = true, .b_ticks = 1};
    return make(&policy, params, NULL, out, err);
}

/* Hanayo's waves: the stages go down the ranks and up again, once or several times.  P micros
 * are in flight, so every rank needs about as much memory as the first rank of 1F1B.  P + 1
 * micros are in flight if the plan is then shorter. */
WF_GENERATOR(wave)
{
    struct policy policy = {.name = "wave",
                            .place = WEFT_PLACEMENT_WAVE,
                            .backward_first = true,
                            .b_ticks = 2,
                            .in_flight = params->ranks};
    struct weft_schedule *plain = NULL, *more = NULL;
    uint64_t plain_ticks = 0, more_ticks = 0;
    WEFT_TRY(make(&policy, params, &plain_ticks, &plain, err));

    policy.in_flight++;
    enum weft_status st = make(&policy, params, &more_ticks, &more, err);
    if (st != WEFT_OK) {
        weft_schedule_free(plain);
        return st;
    }

    bool better = more_ticks < plain_ticks;
    weft_schedule_free(better ? plain : more);
    *out = better ? more : plain;
    return WEFT_OK;
}
