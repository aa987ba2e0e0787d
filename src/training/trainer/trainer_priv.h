/* The parts of a trainer, and the functions between its files. */
#ifndef TRAINING_TRAINER_TRAINER_PRIV_H
#define TRAINING_TRAINER_TRAINER_PRIV_H

#include "compute/kern/pool.h"
#include "compute/model/stage.h"
#include "compute/optim/adamw.h"
#include "runtime/sync/group.h"
#include "training/trainer/checkpoint.h"
#include "training/trainer/phases.h"
#include "training/trainer/resume.h"
#include "training/trainer/stragglers.h"
#include "training/trainer/summary.h"
#include "training/trainer/trainer.h"
#include "training/trainer/trainer_data.h"
#include "weft/exec.h"

struct wf_hf; /* training/ckpt/hf.h */

/* A parameter group of the topology of which this rank is a member. */
struct wf_trainer_group {
    const struct wf_topology_group *plan;
    uint32_t member; /* index of this rank in the group */
    struct wf_group *sums;
    struct wf_param **params; /* owned: (n_tensors of the group) */
    /* owned: (n_tensors of the group), the stage of each parameter */
    uint32_t *stages;
    struct wf_param *tied_copy; /* the second copy of a tied weight on this rank, or NULL */
    uint32_t tied_copy_stage;
    bool reduced; /* the reduction of this step has started */
};

/* The parameter that a tensor of the optimizer belongs to. */
struct wf_tensor_source {
    struct wf_trainer_group *group;
    size_t tensor;
};

struct wf_trainer {
    struct wf_topology topology;
    struct weft_comm *comm;               /* borrowed; NULL: this rank is the only one */
    uint32_t rank, n_ranks, replica, row; /* row: index of this rank in its pipeline */
    struct wf_lr_curve curve;
    double clip;

    struct wf_pool *pool; /* owned */
    struct wf_trainer_data data;
    struct wf_data_hash *data_hash; /* owned: on rank 0, hashes of the shards; may be NULL */

    /* trainer_stages.c */
    struct weft_program *program; /* owned */
    /* owned: (n_stages), NULL for stages that this rank does not run */
    struct wf_tstage **stages;
    struct weft_stage *stage_list; /* owned: by stage */
    char *slots;                   /* owned: activations of all stages */
    char ***slot_at;               /* owned: by stage */
    struct weft_exec *exec;        /* owned */

    /* trainer_groups.c */
    struct wf_trainer_group *groups; /* owned */
    size_t n_groups;
    struct wf_optim *optim;           /* owned */
    struct wf_tensor_source *sources; /* owned: by tensor of the optimizer */

    /* Used at the end of a step. */
    struct wf_summaries summaries;
    struct wf_stragglers stragglers; /* used on rank 0 only */

    /* trainer_state.c */
    struct wf_checkpointer *checkpointer; /* owned; NULL: no checkpoints are written */
    struct wf_resume_result resumed;

    struct wf_rank_bytes planned; /* planned memory of this rank */
    double bubble_plan;
    int64_t clock_offset_ns; /* offset to add to this rank's clock to get rank 0's clock */
    uint64_t done;           /* number of completed steps */
    bool evaluates;          /* the executor runs forward-only steps */
    bool stop;
};

/* Sets an error that names the missing memory and how to reduce the need for it. */
enum weft_status wf_trainer_no_memory(const char *what, size_t bytes, struct weft_error *err);

/* -- trainer_stages.c ---------------------------------------------------------------------- */

/* Creates the program and the stages.  Local. */
enum weft_status wf_trainer_init_stages(struct wf_trainer *t, struct weft_error *err);
/* Creates the executor.  Local. */
enum weft_status wf_trainer_init_exec(struct wf_trainer *t, struct weft_error *err);
void wf_trainer_release_stages(struct wf_trainer *t);

/* Reads the weights of this rank from `hf`, or initializes them if `hf` is NULL, and packs
 * them.  Local. */
enum weft_status wf_trainer_init_weights(struct wf_trainer *t, const struct wf_hf *hf,
                                         uint64_t seed, struct weft_error *err);

/* Packs one parameter on all threads of the pool.  Local. */
void wf_trainer_pack_param(struct wf_trainer *t, uint32_t stage, const struct wf_param *param);

/* Describes the work of a rank in messages about waits.  It is a weft_describe_fn. */
void wf_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out, size_t size);

/* -- trainer_groups.c ---------------------------------------------------------------------- */

/* Creates the groups and the optimizer.  Local. */
enum weft_status wf_trainer_init_groups(struct wf_trainer *t, const struct wf_train_settings *s,
                                        struct weft_error *err);
void wf_trainer_release_groups(struct wf_trainer *t);

/* Starts the reduction of the gradients of a stage once they are complete.  The executor calls
 * it as a hook. */
enum weft_status wf_trainer_reduce_stage(void *trainer, uint32_t stage, struct weft_error *err);

/* Advances the reductions in progress.  It is a weft_progress_fn. */
enum weft_status wf_trainer_progress(void *trainer, struct weft_error *err);

/* Starts the reduction of group `i` if it has not started, and completes it.  Returns
 * WEFT_NUMERIC if a sum overflows; the ranks can continue after this error.  Collective. */
enum weft_status wf_trainer_finish_reduction(struct wf_trainer *t, size_t i,
                                             struct weft_error *err);

/* Updates the shards of this rank, then all-gathers and packs the weights.  Collective. */
enum weft_status wf_trainer_update(struct wf_trainer *t, const struct wf_optim_step *step,
                                   struct weft_error *err);

/* -- trainer_state.c ----------------------------------------------------------------------- */

/* Creates the checkpointer if the settings enable checkpoints.  Collective. */
enum weft_status wf_trainer_init_checkpoints(struct wf_trainer *t,
                                             const struct wf_train_settings *s,
                                             struct weft_error *err);

/* Loads weights, moments and the step number from a checkpoint if checkpoint.resume requires
 * it.  Collective. */
enum weft_status wf_trainer_resume(struct wf_trainer *t, const struct wf_train_settings *s,
                                   struct weft_error *err);

/* -- other files --------------------------------------------------------------------------- */

/* Checks that all ranks have the same settings, schedule, data and program, and names the first
 * difference.  Collective. */
enum weft_status wf_trainer_handshake(const struct wf_trainer *t,
                                      const struct wf_train_settings *s,
                                      struct weft_error *err);

/* Measures clock_offset_ns.  Collective. */
enum weft_status wf_trainer_sync_clocks(struct wf_trainer *t, struct weft_error *err);

/* Copies the values of a parameter from the rank that owns it.  Rank 0 calls this function for
 * every parameter in model order, while the other ranks call wf_trainer_send_weights(). */
enum weft_status wf_trainer_fetch_weight(struct wf_trainer *t, size_t param, float *out,
                                         struct weft_error *err);
/* Sends the parameters that this rank owns to rank 0, in model order. */
enum weft_status wf_trainer_send_weights(struct wf_trainer *t, struct weft_error *err);

#endif
