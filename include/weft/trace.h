/* Traces: the actions of every rank with their times, planned or measured.  Planned and
 * measured traces use the same struct, so drawing, summaries and comparisons work for both.
 *
 *     struct weft_trace t;
 *     weft_trace_init_plan(&t, s, &metrics, NULL, &err);     // from a timed schedule
 *     weft_trace_write(&t, &text, &len, &err);               // to the file form
 *     weft_trace_release(&t);
 *
 * or event by event, in any order:
 *
 *     weft_trace_init(&t, "run 7", ranks, stages, micros, 1e-9, &err);
 *     weft_trace_add_event(&t, &event, &err); ...
 *     weft_trace_finish(&t, &err);
 *
 * The file form is text: header lines, then one event per line, in any order:
 *
 *     # weft trace 1
 *     # weft name 1f1b
 *     # weft ranks 4 stages 4 micros 8
 *     # weft unit 0.001                 (seconds per unit of time; 0: an abstract unit)
 *     0 compute 0F0 0 1
 *     0 send 0SEND_F0 1 0.25 1048576 1          rank lane action start length [bytes peer]
 *     3 compute (3F1;3B0)OVERLAP_F_B 7 3        an overlapped pair is one event
 *     1 wait 1F0 0 1.25                         1F0 waits for its input
 *     0 memory 7 1.5                            rank memory time amount
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a rank that can be busy at the same time. */
enum weft_lane {
    WEFT_LANE_COMPUTE,
    WEFT_LANE_SEND,
    WEFT_LANE_RECV,
    WEFT_LANE_COLLECTIVE, /* UNSHARD, RESHARD and REDUCE_GRAD */
    /* The rank waits.  The action is what it waits for: a compute action that waits for its
     * input, a send or a REDUCE_GRAD that must complete. */
    WEFT_LANE_WAIT,
    WEFT_LANE_COUNT,
};

/* Returns the name of a lane: "compute", "send", "receive", "collective" or "wait". */
WEFT_API const char *weft_lane_name(enum weft_lane lane);

#define WEFT_NO_RANK UINT32_MAX

struct weft_trace_event {
    double start, length;
    uint32_t rank;
    enum weft_lane lane;
    struct weft_action action;
    struct weft_action partner; /* the other half of an overlapped pair, if action.paired */
    uint64_t bytes;             /* size of a message; 0 for compute */
    uint32_t peer; /* the rank at the other endpoint of a message, or WEFT_NO_RANK */
};

/* A memory sample: the memory of a rank from `time` until the next sample. */
struct weft_trace_memory {
    double time, amount;
    uint32_t rank;
};

enum { WEFT_TRACE_NAME = 64 };

struct weft_trace {
    char name[WEFT_TRACE_NAME]; /* printable ASCII */
    uint32_t n_ranks, n_stages, n_micros;
    double unit_seconds; /* seconds per unit of time; 0: an abstract unit */
    double makespan;     /* end of the last event */
    size_t n_events, cap_events;
    struct weft_trace_event *events; /* owned: by rank, then lane, then start */
    size_t n_memory, cap_memory;
    struct weft_trace_memory *memory; /* owned: by rank, then time; may be empty */
    size_t *first;                    /* owned: (ranks + 1), index of each rank's first event */
    size_t *stage_first; /* owned: (ranks + 1), index of each rank's first entry in `stages` */
    uint32_t *stages;    /* owned: the stages that each rank computes, ascending */
    uint32_t n_chunks;   /* maximum number of stages per rank, at least 1 */
};

/* -- creation ------------------------------------------------------------------------------ */

