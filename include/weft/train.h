/* Trains models: a whole run, or step by step.
 *
 * A whole run does everything that the command `weft train` does, except printing: it starts
 * the ranks (as threads, or as processes under an MPI launcher), trains, evaluates, and writes
 * checkpoints, metrics and the final model to log.dir.
 *
 *     struct weft_settings *s = NULL;                        weft/settings.h
 *     weft_settings_new(&s, &err);
 *     weft_settings_read(s, "run.yaml", &err);
 *     weft_train(s, on_step, NULL, &err);
 *     weft_settings_free(s);
 *
 * Step by step, each rank has a trainer, and all ranks call the same functions in the same
 * order:
 *
 *     weft_settings_check(s, &err);                          once, before the ranks start
 *     weft_trainer_new(s, comm, &t, &err);                   comm NULL: one rank
 *     while (...)
 *         weft_trainer_step(t, &step, &err);
 *     weft_trainer_save(t, "model", &err);
 *     weft_trainer_free(t);
 *
 * Losses and weights are bit-for-bit identical for every number of ranks, schedule and number
 * of threads.
 *
 * Unstable: fields may be added to the structs until version 1.0.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/comm.h"
#include "weft/settings.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The results of one step. */
struct weft_train_step {
    uint64_t step;    /* step number, counted from 1 */
    double loss;      /* mean over the step's targets, in nats */
    double grad_norm; /* norm of the gradient before clipping */
    double lr;        /* learning rate */
    uint64_t tokens;  /* number of targets */
    double seconds;   /* wall time of the step */
    double bubble;    /* idle time of all ranks / their total time */
    double val_loss; /* loss on data.val, if weft_train() evaluated it after the step; else 0 */
};

/* Receives the results of each step on rank 0.  If the function returns false, weft_train()
 * ends the run after the current step, with a checkpoint if checkpoint.every is set. */
typedef bool (*weft_train_fn)(const struct weft_train_step *step, void *user);

/* Runs a whole training, from the settings to the final weights.  `on_step` may be NULL.  With
 * parallel.auto, the chosen layout is stored in the settings.  Installs no signal handlers.
 * Collective under an MPI launcher. */
WEFT_API enum weft_status weft_train(struct weft_settings *s, weft_train_fn on_step, void *user,
                                     struct weft_error *err);

/* -- step by step -------------------------------------------------------------------------- */

struct weft_trainer; /* opaque: one rank's part of a training */

/* Loads or initializes the model, opens the data and allocates everything.  The settings must
 * have passed weft_settings_check() and are borrowed.  If `comm` is NULL, this rank is the only
 * one.  The caller owns *out.  Collective. */
WEFT_API enum weft_status weft_trainer_new(const struct weft_settings *s,
                                           struct weft_comm *comm, struct weft_trainer **out,
                                           struct weft_error *err);

/* Frees a trainer; NULL is allowed.  Local. */
WEFT_API void weft_trainer_free(struct weft_trainer *t);

/* Trains one step; the result is the same on all ranks.  If the step fails, weights, optimizer
 * state and step number are unchanged.  After WEFT_DATA (unreadable tokens) and WEFT_NUMERIC (a
 * non-finite value) the ranks can continue; after other errors the ranks cannot continue.
 * Collective. */
WEFT_API enum weft_status weft_trainer_step(struct weft_trainer *t, struct weft_train_step *out,
                                            struct weft_error *err);

/* Computes the mean loss on data.val.  Returns WEFT_USAGE if data.val is not set.
 * Collective. */
WEFT_API enum weft_status weft_trainer_evaluate(struct weft_trainer *t, double *loss,
                                                struct weft_error *err);

/* Writes the weights as a Hugging Face directory in fp32.  Collective. */
WEFT_API enum weft_status weft_trainer_save(struct weft_trainer *t, const char *dir,
                                            struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
