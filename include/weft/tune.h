/* Search for the best order of given work under given memory limits, and for the best layout of
 * a model on a cluster.
 *
 *     struct weft_tune_problem problem = {.ranks = 8, .micros = 24, .memory = &memory};
 *     struct weft_tune_options options = {.iterations = 100000};
 *     struct weft_tune_result best;
 *     if (weft_tune(&problem, &options, &best, &err) != WEFT_OK) ...
 *     use(best.schedule, best.gap);
 *     weft_tune_result_release(&best);
 *
 * The search starts from the schedules of all generators that have the same placement and fit
 * the limits, from list schedules and from repeated blocks.  It improves these starting points
 * by tabu search and solves small problems exactly.  It stops when the lower bound
 * (weft/bound.h) is reached.
 *
 * Unstable: struct weft_layout_problem and struct weft_layout gain fields.
 */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "weft/bound.h"
#include "weft/part.h"
#include "weft/schedule.h"
#include "weft/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_tune_problem {
    uint32_t ranks, micros;
    uint32_t chunks;                    /* stages per rank; 0: the placement's default */
    enum weft_placement_kind placement; /* linear, loop, v or wave */
    bool whole; /* true: backwards are not split into input and weight gradients */
    /* The objective; the other one of makespan and span breaks ties. */
    enum weft_minimize minimize;
    const struct weft_cost *cost; /* borrowed, may be NULL */
    /* Borrowed, may be NULL; without limits, memory is unlimited. */
    const struct weft_memory_cost *memory;
};

struct weft_tune_progress {
    double seconds;
    uint64_t evaluations; /* complete orders that were timed */
    double makespan, span, bound;
    const char *origin; /* borrowed: during the call */
};

/* Reports progress at irregular intervals.  The search stops if the function returns false. */
typedef bool (*weft_tune_fn)(const struct weft_tune_progress *progress, void *user);

struct weft_tune_options {
    /* Maximum number of evaluations; 0: unlimited.  The same number gives the same result every
     * time, unless `seconds` ends the search first. */
    uint64_t iterations;
    double seconds; /* maximum wall time; 0: unlimited.  Both 0: 100,000 evaluations */
    uint64_t seed;
    weft_tune_fn progress; /* may be NULL */
    void *user;
};

struct weft_tune_result {
    struct weft_schedule *schedule; /* owned; verified */
    double makespan, span, peak;    /* peak: maximum memory over all ranks */
    struct weft_bounds bounds;
    double gap;      /* relative distance of the objective from its bound */
    bool proven;     /* the objective is optimal */
    char origin[32]; /* name of the starting point of the best order */
    char start[32];  /* name of the best generator; "" if no generator fits */
    double start_makespan, start_span;
    uint64_t evaluations;
    double seconds; /* wall time of the search */
};

/* Searches for the best order.  The caller releases *out. */
WEFT_API enum weft_status weft_tune(const struct weft_tune_problem *problem,
                                    const struct weft_tune_options *options,
                                    struct weft_tune_result *out, struct weft_error *err);

/* Frees the schedule of a result.  A zeroed result is allowed. */
WEFT_API void weft_tune_result_release(struct weft_tune_result *r);

/* -- layouts: partition, number of micro-batches, and schedule ----------------------------- */

struct weft_layout_progress {
    double seconds;
    double share; /* fraction of the layouts that were tried, from 0 to 1 */
    size_t n_tried;
    double time; /* time of the best layout so far; 0: none */
    const char
        *schedule; /* borrowed: during the call; name of the schedule that is tried next */
};

/* Reports progress before each schedule.  The search stops if the function returns false. */
typedef bool (*weft_layout_fn)(const struct weft_layout_progress *progress, void *user);

struct weft_layout_problem {
    /* The model, or, if `model` is NULL, explicit items with costs per sequence. */
    const struct weft_model *model; /* borrowed */
    uint32_t seq;                   /* tokens per sequence; 0: the model's context */
    /* How the model is trained: recomputation, element types.  Borrowed, may be NULL. */
    const struct weft_training *training;
    /* For models: floating-point operations per second and rank; 0: costs are operation
     * counts. */
    double flops;
    uint32_t layers;
    struct weft_item layer, embedding, head;
    double boundary_bytes; /* bytes per sequence between two layers; ignored for models */

