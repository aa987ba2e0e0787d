/* Loads stored weights into models, and finds the tokenizer that belongs to them. */
#ifndef TRAINING_TRAINER_LOAD_H
#define TRAINING_TRAINER_LOAD_H

#include "compute/kern/pool.h"
#include "compute/model/infer.h"
#include "compute/model/stage.h"
#include "training/ckpt/store.h"
#include "training/ckpt/weights.h"
#include "training/ckpt/weights_hash.h"
#include "training/data/shard.h"
#include "training/settings/settings.h"

/* Stores the shape of the model that a run with these settings trains: the shape of the model
 * in model.dir, or the shape that the settings describe.  Local. */
enum weft_status wf_load_run_model(const struct wf_train_settings *s, struct weft_model *out,
                                   struct weft_error *err);

/* Opens weights at any path that training/ckpt/weights.h accepts, and checks that they have
 * exactly the tensor names and numbers of elements of the model in their description.  A
 * damaged description therefore cannot cause large allocations.  The caller frees *out with
 * wf_weights_free().  Local. */
enum weft_status wf_load_open(const char *path, struct wf_weights **out,
                              struct weft_error *err);

/* Computes a hash of all weights in model order, as training/ckpt/weights_hash.h defines it.
 * Local. */
enum weft_status wf_load_hash(const struct wf_weights *w, char out[WF_HASH_HEX_SIZE],
                              struct weft_error *err);

/* Finds the path of the tokenizer of a model, for weft_tokenizer_open(): in the directory of
 * the weights; for a checkpoint, also in the directory of its run, or at the path in the
 * settings of that run.  Sets *out to NULL if there is no tokenizer; the caller frees *out.
 * Returns WEFT_DATA if it is not the tokenizer with which the checkpoint was trained.
 * Local. */
enum weft_status wf_load_find_tokenizer(const struct wf_weights *w, char **out,
                                        struct weft_error *err);

/* Finds the path of the tokenizer of a run: data.tokenizer, or the tokenizer in the directory
 * of data.train, or the tokenizer in model.dir.  The last two are ignored if their vocabulary
 * is larger than `vocab`, the vocabulary size of the model.  Sets *out to NULL if there is no
 * tokenizer; the caller frees *out.  Local. */
enum weft_status wf_load_find_run_tokenizer(const struct wf_train_settings *s, uint32_t vocab,
                                            char **out, struct weft_error *err);

/* Finds the Hugging Face directory whose companion files belong to the weights: the directory
 * of the weights; for a checkpoint, the copy in its run (WF_SOURCE_DIR), or model.dir of that
 * run.  Sets *out to NULL if there is none; the caller frees *out.  Local. */
enum weft_status wf_load_find_source(const struct wf_weights *w, char **out,
                                     struct weft_error *err);

/* The subdirectory of a run with the companion files of model.dir. */
#define WF_SOURCE_DIR "source"

/* Finds the same for a run: model.dir, from which it starts.  Local. */
enum weft_status wf_load_find_run_source(const struct wf_train_settings *s, char **out,
                                         struct weft_error *err);

/* Stores the hash of the tokenizer in a Hugging Face directory; 0 if it has none, or one that
 * weft does not support.  Local. */
enum weft_status wf_load_hash_model_tokenizer(const char *dir, uint64_t *out,
                                              struct weft_error *err);

/* Stores the hash of the tokenizer of a model: the hash in its checkpoint, or that of the
 * tokenizer that wf_load_find_tokenizer() finds; 0: unknown.  Local. */
enum weft_status wf_load_hash_tokenizer(const struct wf_weights *w, uint64_t *out,
                                        struct weft_error *err);

/* Returns WEFT_DATA if the shards were made by another tokenizer than the model's.  Local. */
enum weft_status wf_load_check_tokenizer(const struct wf_weights *w,
                                         const struct wf_shards *shards,
                                         struct weft_error *err);

/* Elements begin .. begin + n - 1 of one field of a tensor in a checkpoint. */
struct wf_load_range {
    const char *name; /* borrowed */
    enum wf_store_field what;
    uint64_t begin, n;
    float *out; /* (n), provided by the caller */
};

/* Reads ranges with all threads of a pool and verifies the hashes of the data.  Local. */
enum weft_status wf_load_ranges(struct wf_ckpt *store, const struct wf_load_range *ranges,
                                size_t n, struct wf_pool *pool, struct weft_error *err);

/* Reads the values of one parameter.  Local. */
enum weft_status wf_load_param(const struct wf_weights *w, const struct wf_param_desc *d,
                               float *out, struct weft_error *err);

/* Reads all weights of a model for inference.  `w` is from wf_load_open().  Local. */
enum weft_status wf_load_infer(const struct wf_weights *w, struct wf_infer *m,
                               struct weft_error *err);

#endif
