/* Traces: what every rank did and when, planned or measured.  One record for both, so that whoever
 * draws, sums up or compares does not know which it is.
 *
 *     struct weft_trace t;
 *     weft_trace_init_plan(&t, s, &metrics, NULL, &err);     // from a timed schedule
 *     weft_trace_write(&t, &text, &len, &err);               // and to a file
 *     weft_trace_release(&t);
 *
 * or event by event, in any order:
 *
 *     weft_trace_init(&t, "run 7", ranks, stages, micros, 1e-9, &err);
 *     weft_trace_add_event(&t, &event, &err); ...
 *     weft_trace_finish(&t, &err);
 *
 * The file form is text.  Header lines, then one event a line, in any order:
 *
 *     # weft trace 1
 *     # weft name 1f1b
 *     # weft ranks 4 stages 4 micros 8
 *     # weft unit 0.001                 (seconds a unit of time; 0: an abstract unit)
 *     0 compute 0F0 0 1
 *     0 send 0SEND_F0 1 0.25 1048576 1          rank lane action start length [bytes peer]
 *     3 compute (3F1;3B0)OVERLAP_F_B 7 3        an overlapped pair is one event
 *     0 memory 7 1.5                            rank memory time amount
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What of a rank is busy. */
enum weft_lane {
    WEFT_LANE_COMPUTE,
    WEFT_LANE_SEND,
    WEFT_LANE_RECV,
    WEFT_LANE_COUNT,
};

/* "compute", "send", "receive" */
WEFT_API const char *weft_lane_name(enum weft_lane lane);

#define WEFT_NO_RANK UINT32_MAX

struct weft_trace_event {
    double start, length;
    uint32_t rank;
    enum weft_lane lane;
    struct weft_action action;
    struct weft_action partner; /* the other half of an overlapped pair, when action.paired */
    uint64_t bytes;             /* of a message; 0 for compute */
    uint32_t peer;              /* the rank at a message's other end, or WEFT_NO_RANK */
};

/* A rank's memory from a moment on. */
struct weft_trace_memory {
    double time, amount;
    uint32_t rank;
};

enum { WEFT_TRACE_NAME = 64 };

struct weft_trace {
    char name[WEFT_TRACE_NAME]; /* printable ASCII */
    uint32_t n_ranks, n_stages, n_micros;
    double unit_seconds; /* 0: abstract */
    double makespan;     /* the last end */
    size_t n_events, cap_events;
    struct weft_trace_event *events; /* owned: by rank, then lane, then start */
    size_t n_memory, cap_memory;
    struct weft_trace_memory *memory; /* owned: by rank, then time; may be empty */
    size_t *first;                    /* owned: (ranks + 1), where each rank's events begin */
    size_t *stage_first; /* owned: (ranks + 1), where each rank's part of stages begins */
    uint32_t *stages;    /* owned: the stages that each rank computes, ascending */
    uint32_t n_chunks;   /* the most stages of a rank, at least 1 */
};

/* -- making --------------------------------------------------------------------------------- */

/* The compute events of a timed schedule.  With `memory` also what each rank holds, from 0 on.
 * `m` must be of this schedule.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_init_plan(struct weft_trace *out,
                                               const struct weft_schedule *s,
                                               const struct weft_metrics *m,
                                               const struct weft_memory_cost *memory,
                                               struct weft_error *err);

/* An empty trace.  What of `name` is not printable ASCII becomes '?', what is too long is cut. */
WEFT_API enum weft_status weft_trace_init(struct weft_trace *out, const char *name,
                                          uint32_t n_ranks, uint32_t n_stages,
                                          uint32_t n_micros, double unit_seconds,
                                          struct weft_error *err);

/* Adds a copy.  WEFT_DATA when it lies outside the sizes, when a time is negative or not finite, or
 * when its kind does not belong into its lane. */
WEFT_API enum weft_status weft_trace_add_event(struct weft_trace *t,
                                               const struct weft_trace_event *event,
                                               struct weft_error *err);
WEFT_API enum weft_status weft_trace_add_memory(struct weft_trace *t,
                                                const struct weft_trace_memory *sample,
                                                struct weft_error *err);

/* Sorts what was added and fills in makespan and the indices.  Call it once, at the end; events
 * that start together keep the order in which they were added. */
WEFT_API enum weft_status weft_trace_finish(struct weft_trace *t, struct weft_error *err);

WEFT_API void weft_trace_release(struct weft_trace *t); /* a zeroed one is allowed */

/* Which of the stages that a rank computes (ascending) this one is; 0 when it computes none. */
WEFT_API uint32_t weft_trace_chunk(const struct weft_trace *t, uint32_t rank, uint32_t stage);

/* -- text form ------------------------------------------------------------------------------ */

/* True when the text is meant as a trace: its first line begins with "# weft trace". */
WEFT_API bool weft_trace_detect(const char *text, size_t len);

/* The caller frees *out; *len may be NULL.  Read again it is the same trace to the bit. */
WEFT_API enum weft_status weft_trace_write(const struct weft_trace *t, char **out, size_t *len,
                                           struct weft_error *err);

/* Strict: an error (WEFT_DATA) names line and column.  `source` is what the error calls the text.
 * The caller releases *out. */
WEFT_API enum weft_status weft_trace_parse(const char *text, size_t len, const char *source,
                                           struct weft_trace *out, struct weft_error *err);

/* -- reading -------------------------------------------------------------------------------- */

/* Figures of a trace, named and computed as in struct weft_metrics. */
struct weft_trace_summary {
    uint32_t n_ranks;
    size_t n_compute, n_messages; /* events; an overlapped pair is one; a message is its send */
    uint64_t bytes;               /* sent */
    double makespan, span, bubble, bubble_span;
    double *busy, *idle, *rank_span; /* owned: (ranks) */
};

WEFT_API enum weft_status weft_trace_summary_init(struct weft_trace_summary *out,
                                                  const struct weft_trace *t,
                                                  struct weft_error *err);
WEFT_API void weft_trace_summary_release(struct weft_trace_summary *s);

/* Planned against measured, in the plan's unit of time where both have one. */
struct weft_trace_delta {
    size_t n_matched, n_planned_only, n_measured_only;
    double start;                           /* sum of measured - planned starts */
    double planned, measured;               /* sums of the lengths of those that match */
    double max_start_diff, max_length_diff; /* the largest differences, by magnitude */
};

struct weft_trace_comparison {
    uint32_t n_ranks;
    double planned, measured;      /* makespans */
    struct weft_trace_delta total; /* of all ranks and kinds */
    struct weft_trace_delta *at; /* owned: (ranks, WEFT_N_ACT_KINDS); a pair counts as its F */
    size_t *match;               /* owned: an event of `measured` for each one of `planned`, or
                                      SIZE_MAX */
};

/* Events match when rank and action are the same, and the number of the same ones before. */
WEFT_API enum weft_status weft_trace_comparison_init(struct weft_trace_comparison *out,
                                                     const struct weft_trace *planned,
                                                     const struct weft_trace *measured,
                                                     struct weft_error *err);
WEFT_API void weft_trace_comparison_release(struct weft_trace_comparison *c);

#ifdef __cplusplus
}
#endif

#endif
