/* Learning-rate schedules and gradient clipping. */
#include "compute/optim/lr_curve.h"

#include <math.h>

#include "base/math.h"

static const double pi = 3.14159265358979323846;

/* Returns the step at which the decay begins.  There is no decay if the result is decay_steps
 * or more. */
static uint64_t decay_begin(const struct wf_lr_curve *c)
{
    if (c->kind != WF_LR_CURVE_WSD || c->warmup >= c->decay_steps)
        return c->warmup;
    return c->decay_steps - (c->decay_steps - c->warmup) / 5;
}

double wf_lr_curve_at(const struct wf_lr_curve *c, uint64_t step)
{
    if (step < c->warmup)
        return c->lr * ((double)step + 1) / (double)c->warmup;
    if (c->kind == WF_LR_CURVE_CONSTANT)
        return c->lr;
    if (step >= c->decay_steps)
        return c->min_lr;
    uint64_t begin = decay_begin(c);
    if (step < begin)
        return c->lr;
    double t = (double)(step - begin) / (double)(c->decay_steps - begin);
    double remaining = c->kind == WF_LR_CURVE_COSINE ? 0.5 * (1 + wf_math_cos(pi * t)) : 1 - t;
    return c->min_lr + remaining * (c->lr - c->min_lr);
}

double wf_clip_scale(double norm, double clip)
{
    return clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1;
}
