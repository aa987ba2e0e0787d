/* Hashes the weights of a model, to compare two models bit by bit.
 *
 * The hash is XXH3-128 over the tensors in the caller's order: name with its NUL, number of
 * dimensions and sizes as little-endian uint64, values as little-endian fp32.  It depends neither
 * on how the files are divided nor on the stored type: a tensor in BF16 has the same hash as the
 * same values in F32.  The hash detects mistakes, not forgery.
 */
#ifndef TRAINING_CKPT_WEIGHTS_HASH_H
#define TRAINING_CKPT_WEIGHTS_HASH_H

#include "training/ckpt/hf.h"
#include "training/ckpt/weights.h"

enum { WF_HASH_HEX_SIZE = 33 }; /* 32 hexadecimal digits and a NUL */

/* Computes the hash of these tensors.  Tensors of a Hugging Face directory are read in pieces of
 * constant size; those of a checkpoint or of llm.c are read one whole tensor at a time.  Returns
 * WEFT_CKPT if one is missing, has another shape, or has a type that is not readable.  Local. */
enum weft_status wf_weights_hash(const struct wf_weights *w, const struct wf_hf_tensor *tensors,
                                 size_t n, char out[WF_HASH_HEX_SIZE], struct weft_error *err);

#endif
