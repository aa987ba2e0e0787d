/* Inference: reads the tokens of one sequence in order, stores their keys and values, and
 * computes the logits of the next token.
 *
 *     struct wf_infer *m;
 *     wf_infer_new(&spec, &m, &err);
 *     wf_infer_load(m, read_weight, file, &err);       or wf_infer_init_weights(m, 42, &err)
 *     wf_infer_feed(m, prompt, n, logits, &err);       logits of the token after the prompt
 *     wf_infer_feed(m, &token, 1, logits, &err); ...
 *
 * The logits equal those of the training forward (compute/model/stage.h) up to rounding.  They
 * depend neither on the number of threads nor on how many tokens each call of wf_infer_feed()
 * passes. */
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
    uint32_t max_tokens; /* maximum length of the sequence in tokens: 1 .. model.ctx */
    /* The storage type of matrices: fp32 or bf16.  bf16 halves the bytes that each token
     * reads. */
    enum wf_dtype type;
    struct wf_pool *pool; /* borrowed */
};

/* Creates a model whose weights are undefined until they are loaded.  The caller frees *out
 * with wf_infer_free().  Returns WEFT_USAGE if the spec is invalid, WEFT_NOMEM if memory runs
 * out. */
enum weft_status wf_infer_new(const struct wf_infer_spec *spec, struct wf_infer **out,
                              struct weft_error *err);
void wf_infer_free(struct wf_infer *m); /* NULL is allowed */

/* Computes the memory in bytes of a model with this spec and a pool of `threads` threads,
 * including the buffer that wf_infer_load() needs.  Does not use spec->pool. */
enum weft_status wf_infer_count_bytes(const struct wf_infer_spec *spec, unsigned threads,
                                      size_t *out, struct weft_error *err);

/* Writes the wf_param_size() values of one parameter to `out`, in the layout of Hugging Face
 * files. */
typedef enum weft_status wf_infer_read_fn(void *arg, const struct wf_param_desc *d, float *out,
                                          struct weft_error *err);

/* Loads all weights: calls `read` for every parameter, in model order. */
enum weft_status wf_infer_load(struct wf_infer *m, wf_infer_read_fn *read, void *arg,
                               struct weft_error *err);
/* Sets all weights to their initial values. */
enum weft_status wf_infer_init_weights(struct wf_infer *m, uint64_t seed,
                                       struct weft_error *err);

/* Reads the next n >= 1 tokens.  Writes the logits of the token that follows them (vocab
 * floats), unless `logits` is NULL.  Returns WEFT_USAGE if a token is not in the vocabulary or
 * max_tokens would be exceeded, WEFT_NUMERIC if a logit is not finite. */
enum weft_status wf_infer_feed(struct wf_infer *m, const int32_t *tokens, size_t n,
                               float *logits, struct weft_error *err);

/* Returns the number of tokens read so far. */
uint32_t wf_infer_position(const struct wf_infer *m);
/* Discards the tokens at `position` and after it. */
void wf_infer_rewind(struct wf_infer *m, uint32_t position);

/* Returns the number of bytes of weights that are read to process one token. */
size_t wf_infer_token_bytes(const struct wf_infer *m);

#endif
