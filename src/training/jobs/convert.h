/* Writes the weights of a model in another form. */
#ifndef TRAINING_JOBS_CONVERT_H
#define TRAINING_JOBS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"

struct wf_convert_options {
    enum wf_dtype type;   /* Hugging Face: of the weights */
    uint64_t shard_bytes; /* Hugging Face: maximum size of a file */
    uint64_t step;        /* checkpoint: the step that a run continues from */
};

struct wf_convert_result {
    size_t n_tensors;
    char tokenizer_error[200]; /* checkpoint: why the tokenizer was left out; "": it was not */
};

/* Writes a Hugging Face directory with the files of the tokenizer.  The directory is written
 * atomically; one that exists must be empty.  Only the largest tensor must fit into memory.  Local. */
enum weft_status wf_convert_to_hf(const struct wf_weights *from, const char *out,
                                  const struct wf_convert_options *options,
                                  struct wf_convert_result *result, struct weft_error *err);

/* Writes a checkpoint whose moments are zero, with tokenizer.json if weft can read the tokenizer.
 * Local. */
enum weft_status wf_convert_to_checkpoint(const struct wf_weights *from, const char *out,
                                          const struct wf_convert_options *options,
                                          struct wf_convert_result *result,
                                          struct weft_error *err);

#endif
