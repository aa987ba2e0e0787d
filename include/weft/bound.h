/* How good a schedule can be: proven lower bounds of makespan and span.
 *
 * A bound holds for every order of the same work in the same place under the same memory limits,
 * whatever made it.  So "makespan 1530, bound 1499" says that no schedule is more than 2.1 %
 * better.
 *
 *     struct weft_bound_input in = {.placement = weft_schedule_placement(s), .cost = &cost};
 *     struct weft_bounds bounds;
 *     if (weft_bounds_compute(&in, &bounds, &err) != WEFT_OK) ...
 *     gap = weft_gap(metrics.makespan, bounds.makespan);
 */
#ifndef WEFT_BOUND_H
#define WEFT_BOUND_H

#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, what it says */
#define WEFT_BOUND_MAP(X)                                                                      \
    X(WORK, "work", "the way to a rank, all of its work, the way from it")                     \
    X(CHAIN, "chain", "all forwards and gradients of a rank between the ways of two micros")   \
    X(FIRST_BACK, "first-back", "a rank's work and its wait for the first gradient")           \
    X(MEMORY_TIME, "memory-time", "what activations hold, and for how long, by the limit")     \
    X(PREEMPTIVE, "preemptive", "each rank alone, allowed to interrupt what it does")          \
    X(DESTRUCTIVE, "destructive", "a shorter time leads to a contradiction")

enum weft_bound_kind {
#define WEFT_BOUND_ENUM(name, text, help) WEFT_BOUND_##name,
    WEFT_BOUND_MAP(WEFT_BOUND_ENUM)
#undef WEFT_BOUND_ENUM
        WEFT_N_BOUNDS
};

WEFT_API const char *weft_bound_name(enum weft_bound_kind kind);

/* How the backwards of the schedules that a bound is for are done. */
enum weft_backward_kind {
    WEFT_BACKWARD_SPLIT, /* input and weight gradients apart */
    WEFT_BACKWARD_WHOLE,
    WEFT_BACKWARD_ANY, /* some so, some so: the bound holds for all of these */
};

struct weft_bound_input {
    const struct weft_placement *placement; /* borrowed: ranks, stages, micros, pipes */
    const struct weft_cost *cost;           /* borrowed, may be NULL */
    const struct weft_memory_cost *memory;  /* borrowed, may be NULL; none given: no limit */
    enum weft_backward_kind backwards;
    bool pairs;    /* forwards and backwards may overlap: cost->fb counts for those */
    double effort; /* how hard to try: 1 is about half a second at 64 ranks x 512 micros, less
                      for small ones; 0: 1; negative: closed forms only */
    double known_makespan, known_span; /* what is known to be possible, 0: nothing */
};

/* A bound that says nothing is 0. */
struct weft_bounds {
    double makespan, span; /* the best of all */
    enum weft_bound_kind makespan_by, span_by;
    double each_makespan[WEFT_N_BOUNDS], each_span[WEFT_N_BOUNDS];
    bool impossible; /* no order at all fits the limits */
};

/* WEFT_USAGE when a cost is negative or not a number, or the placement is not one. */
WEFT_API enum weft_status weft_bounds_compute(const struct weft_bound_input *in,
                                              struct weft_bounds *out, struct weft_error *err);

/* For schedules like this one: its placement, its way of doing backwards, and limits as given
 * or else its own peaks (by `memory`).  `cost` and `memory` may be NULL. */
WEFT_API enum weft_status weft_bounds_of(const struct weft_schedule *s,
                                         const struct weft_cost *cost,
                                         const struct weft_memory_cost *memory, double effort,
                                         struct weft_bounds *out, struct weft_error *err);

/* By what part of the bound a time is above it: 0.021 is "at most 2.1 % above the optimum". */
static inline double weft_gap(double time, double bound)
{
    return bound > 0 && time > bound * (1 + 1e-9) ? time / bound - 1 : 0;
}

#ifdef __cplusplus
}
#endif

#endif
