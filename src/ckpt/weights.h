/* The weights of a model, whatever they are stored as:
 *
 *     a Hugging Face directory    ckpt/hf.h
 *     a model file of llm.c       ckpt/llmc.h
 *
 *     struct weft_weights *w;
 *     WEFT_TRY(weft_weights_open("gpt2", &w, err));
 *     st = weft_weights_read(w, "transformer.wte.weight", 2, shape, out, err);
 *     weft_weights_free(w);
 */
#ifndef CKPT_WEIGHTS_H
#define CKPT_WEIGHTS_H

#include <stdint.h>

#include "weft/spec.h"
#include "weft/status.h"

struct weft_weights; /* opaque: read-only once open, safe to use from any thread */

struct weft_weights_info {
    struct weft_model model;
    const char *kind;               /* "Hugging Face directory", "llm.c model" */
    uint64_t n_tensors, n_elements; /* that are stored */
    int64_t bos, eos; /* tokens that begin and end a document; negative: not known */
};

/* WEFT_CKPT for what is none of these, or broken.  weft_weights_free() closes it.  Local. */
enum weft_status weft_weights_open(const char *path, struct weft_weights **out,
                                   struct weft_error *err);
void weft_weights_free(struct weft_weights *w); /* NULL is allowed */

const struct weft_weights_info *weft_weights_info(const struct weft_weights *w); /* borrowed */

/* All of these names are there, of the whole model, and no others.  Local. */
enum weft_status weft_weights_check_names(const struct weft_weights *w,
                                          const char *const *names, size_t n,
                                          struct weft_error *err);

/* The tensor of a Hugging Face name, as fp32 and in that library's layout; one of another shape
 * is an error.  Local. */
enum weft_status weft_weights_read(const struct weft_weights *w, const char *name,
                                   uint32_t rank, const uint64_t *shape, float *out,
                                   struct weft_error *err);

#endif
