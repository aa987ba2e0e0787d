/* Start times of the actions when every rank runs its list as early as possible. */
#ifndef WEFT_TIMING_H
#define WEFT_TIMING_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times and peaks of one run of a schedule.  Message actions in the schedule take no time; the
 * delay of a message between ranks is cost->hop.
 *
 *     makespan      time from 0 to the end of the last action
 *     span          maximum over ranks of the time from a rank's first start to its last end
 *     idle          makespan - busy
 *     bubble        sum(idle) / (ranks * makespan)
 *     bubble_span   the same ratio computed with span instead of makespan
 *     bubble_ratio  the closed form (P - 1) / M
 *     efficiency    1 - bubble_ratio; negative if P - 1 exceeds M
 */
struct weft_metrics {
    uint32_t n_ranks;
    size_t n_actions;  /* compute actions; an overlapped pair counts as two */
    size_t n_messages; /* messages between ranks */
    double makespan, span;
    double bubble, bubble_span, bubble_ratio, efficiency;
    double *busy, *idle; /* owned: (ranks) */
    double *rank_span;   /* owned: (ranks) */
    /* Owned: (ranks), peak memory with the costs of `memory`, in program order. */
    double *peak_mem;
    /* Owned: (ranks), maximum number of forwards whose B or W has not run yet; 1 in a
     * forward-only schedule. */
    size_t *peak_activations;
    /* Owned: start times, one per action, in the order of the schedule.  The start of an
     * action that is not a compute action is the time at which its rank reaches it. */
    double *start;
    /* Owned: durations, indexed like `start`; the first action of a pair has the pair's
     * duration. */
    double *length;
};

/* Computes start times and metrics of a schedule whose (stage, micro) cells are legal, as
 * weft_verify() checks.  If `cost` or `memory` is NULL, the defaults are used.  Returns
 * WEFT_SCHEDULE if the schedule deadlocks.  The caller releases *out. */
WEFT_API enum weft_status weft_metrics_init(struct weft_metrics *out,
                                            const struct weft_schedule *s,
                                            const struct weft_cost *cost,
                                            const struct weft_memory_cost *memory,
                                            struct weft_error *err);

/* Frees the arrays of the metrics.  Zeroed metrics are allowed. */
WEFT_API void weft_metrics_release(struct weft_metrics *m);

/* Returns the index of a rank's first action in `start` and `length`. */
WEFT_API size_t weft_schedule_offset(const struct weft_schedule *s, uint32_t rank);

/* A compute action and its start time. */
struct weft_event {
    double start;
    uint32_t rank, stage, chunk, micro;
    enum weft_act_kind kind;
};

/* Lists the compute actions of all ranks sorted by start, then rank, then position in the
 * rank's list.  `m` must belong to this schedule.  The caller frees *out. */
WEFT_API enum weft_status weft_event_list(const struct weft_schedule *s,
                                          const struct weft_metrics *m, struct weft_event **out,
                                          size_t *n, struct weft_error *err);

/* Computes, for each pipe and stage, the maximum number of micro-batches whose activations the
 * stage stores at one time, in program order.  out is (pipes, stages). */
WEFT_API enum weft_status weft_schedule_in_flight(const struct weft_schedule *s, uint32_t *out,
                                                  struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
