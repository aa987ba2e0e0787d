/* The learning rate of a step, and the factor that clips a gradient: pure functions.
 *
 *     lr |      ____________________          constant
 *        |     /              \                wsd: linear at the end
 *        |    /  \                \
 *        |   /      cosine, linear    \___    min_lr from decay_steps on
 *        |__/_________________________________
 *           warmup                    decay_steps
 */
#ifndef COMPUTE_OPTIM_LR_CURVE_H
#define COMPUTE_OPTIM_LR_CURVE_H

#include <stdint.h>

enum wf_lr_curve_kind {
    WF_LR_CURVE_COSINE,
    WF_LR_CURVE_LINEAR,
    /* Warm-up, stable, decay: the last fifth of the steps after warm-up decays linearly. */
    WF_LR_CURVE_WSD,
    WF_LR_CURVE_CONSTANT,
};

struct wf_lr_curve {
    enum wf_lr_curve_kind kind;
    double lr, min_lr;
    uint64_t warmup;      /* number of warm-up steps; 0: no warm-up */
    uint64_t decay_steps; /* the first step with min_lr */
};

/* Returns the learning rate of a step, counted from 0:
 *
 *     warm-up    step < warmup: lr * (step + 1) / warmup
 *     after it   t = (step - begin) / (decay_steps - begin), from 0 to 1
 *       cosine   min_lr + (lr - min_lr) * (1 + cos(pi * t)) / 2,  begin = warmup
 *       linear   min_lr + (lr - min_lr) * (1 - t),                begin = warmup
 *       wsd      like linear, and lr before begin = decay_steps - (decay_steps - warmup) / 5
 *       constant lr
 *
 * From step decay_steps on, the rate is min_lr (constant: lr).  If the warm-up has decay_steps
 * steps or more, the rate after the warm-up is min_lr. */
double wf_lr_curve_at(const struct wf_lr_curve *curve, uint64_t step);

/* Returns the factor that reduces a gradient of this norm to `clip`: min(1, clip / (norm +
 * 1e-6)).  Returns 1 if clip is 0: no clipping.  The norm must be finite. */
double wf_clip_scale(double norm, double clip);

#endif
