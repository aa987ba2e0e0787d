/* Reads GPT-2 model files of llm.c (gpt2_124M.bin): a header of 256 little-endian int32, then each
 * tensor for all layers in turn.
 *
 *     [0] 20240326   [1] 3: fp32, 5: bf16   [2] maximum sequence   [3] vocabulary   [4] layers
 *     [5] heads      [6] dimension          [7] padded vocabulary
 *
 *     wte (padded, C)  wpe  ln1w ln1b  qkvw qkvb  attprojw attprojb  ln2w ln2b  fcw fcb
 *     fcprojw fcprojb  lnfw lnfb
 *
 * Tensors are presented as in a Hugging Face directory: with its names, shapes and layouts and
 * without the padding.  llm.c stores the four matrices of a layer as (outputs, inputs). */
#ifndef TRAINING_CKPT_LLMC_H
#define TRAINING_CKPT_LLMC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

enum { WF_LLMC_HEADER_BYTES = 1024 };

struct wf_llmc; /* opaque: read-only once open, safe to use from any thread */

/* Opens a model file.  Returns WEFT_CKPT if it is not one, is damaged, has another magic number or
 * version, or its size differs from what the header describes.  Free it with wf_llmc_free().
 * Local. */
enum weft_status wf_llmc_open(const char *path, struct wf_llmc **out, struct weft_error *err);
void wf_llmc_free(struct wf_llmc *f); /* NULL is allowed */

/* Returns the model that the header describes.  Borrowed. */
const struct weft_model *wf_llmc_model(const struct wf_llmc *f);

/* Computes the number of tensors and of their elements without the padding. */
void wf_llmc_sizes(const struct wf_llmc *f, uint64_t *n_tensors, uint64_t *n_elements);

/* Reads the tensor with this Hugging Face name as fp32.  Returns WEFT_CKPT if there is no such
 * tensor or its shape differs.  Local. */
enum weft_status wf_llmc_read(const struct wf_llmc *f, const char *name, uint32_t n_dims,
                              const uint64_t *shape, float *out, struct weft_error *err);

#endif
