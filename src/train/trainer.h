/* Training on one rank: a model, its data and its optimizer, step by step.
 *
 *     struct weft_trainer *t;
 *     weft_trainer_new(&settings, NULL, &t, &err);         settings have passed their check
 *     while (weft_trainer_done(t) < settings.train.steps)
 *         weft_trainer_step(t, &result, &err);
 *     weft_trainer_save(t, "run/model", &err);
 *     weft_trainer_free(t);
 *
 * A step is a pure function of the settings, the data and the weights and moments before it. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <stddef.h>
#include <stdint.h>

#include "train/settings.h"
#include "weft/spec.h"
#include "weft/status.h"

struct weft_trainer;
struct weft_param; /* model/stage.h */

/* -- the order of a step's work ------------------------------------------------------------- */

enum weft_micro_kind {
    WEFT_MICRO_FORWARD,
    WEFT_MICRO_BACKWARD, /* whole */
    WEFT_MICRO_INPUT,    /* the gradient of the input ... */
    WEFT_MICRO_WEIGHT,   /* ... and later that of the weights */
};

struct weft_micro_action {
    enum weft_micro_kind kind;
    uint32_t micro, slot;
};

/* Every micro once forward and then back, whole or in two halves, its slot being its own from the
 * forward to the end.  No order changes a bit of the result. */
struct weft_micro_order {
    const struct weft_micro_action *at; /* borrowed: while the trainer is in use */
    size_t n;
    uint32_t slots, split_slots; /* as in model/stage.h */
};

/* -- a trainer ------------------------------------------------------------------------------ */

/* Reads or draws the model, opens the data and allocates everything.  `order` NULL: micro after
 * micro, each forward and back.  weft_trainer_free() frees.  Local. */
enum weft_status weft_trainer_new(const struct weft_train_settings *settings,
                                  const struct weft_micro_order *order,
                                  struct weft_trainer **out, struct weft_error *err);
void weft_trainer_free(struct weft_trainer *t); /* NULL is allowed */

struct weft_step_result {
    uint64_t step; /* from 1 */
    double loss;   /* mean over the step's targets */
    double grad_norm, lr;
    uint64_t tokens;
    int64_t ns;
};

/* The next step.  When it fails, nothing has been changed: neither weights nor moments nor the
 * step's number.  WEFT_DATA: its tokens could not be had.  WEFT_NUMERIC: a loss or gradient that
 * is no finite number, or beyond what sums hold; the message names step, micro, layer and tensor.
 * Local. */
enum weft_status weft_trainer_step(struct weft_trainer *t, struct weft_step_result *out,
                                   struct weft_error *err);

uint64_t weft_trainer_done(const struct weft_trainer *t); /* steps so far */

/* The weights as a Hugging Face directory, in fp32.  Local. */
enum weft_status weft_trainer_save(const struct weft_trainer *t, const char *dir,
                                   struct weft_error *err);

/* The parameters in model order; borrowed. */
const struct weft_param *weft_trainer_params(const struct weft_trainer *t, size_t *n);

/* Needed after their values were changed from outside. */
void weft_trainer_pack(struct weft_trainer *t);

/* -- about it ------------------------------------------------------------------------------- */

struct weft_trainer_info {
    struct weft_model model;
    size_t n_params;
    uint64_t n_tokens; /* of the data */
    size_t n_files;
    uint32_t seq;
    unsigned threads;
    double token_flops; /* of the model, for one token: weft/spec.h */
    struct {
        size_t weights, gradients, packed, activations, scratch, moments, total;
    } bytes;
};
struct weft_trainer_info weft_trainer_info(const struct weft_trainer *t);

/* What the pool's threads could do a second, in the precision of the products: kern/peak.h. */
double weft_trainer_peak(const struct weft_trainer *t);

#endif
