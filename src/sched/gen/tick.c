/* Planning tick by tick: whenever a rank is free it takes the best action that is ready.
 *
 * On every stage forwards run in micro order and so do backwards, so that the whole state is two
 * counters a stage, and a rank's choice is the best of its few chunks:
 *
 *     forward of stage s is ready when   f[s] < (s > 0 ? f[s-1] : M),            micro f[s]
 *     backward of stage s when           b[s] < f[s] and b[s] < (s < S-1 ? b[s+1] : M), micro b[s]
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
    bool deepest_forward; /* else: least micro, then least stage */
    uint32_t b_ticks;     /* a backward's length; a forward's is 1 */
    uint32_t in_flight;   /* micros between stage 0's forward and its backward; 0: any number */
};

enum { RING = 3 }; /* longest action plus one */

struct rank_list {
    uint32_t *at; /* owned: (ranks) */
    uint32_t n;
};

struct planner {
    const struct policy *policy;
    struct weft_builder *b;
    const uint32_t *rank_of; /* borrowed */
    uint32_t ranks, chunks, stages, micros;
    uint32_t *f, *b_done;         /* owned: (stages) */
    struct weft_action *running;  /* owned: (ranks), the action under way */
    bool *busy, *listed;          /* owned: (ranks) */
    struct rank_list ending[RING]; /* ranks whose action ends in tick t, at t mod RING */
    struct rank_list look;        /* ranks to look at in this tick */
};

static uint32_t stage_of(const struct planner *p, uint32_t rank, uint32_t chunk)
{
    bool back = p->policy->place == WEFT_PLACE_WAVE && chunk % 2 == 1;
    return chunk * p->ranks + (back ? p->ranks - 1 - rank : rank);
}

static bool forward_ready(const struct planner *p, uint32_t s)
{
    if (p->f[s] >= (s > 0 ? p->f[s - 1] : p->micros))
        return false;
    return s > 0 || p->policy->in_flight == 0 ||
           p->f[0] - p->b_done[0] < p->policy->in_flight;
}

static bool backward_ready(const struct planner *p, uint32_t s)
{
    return p->b_done[s] < p->f[s] &&
           p->b_done[s] < (s + 1 < p->stages ? p->b_done[s + 1] : p->micros);
}

/* Least micro first; among equals the stage nearest to the loss for backwards, nearest to the
 * input for forwards. */
static bool choose_backward(const struct planner *p, uint32_t rank, struct weft_action *out)
{
    bool found = false;
    for (uint32_t c = p->chunks; c-- > 0;) {
        uint32_t s = stage_of(p, rank, c);
        if (backward_ready(p, s) && (!found || p->b_done[s] < out->micro)) {
            *out = (struct weft_action){.micro = p->b_done[s],
                                        .stage = s & (WEFT_MAX_STAGES - 1),
                                        .kind = WEFT_ACT_B};
            found = true;
        }
    }
    return found;
}

static bool choose_forward(const struct planner *p, uint32_t rank, struct weft_action *out)
{
    bool found = false;
    for (uint32_t c = 0; c < p->chunks; c++) {
        uint32_t s = stage_of(p, rank, c);
        if (forward_ready(p, s) &&
            (!found || p->policy->deepest_forward || p->f[s] < out->micro)) {
            *out = (struct weft_action){
                .micro = p->f[s], .stage = s & (WEFT_MAX_STAGES - 1), .kind = WEFT_ACT_F};
            found = true;
        }
    }
    return found;
}

static bool choose(const struct planner *p, uint32_t rank, struct weft_action *out)
{
    if (p->policy->backward_first)
        return choose_backward(p, rank, out) || choose_forward(p, rank, out);
    return choose_forward(p, rank, out) || choose_backward(p, rank, out);
}

static void look_at(struct planner *p, uint32_t rank)
{
    if (!p->listed[rank] && !p->busy[rank]) {
        p->listed[rank] = true;
        p->look.at[p->look.n++] = rank;
    }
}

/* Makes results visible that were finished at the start of this tick. */
static void end_actions(struct planner *p, struct rank_list *ending)
{
    for (uint32_t i = 0; i < ending->n; i++) {
        struct weft_action a = p->running[ending->at[i]];
        p->busy[ending->at[i]] = false;
        if (a.kind == WEFT_ACT_F)
            p->f[a.stage]++;
        else
            p->b_done[a.stage]++;
    }
    for (uint32_t i = 0; i < ending->n; i++) {
        uint32_t rank = ending->at[i];
        struct weft_action a = p->running[rank];
        look_at(p, rank);
        if (a.kind == WEFT_ACT_F && a.stage + 1u < p->stages)
            look_at(p, p->rank_of[a.stage + 1]);
        if (a.kind == WEFT_ACT_B && a.stage > 0)
            look_at(p, p->rank_of[a.stage - 1]);
    }
    ending->n = 0;
}