    uint32_t global_batch; /* sequences per step */
    /* Ranks per pipeline; 0 with a cluster: try every divisor of the cluster's ranks. */
    uint32_t ranks;
    /* Borrowed, may be NULL; the cluster has ranks x replicas ranks. */
    const struct weft_cluster *cluster;
    double unit_seconds; /* unit of the costs, with a cluster; 0: 1e-3 */
    double hop;          /* delay of every message, without a cluster */
    size_t bytes_limit;  /* memory limit per rank; 0: unlimited */
    uint32_t max_chunks; /* maximum number of stages per rank, at most 64; 0: 4 */
    enum weft_minimize minimize;
    /* Only layouts that PyTorch can run: each stage on one rank.  The first stage computes its
     * whole backward in W, as there. */
    bool for_torch;
    /* Evaluations of weft_tune() on the best tunable layout; 0: weft_tune() is not called. */
    uint64_t iterations;
    double seconds; /* maximum wall time, up to the duration of one schedule; 0: unlimited */
    weft_layout_fn progress; /* may be NULL */
    void *user;
};

/* One arrangement of the ranks, and its predicted time and memory. */
struct weft_layout {
    char schedule[32];
    uint32_t ranks, replicas;      /* ranks per pipeline; number of pipelines */
    bool replicas_adjacent;        /* replicas on neighbouring ranks, pipelines across nodes */
    uint32_t chunks, micros, rows; /* rows: sequences per micro-batch */
    bool balanced;                 /* balanced partition; false: even */
    double time;                   /* time of a step: makespan (or span) plus reduction */
    double makespan, span, bubble, reduction;
    double bound;      /* lower bound of makespan (or span) for this placement and partition */
    size_t peak_bytes; /* maximum of the peak memory over all ranks */
    struct weft_schedule *result;    /* owned */
    struct weft_partition partition; /* owned */
    /* The activations and limits in bytes for which the schedule was searched; all lists are
     * owned, and empty if there was no limit or no search. */
    struct weft_memory_cost memory;
    /* The cluster as one pipeline sees it: rank r of the pipeline is rank r of this cluster.
     * nodes is 0 without a cluster. */
    struct weft_cluster cluster;
    double message_bytes; /* bytes of a message between two stages */
};

struct weft_layouts {
    size_t n;
    struct weft_layout *at; /* owned: the best first */
    size_t n_tried;         /* layouts that were timed */
    size_t n_pruned;        /* layouts that were excluded by a bound */
    size_t n_over_limit;    /* layouts that were excluded by the memory limit */
    bool stopped;           /* the time limit or the progress function ended the search early */
};

/* Finds the best `max_layouts` of all combinations of schedule, chunks, micros and partition
 * (and arrangement on the cluster).  Layouts with the same order of the same stages on the same
 * ranks are listed once, and so are layouts of one rank that differ only in chunks.  If the
 * search is stopped, the best layouts so far are returned.
 *
 * The reduction is modelled as a reduce-scatter of the gradients and an all-gather of the
 * weights after the step.  Their bytes are those of weft_state_bytes_init(): without fast sums
 * 8 and 4 per parameter.  Explicit items have one parameter per 20 bytes of state.
 *
 * Peak memory is what weft's trainer allocates: state, where replicas divide the moments among
 * them, activations, messages of a transport that copies, and buffers.  Returns WEFT_USAGE if
 * no layout fits.  The caller releases *out. */
WEFT_API enum weft_status weft_tune_layouts(const struct weft_layout_problem *problem,
                                            size_t max_layouts, struct weft_layouts *out,
                                            struct weft_error *err);

/* Frees the layouts and their schedules.  A zeroed list is allowed. */
WEFT_API void weft_layouts_release(struct weft_layouts *l);

#ifdef __cplusplus
}
#endif

#endif
