/* A model that reads tokens one after the other and says what may come next: one sequence at a
 * time, with its keys and values kept.
 *
 *     struct wf_infer *m;
 *     wf_infer_new(&spec, &m, &err);
 *     wf_infer_load(m, read_weight, file, &err);       or wf_infer_init_weights(m, 42, &err)
 *     wf_infer_feed(m, prompt, n, logits, &err);       logits of what follows the last token
 *     wf_infer_feed(m, &token, 1, logits, &err); ...
 *
 * The logits are those of the training forward (compute/model/stage.h) but for rounding.  Their bits
 * depend neither on the number of threads nor on how the tokens are handed over: at once, one by
 * one, or in pieces. */
#ifndef COMPUTE_MODEL_INFER_H
#define COMPUTE_MODEL_INFER_H

#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "compute/model/params.h"
#include "compute/tensor/tensor.h"
#include "weft/spec.h"
#include "weft/status.h"

struct wf_infer;

struct wf_infer_spec {
    struct weft_model model;
    uint32_t max_tokens; /* tokens that keys and values are kept of: 1 .. model.ctx */
    enum wf_dtype type;  /* how matrices are stored: fp32, or bf16, which halves what is read */
    struct wf_pool *pool; /* borrowed */
};

/* The weights are garbage until they are loaded.  wf_infer_free() frees. */
enum weft_status wf_infer_new(const struct wf_infer_spec *spec, struct wf_infer **out,
                              struct weft_error *err);
void wf_infer_free(struct wf_infer *m); /* NULL is allowed */

/* Gives the values of one parameter, wf_param_size() of them, in Hugging Face's layout. */
typedef enum weft_status wf_infer_read_fn(void *arg, const struct wf_param_desc *d, float *out,
                                          struct weft_error *err);

/* Asks for every parameter, in model order. */
enum weft_status wf_infer_load(struct wf_infer *m, wf_infer_read_fn *read, void *arg,
                               struct weft_error *err);
/* The values that a new model has. */
enum weft_status wf_infer_init_weights(struct wf_infer *m, uint64_t seed,
                                       struct weft_error *err);

/* Reads n >= 1 more tokens; `logits` (vocab floats, or NULL: not wanted) are for the token after
 * the last of them.  WEFT_USAGE for a token that the model does not know or that there is no room
 * for; WEFT_NUMERIC when a logit is not finite. */
enum weft_status wf_infer_feed(struct wf_infer *m, const int32_t *tokens, size_t n,
                               float *logits, struct weft_error *err);

/* Tokens read so far. */
uint32_t wf_infer_position(const struct wf_infer *m);
/* Forgets those from `position` on. */
void wf_infer_rewind(struct wf_infer *m, uint32_t position);

/* Returns the bytes of weights that one token reads. */
size_t wf_infer_token_bytes(const struct wf_infer *m);

#endif
