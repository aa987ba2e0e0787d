/* When each action starts, if every rank runs its list as soon as it can. */
#ifndef WEFT_TIMING_H
#define WEFT_TIMING_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times and peaks of one run through a schedule.  Messages in the schedule are passed over: a
 * hop costs what `cost` says.
 *
 * makespan: from 0 to the last end.  span: the longest own start to own end of a rank.  They are
 * never mixed: bubble = sum(idle) / (ranks * makespan) with idle = makespan - busy, and
 * bubble_span the same by span.  bubble_ratio is the textbook's (P - 1) / M. */
struct weft_metrics {
    uint32_t n_ranks;
    size_t n_actions;  /* compute actions; an overlapped pair counts as two */
    size_t n_messages; /* between ranks */
    double makespan, span;
    double bubble, bubble_span, bubble_ratio;
    double *busy, *idle;      /* owned: (ranks) */
    double *rank_span;        /* owned: (ranks) */
    double *peak_mem;         /* owned: (ranks), by `memory`, in program order */
    size_t *peak_activations; /* owned: (ranks), forwards whose B or W is still to come */
    double *start;            /* owned: one an action of the schedule, in its order; an action
                                 that is not compute has the time at which it was met */
    double *length;           /* owned: the same; an overlapped pair's is on its first action */
};

/* The caller releases *out.  `cost` and `memory` may be NULL.  WEFT_SCHEDULE when the schedule
 * deadlocks; every (stage, micro) in it must be legal (weft_verify() says so). */
WEFT_API enum weft_status weft_metrics_init(struct weft_metrics *out,
                                            const struct weft_schedule *s,
                                            const struct weft_cost *cost,
                                            const struct weft_memory_cost *memory,
                                            struct weft_error *err);
WEFT_API void weft_metrics_release(struct weft_metrics *m);

/* The position in `start` and `length` of a rank's first action. */
WEFT_API size_t weft_schedule_offset(const struct weft_schedule *s, uint32_t rank);

/* The compute actions of all ranks in order of start, then rank, then place in the list. */
struct weft_event {
    double start;
    uint32_t rank, stage, chunk, micro;
    enum weft_act_kind kind;
};

/* `m` must be of this schedule.  The caller frees *out. */
WEFT_API enum weft_status weft_event_list(const struct weft_schedule *s,
                                          const struct weft_metrics *m, struct weft_event **out,
                                          size_t *n, struct weft_error *err);

/* The most micros whose activations a stage holds at once on each of its ranks, in program
 * order.  out is (pipes, stages). */
WEFT_API enum weft_status weft_schedule_in_flight(const struct weft_schedule *s, uint32_t *out,
                                                  struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
