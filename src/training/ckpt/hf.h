/* Hugging Face directories: config.json, and the weights in model.safetensors or, cut into several
 * files, model.safetensors.index.json and model-00001-of-00003.safetensors and so on.
 *
 *     struct weft_hf *hf;
 *     WEFT_TRY(weft_hf_open("gpt2", &hf, err));
 *     const struct weft_model *model = weft_hf_model(hf);
 *     st = weft_hf_read(hf, "transformer.wte.weight", 2, (uint64_t[]){50257, 768}, out, err);
 *     ...
 *     st = weft_hf_check_names(hf, names, n_names, err);   these and no others
 *     weft_hf_free(hf);
 *
 * Numbers are copied in the layout of the file: nothing is transposed.
 */
#ifndef TRAINING_CKPT_HF_H
#define TRAINING_CKPT_HF_H

#include <stddef.h>
#include <stdint.h>

#include "training/ckpt/safetensors.h"
#include "weft/spec.h"
#include "weft/status.h"

/* -- reading ------------------------------------------------------------------------------- */

struct weft_hf; /* opaque: read-only once open, safe to use from any thread */

/* Reads config.json and the headers of all weight files.  Names are those that transformers writes
 * today; older files are understood:
 *   - GPT-2 without "transformer." before the names, and with its masks, `attn.bias` and
 *     `attn.masked_bias`, which are left out;
 *   - Llama with `rotary_emb.inv_freq`, which is left out;
 *   - tied models with an `lm_head.weight`, which is left out.
 * WEFT_CKPT for a directory that is none or a broken one.  weft_hf_free() closes it.  Local. */
enum weft_status weft_hf_open(const char *dir, struct weft_hf **out, struct weft_error *err);
void weft_hf_free(struct weft_hf *hf); /* NULL is allowed */

const struct weft_model *weft_hf_model(const struct weft_hf *hf); /* borrowed */

/* The tensors that were not left out, by name. */
size_t weft_hf_count(const struct weft_hf *hf);
const char *weft_hf_name(const struct weft_hf *hf, size_t i); /* borrowed */
/* Elements of all of them. */
uint64_t weft_hf_elements(const struct weft_hf *hf);

/* Where a tensor is.  Borrowed until the directory is closed. */
struct weft_hf_place {
    const struct weft_safetensors *file;
    const struct weft_safetensors_tensor *tensor; /* under the name that the file has for it */
};

/* The tensor of this name; one of another shape is an error that names both.  Local. */
enum weft_status weft_hf_find(const struct weft_hf *hf, const char *name, uint32_t rank,
                              const uint64_t *shape, struct weft_hf_place *out,
                              struct weft_error *err);

/* The tensor of this name, as fp32; one of another shape is an error that names both.  Local. */
enum weft_status weft_hf_read(const struct weft_hf *hf, const char *name, uint32_t rank,
                              const uint64_t *shape, float *out, struct weft_error *err);

/* The directory has all of these names and no others.  The names are of the whole model, also
 * where only some are read.  Local. */
enum weft_status weft_hf_check_names(const struct weft_hf *hf, const char *const *names,
                                     size_t n, struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct weft_hf_writer; /* opaque */

struct weft_hf_write_options {
    enum weft_type type;  /* of all weights: WEFT_F32 or WEFT_BF16 */
    uint64_t shard_bytes; /* cut before a file would become larger; 0: never */
    int64_t bos, eos;     /* tokens that begin and end a document; negative: none */
    const struct weft_safetensors_pair *pairs; /* borrowed: for each file's metadata */
    size_t n_pairs;
};

/* What transformers cuts at by default. */
#define WEFT_HF_SHARD_BYTES UINT64_C(5000000000)

struct weft_hf_tensor {
    const char *name;
    uint32_t rank;
    uint64_t shape[WEFT_SAFETENSORS_MAX_RANK];
};

/* Begins a directory with a model's config.json and these tensors, whose elements then come in
 * this order.  All is made in a temporary directory beside `dir`, which takes its name at the end,
 * so that `dir` is there whole or not at all.  A directory that exists and is not empty is refused:
 * what else is in it is not ours to delete.  Local. */
enum weft_status weft_hf_writer_new(const char *dir, const struct weft_model *model,
                                    const struct weft_hf_tensor *tensors, size_t n,
                                    const struct weft_hf_write_options *options,
                                    struct weft_hf_writer **out, struct weft_error *err);

/* The next n elements, all of one tensor.  Local. */
enum weft_status weft_hf_writer_append(struct weft_hf_writer *w, const float *values, size_t n,
                                       struct weft_error *err);

/* A copy of a file, such as a tokenizer.json, before it is finished.  `name` is borrowed until the
 * writer is freed.  Local. */
enum { WEFT_HF_MAX_COPIED = 16 };
enum weft_status weft_hf_writer_copy(struct weft_hf_writer *w, const char *name,
                                     const char *from, struct weft_error *err);

/* Makes the directory durable and gives it its name.  The writer must still be freed.  Local. */
enum weft_status weft_hf_writer_finish(struct weft_hf_writer *w, struct weft_error *err);

/* Removes what was not finished.  NULL is allowed.  Local. */
void weft_hf_writer_free(struct weft_hf_writer *w);

#endif
