/* The compute actions of a schedule in the order of ticks, then ranks: the order of weft_events()
 * when every action takes one tick, without sorting.  For schedules with one pipe and without
 * pairs, on every stage of which micros are taken in order; any other stands still on the way.
 *
 *     struct weft_ticks t;
 *     WEFT_TRY(weft_ticks_init(&t, s, err));
 *     while (weft_ticks_next(&t))
 *         for (size_t i = 0; i < t.n_now; i++) {
 *             use(t.now[i].slot, t.now[i].micro);
 *             weft_ticks_finish(&t, t.now[i]);
 *         }
 *     if (!weft_ticks_complete(&t)) ...      // not of that kind, or it deadlocks
 *     weft_ticks_release(&t);
 */
#ifndef PLANNING_SIM_CACHE_ORDER_H
#define PLANNING_SIM_CACHE_ORDER_H

#include "weft/schedule.h"

/* A slot is a compute kind on a stage; WEFT_SLOTS of them a stage. */
enum { WEFT_SLOTS = WEFT_ACT_W + 1 };

static inline uint32_t weft_slot(unsigned kind, uint32_t stage)
{
    return WEFT_SLOTS * stage + kind;
}

struct weft_tick_event {
    uint32_t micro, slot;
};

enum { WEFT_TICK_GROUP = 8 }; /* ranks that are looked at together */

struct weft_tick_slot {
    uint32_t own, dep;  /* counters */
    uint32_t groups[2]; /* of the ranks that may go on after it */
};

struct weft_tick_row {
    const struct weft_action *at, *over; /* borrowed: until the schedule is freed */
};

struct weft_ticks {
    uint32_t n_ranks;
    struct weft_tick_event *now; /* owned: (ranks), what starts in this tick */
    size_t n_now;
    struct weft_tick_slot *slots; /* owned: (stages, WEFT_SLOTS) */
    uint32_t *done; /* owned: how many micros have passed each event of each stage */
    uint8_t *look;  /* owned: (groups of ranks), something changed for one of them */
    struct weft_tick_row *left; /* owned: (ranks), what is still to do */
    uint32_t n_stages;
};

enum weft_status weft_ticks_init(struct weft_ticks *t, const struct weft_schedule *s,
                                 struct weft_error *err);

/* One tick: fills `now`; false when nothing can start any more.  All that started must be
 * finished before the next tick. */
bool weft_ticks_next(struct weft_ticks *t);

/* A single group is always looked at. */
static inline void weft_ticks_finish(const struct weft_ticks *t, struct weft_tick_event event)
{
    const struct weft_tick_slot *slot = &t->slots[event.slot];
    t->done[slot->own] = event.micro + 1;
    if (t->n_ranks <= WEFT_TICK_GROUP)
        return;
    t->look[slot->groups[0]] = 1;
    t->look[slot->groups[1]] = 1;
}

/* How many actions of this kind the stage has begun and ended; B and I count as one kind. */
uint32_t weft_ticks_done(const struct weft_ticks *t, unsigned kind, uint32_t stage);

/* Whether all is done. */
bool weft_ticks_complete(const struct weft_ticks *t);
void weft_ticks_release(struct weft_ticks *t);

#endif
