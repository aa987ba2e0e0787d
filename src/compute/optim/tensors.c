#include "compute/optim/tensors.h"

#include <stdlib.h>

#include "base/error.h"

enum weft_status weft_optim_of_stage(struct weft_tstage *stage,
                                     const struct weft_optim_settings *how,
                                     struct weft_pool *pool, struct weft_optim **out,
                                     struct weft_error *err)
{
    size_t n;
    const struct weft_param *params = weft_tstage_params(stage, &n);
    struct weft_optim_tensor *tensors = calloc(n + 1, sizeof *tensors);
    if (tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the optimizer's list of tensors");
    for (size_t i = 0; i < n; i++)
        tensors[i] = (struct weft_optim_tensor){.name = params[i].desc.name,
                                                .rows = params[i].desc.shape[0],
                                                .cols = params[i].desc.shape[1],
                                                .value = params[i].value,
                                                .exact = params[i].exact,
                                                .fast = params[i].fast,
                                                .decay = params[i].desc.decay};
    enum weft_status st = weft_optim_new(tensors, n, how, pool, out, err);
    free(tensors);
    return st;
}
