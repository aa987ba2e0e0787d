/* What burn_dragon, the reference system, says of a plan, to the bit: for those who come from
 * there and compare.  Its names: a physical stage is a rank, a virtual stage a stage. */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Idle ticks over all ticks, in single precision. */
WEFT_API float weft_reference_bubble(const struct weft_metrics *m);

/* "schedule=Gpipe physical_stages=.. ... bubble_fraction=0.072": of a greedy-gpipe or greedy-1f1b
 * schedule.  Writes at most `size` bytes with the NUL. */
WEFT_API enum weft_status weft_reference_summary(const struct weft_schedule *s,
                                                 const struct weft_metrics *m, char *out,
                                                 size_t size, struct weft_error *err);

/* What one rank does: its stages, and which of the plan's events (in the order of weft_event_list())
 * are its forwards and its backwards. */
struct weft_workload {
    uint32_t *stages; /* owned */
    size_t n_stages;
    size_t *forward, *backward; /* owned */
    size_t n_forward, n_backward;
};

/* A rank beyond the schedule's is an error.  The caller releases *out. */
WEFT_API enum weft_status weft_workload_init(struct weft_workload *out,
                                             const struct weft_schedule *s,
                                             const struct weft_event *events, size_t n_events,
                                             uint32_t rank, struct weft_error *err);
WEFT_API void weft_workload_release(struct weft_workload *w);

#ifdef __cplusplus
}
#endif

#endif
