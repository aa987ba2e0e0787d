/* A stage's parameters as the optimizer wants them. */
#ifndef COMPUTE_OPTIM_TENSORS_H
#define COMPUTE_OPTIM_TENSORS_H

#include "compute/model/stage.h"
#include "compute/optim/adamw.h"

/* An optimizer for all of a stage's parameters, in their order.  weft_optim_free() frees. */
enum weft_status weft_optim_of_stage(struct weft_tstage *stage,
                                     const struct weft_optim_settings *how,
                                     struct weft_pool *pool, struct weft_optim **out,
                                     struct weft_error *err);

#endif
