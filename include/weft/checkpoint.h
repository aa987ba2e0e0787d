/* Opens, reads, hashes and converts stored weights.  A path names one of
 *
 *     a Hugging Face directory    config.json and *.safetensors
 *     a checkpoint of a run       RUN/checkpoints/step-00000100
 *     the directory of a run      its final model, or its newest valid checkpoint
 *     an llm.c model file         gpt2_124M.bin
 *
 *     struct weft_checkpoint *c = NULL;
 *     if (weft_checkpoint_open("runs/a", &c, &err) != WEFT_OK) ...
 *     printf("%u layers\n", weft_checkpoint_model(c)->layers);
 *     weft_checkpoint_free(c);
 *
 * Unstable: more formats will be added.
 */
#ifndef WEFT_CHECKPOINT_H
#define WEFT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_checkpoint; /* opaque: read-only, safe to use from any thread */

/* Opens stored weights and checks that they are complete.  Returns WEFT_CKPT if the weights are
 * damaged or not supported; the error names the file and the tensor.  The caller owns *out.
 * Local. */
WEFT_API enum weft_status weft_checkpoint_open(const char *path, struct weft_checkpoint **out,
                                               struct weft_error *err);

/* Closes a checkpoint and frees it.  NULL is allowed. */
WEFT_API void weft_checkpoint_free(struct weft_checkpoint *c);

/* Returns the shape of the model.  The pointer is borrowed. */
WEFT_API const struct weft_model *weft_checkpoint_model(const struct weft_checkpoint *c);

/* Returns the path that was opened.  For the directory of a run, this is the path of its model
 * or of one of its checkpoints.  The pointer is borrowed. */
WEFT_API const char *weft_checkpoint_path(const struct weft_checkpoint *c);

/* Returns a sentence that names the checkpoint that was opened, if the path is a run that has
 * no final model; NULL otherwise.  Borrowed. */
WEFT_API const char *weft_checkpoint_note(const struct weft_checkpoint *c);

/* Reads a tensor by its Hugging Face name as fp32 into `out`, which has room for its elements.
 * Returns WEFT_CKPT if the name is unknown or the shape differs.  Local. */
WEFT_API enum weft_status weft_checkpoint_read(const struct weft_checkpoint *c,
                                               const char *name, uint32_t n_dims,
                                               const uint64_t *shape, float *out,
                                               struct weft_error *err);

enum { WEFT_CHECKPOINT_HASH_SIZE = 33 }; /* 32 hexadecimal digits and a NUL */

/* Computes the XXH3-128 of all weights in model order, as `weft inspect --hash` prints it.
 * Local. */
WEFT_API enum weft_status weft_checkpoint_hash(const struct weft_checkpoint *c,
                                               char out[WEFT_CHECKPOINT_HASH_SIZE],
                                               struct weft_error *err);

/* Writes the weights to a new Hugging Face directory, as fp32 or bf16, with the tokenizer if
 * the checkpoint has one.  The directory is written atomically; an existing directory must be
 * empty.  Local. */
WEFT_API enum weft_status weft_checkpoint_convert(const struct weft_checkpoint *c,
                                                  const char *dir, bool bf16,
                                                  struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
