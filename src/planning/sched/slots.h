/* The memory that the executor has for the cells of a rank: the offset of each slot. */
#ifndef PLANNING_SCHED_SLOTS_H
#define PLANNING_SCHED_SLOTS_H

#include "weft/schedule.h"

/* Additional input buffers of the executor per stage, on transports that copy. */
enum { WF_INPUTS_AHEAD = 2 };

struct wf_slots {
    size_t total; /* bytes of all slots together */
    size_t bound; /* the largest sum of slots in use at one time */
    /* Owned: (stages of the rank in ascending order, micros); 0 for cells without a forward. */
    size_t *offset;
};

/* Places the slots of a rank.  `slot_bytes`, (n_stages), is
 * rounded up to cache lines.  If it is NULL, each slot has one byte, and stages do not share
 * slots.  The placement by size, which takes quadratic time, is tried for at most `max_by_size`
 * cells.  The caller releases *out. */
enum weft_status wf_slots_init(struct wf_slots *out, const struct weft_schedule *s,
                               uint32_t rank, const size_t *slot_bytes, size_t max_by_size,
                               struct weft_error *err);
void wf_slots_release(struct wf_slots *slots); /* a zeroed struct is allowed */

#endif
