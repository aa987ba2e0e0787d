/* What the reader and the writer of safetensors files share. */
#ifndef TRAINING_CKPT_SAFETENSORS_PRIV_H
#define TRAINING_CKPT_SAFETENSORS_PRIV_H

#include "base/text.h"
#include "training/ckpt/safetensors.h"

/* NULL when the name may be in a file, else what is wrong with it. */
const char *wf_safetensors_name_error(const char *name);

/* WEFT_CKPT when two entries have one name. */
enum weft_status wf_safetensors_check_unique(const struct wf_safetensors_entry *entries,
                                             size_t n, struct weft_error *err);

/* The JSON of a file's header, padded so that with the eight bytes of its length before it the data
 * begins at a multiple of 64 bytes. */
enum weft_status wf_safetensors_header(struct wf_text *text,
                                       const struct wf_safetensors_entry *entries, size_t n,
                                       const struct wf_safetensors_pair *pairs, size_t n_pairs,
                                       struct weft_error *err);

#endif
