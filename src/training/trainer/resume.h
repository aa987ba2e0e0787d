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

/* All pointers are borrowed. */
struct wf_resume_setup {
    struct weft_comm *comm; /* NULL: the only rank */
    struct wf_pool *pool;
    const char *root; /* directory of checkpoints: the newest usable one is loaded */
    const char *path; /* if root is NULL: the one checkpoint to load */
    const struct weft_model *model;
    const struct wf_param_list *params;       /* of the whole model */
    const struct wf_train_settings *settings; /* compared with those of the checkpoint */
    const struct wf_load_range *ranges;       /* what this rank reads */
    size_t n_ranges;
};

struct wf_resume_result {
    uint64_t step; /* of the loaded checkpoint; 0: also if none exists */
    /* On rank 0: which checkpoints were skipped, and which settings that affect the results
     * have changed. */
    char note[400];
};

/* Loads a checkpoint into `ranges`.  Returns WEFT_CKPT if it belongs to another model, or if
 * checkpoints exist but none can be used.  Collective. */
enum weft_status wf_resume_load(const struct wf_resume_setup *setup,
                                struct wf_resume_result *out, struct weft_error *err);

#endif
