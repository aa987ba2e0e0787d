/* One step: tokens, micros, loss, norm, update. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "optim/curve.h"
#include "train/trainer_priv.h"

/* The number that people see. */
static unsigned long long number(const struct weft_trainer *t)
{
    return (unsigned long long)t->done + 1;
}

/* What went wrong, and in which step and micro. */
static enum weft_status blame(const struct weft_trainer *t, uint32_t micro, enum weft_status st,
                              struct weft_error *err)
{
    struct weft_error cause = {0};
    if (err != NULL)
        cause = *err;
    return WEFT_FAIL(err, st, "step %llu, micro %u: %.400s", number(t), micro, cause.msg);
}

/* -- tokens --------------------------------------------------------------------------------- */

/* All tokens of the step, and how many targets count. */
static enum weft_status read_tokens(struct weft_trainer *t, size_t *n_targets,
                                    struct weft_error *err)
{
    size_t n = (size_t)t->batch.rows * t->seq;
    *n_targets = 0;
    for (uint32_t m = 0; m < t->n_micros; m++) {
        struct weft_range rows = weft_micro_range(t->batch.rows, t->n_micros, m);
        enum weft_status st = weft_batch_rows(
            &t->batch, t->done, (uint32_t)rows.begin, (uint32_t)(rows.end - rows.begin),
            t->inputs + rows.begin * t->seq, t->targets + rows.begin * t->seq, err);
        if (st != WEFT_OK)
            return blame(t, m, st, err);
    }
    for (size_t i = 0; i < n; i++)
        *n_targets += t->targets[i] != -1;
    if (*n_targets == 0)
        return WEFT_FAIL(err, WEFT_DATA, "step %llu: no token of it is a target", number(t));
    return WEFT_OK;
}

/* -- micros --------------------------------------------------------------------------------- */

static enum weft_status run_action(struct weft_trainer *t, const struct weft_stage *stage,
                                   const struct weft_micro_action *a, float scale,
                                   struct weft_error *err)
{
    struct weft_range rows = weft_micro_range(t->batch.rows, t->n_micros, a->micro);
    const struct weft_stage_call call = {
        .micro = a->micro,
        .slot = a->slot,
        .rows = (uint32_t)(rows.end - rows.begin),
        .in = t->inputs + rows.begin * t->seq,
        .targets = t->targets + rows.begin * t->seq,
        .scale = scale,
        .loss = &t->losses[a->micro],
        .train = true,
    };
    switch (a->kind) {
    case WEFT_MICRO_FORWARD:
        WEFT_TRY(stage->ops->forward(stage->self, &call, err));
        if (!isfinite(t->losses[a->micro]))
            return WEFT_FAIL(err, WEFT_NUMERIC, "the loss is not a finite number");
        return WEFT_OK;
    case WEFT_MICRO_BACKWARD:
        return weft_stage_backward(stage, &call, err);
    case WEFT_MICRO_INPUT:
        return stage->ops->backward_input(stage->self, &call, err);
    case WEFT_MICRO_WEIGHT:
        return stage->ops->backward_weight(stage->self, &call, err);
    }
    return WEFT_OK;
}

/* Everything that a step does between its tokens and its gradients, in the trainer's order.  This
 * is the part that a pipeline's executor does for many stages. */
static enum weft_status run_micros(struct weft_trainer *t, float scale, struct weft_error *err)
{
    struct weft_stage stage = weft_tstage_stage(t->stage);
    weft_tstage_step(t->stage);
    for (size_t i = 0; i < t->order.n; i++) {
        const struct weft_micro_action *a = &t->order.at[i];
        assert(a->micro < t->n_micros && a->slot < t->order.slots);
        enum weft_status st = run_action(t, &stage, a, scale, err);
        if (st != WEFT_OK)
            return blame(t, a->micro, st, err);
    }
    return WEFT_OK;
}

/* A tensor that nothing was added to has a gradient of zero. */
static void complete_gradients(struct weft_trainer *t)
{
    size_t n;
    struct weft_param *params = weft_tstage_params(t->stage, &n);
    for (size_t i = 0; i < n; i++) {
        struct weft_param *p = &params[i];
        if (!p->fresh)
            continue;
        if (p->exact != NULL)
            memset(p->exact, 0, p->n * sizeof *p->exact);
        else
            memset(p->fast, 0, p->n * sizeof *p->fast);
        p->fresh = false;
    }
}

/* -- the update ----------------------------------------------------------------------------- */

static enum weft_status check_norm(const struct weft_trainer *t, double norm,
                                   struct weft_error *err)
{
    size_t n;
    if (isfinite(norm))
        return WEFT_OK;
    const struct weft_optim_tensor *tensors = weft_optim_tensors(t->optim, &n);
    size_t bad = weft_optim_find_bad(t->optim);
    return WEFT_FAIL(err, WEFT_NUMERIC,
                     "step %llu: the gradient of %s is not a finite number; weights are as "
                     "before the step",
                     number(t), bad < n ? tensors[bad].name : "the model");
}

static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct weft_trainer *t = arg;
    size_t n;
    weft_tstage_pack_rows(t->stage, &weft_tstage_params(t->stage, &n)[tensor], row0, row1);
}

/* Sums the micros in their order, whatever order they ran in. */
static double total_loss(const struct weft_trainer *t)
{
    double sum = 0;
    for (uint32_t m = 0; m < t->n_micros; m++)
        sum += t->losses[m];
    return sum;
}

enum weft_status weft_trainer_step(struct weft_trainer *t, struct weft_step_result *out,
                                   struct weft_error *err)
{
    int64_t begin = weft_clock_ns();
    size_t n_targets;
    WEFT_TRY(read_tokens(t, &n_targets, err));
    WEFT_TRY(run_micros(t, (float)(1.0 / (double)n_targets), err));
    double loss = total_loss(t) / (double)n_targets;
    if (!isfinite(loss))
        return WEFT_FAIL(err, WEFT_NUMERIC, "step %llu: the loss is not a finite number",
                         number(t));
    complete_gradients(t);
    double norm = sqrt(weft_optim_squares(t->optim));
    WEFT_TRY(check_norm(t, norm, err));
    struct weft_optim_step step = {.t = t->done + 1,
                                   .lr = weft_curve_lr(&t->curve, t->done),
                                   .scale = weft_clip_scale(norm, t->clip)};
    weft_optim_update(t->optim, &step, pack_rows, t);
    t->done++;
    *out = (struct weft_step_result){.step = t->done,
                                     .loss = loss,
                                     .grad_norm = norm,
                                     .lr = step.lr,
                                     .tokens = (uint64_t)t->batch.rows * t->seq,
                                     .ns = weft_clock_ns() - begin};
    return WEFT_OK;
}
