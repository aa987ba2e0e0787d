/* Trains a model step by step, on one or more ranks.
 *
 *     struct wf_trainer *t;
 *     wf_trainer_new(&settings, comm, &t, &err);         settings have passed their check
 *     while (wf_trainer_steps_done(t) < settings.train.steps) {
 *         wf_trainer_step(t, &result, &err);             record the result, then
 *         wf_trainer_advance_checkpoint(t, &err);
 *     }
 *     wf_trainer_save(t, "run/model", &companions, &err);
 *     wf_trainer_free(t);
 *
 * Each rank has its own trainer; all ranks call the same functions in the same order.  A step
 * is a pure function of the settings, the data, and the weights and moments before it: the
 * layout of ranks does not change a bit of losses, norms and weights. */
#ifndef TRAINING_TRAINER_TRAINER_H
#define TRAINING_TRAINER_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "compute/model/infer_sample.h"
#include "training/layout/topology.h"
#include "training/settings/settings.h"
#include "training/trainer/checkpoint.h"
#include "weft/comm.h"
#include "weft/spec.h"
#include "weft/status.h"
#include "weft/trace.h"

struct wf_trainer;
struct wf_param; /* compute/model/stage.h */

/* Loads or initializes the model, opens the data, checks that all ranks have the same settings,
 * schedule, data and program, resumes from a checkpoint if the settings require it, and
 * allocates all memory.  comm is borrowed; NULL: this rank is the only one.  On success the
 * caller owns *out and frees it with wf_trainer_free().  Collective. */
enum weft_status wf_trainer_new(const struct wf_train_settings *settings,
                                struct weft_comm *comm, struct wf_trainer **out,
                                struct weft_error *err);
void wf_trainer_free(struct wf_trainer *t); /* NULL is allowed */

struct wf_step_result {
    uint64_t step; /* from 1 */
    double loss;   /* mean loss over the targets of the step */
    double grad_norm, lr;
    uint64_t tokens;
    int64_t ns;
    /* longest time that a rank spent in the pipeline; the rest of the step is reduction, norm
     * and update */
    int64_t pipeline_ns;
    double bubble; /* idle fraction of the time of all ranks in the pipeline */
    bool stop;     /* a rank has requested a stop */
    /* At the end of a window of several steps: the slowest rank, if its computing time exceeds
     * the plan by the factor train.slow. */
    uint32_t window_steps; /* number of steps of the window; 0: no window ends in this step */
    uint32_t slow_rank;    /* UINT32_MAX: no rank is slow */
    double slow_factor;
};

/* Runs the next step.  The result is the same on all ranks.  A failed step changes neither the
 * weights nor the moments nor the step number.  Returns WEFT_DATA if the tokens of the step
 * cannot be read, and WEFT_NUMERIC if a loss or gradient is not finite or exceeds the range of
 * exact sums; the message names step, micro, layer and tensor.  After these two errors the
 * ranks can continue and save; after other errors they cannot.  Collective. */
enum weft_status wf_trainer_step(struct wf_trainer *t, struct wf_step_result *out,
                                 struct weft_error *err);

struct wf_eval_result {
    double loss; /* mean loss over all targets */
    uint64_t targets;
};

/* Computes the loss on the first eval.batches batches of data.val in file order, or on all
 * batches if there are fewer.  Returns WEFT_USAGE without data.val.  Collective. */
enum weft_status wf_trainer_evaluate(struct wf_trainer *t, struct wf_eval_result *out,
                                     struct weft_error *err);

/* Requests a stop: the result of the next step has `stop` set on all ranks.  Local. */
void wf_trainer_request_stop(struct wf_trainer *t);

/* Returns the number of completed steps, including those before a resume.  Local. */
uint64_t wf_trainer_steps_done(const struct wf_trainer *t);

struct wf_companions; /* training/trainer/companions.h */

/* Saves the weights as a Hugging Face directory in fp32, with the files beside them.  Rank 0
 * writes it; `companions` is used on rank 0 only and may be NULL.  Collective. */
enum weft_status wf_trainer_save(struct wf_trainer *t, const char *dir,
                                 const struct wf_companions *companions,
                                 struct weft_error *err);

/* A request to continue a prompt. */
struct wf_sample_spec {
    const int32_t *prompt; /* borrowed: (n_prompt), at least one token */
    size_t n_prompt;
    /* maximum number of new tokens; the context of the model is another limit */
    uint32_t n_tokens;
    int64_t end; /* the token that ends the text; negative: there is no such token */
    struct wf_sampling how;
};

struct wf_sample_result {
    int32_t *tokens; /* provided by the caller: (n_tokens) */
    size_t n;
    struct weft_error failure; /* WEFT_OK, or the reason why no text was generated */
};

/* Generates text with the current weights on rank 0; `spec` and `out` are used on rank 0 only.
 * The training state does not change.  A failure in out->failure is not an error of the run.
 * Collective. */
enum weft_status wf_trainer_sample(struct wf_trainer *t, const struct wf_sample_spec *spec,
                                   struct wf_sample_result *out, struct weft_error *err);

/* Starts a checkpoint that is due, or advances the checkpoint in progress.  Call this function
 * after each step, once the metrics of the step are written, so that a run that resumes from
 * this step finds its metrics.  Collective. */
enum weft_status wf_trainer_advance_checkpoint(struct wf_trainer *t, struct weft_error *err);

/* Writes a checkpoint of the current step now, if checkpoints are enabled.  Returns WEFT_IO if
 * the checkpoint cannot be written; the run can continue.  Collective. */
enum weft_status wf_trainer_checkpoint(struct wf_trainer *t, struct weft_error *err);

/* Returns the outcome of checkpoints since the last call, on rank 0.  Local. */
struct wf_checkpoint_result wf_trainer_poll_checkpoint(struct wf_trainer *t);

/* Collects the trace of one replica in the last step on rank 0, which releases *out with
 * weft_trace_release().  Collective. */
enum weft_status wf_trainer_trace(struct wf_trainer *t, uint32_t replica,
                                  struct weft_trace *out, struct weft_error *err);

/* Returns the parameters of a stage in model order, or NULL if this rank does not run the
 * stage.  The list is borrowed.  Local. */
const struct wf_param *wf_trainer_params(const struct wf_trainer *t, uint32_t stage, size_t *n);

/* Packs all weights.  Required after a caller has changed the values of parameters.  Local. */
void wf_trainer_pack(struct wf_trainer *t);

/* -- queries ------------------------------------------------------------------------------- */

struct wf_trainer_info {
    struct weft_model model;
    const struct wf_topology *topology; /* borrowed */
    uint32_t rank, n_ranks;
    size_t n_params;
    uint64_t n_tokens; /* number of tokens in the training data */
    size_t n_files;
    uint32_t seq;
    unsigned threads;
    double token_flops; /* flops per token: weft/spec.h */
    /* bubble of the schedule, computed from the costs of the model */
    double bubble_plan;
    uint64_t resumed;           /* step of the loaded checkpoint, or 0 */
    bool has_resumed;           /* a checkpoint was loaded */
    const char *resume_note;    /* borrowed; on rank 0: skipped checkpoints, changed settings */
    struct wf_rank_bytes bytes; /* allocated memory of this rank */
    size_t planned_bytes;       /* planned memory of this rank */
};

/* Returns facts about the trainer.  Local. */
struct wf_trainer_info wf_trainer_info(const struct wf_trainer *t);

/* Returns the peak flop/s of the threads of the pool in the precision of matrix products:
 * compute/kern/peak.h.  Local. */
double wf_trainer_peak_flops(const struct wf_trainer *t);

#endif
