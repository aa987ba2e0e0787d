/* Creates an optimizer from the parameters of a stage. */
#include "compute/optim/stage_optim.h"

#include <stdlib.h>

#include "base/error.h"

struct wf_optim_tensor wf_optim_tensor_of(const struct wf_param *p)
{
    return (struct wf_optim_tensor){.name = p->desc.name,
                                    .rows = p->desc.shape[0],
                                    .cols = p->desc.shape[1],
                                    .value = p->value,
                                    .exact = p->exact,
                                    .fast = p->fast,
                                    .decay = p->desc.decay};
}

enum weft_status wf_optim_new_stage(struct wf_tstage *stage,
                                    const struct wf_optim_settings *how, struct wf_pool *pool,
                                    struct wf_optim **out, struct weft_error *err)
{
    size_t n;
    const struct wf_param *params = wf_tstage_params(stage, &n);
    struct wf_optim_tensor *tensors = calloc(n + 1, sizeof *tensors);
    if (tensors == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "optimizer: out of memory for the list of tensors");
    for (size_t i = 0; i < n; i++)
        tensors[i] = wf_optim_tensor_of(&params[i]);
    enum weft_status st = wf_optim_new(tensors, n, how, pool, out, err);
    free(tensors);
    return st;
}
