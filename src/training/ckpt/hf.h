/* Reads and writes Hugging Face directories: config.json with the weights in model.safetensors, or
 * in several shards model-00001-of-00003.safetensors with model.safetensors.index.json.
 *
 *     struct wf_hf *hf;
 *     WEFT_TRY(wf_hf_open("gpt2", &hf, err));
 *     const struct weft_model *model = wf_hf_model(hf);
 *     st = wf_hf_read(hf, "transformer.wte.weight", 2, (uint64_t[]){50257, 768}, out, err);
 *     ...
 *     st = wf_hf_check_names(hf, names, n_names, err);   exactly these names
 *     wf_hf_free(hf);
 *
 * Values keep the layout of the file: nothing is transposed.
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

/* Reads config.json and the headers of all weight files.  Names are those of current versions of
 * transformers.  Files of older versions are supported:
 *   - GPT-2 without the prefix "transformer."; its masks `attn.bias` and `attn.masked_bias` are
 *     ignored;
 *   - Llama with `rotary_emb.inv_freq`, which is ignored;
 *   - tied models with an `lm_head.weight`, which is ignored.
 * Returns WEFT_CKPT if it is not such a directory or is damaged.  Free it with wf_hf_free().
 * Local. */
enum weft_status wf_hf_open(const char *dir, struct wf_hf **out, struct weft_error *err);
void wf_hf_free(struct wf_hf *hf); /* NULL is allowed */

/* Returns the model of config.json.  Borrowed. */
const struct weft_model *wf_hf_model(const struct wf_hf *hf);

/* Returns the number of tensors that are not ignored. */
size_t wf_hf_count(const struct wf_hf *hf);
/* Returns the name of the i-th of them, in alphabetical order.  Borrowed. */
const char *wf_hf_name(const struct wf_hf *hf, size_t i);
/* Returns the number of elements of all of them. */
uint64_t wf_hf_elements(const struct wf_hf *hf);

/* The file that contains a tensor.  Borrowed until the directory is closed. */
struct wf_hf_location {
    const struct wf_safetensors *file;
    const struct wf_safetensors_tensor *tensor; /* with its name in the file */
};

/* Finds a tensor.  Returns WEFT_CKPT if it is missing or has another shape.  Local. */
enum weft_status wf_hf_find(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, struct wf_hf_location *out,
                            struct weft_error *err);

/* Reads a tensor as fp32.  Returns WEFT_CKPT if it is missing or has another shape.  Local. */
enum weft_status wf_hf_read(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, float *out, struct weft_error *err);

/* Returns WEFT_CKPT unless the directory has exactly these tensors.  `names` lists the whole model,
 * even if only some tensors are read.  Local. */
enum weft_status wf_hf_check_names(const struct wf_hf *hf, const char *const *names, size_t n,
                                   struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_hf_writer; /* opaque */

struct wf_hf_write_options {
    enum wf_dtype type;   /* of all weights: WF_DTYPE_F32 or WF_DTYPE_BF16 */
    uint64_t shard_bytes; /* maximum data per file; 0: one file */
    int64_t bos, eos;     /* tokens that begin and end a document; negative: none */
    const struct wf_safetensors_pair *pairs; /* borrowed: metadata of each file */
    size_t n_pairs;
};

/* The default shard size of transformers. */
#define WF_HF_SHARD_BYTES UINT64_C(5000000000)

struct wf_hf_tensor {
    const char *name;
    uint32_t n_dims;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
};

/* Starts a directory with the model's config.json and these tensors, whose elements are appended in
 * this order.  The directory is written atomically: as a temporary directory beside `dir` that is
 * renamed at the end.  Returns WEFT_USAGE if `dir` exists and is not empty.  Local. */
enum weft_status wf_hf_writer_new(const char *dir, const struct weft_model *model,
                                  const struct wf_hf_tensor *tensors, size_t n,
                                  const struct wf_hf_write_options *options,
                                  struct wf_hf_writer **out, struct weft_error *err);

/* Appends the next n elements, all of one tensor.  Local. */
enum weft_status wf_hf_writer_append(struct wf_hf_writer *w, const float *values, size_t n,
                                     struct weft_error *err);

/* Copies a file, such as tokenizer.json, into the directory.  Call it before
 * wf_hf_writer_finish().  `name` is borrowed until the writer is freed.  Local. */
enum { WF_HF_MAX_COPIED = 16 };
enum weft_status wf_hf_writer_copy(struct wf_hf_writer *w, const char *name, const char *from,
                                   struct weft_error *err);

/* Makes the directory durable and renames it to `dir`.  The writer must still be freed.  Local. */
enum weft_status wf_hf_writer_finish(struct wf_hf_writer *w, struct weft_error *err);

/* Frees the writer and removes an unfinished directory.  NULL is allowed.  Local. */
void wf_hf_writer_free(struct wf_hf_writer *w);

#endif
