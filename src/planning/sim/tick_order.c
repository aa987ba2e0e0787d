/* Iterates over actions tick by tick.  The micros of a stage run in order, so the state of a
 * stage is one counter in `done` per event.  An action on micro m can start if the counter
 * of its own event is m and the counter of the event that it depends on is greater than m.
 *
 * A tick starts all actions that are ready when the tick begins.  These actions are counted
 * as done when the next tick begins.  Ranks are examined in groups of eight, and only groups
 * in which something changed are examined.  In a good schedule nearly every rank of such a
 * group has a ready action, so branches are predictable.  An action marks at most two
 * groups.  So the run time is linear in the number of actions, plus one byte access per
 * group and tick. */
#include "planning/sim/tick_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/sched/deps.h"

enum { GROUP = WF_TICK_GROUP };

/* -- slots ---------------------------------------------------------------------------------- */

/* Returns the index of a counter.  Each stage has a counter of forwards, of input gradients
 * and of weight gradients. */
static uint32_t counter_of(const struct wf_ticks *t, unsigned event, uint32_t stage)
{
    return (event == WF_DONE_F ? 0 : event == WF_DONE_GRAD ? 1 : 2) * t->n_stages + stage;
}

static void fill_slots(struct wf_ticks *t, const struct weft_placement *place)
{
    struct wf_dep_rules rules = {place, false};
    /* index of a counter that is larger than every micro number */
    uint32_t always = 3 * t->n_stages;
    t->done[always] = UINT32_MAX;
    for (unsigned kind = 0; kind < WF_TICK_SLOTS; kind++) {
        for (uint32_t stage = 0; stage < t->n_stages; stage++) {
            struct weft_action a = {.stage = stage & 0xffffff, .kind = kind & 0x7f};
            struct wf_dep deps[2];
            unsigned n = wf_action_deps(&rules, a, deps);

            struct wf_tick_slot *slot = &t->slots[wf_tick_slot_index(kind, stage)];
            slot->own = counter_of(t, wf_act_done_bit(kind), stage);
            /* A backward waits for the forward of its own stage and for the backward of the
             * next stage.  The second dependency implies the first, because the backward of
             * the next stage follows the forward of the next stage, which follows the
             * forward of this stage. */
            slot->dep = n == 0 ? always : counter_of(t, deps[n - 1].event, deps[n - 1].stage);

            int64_t dependent = wf_action_dependent(a);
            bool inside = dependent >= 0 && dependent < t->n_stages;
            slot->groups[0] = place->rank_of[stage] / GROUP;
            slot->groups[1] = place->rank_of[inside ? dependent : stage] / GROUP;
        }
    }
}

/* -- one tick ------------------------------------------------------------------------------- */

/* Starts the ready actions of the ranks from `begin` to `end` - 1.  Returns the new number
 * of started actions.  Pointers are copied to local variables, because otherwise the
 * compiler must assume that stores to `now` change them. */
static inline size_t start_ready(const struct wf_ticks *t, uint32_t begin, uint32_t end,
                                 size_t n)
{
    struct wf_tick_event *now = t->now;
    struct wf_tick_row *remaining = t->remaining;
    const struct wf_tick_slot *slots = t->slots;
    const uint32_t *done = t->done;
    for (uint32_t rank = begin; rank < end; rank++) {
        const struct weft_action *at = remaining[rank].at, *row_end = remaining[rank].end;
        while (at != row_end && !weft_act_is_compute(at->kind))
            remaining[rank].at = ++at;
        if (at == row_end || at->paired)
            continue;

        uint32_t micro = at->micro, index = wf_tick_slot_index(at->kind, at->stage);
        const struct wf_tick_slot *slot = &slots[index];
        if (done[slot->own] != micro || done[slot->dep] <= micro)
            continue;
        now[n].micro = micro;
        now[n++].slot = index;
        remaining[rank].at = at + 1;
    }
    return n;
}

bool wf_ticks_next(struct wf_ticks *t)
{
    size_t n = 0;
    if (t->n_ranks <= GROUP) {
        t->n_now = start_ready(t, 0, t->n_ranks, 0);
        return t->n_now > 0;
    }
    for (uint32_t begin = 0, group = 0; begin < t->n_ranks; begin += GROUP, group++) {
        if (!t->changed[group])
            continue;
        t->changed[group] = 0;
        n = start_ready(t, begin, begin + GROUP < t->n_ranks ? begin + GROUP : t->n_ranks, n);
    }
    t->n_now = n;
    return n > 0;
}

uint32_t wf_ticks_done(const struct wf_ticks *t, unsigned kind, uint32_t stage)
{
    return t->done[t->slots[wf_tick_slot_index(kind, stage)].own];
}

bool wf_ticks_complete(const struct wf_ticks *t)
{
    for (uint32_t r = 0; r < t->n_ranks; r++)
        if (t->remaining[r].at != t->remaining[r].end)
            return false;
    return true;
}

/* -- allocation ----------------------------------------------------------------------------- */

enum weft_status wf_ticks_init(struct wf_ticks *t, const struct weft_schedule *s,
                               struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    size_t ranks = place->n_ranks, stages = place->n_stages;
    *t = (struct wf_ticks){.n_ranks = place->n_ranks, .n_stages = place->n_stages};
    t->now = malloc(sizeof *t->now * (ranks + 1));
    t->slots = malloc(sizeof *t->slots * (WF_TICK_SLOTS * stages + 1));
    t->done = calloc(3 * stages + 1, sizeof *t->done);
    t->changed = malloc(ranks / GROUP + 1);
    t->remaining = malloc(sizeof *t->remaining * (ranks + 1));
    if (t->now == NULL || t->slots == NULL || t->done == NULL || t->changed == NULL ||
        t->remaining == NULL) {
        wf_ticks_release(t);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to order the actions of %zu ranks", ranks);
    }

    for (uint32_t r = 0; r < ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        t->remaining[r] = (struct wf_tick_row){row.at, row.at + row.len};
    }
    fill_slots(t, place);
    memset(t->changed, 1, ranks / GROUP + 1);
    return WEFT_OK;
}

void wf_ticks_release(struct wf_ticks *t)
{
    free(t->now);
    free(t->slots);
    free(t->done);
    free(t->changed);
    free(t->remaining);
    *t = (struct wf_ticks){0};
}
