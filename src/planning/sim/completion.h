/* When and where a trace completed the output of each stage and micro-batch. */
#ifndef PLANNING_SIM_COMPLETION_H
#define PLANNING_SIM_COMPLETION_H

#include "weft/trace.h"

/* The time at which, and the rank on which, the forward and the gradient of each stage and
 * micro-batch were completed. */
struct wf_completion {
    double *at; /* owned: (2, stages, micros), completion time; negative if never completed */
    uint32_t *rank; /* owned: (2, stages, micros) */
    uint32_t n_stages, n_micros;
};

/* Fills the table from the compute events of a trace.  The caller releases *d. */
enum weft_status wf_completion_init(struct wf_completion *d, const struct weft_trace *t,
                                    struct weft_error *err);
void wf_completion_release(struct wf_completion *d);

/* Returns the time at which another rank completed the input of an action.  Returns a negative
 * number if no other rank computes this input. */
double wf_completion_input(const struct wf_completion *d, struct weft_action a, uint32_t rank);

#endif
