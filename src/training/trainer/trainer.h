/* Training: a model, its data and its optimizer, step by step, on one rank or many.
 *
 *     struct wf_trainer *t;
 *     wf_trainer_new(&settings, comm, &t, &err);         settings have passed their check
 *     while (wf_trainer_steps_done(t) < settings.train.steps)
 *         wf_trainer_step(t, &result, &err);             tell of it, then
 *         wf_trainer_advance_checkpoint(t, &err);
 *     wf_trainer_save(t, "run/model", &err);
 *     wf_trainer_free(t);
 *
 * Each rank has a trainer of its own; all call the same functions in the same order.  A step is a
 * pure function of the settings, the data and the weights and moments before it: how many ranks
 * there are, and what each does when, changes no bit of losses, norms and weights. */
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

/* Reads or draws the model, opens the data, agrees with the other ranks that all have the same
 * settings, schedule, data and program, and allocates everything.  comm NULL: this rank is the
 * only one.  wf_trainer_free() frees.  Collective. */
enum weft_status wf_trainer_new(const struct wf_train_settings *settings,
                                struct weft_comm *comm, struct wf_trainer **out,
                                struct weft_error *err);
void wf_trainer_free(struct wf_trainer *t); /* NULL is allowed */

struct wf_step_result {
    uint64_t step; /* from 1 */
    double loss;   /* mean over the step's targets */
    double grad_norm, lr;
    uint64_t tokens;
    int64_t ns;
    int64_t
        pipeline_ns; /* of that, the pipeline, by the rank that took longest; the rest is sums
                          * between ranks, the norm and the update */
    double bubble;   /* idle part of the ranks' time in the pipeline */
    bool stop;       /* some rank has asked for it */
    /* Now and then: over how many steps the ranks' paces were compared, and the slowest rank, when
     * its work took more than a set factor of what was planned for it. */
    uint32_t window_steps; /* 0: not in this step */
    uint32_t slow_rank;    /* UINT32_MAX: none */
    double slow_factor;
};

/* The next step; the result is the same on all ranks.  When it fails, nothing has been changed:
 * neither weights nor moments nor the step's number.  WEFT_DATA: its tokens could not be had.
 * WEFT_NUMERIC: a loss or gradient that is no finite number, or beyond what sums hold; the message
 * names step, micro, layer and tensor.  After these all ranks can go on, and save; after others
 * they cannot.  Collective. */
enum weft_status wf_trainer_step(struct wf_trainer *t, struct wf_step_result *out,
                                 struct weft_error *err);

struct wf_eval_result {
    double loss; /* mean over all targets */
    uint64_t targets;
};

/* The loss on data.val: eval.batches batches of it, or as many as there are, in file order, through
 * the same pipeline.  WEFT_USAGE without data.val.  Collective. */
enum weft_status wf_trainer_evaluate(struct wf_trainer *t, struct wf_eval_result *out,
                                     struct weft_error *err);

/* The next step's result has `stop`, on all ranks.  Local. */
void wf_trainer_request_stop(struct wf_trainer *t);

uint64_t wf_trainer_steps_done(const struct wf_trainer *t); /* steps so far */

/* The weights as a Hugging Face directory, in fp32, written by rank 0.  Collective. */
enum weft_status wf_trainer_save(struct wf_trainer *t, const char *dir, struct weft_error *err);

/* What is to follow a prompt. */
struct wf_sample_spec {
    const int32_t *prompt; /* borrowed: (n_prompt), at least one */
    size_t n_prompt;
    uint32_t n_tokens; /* at most so many, and no more than the model takes */
    int64_t end;       /* the token that ends the text; negative: none */
    struct wf_sampling how;
};

struct wf_sample_result {
    int32_t *tokens; /* the caller's: (n_tokens) */
    size_t n;
    struct weft_error failure; /* why there are none; WEFT_OK: there are */
};

/* Goes on from a prompt with the weights as they are, on rank 0: spec and result are for it alone.
 * It changes nothing, and a text that cannot be had is no error of the run.  Collective. */
enum weft_status wf_trainer_sample(struct wf_trainer *t, const struct wf_sample_spec *spec,
                                   struct wf_sample_result *out, struct weft_error *err);

/* After each step, and after what is to be known of it was written down: a checkpoint that is due
 * begins, or one that is written is put together.  A run that goes on from a checkpoint of a step
 * then finds all that was written of that step.  Collective. */
enum weft_status wf_trainer_advance_checkpoint(struct wf_trainer *t, struct weft_error *err);

/* Writes a checkpoint now, when checkpoints are written at all.  What went wrong with it is news, not
 * an error.  Collective. */
enum weft_status wf_trainer_checkpoint(struct wf_trainer *t, struct weft_error *err);

/* What became of checkpoints since it was last asked; on rank 0.  Local. */
struct wf_checkpoint_result wf_trainer_poll_checkpoint(struct wf_trainer *t);

/* What the last step's actions took, of one replica, on rank 0: *out is filled there alone.  The
 * caller releases it.  Collective. */
enum weft_status wf_trainer_trace(struct wf_trainer *t, uint32_t replica,
                                  struct weft_trace *out, struct weft_error *err);

/* The parameters of one of this rank's stages, in model order; borrowed. */
const struct wf_param *wf_trainer_params(const struct wf_trainer *t, uint32_t stage, size_t *n);

/* Needed after their values were changed from outside. */
void wf_trainer_pack(struct wf_trainer *t);

/* -- about it ------------------------------------------------------------------------------- */

struct wf_rank_bytes {
    size_t weights, gradients, packed, activations, messages, scratch, moments, total;
    size_t planned; /* weights, gradients, packed, moments, activations by the plan */
};

struct wf_trainer_info {
    struct weft_model model;
    const struct wf_topology *topology; /* borrowed */
    uint32_t rank, n_ranks;
    size_t n_params;
    uint64_t n_tokens; /* of the data */
    size_t n_files;
    uint32_t seq;
    unsigned threads;
    double token_flops;         /* of the model, for one token: weft/spec.h */
    double bubble_plan;         /* of the schedule, by the model's costs */
    uint64_t resumed;           /* the step of the checkpoint that it began with, or 0 */
    const char *resume_note;    /* borrowed: which ones were passed over; on rank 0 */
    struct wf_rank_bytes bytes; /* of this rank */
};
struct wf_trainer_info wf_trainer_info(const struct wf_trainer *t);

/* Bytes that this rank sent to another one of its pipeline in the last step. */
uint64_t wf_trainer_bytes_sent(const struct wf_trainer *t, uint32_t pipeline_rank,
                               bool backward);

/* What the pool's threads could do a second, in the precision of the products: compute/kern/peak.h. */
double wf_trainer_peak_flops(const struct wf_trainer *t);

#endif
