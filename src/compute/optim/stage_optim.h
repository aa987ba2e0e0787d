/* An optimizer for the parameters of a stage. */
#ifndef COMPUTE_OPTIM_STAGE_OPTIM_H
#define COMPUTE_OPTIM_STAGE_OPTIM_H

#include "compute/model/stage.h"
#include "compute/optim/adamw.h"

/* Returns a tensor for wf_optim_new() that covers all elements of a parameter.  Its pointers
 * are borrowed from the stage. */
struct wf_optim_tensor wf_optim_tensor_of(const struct wf_param *p);

/* Creates an optimizer for all parameters of a stage, in their order.  The caller frees *out
 * with wf_optim_free(). */
enum weft_status wf_optim_new_stage(struct wf_tstage *stage,
                                    const struct wf_optim_settings *how, struct wf_pool *pool,
                                    struct wf_optim **out, struct weft_error *err);

#endif
