#ifndef TRAINING_TRAINER_TRAINER_PRIV_H
#define TRAINING_TRAINER_TRAINER_PRIV_H

#include "compute/kern/pool.h"
#include "compute/model/stage.h"
#include "compute/optim/adamw.h"
#include "runtime/sync/group.h"
#include "training/data/batch.h"
#include "training/trainer/checkpoint.h"
#include "training/trainer/phases.h"
#include "training/trainer/resume.h"
#include "training/trainer/trainer.h"
#include "weft/exec.h"

/* One of the topology's groups that this rank holds. */
struct local_group {
    const struct wf_topology_group *plan;
    uint32_t member; /* which one this rank is */
    struct wf_group *sums;
    struct wf_param **params;   /* owned: (tensors) */
    uint32_t *stages;           /* owned: (tensors), whose parameter it is */
    struct wf_param *tied_copy; /* a tied weight's second copy on this rank, or NULL */
    uint32_t tied_copy_stage;
    bool reduced; /* in this step */
};

/* Where a tensor of the optimizer comes from. */
struct tensor_source {
    struct local_group *group;
    size_t tensor;
};

/* What each rank tells rank 0 at the end of a step; losses and squares of blocks follow. */
struct step_summary {
    uint32_t status;
    uint32_t stage, micro; /* of a failure */
    uint32_t stop;
    int64_t begin_ns, end_ns, compute_ns; /* of the pipeline */
    char error[480];
};

/* ... and what rank 0 tells all. */
struct step_outcome {
    uint32_t status;
    uint32_t stop;
    double loss, norm, bubble;
    int64_t pipeline_ns;
    uint32_t window_steps, slow_rank;
    double slow_factor;
    char error[480];
};

/* Some steps over which the ranks' paces are compared. */
struct straggler_window {
    uint32_t steps;
    int64_t begin_ns;
    double *compute_ns; /* owned, on rank 0: (n_ranks) */
};

struct wf_trainer {
    struct wf_topology topology;
    struct weft_comm *comm;               /* borrowed; NULL: alone */
    uint32_t rank, n_ranks, replica, row; /* row: the rank within its pipeline */
    enum wf_dtype precision;
    struct wf_lr_curve curve;
    double clip, slow;

    struct wf_pool *pool;     /* owned */
    struct wf_shards *shards; /* owned */
    struct wf_batch batch;
    struct wf_shards *val_shards; /* owned; NULL: nothing to evaluate on */
    struct wf_batch val_batch;
    uint64_t val_batches;          /* of one evaluation */
    struct weft_program *program;  /* owned */
    struct wf_tstage **stages;     /* owned: by stage, NULL where it is not held */
    struct weft_stage *stage_list; /* owned: by stage */
    char *slots;                   /* owned: all stages' */
    char ***slot_at;               /* owned: by stage */
    struct weft_exec *exec;        /* owned */
    struct local_group *groups;    /* owned */
    size_t n_groups;
    struct wf_optim *optim;               /* owned */
    struct tensor_source *sources;        /* owned: by the optimizer's tensors */
    struct wf_checkpointer *checkpointer; /* owned; NULL: none are written */

    uint32_t first_micro, n_micros; /* of this replica */
    uint32_t *rows;                 /* owned: (n_micros) */
    int32_t *inputs, *targets;      /* owned: (batch.rows, seq) of the step */
    const void **input_at;          /* owned: (n_micros) */
    const int32_t **target_at;      /* owned: (n_micros) */
    double *losses;                 /* owned: the sum of each micro's token losses */

    /* The end of a step. */
    char *summary; /* owned */
    size_t summary_bytes;
    void **summaries;      /* owned, on rank 0: (n_ranks) */
    size_t *summary_sizes; /* owned, on rank 0: (n_ranks) */
    double *squares;       /* owned, on rank 0: of all blocks of the model */
    double *planned_work;  /* owned, on rank 0: (n_ranks), by the model's costs */
    struct straggler_window window;
    double bubble_plan;

    int64_t clock_offset_ns; /* of rank 0's clock, before this one's */
    uint64_t done;           /* steps */
    bool stop;
    struct wf_resume_result resumed;
};

/* -- pieces --------------------------------------------------------------------------------- */

/* How many micros' losses and blocks' squares a rank summaries. */
size_t wf_trainer_summary_bytes(const struct wf_topology *l, uint32_t rank);
enum weft_status wf_trainer_alloc_summaries(struct wf_trainer *t, struct weft_error *err);

/* The sum of a step's losses, from the summaries of all ranks, micros in their order. */
double wf_trainer_total_loss(const struct wf_trainer *t);
double *wf_trainer_summary_losses(void *summary);

/* All tokens of a step, and how many targets count. */
enum weft_status wf_trainer_read_tokens(struct wf_trainer *t, const struct wf_batch *from,
                                        uint64_t step, size_t *n_targets,
                                        struct weft_error *err);

/* All ranks have the same settings, schedule, data and program: the first difference is named.
 * Collective. */
enum weft_status wf_trainer_handshake(const struct wf_trainer *t,
                                      const struct wf_train_settings *s,
                                      struct weft_error *err);

/* Fills clock_offset_ns.  Collective. */
enum weft_status wf_trainer_sync_clocks(struct wf_trainer *t, struct weft_error *err);

/* The values of a parameter, in Hugging Face's topology, from the rank that holds it.  On rank 0, for
 * every parameter in turn, while the others call wf_trainer_send_weights(). */
enum weft_status wf_trainer_fetch_weight(struct wf_trainer *t, size_t param, float *out,
                                         struct weft_error *err);
enum weft_status wf_trainer_send_weights(struct wf_trainer *t, struct weft_error *err);

/* Creates the checkpointer if the settings ask for checkpoints.  Collective. */
enum weft_status wf_trainer_init_checkpoints(struct wf_trainer *t,
                                             const struct wf_train_settings *s,
                                             struct weft_error *err);

/* Loads weights, moments and the step number from a checkpoint if checkpoint.resume asks for it.
 * Collective. */
enum weft_status wf_trainer_resume(struct wf_trainer *t, const struct wf_train_settings *s,
                                   struct weft_error *err);

void wf_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out, size_t room);

/* Packs one parameter on all threads. */
void wf_trainer_pack_param(struct wf_trainer *t, uint32_t stage, const struct wf_param *param);

enum weft_status wf_trainer_reduce_stage(void *trainer, uint32_t stage, struct weft_error *err);
enum weft_status wf_trainer_progress(void *trainer, struct weft_error *err);

#endif
