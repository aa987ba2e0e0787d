/* Iterates over the compute actions of a schedule by tick, then by rank.  This is the order of
 * weft_event_list() if every action takes one tick, but no sorting is needed.  The iteration
 * supports schedules that have one pipe and no pairs and run the micros of every stage in
 * order.  For other schedules it stops early.
 *
 *     struct wf_ticks t;
 *     WEFT_TRY(wf_ticks_init(&t, s, err));
 *     while (wf_ticks_next(&t))
 *         for (size_t i = 0; i < t.n_now; i++) {
 *             use(t.now[i].slot, t.now[i].micro);
 *             wf_ticks_finish(&t, t.now[i]);
 *         }
 *     if (!wf_ticks_complete(&t)) ...      // not supported, or a deadlock
 *     wf_ticks_release(&t);
 */
#ifndef PLANNING_SIM_TICK_ORDER_H
#define PLANNING_SIM_TICK_ORDER_H

#include "weft/schedule.h"

/* A slot is one kind of compute action on one stage.  Each stage has WF_TICK_SLOTS slots. */
enum { WF_TICK_SLOTS = WEFT_ACT_W + 1 };

/* Returns the index of the slot of a kind and a stage. */
static inline uint32_t wf_tick_slot_index(unsigned kind, uint32_t stage)
{
    return WF_TICK_SLOTS * stage + kind;
}

struct wf_tick_event {
    uint32_t micro, slot;
};

enum { WF_TICK_GROUP = 8 }; /* number of ranks that are examined together */

struct wf_tick_slot {
    /* counter of the slot's own event, and of the event that it depends on */
    uint32_t own, dep;
    uint32_t groups[2]; /* groups of the ranks that this event can unblock */
};

struct wf_tick_row {
    const struct weft_action *at, *end; /* borrowed until the schedule is freed */
};

struct wf_ticks {
    uint32_t n_ranks;
    struct wf_tick_event *now; /* owned: (ranks), actions that start in the current tick */
    size_t n_now;
    struct wf_tick_slot *slots; /* owned: (stages, WF_TICK_SLOTS) */
    uint32_t *done;             /* owned: (events, stages), number of completed micros */
    uint8_t *changed;           /* owned: (groups of ranks), 1 if the group must be examined */
    struct wf_tick_row *remaining; /* owned: (ranks), actions that have not started */
    uint32_t n_stages;
};

/* Starts the iteration.  On success the caller must call wf_ticks_release(). */
enum weft_status wf_ticks_init(struct wf_ticks *t, const struct weft_schedule *s,
                               struct weft_error *err);

/* Stores the actions of the next tick in `now`.  Returns false if no action can start.  The
 * caller must finish all stored actions before the next call. */
bool wf_ticks_next(struct wf_ticks *t);

/* Finishes an action.  If there is only one group, it needs no mark, because it is always
 * examined. */
static inline void wf_ticks_finish(const struct wf_ticks *t, struct wf_tick_event event)
{
    const struct wf_tick_slot *slot = &t->slots[event.slot];
    t->done[slot->own] = event.micro + 1;
    if (t->n_ranks <= WF_TICK_GROUP)
        return;
    t->changed[slot->groups[0]] = 1;
    t->changed[slot->groups[1]] = 1;
}

/* Returns the number of finished actions of a kind on a stage.  B and I are counted
 * together. */
uint32_t wf_ticks_done(const struct wf_ticks *t, unsigned kind, uint32_t stage);

/* Returns true if all actions are done. */
bool wf_ticks_complete(const struct wf_ticks *t);

/* Frees the arrays of the iteration and zeroes *t. */
void wf_ticks_release(struct wf_ticks *t);

#endif
