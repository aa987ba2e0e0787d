/* Numbers that describe a plan, exactly as the reference system burn_dragon prints them, so
 * that both can be compared.  A physical stage of burn_dragon is a rank of weft; a virtual
 * stage of burn_dragon is a stage of weft.
 *
 * Unstable: follows the reference system.
 */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns idle ticks divided by all ticks, in single precision. */
WEFT_API float weft_reference_bubble(const struct weft_metrics *m);

/* Writes "schedule=Gpipe physical_stages=.. ... bubble_fraction=0.072" for a greedy-gpipe or
 * greedy-1f1b schedule.  Writes at most `size` bytes, including the NUL. */
WEFT_API enum weft_status weft_reference_summary(const struct weft_schedule *s,
                                                 const struct weft_metrics *m, char *out,
                                                 size_t size, struct weft_error *err);

/* The work of one rank: its stages, and the indices of its forwards and backwards in the events
 * of weft_event_list(). */
struct weft_workload {
    uint32_t *stages; /* owned */
    size_t n_stages;
    size_t *forward, *backward; /* owned */
    size_t n_forward, n_backward;
};

/* Computes the work of a rank.  Returns WEFT_USAGE if the schedule does not have that rank.
 * The caller releases *out. */
WEFT_API enum weft_status weft_workload_init(struct weft_workload *out,
                                             const struct weft_schedule *s,
                                             const struct weft_event *events, size_t n_events,
                                             uint32_t rank, struct weft_error *err);

/* Frees the arrays of a workload.  A zeroed workload is allowed. */
WEFT_API void weft_workload_release(struct weft_workload *w);

#ifdef __cplusplus
}
#endif

#endif
