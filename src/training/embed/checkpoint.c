/* Implements weft/checkpoint.h with training/ckpt and training/jobs. */
#include "weft/checkpoint.h"

#include "base/error.h"
#include "training/embed/embed.h"
#include "training/jobs/convert.h"
#include "training/trainer/load.h"

_Static_assert((int)WEFT_CHECKPOINT_HASH_SIZE == (int)WF_HASH_HEX_SIZE,
               "the public size of a hash");

/* A struct weft_checkpoint is a struct wf_weights under its public name. */
const struct wf_weights *wf_checkpoint_weights(const struct weft_checkpoint *c)
{
    return (const struct wf_weights *)c;
}

enum weft_status weft_checkpoint_open(const char *path, struct weft_checkpoint **out,
                                      struct weft_error *err)
{
    struct wf_weights *w = NULL;
    WEFT_TRY(wf_load_open(path, &w, err));
    *out = (struct weft_checkpoint *)w;
    return WEFT_OK;
}

void weft_checkpoint_free(struct weft_checkpoint *c)
{
    wf_weights_free((struct wf_weights *)c);
}

const struct weft_model *weft_checkpoint_model(const struct weft_checkpoint *c)
{
    return &wf_weights_info(wf_checkpoint_weights(c))->model;
}

const char *weft_checkpoint_note(const struct weft_checkpoint *c)
{
    return wf_weights_info(wf_checkpoint_weights(c))->note;
}

const char *weft_checkpoint_path(const struct weft_checkpoint *c)
{
    return wf_weights_info(wf_checkpoint_weights(c))->path;
}

enum weft_status weft_checkpoint_read(const struct weft_checkpoint *c, const char *name,
                                      uint32_t n_dims, const uint64_t *shape, float *out,
                                      struct weft_error *err)
{
    return wf_weights_read(wf_checkpoint_weights(c), name, n_dims, shape, out, err);
}

enum weft_status weft_checkpoint_hash(const struct weft_checkpoint *c,
                                      char out[WEFT_CHECKPOINT_HASH_SIZE],
                                      struct weft_error *err)
{
    return wf_load_hash(wf_checkpoint_weights(c), out, err);
}

enum weft_status weft_checkpoint_convert(const struct weft_checkpoint *c, const char *dir,
                                         bool bf16, struct weft_error *err)
{
    struct wf_convert_options options = wf_convert_defaults();
    options.type = bf16 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    struct wf_convert_result result;
    return wf_convert_to_hf(wf_checkpoint_weights(c), dir, &options, &result, err);
}
