/* Searching for the best order of given work under given memory.
 *
 *     struct weft_tune_problem problem = {.ranks = 8, .micros = 24, .memory = &memory};
 *     struct weft_tune_options options = {.iterations = 100000};
 *     struct weft_tune_result best;
 *     if (weft_tune(&problem, &options, &best, &err) != WEFT_OK) ...
 *     use(best.schedule, best.gap);
 *     weft_tune_result_release(&best);
 *
 * The search starts from every generator whose schedule has the same placement and fits, and from
 * list schedules and repeated blocks; it improves them by tabu search, and small problems it
 * solves to the end.  It stops when the lower bound (weft/bound.h) is reached.
 */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "weft/bound.h"
#include "weft/part.h"
#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_tune_problem {
    uint32_t ranks, micros;
    uint32_t chunks;                       /* stages a rank; 0: the placement's own number */
    enum weft_placement_kind placement;    /* linear, loop, v or wave */
    bool whole;                            /* backwards are not split */
    enum weft_minimize minimize;           /* the other one decides between equals */
    const struct weft_cost *cost;          /* borrowed, may be NULL */
    const struct weft_memory_cost *memory; /* borrowed, may be NULL; no limits given: none */
};

struct weft_tune_progress {
    double seconds;
    uint64_t evaluations; /* orders timed as a whole */
    double makespan, span, bound;
    const char *origin; /* borrowed: during the call */
};

/* Called now and then; the search ends when it returns false. */
typedef bool (*weft_tune_fn)(const struct weft_tune_progress *progress, void *user);

struct weft_tune_options {
    uint64_t iterations; /* evaluations after which to stop; 0: no such limit.  The same number
                            gives the same result every time, unless the seconds end first. */
    double seconds; /* the same by the clock; 0: no such limit.  Both 0: 100,000 evaluations */
    uint64_t seed;
    weft_tune_fn progress; /* may be NULL */
    void *user;
};

struct weft_tune_result {
    struct weft_schedule *schedule; /* owned; proven right */
    double makespan, span, peak;    /* peak: the highest of all ranks */
    struct weft_bounds bounds;
    double gap;      /* of what was minimized, above its bound */
    bool proven;     /* nothing is better in what was minimized */
    char origin[32]; /* what the best order was made from */
    char start[32];  /* the best generator, "" when none fits */
    double start_makespan, start_span;
    uint64_t evaluations;
    double seconds; /* of the search, by the clock */
};

/* On success the caller releases *out. */
WEFT_API enum weft_status weft_tune(const struct weft_tune_problem *problem,
                                    const struct weft_tune_options *options,
                                    struct weft_tune_result *out, struct weft_error *err);
WEFT_API void weft_tune_result_release(struct weft_tune_result *r);

/* -- layouts: how to cut the model, into how many micros, on which schedule ----------------- */

struct weft_cluster; /* weft/sim.h */

struct weft_layout_problem {
    /* A model, or items of one sequence by hand (then model is NULL). */
    const struct weft_model *model; /* borrowed */
    uint32_t seq;                   /* tokens of a sequence; 0: the model's context */
    double flops; /* of a rank in a second, for models; 0: costs stay counts */
    uint32_t layers;
    struct weft_item layer, embedding, head;
    double boundary_bytes; /* of one sequence between two layers; for models it is known */

    uint32_t global_batch; /* sequences of a step */
    uint32_t ranks;        /* of one pipeline; with a cluster every divisor of its ranks */
    const struct weft_cluster *cluster; /* borrowed, may be NULL: ranks x replicas over it */
    double unit_seconds;                /* of the costs, with a cluster; 0: 1e-3 */
    double hop;                         /* without one: the delay of every message */
    size_t bytes_limit;                 /* of a rank; 0: none */
    uint32_t max_chunks;                /* 0: 4 */
    enum weft_minimize minimize;
    uint64_t iterations; /* of weft_tune() on the best that can be tuned; 0: none */
};

/* One way to do it. */
struct weft_layout {
    char schedule[32];
    uint32_t ranks, replicas;      /* of a pipeline; pipelines side by side */
    bool replicas_adjacent;        /* replicas on neighbouring ranks, pipelines across */
    uint32_t chunks, micros, rows; /* rows: sequences of a micro */
    bool balanced;                 /* the partition; else even */
    double time;                   /* of a step: makespan (or span) and reduction */
    double makespan, span, bubble, reduction;
    double bound;                 /* of makespan or span, for this placement and partition */
    size_t peak_bytes;            /* of the fullest rank */
    struct weft_schedule *result; /* owned */
};

struct weft_layouts {
    size_t n;
    struct weft_layout *at;                 /* owned: the best first */
    size_t n_tried, n_pruned, n_over_limit; /* timed; cut off by a bound; over the limit */
};

/* The best `most` of all schedules x chunks x micros x partitions (x layouts on the cluster).  The
 * gradients of replicas are reduced in a ring after the step, in fp32: a fifth of the state, which
 * is taken as 20 bytes a parameter.  WEFT_USAGE when nothing fits.  The caller releases *out. */
WEFT_API enum weft_status weft_tune_layouts(const struct weft_layout_problem *problem,
                                            size_t most, struct weft_layouts *out,
                                            struct weft_error *err);
WEFT_API void weft_layouts_release(struct weft_layouts *l);

#ifdef __cplusplus
}
#endif

#endif
