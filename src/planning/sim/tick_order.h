/* The compute actions of a schedule in the order of ticks, then ranks: the order of weft_event_list()
 * when every action takes one tick, without sorting.  For schedules with one pipe and without
 * pairs, on every stage of which micros are taken in order; any other stands still on the way.
 *
 *     struct wf_ticks t;
 *     WEFT_TRY(wf_ticks_init(&t, s, err));
 *     while (wf_ticks_next(&t))
 *         for (size_t i = 0; i < t.n_now; i++) {
 *             use(t.now[i].slot, t.now[i].micro);
 *             wf_ticks_finish(&t, t.now[i]);
 *         }
 *     if (!wf_ticks_complete(&t)) ...      // not of that kind, or it deadlocks
 *     wf_ticks_release(&t);
 */
#ifndef PLANNING_SIM_TICK_ORDER_H
#define PLANNING_SIM_TICK_ORDER_H

#include "weft/schedule.h"

/* A slot is a compute kind on a stage; WF_TICK_SLOTS of them a stage. */
enum { WF_TICK_SLOTS = WEFT_ACT_W + 1 };

static inline uint32_t wf_tick_slot_index(unsigned kind, uint32_t stage)
{
    return WF_TICK_SLOTS * stage + kind;
}

struct wf_tick_event {
    uint32_t micro, slot;
};

enum { WF_TICK_GROUP = 8 }; /* ranks that are looked at together */

struct wf_tick_slot {
    uint32_t own, dep;  /* counters */
    uint32_t groups[2]; /* of the ranks that may go on after it */
};

struct wf_tick_row {
    const struct weft_action *at, *over; /* borrowed: until the schedule is freed */
};

struct wf_ticks {
    uint32_t n_ranks;
    struct wf_tick_event *now; /* owned: (ranks), what starts in this tick */
    size_t n_now;
    struct wf_tick_slot *slots; /* owned: (stages, WF_TICK_SLOTS) */
    uint32_t *done; /* owned: how many micros have passed each event of each stage */
    uint8_t *look;  /* owned: (groups of ranks), something changed for one of them */
    struct wf_tick_row *remaining; /* owned: (ranks), what is still to do */
    uint32_t n_stages;
};

enum weft_status wf_ticks_init(struct wf_ticks *t, const struct weft_schedule *s,
                               struct weft_error *err);

/* One tick: fills `now`; false when nothing can start any more.  All that started must be
 * finished before the next tick. */
bool wf_ticks_next(struct wf_ticks *t);

/* A single group is always looked at. */
static inline void wf_ticks_finish(const struct wf_ticks *t, struct wf_tick_event event)
{
    const struct wf_tick_slot *slot = &t->slots[event.slot];
    t->done[slot->own] = event.micro + 1;
    if (t->n_ranks <= WF_TICK_GROUP)
        return;
    t->look[slot->groups[0]] = 1;
    t->look[slot->groups[1]] = 1;
}

/* How many actions of this kind the stage has begun and ended; B and I count as one kind. */
uint32_t wf_ticks_done(const struct wf_ticks *t, unsigned kind, uint32_t stage);

/* Whether all is done. */
bool wf_ticks_complete(const struct wf_ticks *t);
void wf_ticks_release(struct wf_ticks *t);

#endif