static void start_actions(struct planner *p, uint64_t tick)
{
    for (uint32_t i = 0; i < p->look.n; i++) {
        uint32_t rank = p->look.at[i];
        struct weft_action a = {0};
        p->listed[rank] = false;
        if (!choose(p, rank, &a))
            continue;
        weft_emit(p->b, rank, a.kind, a.stage, a.micro);
        p->running[rank] = a;
        p->busy[rank] = true;
        uint64_t end = tick + (a.kind == WEFT_ACT_F ? 1 : p->policy->b_ticks);
        struct rank_list *ending = &p->ending[end % RING];
        ending->at[ending->n++] = rank;
    }
    p->look.n = 0;
}

static bool under_way(const struct planner *p)
{
    for (unsigned i = 0; i < RING; i++)
        if (p->ending[i].n > 0)
            return true;
    return false;
}

static void planner_release(struct planner *p)
{
    free(p->f);
    free(p->b_done);
    free(p->running);
    free(p->busy);
    free(p->listed);
    free(p->look.at);
    for (unsigned i = 0; i < RING; i++)
        free(p->ending[i].at);
}

static bool planner_init(struct planner *p)
{
    p->f = calloc(p->stages, sizeof *p->f);
    p->b_done = calloc(p->stages, sizeof *p->b_done);
    p->running = calloc(p->ranks, sizeof *p->running);
    p->busy = calloc(p->ranks, sizeof *p->busy);
    p->listed = calloc(p->ranks, sizeof *p->listed);
    p->look.at = calloc(p->ranks, sizeof *p->look.at);
    bool ok = p->f != NULL && p->b_done != NULL && p->running != NULL && p->busy != NULL &&
              p->listed != NULL && p->look.at != NULL;
    for (unsigned i = 0; i < RING; i++) {
        p->ending[i].at = calloc(p->ranks, sizeof *p->ending[i].at);
        ok = ok && p->ending[i].at != NULL;
    }
    return ok;
}

static enum weft_status make(const struct policy *policy, const struct weft_params *params,
                             struct weft_schedule **out, struct weft_error *err)
{
    struct weft_builder b;
    WEFT_TRY(
        weft_builder_init(&b, policy->name, weft_shape(params, params->chunks), 2, 0, err));
    weft_builder_place(&b, policy->place);
    struct planner p = {.policy = policy,
                        .b = &b,
                        .rank_of = b.rank_of,
                        .ranks = params->ranks,
                        .chunks = params->chunks,
                        .stages = params->ranks * params->chunks,
                        .micros = params->micros};
    if (!planner_init(&p)) {
        planner_release(&p);
        weft_builder_release(&b);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %u stages", policy->name, p.stages);
    }
    for (uint32_t r = 0; r < p.ranks; r++)
        look_at(&p, r);
    uint64_t tick = 0;
    do {
        end_actions(&p, &p.ending[tick % RING]);
        start_actions(&p, tick);
        tick++;
    } while (under_way(&p));
    planner_release(&p);
    return weft_builder_finish(&b, out, err);
}

/* The first reference system's two planners.  Forward first keeps all micros in flight;
 * backward first is not 1F1B, for nothing limits its warm-up. */
WEFT_GENERATOR(greedy_gpipe)
{
    static const struct policy policy = {.name = "greedy-gpipe", .b_ticks = 1};
    return make(&policy, params, out, err);
}

WEFT_GENERATOR(greedy_1f1b)
{
    static const struct policy policy = {
        .name = "greedy-1f1b", .backward_first = true, .b_ticks = 1};
    return make(&policy, params, out, err);
}

/* Hanayo's waves: stages go down the ranks and up again, once or more.  At most P micros are in
 * flight, so a rank holds about what 1F1B's first rank does. */
WEFT_GENERATOR(wave)
{
    struct policy policy = {.name = "wave",
                            .place = WEFT_PLACE_WAVE,
                            .backward_first = true,
                            .deepest_forward = true,
                            .b_ticks = 2,
                            .in_flight = params->ranks};
    return make(&policy, params, out, err);
}
