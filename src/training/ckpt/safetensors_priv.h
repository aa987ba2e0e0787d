/* Declarations shared by the safetensors reader, the safetensors writer and the checkpoint
 * store. */
#ifndef TRAINING_CKPT_SAFETENSORS_PRIV_H
#define TRAINING_CKPT_SAFETENSORS_PRIV_H

#include "base/text.h"
#include "training/ckpt/safetensors.h"

/* Returns NULL if `name` is a valid tensor name, otherwise a description of the error. */
const char *wf_safetensors_name_error(const char *name);

/* Returns WEFT_CKPT if two entries have the same name. */
enum weft_status wf_safetensors_check_unique(const struct wf_safetensors_entry *entries,
                                             size_t n, struct weft_error *err);

/* Appends the JSON header of a file.  The header is padded so that the data begins at a
 * multiple of 64 bytes from the start of the file, which begins with the 8-byte header
 * length. */
enum weft_status wf_safetensors_header(struct wf_text *text,
                                       const struct wf_safetensors_entry *entries, size_t n,
                                       const struct wf_safetensors_pair *pairs, size_t n_pairs,
                                       struct weft_error *err);

#endif
