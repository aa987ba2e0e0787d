/* The weights of a model, whatever they are stored as:
 *
 *     a Hugging Face directory    training/ckpt/hf.h
 *     a checkpoint of a run       training/ckpt/store.h: its values, without moments
 *     the directory of a run      its model/; before it is finished, its newest whole checkpoint
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
    const char *path; /* what was opened: of a run its model/, or one of its checkpoints */
    const char
        *note; /* a line for the user: which checkpoint of a run was taken, and which were
                         passed over; NULL: there was no choice */
    const char *settings;           /* those of a checkpoint's run, as YAML; NULL: not known */
    uint64_t n_tensors, n_elements; /* that are stored */
    int64_t bos, eos; /* tokens that begin and end a document; negative: not known */
};

/* WEFT_CKPT for what is none of these, or broken.  wf_weights_free() closes it.  Local. */
enum weft_status wf_weights_open(const char *path, struct wf_weights **out,
                                 struct weft_error *err);
void wf_weights_free(struct wf_weights *w); /* NULL is allowed */

const struct wf_weights_info *wf_weights_info(const struct wf_weights *w); /* borrowed */

/* All of these names are there, of the whole model, and no others.  Local. */
enum weft_status wf_weights_check_names(const struct wf_weights *w, const char *const *names,
                                        size_t n, struct weft_error *err);

/* The tensor of a Hugging Face name, as fp32 and in that library's layout; one of another shape
 * is an error.  Local. */
enum weft_status wf_weights_read(const struct wf_weights *w, const char *name, uint32_t rank,
                                 const uint64_t *shape, float *out, struct weft_error *err);

/* Puts other files into a directory before it has its name. */
struct wf_weights_extras {
    enum weft_status (*add)(void *arg, const char *dir, struct weft_error *err);
    void *arg;
};

/* Writes them as the checkpoint `path` of this step, for a run to begin with: moments are zero, and it
 * has no settings.  The tensors are all of the model, with their names and shapes; all must fit
 * into memory.  `more` may be NULL.  The directory appears whole or not at all; one that exists and
 * is not empty is refused.  Local. */
struct wf_hf_tensor; /* training/ckpt/hf.h */
enum weft_status wf_weights_to_checkpoint(const struct wf_weights *w,
                                          const struct wf_hf_tensor *tensors, size_t n,
                                          uint64_t step, const struct wf_weights_extras *more,
                                          const char *path, struct weft_error *err);

/* The Hugging Face directory that was opened; NULL when it was something else.  Borrowed. */
const struct wf_hf *wf_weights_hf(const struct wf_weights *w);

#endif
