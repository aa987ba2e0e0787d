/* A hash of a model's weights, to see at a glance whether two are the same to the bit.
 *
 * XXH3, 128 bits, over the tensors in an order that the caller gives: of each its name with a NUL,
 * its rank and sizes as little-endian numbers, its values as fp32, little-endian.  How the files
 * are cut and which type the numbers have there makes no difference: a tensor in BF16 has the hash
 * of the same values in F32.  It tells mistakes apart, not forgeries.
 */
#ifndef TRAINING_CKPT_WEIGHTS_HASH_H
#define TRAINING_CKPT_WEIGHTS_HASH_H

#include "training/ckpt/hf.h"
#include "training/ckpt/weights.h"

enum { WF_HASH_HEX_SIZE = 33 }; /* 32 hexadecimal digits and a NUL */

/* The tensors, by the names and shapes that they must have, whatever they are stored as.  Those of a
 * Hugging Face directory are read piece by piece, so that a model of any size takes the same memory;
 * those of a checkpoint or of llm.c whole, one at a time.  WEFT_CKPT when one is missing or has
 * another shape or a type that holds no weights.  Local. */
enum weft_status wf_weights_hash(const struct wf_weights *w, const struct wf_hf_tensor *tensors,
                                 size_t n, char out[WF_HASH_HEX_SIZE], struct weft_error *err);

#endif
