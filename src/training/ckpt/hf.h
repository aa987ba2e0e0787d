/* Hugging Face directories: config.json, and the weights in model.safetensors or, cut into several
 * files, model.safetensors.index.json and model-00001-of-00003.safetensors and so on.
 *
 *     struct wf_hf *hf;
 *     WEFT_TRY(wf_hf_open("gpt2", &hf, err));
 *     const struct weft_model *model = wf_hf_model(hf);
 *     st = wf_hf_read(hf, "transformer.wte.weight", 2, (uint64_t[]){50257, 768}, out, err);
 *     ...
 *     st = wf_hf_check_names(hf, names, n_names, err);   these and no others
 *     wf_hf_free(hf);
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

struct wf_hf; /* opaque: read-only once open, safe to use from any thread */

/* Reads config.json and the headers of all weight files.  Names are those that transformers writes
 * today; older files are understood:
 *   - GPT-2 without "transformer." before the names, and with its masks, `attn.bias` and
 *     `attn.masked_bias`, which are left out;
 *   - Llama with `rotary_emb.inv_freq`, which is left out;
 *   - tied models with an `lm_head.weight`, which is left out.
 * WEFT_CKPT for a directory that is none or a broken one.  wf_hf_free() closes it.  Local. */
enum weft_status wf_hf_open(const char *dir, struct wf_hf **out, struct weft_error *err);
void wf_hf_free(struct wf_hf *hf); /* NULL is allowed */

const struct weft_model *wf_hf_model(const struct wf_hf *hf); /* borrowed */

/* The tensors that were not left out, by name. */
size_t wf_hf_count(const struct wf_hf *hf);
const char *wf_hf_name(const struct wf_hf *hf, size_t i); /* borrowed */
/* Elements of all of them. */
uint64_t wf_hf_elements(const struct wf_hf *hf);

/* Where a tensor is.  Borrowed until the directory is closed. */
struct wf_hf_location {
    const struct wf_safetensors *file;
    const struct wf_safetensors_tensor *tensor; /* under the name that the file has for it */
};

/* The tensor of this name; one of another shape is an error that names both.  Local. */
enum weft_status wf_hf_find(const struct wf_hf *hf, const char *name, uint32_t rank,
                            const uint64_t *shape, struct wf_hf_location *out,
                            struct weft_error *err);

/* The tensor of this name, as fp32; one of another shape is an error that names both.  Local. */
enum weft_status wf_hf_read(const struct wf_hf *hf, const char *name, uint32_t rank,
                            const uint64_t *shape, float *out, struct weft_error *err);

/* The directory has all of these names and no others.  The names are of the whole model, also
 * where only some are read.  Local. */
enum weft_status wf_hf_check_names(const struct wf_hf *hf, const char *const *names, size_t n,
                                   struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_hf_writer; /* opaque */

struct wf_hf_write_options {
    enum wf_dtype type;   /* of all weights: WF_DTYPE_F32 or WF_DTYPE_BF16 */
    uint64_t shard_bytes; /* cut before a file would become larger; 0: never */
    int64_t bos, eos;     /* tokens that begin and end a document; negative: none */
    const struct wf_safetensors_pair *pairs; /* borrowed: for each file's metadata */
    size_t n_pairs;
};

/* What transformers cuts at by default. */
#define WF_HF_SHARD_BYTES UINT64_C(5000000000)

struct wf_hf_tensor {
    const char *name;
    uint32_t rank;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
};

/* Begins a directory with a model's config.json and these tensors, whose elements then come in
 * this order.  All is made in a temporary directory beside `dir`, which takes its name at the end,
 * so that `dir` is there whole or not at all.  A directory that exists and is not empty is refused:
 * what else is in it is not ours to delete.  Local. */
enum weft_status wf_hf_writer_new(const char *dir, const struct weft_model *model,
                                  const struct wf_hf_tensor *tensors, size_t n,
                                  const struct wf_hf_write_options *options,
                                  struct wf_hf_writer **out, struct weft_error *err);

/* The next n elements, all of one tensor.  Local. */
enum weft_status wf_hf_writer_append(struct wf_hf_writer *w, const float *values, size_t n,
                                     struct weft_error *err);

/* A copy of a file, such as a tokenizer.json, before it is finished.  `name` is borrowed until the
 * writer is freed.  Local. */
enum { WF_HF_MAX_COPIED = 16 };
enum weft_status wf_hf_writer_copy(struct wf_hf_writer *w, const char *name, const char *from,
                                   struct weft_error *err);

/* Makes the directory durable and gives it its name.  The writer must still be freed.  Local. */
enum weft_status wf_hf_writer_finish(struct wf_hf_writer *w, struct weft_error *err);

/* Removes what was not finished.  NULL is allowed.  Local. */
void wf_hf_writer_free(struct wf_hf_writer *w);

#endif
