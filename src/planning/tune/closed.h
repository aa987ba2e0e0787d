/* Bounds by formula. */
#ifndef PLANNING_TUNE_CLOSED_H
#define PLANNING_TUNE_CLOSED_H

#include "planning/tune/instance.h"

/* In ticks: what each formula says of the makespan and of the span, and the best that it says of
 * each rank's own span. */
struct weft_closed {
    int64_t makespan[WEFT_N_BOUNDS], span[WEFT_N_BOUNDS];
    int64_t *rank_span; /* owned: (ranks) */
};

enum weft_status weft_closed_init(struct weft_closed *c, const struct weft_instance *x,
                                  struct weft_error *err);
void weft_closed_release(struct weft_closed *c);

#endif
