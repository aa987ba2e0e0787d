/* Stored weights into a model. */
#ifndef TRAINING_TRAINER_LOAD_H
#define TRAINING_TRAINER_LOAD_H

#include "compute/kern/pool.h"
#include "compute/model/infer.h"
#include "compute/model/stage.h"
#include "training/ckpt/store.h"
#include "training/ckpt/weights.h"
#include "training/ckpt/weights_hash.h"
#include "training/settings/settings.h"

/* The shape of the model that a run with these settings trains: that of model.dir, or by its sizes.
 * Local. */
enum weft_status wf_load_run_model(const struct wf_train_settings *s, struct weft_model *out,
                                   struct weft_error *err);

/* Opens weights, by any path of training/ckpt/weights.h, and checks that they are those of the model
 * that they are said to be: every name and no other, as many elements as the model has.  So
 * nothing larger than the files is allocated on their word.  wf_weights_free() closes them.
 * Local. */
enum weft_status wf_load_open(const char *path, struct wf_weights **out,
                              struct weft_error *err);

/* A hash of all of them, in model order: training/ckpt/weights_hash.h.  Local. */
enum weft_status wf_load_hash(const struct wf_weights *w, char out[WF_HASH_HEX_SIZE],
                              struct weft_error *err);

/* Where the tokenizer of a model is, for wf_tokenizer_open(): beside its weights; for a checkpoint
 * also in the directory of its run, or where that run's settings say.  NULL: nowhere.  The caller
 * frees *out.  Local. */
enum weft_status wf_load_find_tokenizer(const struct wf_weights *w, char **out,
                                        struct weft_error *err);

/* The same for a run with these settings, of a model of so many tokens: data.tokenizer, or the one in
 * the folder of data.train, or that of model.dir.  One that was not named is passed over when it has
 * more tokens than the model.  NULL: there is none.  Local. */
enum weft_status wf_load_find_run_tokenizer(const struct wf_train_settings *s, uint32_t vocab,
                                            char **out, struct weft_error *err);

/* Elements begin .. begin + n - 1 of what a checkpoint has of a tensor, and where they go. */
struct wf_load_range {
    const char *name; /* borrowed */
    enum wf_store_field what;
    uint64_t begin, n;
    float *out;
};

/* Reads them with all threads of a pool, and compares them with their hashes.  Local. */
enum weft_status wf_load_ranges(struct wf_ckpt *store, const struct wf_load_range *ranges,
                                size_t n, struct wf_pool *pool, struct weft_error *err);

/* The values of one parameter.  Local. */
enum weft_status wf_load_param(const struct wf_weights *w, const struct wf_param_desc *d,
                               float *out, struct weft_error *err);

/* Every weight of a stage that is a whole model, of weights from wf_load_open(); packs them.  Local. */
enum weft_status wf_load_stage(const struct wf_weights *w, struct wf_tstage *stage,
                               struct weft_error *err);

/* The same for inference.  Local. */
enum weft_status wf_load_infer(const struct wf_weights *w, struct wf_infer *m,
                               struct weft_error *err);

#endif
