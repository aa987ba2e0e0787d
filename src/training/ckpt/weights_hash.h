/* Hashes the weights of a model, to compare two models bit by bit.
 *
 * The hash is XXH3-128 over the tensors in the caller's order.  Per tensor it covers the name
 * with its NUL, the number of dimensions and the sizes as little-endian uint64, and the values
 * as little-endian fp32.  The hash depends neither on how the tensors are divided into files
 * nor on the stored type: a BF16 tensor has the same hash as an F32 tensor with the same
 * values.  The hash detects mistakes, not forgery.
 */
#ifndef TRAINING_CKPT_WEIGHTS_HASH_H
#define TRAINING_CKPT_WEIGHTS_HASH_H

#include "training/ckpt/hf.h"
#include "training/ckpt/weights.h"

enum { WF_HASH_HEX_SIZE = 33 }; /* 32 hexadecimal digits and a NUL */

/* Computes the hash of the given tensors.  Tensors of a Hugging Face directory are read in
 * pieces of constant size; tensors of a checkpoint or an llm.c file are read as a whole.
 * Returns WEFT_CKPT if a tensor is missing, its shape differs, or its type is not readable.
 * Local. */
enum weft_status wf_weights_hash(const struct wf_weights *w, const struct wf_hf_tensor *tensors,
                                 size_t n, char out[WF_HASH_HEX_SIZE], struct weft_error *err);

#endif
