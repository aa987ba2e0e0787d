/* What actions cost: times of a stage's passes, a hop between ranks, changes of memory. */
#ifndef WEFT_COST_H
#define WEFT_COST_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value for each stage (or rank): none given, one for all, or one each. */
struct weft_values {
    const double *at; /* borrowed by whoever reads it */
    size_t n;         /* 0: the default; 1: the same everywhere; else one an index */
};

static inline double weft_values_get(struct weft_values v, size_t i, double fallback)
{
    return v.n == 0 ? fallback : v.n == 1 ? v.at[0] : v.at[i];
}

/* Times of one stage, in any unit.  Defaults: f = i = w = 1, b = i + w. */
struct weft_cost {
    struct weft_values f, i, w; /* forward, input gradient, weight gradient */
    struct weft_values b;       /* whole backward */
    struct weft_values fb; /* an overlapped pair, by the stage of its forward; default f + b */
    double hop;            /* delay of a message between two ranks; it occupies neither */
};

/* Change of a rank's memory when an action starts, and how much there may be.  A whole backward
 * changes it by i + w.  Defaults: f = 1, i = 0, w = -(f + i): what was taken is given back. */
struct weft_memory_cost {
    struct weft_values f, i, w; /* a stage */
    struct weft_values limit;   /* a rank; none given: the schedule's own limit */
};

/* The same, resolved for one stage. */
struct weft_stage_cost {
    double f, i, w, b;
};

struct weft_stage_memory {
    double f, i, w;
};

/* Refuses what cannot be timed: times below 0 or not finite, sums that are too large to be told
 * apart, lists that have neither one value nor one for each stage (or rank, for limits). */
WEFT_API enum weft_status weft_cost_check(const struct weft_cost *cost,
                                          const struct weft_memory_cost *memory, uint32_t ranks,
                                          uint32_t stages, uint32_t micros,
                                          struct weft_error *err);

/* Rounding apart, is an amount within a limit? */
static inline int weft_memory_fits(double amount, double limit)
{
    double size = limit < 0 ? -limit : limit;
    return amount <= limit + 1e-9 * (size > 1 ? size : 1);
}

/* `cost` and `memory` may be NULL: the defaults. */
WEFT_API struct weft_stage_cost weft_cost_stage(const struct weft_cost *cost, uint32_t stage);
WEFT_API double weft_cost_pair(const struct weft_cost *cost, uint32_t f_stage,
                               uint32_t b_stage);
WEFT_API struct weft_stage_memory weft_memory_cost_stage(const struct weft_memory_cost *memory,
                                                         uint32_t stage);

#ifdef __cplusplus
}
#endif

#endif
