/* Converts a list of parameters into names or named shapes. */
#include "training/trainer/param_names.h"

#include <stdlib.h>

#include "base/error.h"

const char **wf_param_names(const struct wf_param_list *params, struct weft_error *err)
{
    const char **names = calloc(params->n + 1, sizeof *names);
    if (names == NULL)
        WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of %zu weights", params->n);
    for (size_t i = 0; names != NULL && i < params->n; i++)
        names[i] = params->at[i].name;
    return names;
}

struct wf_hf_tensor *wf_param_hf_tensors(const struct wf_param_list *params,
                                         struct weft_error *err)
{
    struct wf_hf_tensor *tensors = calloc(params->n + 1, sizeof *tensors);
    if (tensors == NULL)
        WEFT_FAIL(err, WEFT_NOMEM, "no memory for a list of %zu weights", params->n);
    for (size_t i = 0; tensors != NULL && i < params->n; i++) {
        const struct wf_param_desc *d = &params->at[i];
        tensors[i] = (struct wf_hf_tensor){d->name, d->n_dims, {d->shape[0], d->shape[1]}};
    }
    return tensors;
}
