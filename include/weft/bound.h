/* Lower bounds for makespan and span.
 *
 * A bound is valid for every order of the same work on the same placement under the same memory
 * limits.  If the makespan is 1530 and the bound is 1499, the makespan is at most 2.1 % above
 * the optimum.
 *
 *     struct weft_bound_input in = {.placement = weft_schedule_placement(s), .cost = &cost};
 *     struct weft_bounds bounds;
 *     if (weft_bounds_compute(&in, &bounds, &err) != WEFT_OK) ...
 *     gap = weft_gap(metrics.makespan, bounds.makespan);
 *
 * Unstable: kinds of bounds are added, which changes the size of struct weft_bounds.
 */
#ifndef WEFT_BOUND_H
#define WEFT_BOUND_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, name in JSON, description */
#define WEFT_BOUND_MAP(X)                                                                      \
    X(WORK, "work", "the path to a rank, all of its work, and the path from it")               \
    X(CHAIN, "chain", "all forwards and gradients of a rank between the paths of two micros")  \
    X(FIRST_BACK, "first-back", "the work of a rank and its wait for the first gradient")      \
    X(MEMORY_TIME, "memory-time",                                                              \
      "memory of activations times duration, divided by the limit")                            \
    X(PREEMPTIVE, "preemptive", "the preemptive optimum of each rank alone")                   \
    X(DESTRUCTIVE, "destructive", "a shorter time leads to a contradiction")

enum weft_bound_kind {
#define WEFT_BOUND_ENUM(name, text, help) WEFT_BOUND_##name,
    WEFT_BOUND_MAP(WEFT_BOUND_ENUM)
#undef WEFT_BOUND_ENUM
        WEFT_N_BOUNDS
};

/* Returns the name of a kind of bound in JSON, such as "first-back". */
WEFT_API const char *weft_bound_name(enum weft_bound_kind kind);

/* The form of the backwards in the schedules that a bound covers. */
enum weft_backward_kind {
    WEFT_BACKWARD_SPLIT, /* separate input and weight gradients */
    WEFT_BACKWARD_WHOLE,
    WEFT_BACKWARD_ANY, /* any mixture of both */
};

struct weft_bound_input {
    const struct weft_placement *placement; /* borrowed: ranks, stages, micros, pipes */
    const struct weft_cost *cost;           /* borrowed, may be NULL */
    /* Borrowed, may be NULL; without limits, memory is unlimited. */
    const struct weft_memory_cost *memory;
    enum weft_backward_kind backwards;
    bool pairs; /* a forward and a backward may run as an overlapped pair of length cost->fb */
    /* Relative search time: 1 takes about 0.5 s for 64 ranks x 512 micros; 0 means 1;
     * negative: compute closed forms only. */
    double effort;
    double known_makespan, known_span; /* known feasible makespan and span; 0: unknown */
};

/* Lower bounds of makespan and span.  A bound of 0 is trivial. */
struct weft_bounds {
    double makespan, span; /* the maximum of all bounds */
    enum weft_bound_kind makespan_by, span_by;
    double each_makespan[WEFT_N_BOUNDS], each_span[WEFT_N_BOUNDS];
    bool impossible; /* no order of the actions fits the memory limits */
};

/* Computes lower bounds.  Returns WEFT_USAGE if a cost is negative or not finite, or if the
 * placement is invalid. */
WEFT_API enum weft_status weft_bounds_compute(const struct weft_bound_input *in,
                                              struct weft_bounds *out, struct weft_error *err);

/* Computes lower bounds for schedules with the placement and the form of backwards of `s`.  The
 * memory limits are taken from `memory`; if `memory` has no limits, the peaks of `s` are the
 * limits.  If `s` is forward-only, the bound is WEFT_BOUND_WORK without backwards, and memory
 * is not limited.  `cost` and `memory` may be NULL. */
WEFT_API enum weft_status weft_bounds_of(const struct weft_schedule *s,
                                         const struct weft_cost *cost,
                                         const struct weft_memory_cost *memory, double effort,
                                         struct weft_bounds *out, struct weft_error *err);

/* Returns the relative distance of a time from its bound: 0.021 means at most 2.1 % above the
 * optimum. */
static inline double weft_gap(double time, double bound)
{
    return bound > 0 && time > bound * (1 + 1e-9) ? time / bound - 1 : 0;
}

#ifdef __cplusplus
}
#endif

#endif
