/* Reads the weights of a model from any supported source:
 *
 *     a Hugging Face directory    training/ckpt/hf.h
 *     a checkpoint of a run       training/ckpt/store.h: the values, without the moments
 *     the directory of a run      its subdirectory model/ or, if the run is unfinished, its
 *                                 newest valid checkpoint
 *     a model file of llm.c       training/ckpt/llmc.h
 *
 *     struct wf_weights *w;
 *     WEFT_TRY(wf_weights_open("gpt2", &w, err));
 *     st = wf_weights_read(w, "transformer.wte.weight", 2, shape, out, err);
 *     wf_weights_free(w);
 */
#ifndef TRAINING_CKPT_WEIGHTS_H
#define TRAINING_CKPT_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

struct wf_hf;
struct wf_weights; /* opaque: read-only once open, safe to use from any thread */

/* A description of opened weights.  The pointers are borrowed until wf_weights_free(). */
struct wf_weights_info {
    struct weft_model model;
    const char *kind; /* "Hugging Face directory", "checkpoint", "llm.c model" */
    /* Path that was opened; for a run the path of its model/ or of a checkpoint. */
    const char *path;
    /* One line: which checkpoint of the run was opened and which were skipped; NULL: there was
     * no choice. */
    const char *note;
    /* Settings of the run that wrote the checkpoint, as YAML; NULL: unknown. */
    const char *settings;
    const char *tokenizer; /* of a checkpoint: the text that identifies it; NULL: unknown */
    uint64_t n_tensors, n_elements; /* number of stored tensors, number of their elements */
    int64_t bos, eos; /* ids of the tokens that begin and end a document; negative: unknown */
};

/* Opens weights.  Returns WEFT_CKPT if `path` is not a supported source or if the source is
 * damaged.  The caller frees *out with wf_weights_free().  Local. */
enum weft_status wf_weights_open(const char *path, struct wf_weights **out,
                                 struct weft_error *err);
void wf_weights_free(struct wf_weights *w); /* NULL is allowed */

/* Returns a description of the weights.  The pointer is borrowed. */
const struct wf_weights_info *wf_weights_info(const struct wf_weights *w);

/* Returns WEFT_CKPT unless the source contains exactly the tensors in `names`.  `names` must
 * list all tensors of the model.  Local. */
enum weft_status wf_weights_check_names(const struct wf_weights *w, const char *const *names,
                                        size_t n, struct weft_error *err);

/* Reads the tensor with the Hugging Face name `name` as fp32, in the Hugging Face layout.
 * Returns WEFT_CKPT if the tensor is missing or its shape differs.  Local. */
enum weft_status wf_weights_read(const struct wf_weights *w, const char *name, uint32_t n_dims,
                                 const uint64_t *shape, float *out, struct weft_error *err);

/* What a checkpoint has besides the weights. */
struct wf_weights_extras {
    const char *tokenizer; /* text that identifies the tokenizer; NULL: unknown */
    /* Adds other files to the directory before it gets its final name; may be NULL. */
    enum weft_status (*add)(void *arg, const char *dir, struct weft_error *err);
    void *arg;
};

struct wf_hf_tensor; /* training/ckpt/hf.h */

/* Writes the weights to `path` as a checkpoint of step `step`.  A run can start from this
 * checkpoint; its moments are zero, and it has no settings.  `tensors` lists all tensors of the
 * model; all tensors are in memory at the same time.  `extras` may be NULL.  The directory is
 * written atomically.  Returns WEFT_USAGE if `path` exists and is not empty.  Local. */
enum weft_status wf_weights_to_checkpoint(const struct wf_weights *w,
                                          const struct wf_hf_tensor *tensors, size_t n,
                                          uint64_t step, const struct wf_weights_extras *extras,
                                          const char *path, struct weft_error *err);

/* Returns the Hugging Face directory that was opened, or NULL for another source.  The pointer
 * is borrowed. */
const struct wf_hf *wf_weights_hf(const struct wf_weights *w);

#endif