/* Creates a trace from the compute actions of a timed schedule.  If `memory` is not NULL, the
 * trace also contains the memory of each rank from time 0 on.  `m` must belong to this
 * schedule.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_init_plan(struct weft_trace *out,
                                               const struct weft_schedule *s,
                                               const struct weft_metrics *m,
                                               const struct weft_memory_cost *memory,
                                               struct weft_error *err);

/* Creates an empty trace.  Bytes of `name` that are not printable ASCII become '?', and a name
 * that is too long is truncated.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_init(struct weft_trace *out, const char *name,
                                          uint32_t n_ranks, uint32_t n_stages,
                                          uint32_t n_micros, double unit_seconds,
                                          struct weft_error *err);

/* Adds a copy of an event.  Returns WEFT_DATA if a rank, stage or micro is out of range, if a
 * time is negative or not finite, or if the action does not belong to its lane. */
WEFT_API enum weft_status weft_trace_add_event(struct weft_trace *t,
                                               const struct weft_trace_event *event,
                                               struct weft_error *err);

/* Adds a memory sample.  Returns WEFT_DATA if its rank, time or amount is out of range. */
WEFT_API enum weft_status weft_trace_add_memory(struct weft_trace *t,
                                                const struct weft_trace_memory *sample,
                                                struct weft_error *err);

/* Sorts events and samples and fills in makespan and indices.  Call it once, after the last
 * event.  Events with the same start keep the order in which they were added. */
WEFT_API enum weft_status weft_trace_finish(struct weft_trace *t, struct weft_error *err);

/* Frees the arrays of a trace.  A zeroed trace is allowed. */
WEFT_API void weft_trace_release(struct weft_trace *t);

/* Returns the index of a stage among the stages that a rank computes, in ascending order; 0 if
 * the rank computes none. */
WEFT_API uint32_t weft_trace_chunk(const struct weft_trace *t, uint32_t rank, uint32_t stage);

/* -- text form ----------------------------------------------------------------------------- */

/* Returns true if the first line of a text begins with "# weft trace". */
WEFT_API bool weft_trace_detect(const char *text, size_t len);

/* Writes the text form.  weft_trace_parse() restores the same trace bit for bit.  The caller
 * frees *out.  `len` may be NULL. */
WEFT_API enum weft_status weft_trace_write(const struct weft_trace *t, char **out, size_t *len,
                                           struct weft_error *err);

/* Reads the text form.  Returns WEFT_DATA with line and column if the text is malformed;
 * `source` is the name of the text in that error.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_parse(const char *text, size_t len, const char *source,
                                           struct weft_trace *out, struct weft_error *err);

/* -- profiles of PyTorch ------------------------------------------------------------------ */

/* Reads the JSON files that torch.profiler (Kineto) writes, one per rank, and makes one trace
 * of them.  The files are read one after the other, so only one text is in memory:
 *     struct weft_kineto *k = NULL;
 *     weft_kineto_new(&k, &err);
 *     weft_kineto_add(k, text, len, "rank0.json", WEFT_NO_RANK, &err); ...
 *     weft_kineto_trace(k, -1, &trace, &err);
 *     weft_kineto_free(k);
 *
 * Annotations named "PP:" and a cell, such as PP:2F0, become events.  Other actions than those
 * of weft/schedule.h are ignored.
 *     F B I W and pairs      lane compute; if the file has the times of the GPU's kernels
 *                            (gpu_user_annotation), those; else without the wait at the start,
 *                            which is an event of the lane wait: the work starts when the
 *                            receive (gloo:recv, nccl:recv) that ends inside the annotation has
 *                            ended, with the next aten:: operator of the same thread
 *     SEND_F SEND_B          lane send: the time that posting the send takes
 *     RECV_F RECV_B          lane receive: from posting the receive until it is waited for
 *     UNSHARD RESHARD
 *     REDUCE_GRAD            lane collective
 *     WAIT_SEND_F .. and
 *     WAIT_REDUCE_GRAD       lane wait, with the action that is waited for
 *
 * Times are whole nanoseconds (unit_seconds is 1e-9) since the start of the step, which is
 * the first event of the rank that computes first; what other ranks do earlier is cut off.  The
 * k-th occurrence of an action in a file belongs to step k.  The trace has one step that is
 * complete in all files: it has every action that occurs in the file, and no backward starts
 * before its forward. */
