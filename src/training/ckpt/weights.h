/* Reads the weights of a model from any supported source:
 *
 *     a Hugging Face directory    training/ckpt/hf.h
 *     a checkpoint of a run       training/ckpt/store.h: its values, without moments
 *     the directory of a run      its model/; of an unfinished run its newest valid checkpoint
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

/* Pointers are borrowed until the weights are closed. */
struct wf_weights_info {
    struct weft_model model;
    const char *kind; /* "Hugging Face directory", "checkpoint", "llm.c model" */
    const char *path; /* what was opened; for a run its model/ or one of its checkpoints */
    const char *note; /* one line: the checkpoint of the run that was opened and those that were
                             skipped; NULL: there was no choice */
    const char *settings;           /* of the checkpoint's run, as YAML; NULL: unknown */
    uint64_t n_tensors, n_elements; /* stored */
    int64_t bos, eos; /* tokens that begin and end a document; negative: unknown */
};

/* Opens weights.  Returns WEFT_CKPT if the path is not a supported source or is damaged.
 * The caller frees *out with wf_weights_free().  Local. */
enum weft_status wf_weights_open(const char *path, struct wf_weights **out,
                                 struct weft_error *err);
void wf_weights_free(struct wf_weights *w); /* NULL is allowed */

/* Returns a description of the weights.  Borrowed. */
const struct wf_weights_info *wf_weights_info(const struct wf_weights *w);

/* Returns WEFT_CKPT unless there are exactly these tensors, those of the whole model.  Local. */
enum weft_status wf_weights_check_names(const struct wf_weights *w, const char *const *names,
                                        size_t n, struct weft_error *err);

/* Reads the tensor with this Hugging Face name as fp32 and in the layout of that library.  Returns
 * WEFT_CKPT if it is missing or has another shape.  Local. */
enum weft_status wf_weights_read(const struct wf_weights *w, const char *name, uint32_t n_dims,
                                 const uint64_t *shape, float *out, struct weft_error *err);

/* Adds other files to a directory before it gets its final name. */
struct wf_weights_extras {
    enum weft_status (*add)(void *arg, const char *dir, struct weft_error *err);
    void *arg;
};

/* Writes the weights as the checkpoint `path` of this step, from which a run can start: moments
 * are zero, and there are no settings.  `tensors` are all of the model; they are held in memory
 * at once.  `extras` may be NULL.  The directory is written atomically.  Returns WEFT_USAGE if it
 * exists and is not empty.  Local. */
struct wf_hf_tensor; /* training/ckpt/hf.h */
enum weft_status wf_weights_to_checkpoint(const struct wf_weights *w,
                                          const struct wf_hf_tensor *tensors, size_t n,
                                          uint64_t step, const struct wf_weights_extras *extras,
                                          const char *path, struct weft_error *err);

/* Returns the Hugging Face directory that was opened, or NULL for another source.  Borrowed. */
const struct wf_hf *wf_weights_hf(const struct wf_weights *w);

#endif
