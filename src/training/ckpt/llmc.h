/* Reads GPT-2 model files of llm.c (gpt2_124M.bin): a header of 256 little-endian int32 values,
 * followed by the tensors.  Each tensor is stored for all layers before the next tensor.
 *
 *     [0] 20240326   [1] 3: fp32, 5: bf16   [2] maximum sequence   [3] vocabulary   [4] layers
 *     [5] heads      [6] dimension          [7] padded vocabulary
 *
 *     wte (padded, C)  wpe  ln1w ln1b  qkvw qkvb  attprojw attprojb  ln2w ln2b  fcw fcb
 *     fcprojw fcprojb  lnfw lnfb
 *
 * The functions below use the tensor names, shapes and layouts of Hugging Face, without the
 * padding.  llm.c stores the four matrices of a layer as (outputs, inputs). */
#ifndef TRAINING_CKPT_LLMC_H
#define TRAINING_CKPT_LLMC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

enum { WF_LLMC_HEADER_BYTES = 1024 };

struct wf_llmc; /* opaque: read-only once open, safe to use from any thread */

/* Opens a model file.  Returns WEFT_CKPT if the file is not an llm.c model file, is damaged,
 * has an unsupported version, or if its size does not match its header.  The caller frees *out
 * with wf_llmc_free().  Local. */
enum weft_status wf_llmc_open(const char *path, struct wf_llmc **out, struct weft_error *err);
void wf_llmc_free(struct wf_llmc *f); /* NULL is allowed */

/* Returns the model that the header describes.  The pointer is borrowed. */
const struct weft_model *wf_llmc_model(const struct wf_llmc *f);

/* Computes the number of tensors and the total number of their elements, without the
 * padding. */
void wf_llmc_sizes(const struct wf_llmc *f, uint64_t *n_tensors, uint64_t *n_elements);

/* Reads the tensor with the Hugging Face name `name` as fp32.  Returns WEFT_CKPT if there is no
 * such tensor or its shape differs.  Local. */
enum weft_status wf_llmc_read(const struct wf_llmc *f, const char *name, uint32_t n_dims,
                              const uint64_t *shape, float *out, struct weft_error *err);

#endif
