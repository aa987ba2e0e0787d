/* Converts the parameters of a model into the lists that training/ckpt expects. */
#ifndef TRAINING_TRAINER_PARAM_NAMES_H
#define TRAINING_TRAINER_PARAM_NAMES_H

#include "compute/model/params.h"
#include "training/ckpt/hf.h"
#include "weft/status.h"

/* Returns the names of all parameters, in order.  The caller frees the array; the names are
 * borrowed from `params`.  Returns NULL and sets err to WEFT_NOMEM if there is no memory.
 * Local. */
const char **wf_param_names(const struct wf_param_list *params, struct weft_error *err);

/* Returns the names and shapes of all parameters, with the same ownership and errors as
 * wf_param_names().  Local. */
struct wf_hf_tensor *wf_param_hf_tensors(const struct wf_param_list *params,
                                         struct weft_error *err);

#endif
