#ifndef TRAINING_TRAINER_TRAINER_PRIV_H
#define TRAINING_TRAINER_TRAINER_PRIV_H

#include "compute/kern/pool.h"
#include "compute/model/stage.h"
#include "compute/optim/adamw.h"
#include "runtime/sync/group.h"
#include "training/data/batch.h"
#include "training/trainer/checkpoint.h"
#include "training/trainer/trainer.h"
#include "weft/exec.h"

/* One of the layout's groups that this rank holds. */
struct held_group {
    const struct weft_layout_group *plan;
    uint32_t holder; /* which one this rank is */
    struct weft_group *sums;
    struct weft_param **params; /* owned: (tensors) */
    uint32_t *stages;           /* owned: (tensors), whose parameter it is */
    struct weft_param *twin;    /* a tied weight's second copy on this rank, or NULL */
    uint32_t twin_stage;
    bool reduced; /* in this step */
};

/* Where a tensor of the optimizer comes from. */
struct origin {
    struct held_group *group;
    size_t tensor;
};

/* What each rank tells rank 0 at the end of a step; losses and squares of blocks follow. */
struct report_head {
    uint32_t status;
    uint32_t stage, micro; /* of a failure */
    uint32_t stop;
    uint32_t checkpoint;                  /* enum weft_checkpoint_state */
    int64_t begin_ns, end_ns, compute_ns; /* of the pipeline */
    char error[480];
};

/* ... and what rank 0 tells all. */
struct verdict {
    uint32_t status;
    uint32_t stop;
    uint32_t checkpoint; /* enum weft_checkpoint_action */
    double loss, norm, bubble;
    int64_t pipeline_ns;
    uint32_t paced_steps, slow_rank;
    double slow_factor;
    char error[480];
};

/* Some steps over which the ranks' paces are compared. */
struct pace_window {
    uint32_t steps;
    int64_t begin_ns;
    double *compute_ns; /* owned, on rank 0: (n_ranks) */
};

struct weft_trainer {
    struct weft_layout layout;
    struct weft_comm *comm;               /* borrowed; NULL: alone */
    uint32_t rank, n_ranks, replica, row; /* row: the rank within its pipeline */
    enum weft_type precision;
    struct weft_curve curve;
    double clip, slow;

    struct weft_pool *pool;     /* owned */
    struct weft_shards *shards; /* owned */
    struct weft_batch batch;
    struct weft_shards *val_shards; /* owned; NULL: nothing to evaluate on */
    struct weft_batch val_batch;
    uint64_t val_batches;          /* of one evaluation */
    struct weft_program *program;  /* owned */
    struct weft_tstage **stages;   /* owned: by stage, NULL where it is not held */
    struct weft_stage *stage_list; /* owned: by stage */
    char *slots;                   /* owned: all stages' */
    char ***slot_at;               /* owned: by stage */
    struct weft_exec *exec;        /* owned */
    struct held_group *groups;     /* owned */
    size_t n_groups;
    struct weft_optim *optim;                      /* owned */
    struct origin *origins;                        /* owned: by the optimizer's tensors */
    struct weft_checkpointer *checkpointer;        /* owned; NULL: none are written */
    enum weft_checkpoint_action checkpoint_action; /* what the last step left to do */
    uint32_t *checkpoint_states;                   /* owned, on rank 0: (n_ranks) */

    uint32_t micro0, n_micros; /* of this replica */
    uint32_t *rows;            /* owned: (n_micros) */
    int32_t *inputs, *targets; /* owned: (batch.rows, seq) of the step */
    const void **input_at;     /* owned: (n_micros) */
    const int32_t **target_at; /* owned: (n_micros) */
    double *losses;            /* owned: the sum of each micro's token losses */

    /* The end of a step. */
    char *report; /* owned */
    size_t report_bytes;
    void **reports;       /* owned, on rank 0: (n_ranks) */
    size_t *report_sizes; /* owned, on rank 0: (n_ranks) */
    double *squares;      /* owned, on rank 0: of all blocks of the model */
    double *planned_work; /* owned, on rank 0: (n_ranks), by the model's costs */
    struct pace_window window;
    double bubble_plan;

    int64_t clock_ahead_ns; /* of rank 0's clock, before this one's */
    uint64_t done;          /* steps */
    bool stop;
    uint64_t resumed;      /* the step of the checkpoint that it began with, or 0 */
    char resume_note[400]; /* which ones were passed over */
};

/* -- pieces --------------------------------------------------------------------------------- */

/* How many micros' losses and blocks' squares a rank reports. */
size_t weft_trainer_report_bytes(const struct weft_layout *l, uint32_t rank);
enum weft_status weft_trainer_reports_new(struct weft_trainer *t, struct weft_error *err);

/* The sum of a step's losses, from the reports of all ranks, micros in their order. */
double weft_trainer_total_loss(const struct weft_trainer *t);
double *weft_trainer_report_losses(void *report);

/* All tokens of a step, and how many targets count. */
enum weft_status weft_trainer_read_tokens(struct weft_trainer *t, const struct weft_batch *from,
                                          uint64_t step, size_t *n_targets,
                                          struct weft_error *err);

/* All ranks have the same settings, schedule, data and program: the first difference is named.
 * Collective. */
enum weft_status weft_trainer_agree(const struct weft_trainer *t,
                                    const struct weft_train_settings *s,
                                    struct weft_error *err);

/* Fills clock_ahead_ns.  Collective. */
enum weft_status weft_trainer_compare_clocks(struct weft_trainer *t, struct weft_error *err);

/* The values of a parameter, in Hugging Face's layout, from the rank that holds it.  On rank 0, for
 * every parameter in turn, while the others call weft_trainer_send_weights(). */
enum weft_status weft_trainer_fetch_weight(struct weft_trainer *t, size_t param, float *out,
                                           struct weft_error *err);
enum weft_status weft_trainer_send_weights(struct weft_trainer *t, struct weft_error *err);

/* What ranks say that they are at, beyond the positions of their lists. */
enum { WEFT_AT_END = 1 << 30, WEFT_AT_UPDATE, WEFT_AT_SAVE, WEFT_AT_START, WEFT_AT_SAMPLE };
void weft_trainer_describe(void *trainer, uint32_t rank, uint64_t doing, char *out,
                           size_t room);

/* Packs one parameter on all threads. */
void weft_trainer_pack_param(struct weft_trainer *t, uint32_t stage,
                             const struct weft_param *param);

enum weft_status weft_trainer_reduce_stage(void *trainer, uint32_t stage,
                                           struct weft_error *err);
enum weft_status weft_trainer_progress(void *trainer, struct weft_error *err);

#endif
