/* The costs of actions: the times of a stage's passes, the delay of a message, and the changes
 * of memory. */
#ifndef WEFT_COST_H
#define WEFT_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One value per stage (or per rank). */
struct weft_values {
    const double *at; /* borrowed by the reader */
    /* Number of values: 0: use the default; 1: the same value for all indices; else one per
     * index. */
    size_t n;
};

/* Returns the value of index `i`, or `fallback` if no values are given. */
static inline double weft_values_get(struct weft_values v, size_t i, double fallback)
{
    return v.n == 0 ? fallback : v.n == 1 ? v.at[0] : v.at[i];
}

/* Times of the stages, in any unit.  Defaults: f = i = w = 1, b = i + w. */
struct weft_cost {
    struct weft_values f, i, w; /* forward, input gradient, weight gradient */
    struct weft_values b;       /* whole backward */
    /* Overlapped pair, indexed by the stage of its forward; default f + b. */
    struct weft_values fb;
    double hop; /* delay of a message between two ranks; both ranks can compute meanwhile */
    /* Delays between stages s and s + 1, if links differ: of activations and of gradients.  One
     * value; or one per pair of stages (stages - 1); or (pipes, stages - 1).  Default: hop.  A
     * delay is ignored if both stages are on the same rank. */
    struct weft_values forward_hop, backward_hop;
    /* The first stage computes its whole backward in W, and I takes no time, as in PyTorch. */
    bool first_backward_in_w;
};

/* Changes of a rank's memory at the start of an action, and the limit of each rank.  A whole
 * backward changes memory by i + w.  Defaults: f = 1, i = 0, w = -(f + i), so that a backward
 * releases what its forward allocated. */
struct weft_memory_cost {
    struct weft_values f, i, w; /* per stage */
    struct weft_values limit;   /* per rank; default: the limit of the schedule */
};

/* The times of one stage, with defaults filled in. */
struct weft_stage_cost {
    double f, i, w, b;
};

/* The memory changes of one stage, with defaults filled in. */
struct weft_stage_memory {
    double f, i, w;
};

/* Checks that costs can be used for timing.  Returns WEFT_USAGE if a time is negative or not
 * finite, if sums are too large for double precision, or if a list has neither one value nor
 * one per stage (per rank for limits, per pair of neighbouring stages for hops).  `cost` and
 * `memory` may be NULL. */
WEFT_API enum weft_status weft_cost_check(const struct weft_cost *cost,
                                          const struct weft_memory_cost *memory, uint32_t ranks,
                                          uint32_t stages, uint32_t micros,
                                          struct weft_error *err);

/* Returns whether an amount of memory is within a limit, with a tolerance for rounding
 * errors. */
static inline int weft_memory_fits(double amount, double limit)
{
    double size = limit < 0 ? -limit : limit;
    return amount <= limit + 1e-9 * (size > 1 ? size : 1);
}

/* Returns the times of one stage.  `cost` may be NULL: the defaults. */
WEFT_API struct weft_stage_cost weft_cost_stage(const struct weft_cost *cost, uint32_t stage);

/* Returns the time of an overlapped pair.  `cost` may be NULL: the defaults. */
WEFT_API double weft_cost_pair(const struct weft_cost *cost, uint32_t f_stage,
                               uint32_t b_stage);

/* Returns the delay of a message between `stage` and `stage` + 1 of a pipe with `stages`
 * stages, on different ranks: of an activation or, if `backward` is true, of a gradient.
 * The delay is 0 if `cost` is NULL. */
WEFT_API double weft_cost_hop(const struct weft_cost *cost, uint32_t stages, uint32_t pipe,
                              uint32_t stage, bool backward);

/* Returns the memory changes of one stage.  `memory` may be NULL: the defaults. */
WEFT_API struct weft_stage_memory weft_memory_cost_stage(const struct weft_memory_cost *memory,
                                                         uint32_t stage);

#ifdef __cplusplus
}
#endif

#endif
