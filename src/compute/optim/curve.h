/* The learning rate of a step, and the scale that clips a gradient: pure functions.
 *
 *     lr |      ____________________          constant
 *        |     /              \               wsd: straight down at the end
 *        |    /  \                \
 *        |   /      cosine, linear    \___    min_lr from decay_steps on
 *        |__/_________________________________
 *           warmup                    decay_steps
 */
#ifndef COMPUTE_OPTIM_CURVE_H
#define COMPUTE_OPTIM_CURVE_H

#include <stdint.h>

enum weft_curve_kind {
    WEFT_CURVE_COSINE,
    WEFT_CURVE_LINEAR,
    WEFT_CURVE_WSD, /* warm-up, stable, decay: a straight line over the last fifth */
    WEFT_CURVE_CONSTANT,
};

struct weft_curve {
    enum weft_curve_kind kind;
    double lr, min_lr;
    uint64_t warmup;      /* steps; 0: none */
    uint64_t decay_steps; /* the step that is the first to have min_lr */
};

/* Of a step, the first one being 0:
 *
 *     warm-up    step < warmup: lr * (step + 1) / warmup
 *     after it   t = (step - begin) / (decay_steps - begin), from 0 to 1
 *       cosine   min_lr + (lr - min_lr) * (1 + cos(pi * t)) / 2,  begin = warmup
 *       linear   min_lr + (lr - min_lr) * (1 - t),                begin = warmup
 *       wsd      the same, and lr before begin = decay_steps - (decay_steps - warmup) / 5
 *       constant lr
 *
 * and min_lr from decay_steps on (constant: lr).  A warm-up as long as decay_steps or longer goes
 * straight over into min_lr. */
double weft_curve_lr(const struct weft_curve *curve, uint64_t step);

/* The factor that brings a gradient of this norm down to `clip`: min(1, clip / (norm + 1e-6)).
 * clip 0: no clipping, 1.  The caller has refused a norm that is no finite number. */
double weft_clip_scale(double norm, double clip);

#endif
