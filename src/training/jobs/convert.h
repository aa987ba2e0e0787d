/* Writes the weights of a model in another format. */
#ifndef TRAINING_JOBS_CONVERT_H
#define TRAINING_JOBS_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"

struct wf_convert_options {
    enum wf_dtype type;   /* Hugging Face: element type of the weights */
    uint64_t shard_bytes; /* Hugging Face: maximum bytes per file */
    uint64_t step;        /* checkpoint: the step after which a run continues */
};

/* Returns the defaults: fp32, 5 GB per file, step 0. */
struct wf_convert_options wf_convert_defaults(void);

struct wf_convert_result {
    size_t n_tensors;
    /* What a user should know about the tokenizer, such as why it was left out; "": nothing. */
    char note[400];
};

/* Writes a Hugging Face directory with all files that belong to the model
 * (training/trainer/companions.h).  The directory is written atomically; if it exists, it must
 * be empty.  Memory needs to hold only the largest tensor.  Local. */
enum weft_status wf_convert_to_hf(const struct wf_weights *from, const char *out,
                                  const struct wf_convert_options *options,
                                  struct wf_convert_result *result, struct weft_error *err);

/* Writes a checkpoint whose moments are zero.  Includes tokenizer.json if weft can read the
 * tokenizer.  Local. */
enum weft_status wf_convert_to_checkpoint(const struct wf_weights *from, const char *out,
                                          const struct wf_convert_options *options,
                                          struct wf_convert_result *result,
                                          struct weft_error *err);

#endif
