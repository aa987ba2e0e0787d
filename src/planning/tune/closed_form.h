/* Lower bounds by formula. */
#ifndef PLANNING_TUNE_CLOSED_FORM_H
#define PLANNING_TUNE_CLOSED_FORM_H

#include "planning/tune/instance.h"

/* The bounds of makespan and span by each formula, and for each rank the best bound of its
 * own span.  All values are in ticks. */
struct wf_closed_form {
    int64_t makespan[WEFT_N_BOUNDS], span[WEFT_N_BOUNDS];
    int64_t *rank_span; /* owned: (ranks) */
};

/* Computes all formulas.  On success the caller must call wf_closed_form_release(). */
enum weft_status wf_closed_form_init(struct wf_closed_form *c, const struct wf_instance *x,
                                     struct weft_error *err);

/* Frees the arrays of *c and zeroes *c. */
void wf_closed_form_release(struct wf_closed_form *c);

#endif
