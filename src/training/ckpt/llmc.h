/* llm.c's GPT-2 model files, gpt2_124M.bin and its kin: a header of 256 little-endian int32, then
 * every tensor over all layers in turn.
 *
 *     [0] 20240326   [1] 3: fp32, 5: bf16   [2] longest sequence   [3] vocabulary   [4] layers
 *     [5] heads      [6] dimension          [7] vocabulary, padded
 *
 *     wte (padded, C)  wpe  ln1w ln1b  qkvw qkvb  attprojw attprojb  ln2w ln2b  fcw fcb
 *     fcprojw fcprojb  lnfw lnfb
 *
 * Read as if it were a Hugging Face directory: by that library's names, with its shapes and
 * layouts (llm.c has the four matrices of a layer as (outputs, inputs)), without the padding. */
#ifndef TRAINING_CKPT_LLMC_H
#define TRAINING_CKPT_LLMC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

enum { WF_LLMC_HEADER_BYTES = 1024 };

struct wf_llmc; /* opaque: read-only once open, safe to use from any thread */

/* WEFT_CKPT for a file that is none, a broken one, or of another kind or version: sizes must add
 * up to the byte.  wf_llmc_free() closes it.  Local. */
enum weft_status wf_llmc_open(const char *path, struct wf_llmc **out, struct weft_error *err);
void wf_llmc_free(struct wf_llmc *f); /* NULL is allowed */

const struct weft_model *wf_llmc_model(const struct wf_llmc *f); /* borrowed */

/* How many tensors it stands for, and their elements without the padding. */
void wf_llmc_sizes(const struct wf_llmc *f, uint64_t *n_tensors, uint64_t *n_elements);

/* The tensor of a Hugging Face name, as fp32; another shape is an error.  Local. */
enum weft_status wf_llmc_read(const struct wf_llmc *f, const char *name, uint32_t rank,
                              const uint64_t *shape, float *out, struct weft_error *err);

#endif
