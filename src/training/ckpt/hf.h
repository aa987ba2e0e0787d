/* Reads and writes Hugging Face directories: config.json with the weights in model.safetensors,
 * or in several shards model-00001-of-00003.safetensors ... with model.safetensors.index.json.
 *
 *     struct wf_hf *hf;
 *     WEFT_TRY(wf_hf_open("gpt2", &hf, err));
 *     const struct weft_model *model = wf_hf_model(hf);
 *     st = wf_hf_read(hf, "transformer.wte.weight", 2, (uint64_t[]){50257, 768}, out, err);
 *     ...
 *     st = wf_hf_check_names(hf, names, n_names, err);   expects exactly these names
 *     wf_hf_free(hf);
 *
 * Values have the same layout as in the file: no tensor is transposed.
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

/* Reads config.json and the headers of all weight files.  Tensors have the names that current
 * versions of transformers use.  Files of older versions are supported:
 *   - GPT-2 files without the prefix "transformer."; the masks `attn.bias` and
 *     `attn.masked_bias` are ignored;
 *   - Llama files with `rotary_emb.inv_freq`, which is ignored;
 *   - files of models with tied weights that contain `lm_head.weight`, which is only compared
 *     with the embedding (wf_hf_check_names()).
 * Returns WEFT_CKPT if `dir` is not a Hugging Face model directory or is damaged.  The caller
 * frees *out with wf_hf_free().  Local. */
enum weft_status wf_hf_open(const char *dir, struct wf_hf **out, struct weft_error *err);
void wf_hf_free(struct wf_hf *hf); /* NULL is allowed */

/* Returns the model that config.json describes.  The pointer is borrowed. */
const struct weft_model *wf_hf_model(const struct wf_hf *hf);

/* Returns the number of tensors, without the ignored tensors. */
size_t wf_hf_count(const struct wf_hf *hf);
/* Returns the total number of elements of these tensors. */
uint64_t wf_hf_elements(const struct wf_hf *hf);

/* The file that contains a tensor.  The pointers are borrowed until wf_hf_free(). */
struct wf_hf_location {
    const struct wf_safetensors *file;
    const struct wf_safetensors_tensor *tensor; /* has the name that is stored in the file */
};

/* Finds a tensor.  Returns WEFT_CKPT if the tensor is missing or its shape differs.  Local. */
enum weft_status wf_hf_find(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, struct wf_hf_location *out,
                            struct weft_error *err);

/* Reads a tensor as fp32.  Returns WEFT_CKPT if the tensor is missing or its shape differs.
 * Local. */
enum weft_status wf_hf_read(const struct wf_hf *hf, const char *name, uint32_t n_dims,
                            const uint64_t *shape, float *out, struct weft_error *err);

/* Returns WEFT_CKPT unless the directory contains exactly the tensors in `names`.  `names` must
 * list all tensors of the model, even if the caller reads only some of them.  Also returns
 * WEFT_CKPT if the model is tied but has an lm_head.weight that differs from the embedding.
 * Local. */
enum weft_status wf_hf_check_names(const struct wf_hf *hf, const char *const *names, size_t n,
                                   struct weft_error *err);

/* -- writing ------------------------------------------------------------------------------- */

struct wf_hf_writer; /* opaque */

struct wf_hf_metadata; /* planning/spec/hf_config.h */

struct wf_hf_write_options {
    enum wf_dtype type;   /* type of all weights: WF_DTYPE_F32 or WF_DTYPE_BF16 */
    uint64_t shard_bytes; /* maximum tensor bytes per file; 0: write one file */
    /* Borrowed: token ids and other keys of config.json; its dtype is not used.  NULL: none. */
    const struct wf_hf_metadata *about;
    /* Borrowed: metadata that is written into every file. */
    const struct wf_safetensors_pair *pairs;
    size_t n_pairs;
};

/* The default shard size of transformers, in bytes. */
#define WF_HF_SHARD_BYTES UINT64_C(5000000000)

struct wf_hf_tensor {
    const char *name;
    uint32_t n_dims;
    uint64_t shape[WF_SAFETENSORS_MAX_DIMS];
};

/* Starts a directory with config.json of the model and the given tensors.  For a model with
 * block attention residuals, adds the file with which transformers computes it.  The caller
 * appends the elements of the tensors in the given order.  The directory is written atomically:
 * a temporary directory beside `dir` is renamed to `dir` at the end.  Returns WEFT_USAGE if
 * `dir` exists and is not empty.  Local. */
enum weft_status wf_hf_writer_new(const char *dir, const struct weft_model *model,
                                  const struct wf_hf_tensor *tensors, size_t n,
                                  const struct wf_hf_write_options *options,
                                  struct wf_hf_writer **out, struct weft_error *err);

/* Appends the next n elements, which must all belong to the same tensor.  Local. */
enum weft_status wf_hf_writer_append(struct wf_hf_writer *w, const float *values, size_t n,
                                     struct weft_error *err);

/* Copies a file, such as tokenizer.json, into the directory.  `name` may have one directory
 * before it.  Must be called before wf_hf_writer_finish().  Local. */
enum weft_status wf_hf_writer_copy(struct wf_hf_writer *w, const char *name, const char *from,
                                   struct weft_error *err);

/* Writes a file with the given bytes.  Otherwise as wf_hf_writer_copy().  Local. */
enum weft_status wf_hf_writer_add(struct wf_hf_writer *w, const char *name, const char *bytes,
                                  size_t n, struct weft_error *err);

/* Makes the directory durable and renames it to `dir`.  The caller must still free the writer.
 * Local. */
enum weft_status wf_hf_writer_finish(struct wf_hf_writer *w, struct weft_error *err);

/* Frees the writer and removes an unfinished directory.  NULL is allowed.  Local. */
void wf_hf_writer_free(struct wf_hf_writer *w);

#endif
