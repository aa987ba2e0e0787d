/* Resumes a run: finds a checkpoint, checks that it belongs to the same model, and loads it. */
#ifndef TRAINING_TRAINER_RESUME_H
#define TRAINING_TRAINER_RESUME_H

#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "compute/model/params.h"
#include "training/settings/settings.h"
#include "training/trainer/load.h"
#include "weft/comm.h"
#include "weft/spec.h"

struct wf_data_hash; /* training/trainer/data_hash.h */

/* All pointers are borrowed. */
struct wf_resume_setup {
    struct weft_comm *comm; /* NULL: this rank is the only one */
    struct wf_pool *pool;
    const char *root; /* directory of checkpoints; the newest usable checkpoint is loaded */
    const char *path; /* if root is NULL: path of the checkpoint to load */
    const struct weft_model *model;
    const struct wf_param_list *params; /* parameters of the whole model */
    /* settings to compare with those of the checkpoint */
    const struct wf_train_settings *settings;
    uint64_t tokenizer;             /* hash of the tokenizer of the data; 0: unknown */
    const struct wf_shards *shards; /* the training data; NULL: it is not compared */
    /* On rank 0: receives the hashes of the data if they were compared.  The caller frees
     * *data. */
    struct wf_data_hash **data;
    const struct wf_load_range *ranges; /* ranges that this rank reads */
    size_t n_ranges;
};

struct wf_resume_result {
    uint64_t step; /* step of the loaded checkpoint; also 0 if no checkpoint exists */
    bool found;    /* a checkpoint was loaded */
    /* On rank 0: which checkpoints were skipped, and which settings that affect the results
     * have changed. */
    char note[400];
};

/* Loads a checkpoint into `ranges`.  Returns WEFT_CKPT if the checkpoint belongs to another
 * model, or if checkpoints exist but none is usable.  Returns WEFT_DATA if the data has another
 * tokenizer, or if data.train is unchanged but one of its shards is not.  Collective. */
enum weft_status wf_resume_load(const struct wf_resume_setup *setup,
                                struct wf_resume_result *out, struct weft_error *err);

#endif
