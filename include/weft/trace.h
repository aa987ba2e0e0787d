/* Traces: what every rank did and when, planned or measured.  One record for both, so that whoever
 * draws, sums up or compares does not know which it is.
 *
 *     struct weft_trace t;
 *     weft_trace_init_plan(&t, s, &metrics, &err);      // from a timed schedule
 *     weft_trace_write(&t, &text, &len, &err);          // and to a file
 *     weft_trace_release(&t);
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
    WEFT_N_LANES,
};

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

struct weft_trace {
    char name[64];
    uint32_t n_ranks, n_stages, n_micros;
    double unit_seconds; /* 0: abstract */
    double makespan;     /* the last end */
    size_t n_events;
    struct weft_trace_event *events; /* owned: by rank, then lane, then start */
    size_t n_memory;
    struct weft_trace_memory *memory; /* owned: by rank, then time; may be empty */
    uint32_t *chunk_of; /* owned: (ranks, stages), which of its stages a rank means, or NONE */
};

void weft_trace_release(struct weft_trace *t); /* a zeroed one is allowed */

#ifdef __cplusplus
}
#endif

#endif
