/* Computes the loss on validation data with forward passes through the pipeline of the
 * trainer. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "training/trainer/trainer_priv.h"

/* Adds up the losses of all ranks.  If one rank failed, returns its failure on all ranks. */
static enum weft_status gather_loss(struct wf_trainer *t, enum weft_status failed,
                                    const struct weft_error *failure, double *sum,
                                    struct weft_error *err)
{
    struct {
        uint32_t status;
        double sum;
        char error[WF_SUMMARY_ERROR];
    } all = {.status = WEFT_OK};
    struct wf_step_summary head = {.status = (uint32_t)failed};
    if (failed != WEFT_OK)
        snprintf(head.error, sizeof head.error, "%s", failure->msg);
    wf_summaries_set(&t->summaries, &head, t->data.losses, NULL, 0);
    WEFT_TRY(wf_summaries_gather(&t->summaries, false, err));

    if (t->rank == 0) {
        const struct wf_step_summary *first = wf_summaries_first_failure(&t->summaries);
        if (first != NULL) {
            all.status = first->status;
            memcpy(all.error, first->error, sizeof all.error);
        }
        all.sum = wf_summaries_total_loss(&t->summaries);
    }
    if (t->comm != NULL)
        WEFT_TRY(weft_comm_broadcast(t->comm, &all, sizeof all, err));
    *sum = all.sum;
    if (all.status != WEFT_OK)
        return WEFT_FAIL(err, (enum weft_status)all.status, "evaluation: %.400s", all.error);
    return WEFT_OK;
}

static enum weft_status evaluate_batch(struct wf_trainer *t, uint64_t batch,
                                       struct wf_eval_result *sums, struct weft_error *err)
{
    struct wf_trainer_data *d = &t->data;
    size_t n_targets;
    struct weft_error failure = {0};
    double sum;
    WEFT_TRY(wf_trainer_data_read(d, &d->val_batch, batch, t->done + 1, &n_targets, err));

    const struct weft_exec_io io = {.step = t->done,
                                    .inputs = d->input_at,
                                    .targets = d->target_at,
                                    .scale = 1.0F,
                                    .losses = d->losses,
                                    .forward_only = true};
    memset(d->losses, 0, d->n_micros * sizeof *d->losses);
    enum weft_status st = weft_exec_step(t->exec, &io, &failure);
    if (st != WEFT_OK && st != WEFT_NUMERIC && st != WEFT_DATA) {
        if (err != NULL)
            *err = failure;
        return st;
    }

    WEFT_TRY(gather_loss(t, st, &failure, &sum, err));
    sums->loss += sum;
    sums->targets += n_targets;
    return WEFT_OK;
}

enum weft_status wf_trainer_evaluate(struct wf_trainer *t, struct wf_eval_result *out,
                                     struct weft_error *err)
{
    struct wf_eval_result sums = {0};
    if (t->data.val_shards == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "there is no evaluation data; set data.val");
    for (uint64_t b = 0; b < t->data.val_batches; b++)
        WEFT_TRY(evaluate_batch(t, b, &sums, err));
    *out = (struct wf_eval_result){sums.loss / (double)sums.targets, sums.targets};
    return WEFT_OK;
}