struct weft_kineto; /* opaque */

/* Returns true if a text begins like a JSON object. */
WEFT_API bool weft_kineto_detect(const char *text, size_t len);

/* Creates a reader without files.  The caller frees *out with weft_kineto_free(). */
WEFT_API enum weft_status weft_kineto_new(struct weft_kineto **out, struct weft_error *err);

/* Adds the file of one rank.  `source` is its name in errors.  `rank` is the rank in the
 * pipeline.  With WEFT_NO_RANK it is the file's distributedInfo.rank, or the number of files
 * added before.  The text is not used after the call.  Returns WEFT_DATA if the text is not
 * JSON, has no PP: annotations or belongs to a rank that was added before; the reader is then
 * unchanged. */
WEFT_API enum weft_status weft_kineto_add(struct weft_kineto *k, const char *text, size_t len,
                                          const char *source, uint32_t rank,
                                          struct weft_error *err);

/* Makes the trace of a complete step: 0 is the first one, -1 the last.  If the files have all
 * stages, but not the ranks 0 to n - 1, they are the files of one pipeline of several: its
 * ranks are numbered in the order of the files' ranks.  Returns WEFT_DATA if there is no such
 * step.  The caller releases *out. */
WEFT_API enum weft_status weft_kineto_trace(const struct weft_kineto *k, int64_t step,
                                            struct weft_trace *out, struct weft_error *err);

/* Frees a reader.  NULL is allowed. */
WEFT_API void weft_kineto_free(struct weft_kineto *k);

/* -- analysis ------------------------------------------------------------------------------ */

/* Metrics of a trace, named and computed as in struct weft_metrics. */
struct weft_trace_summary {
    uint32_t n_ranks;
    /* Numbers of events; a pair counts as one; a message is counted at its send. */
    size_t n_compute, n_messages;
    uint64_t bytes; /* bytes sent */
    double makespan, span, bubble, bubble_span;
    double *busy, *idle, *rank_span; /* owned: (ranks) */
};

/* Computes the metrics of a trace.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_summary_init(struct weft_trace_summary *out,
                                                  const struct weft_trace *t,
                                                  struct weft_error *err);

/* Frees the arrays of a summary.  A zeroed summary is allowed. */
WEFT_API void weft_trace_summary_release(struct weft_trace_summary *s);

/* Differences between matching events.  If both traces have a unit of time, times are in the
 * unit of the planned trace. */
struct weft_trace_delta {
    size_t n_matched, n_planned_only, n_measured_only;
    double start;                           /* sum of measured - planned starts */
    double planned, measured;               /* sums of the lengths of matching events */
    double max_start_diff, max_length_diff; /* maximum differences, by magnitude */
};

struct weft_trace_comparison {
    uint32_t n_ranks;
    double planned, measured;      /* makespans */
    struct weft_trace_delta total; /* sum over all ranks and kinds */
    struct weft_trace_delta *at; /* owned: (ranks, WEFT_N_ACT_KINDS); a pair counts as its F */
    /* Owned: for each planned event, the index of its measured event, or SIZE_MAX. */
    size_t *match;
};

/* Compares a planned with a measured trace.  The k-th occurrence of an action on a rank in one
 * trace matches its k-th occurrence in the other.  Events of the lane `wait` are ignored,
 * because a plan has none.  The caller releases *out. */
WEFT_API enum weft_status weft_trace_comparison_init(struct weft_trace_comparison *out,
                                                     const struct weft_trace *planned,
                                                     const struct weft_trace *measured,
                                                     struct weft_error *err);

/* Frees the arrays of a comparison.  A zeroed comparison is allowed. */
WEFT_API void weft_trace_comparison_release(struct weft_trace_comparison *c);

#ifdef __cplusplus
}
#endif

#endif
