/* Computes the loss on validation data with forward passes through the pipeline of the
 * trainer. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "training/trainer/trainer_priv.h"

/* Adds up the losses of a batch of all ranks.  If one rank failed, returns its failure on all
 * ranks. */
static enum weft_status gather_loss(struct wf_trainer *t, const double *losses,
                                    const struct weft_error *failure, double *sum,
                                    struct weft_error *err)
{
    struct {
        uint32_t status;
        double sum;
        char error[WF_SUMMARY_ERROR];
    } all = {.status = WEFT_OK};
    struct wf_step_summary head = {.status = (uint32_t)failure->status};
    if (failure->status != WEFT_OK)
        snprintf(head.error, sizeof head.error, "%s", failure->msg);
    wf_summaries_set(&t->summaries, &head, losses, NULL, 0);
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
    t->failed_together = all.status != WEFT_OK;
    if (all.status != WEFT_OK)
        return WEFT_FAIL(err, (enum weft_status)all.status, "evaluation: %.400s", all.error);
    return WEFT_OK;
}

/* Runs the forwards of a batch.  A failure after which the ranks can continue is stored in
 * *failure. */
static enum weft_status run_batch(struct wf_trainer *t, uint64_t batch, double *losses,
                                  size_t *n_targets, struct weft_error *failure,
                                  struct weft_error *err)
{
    struct wf_trainer_data *d = &t->data;
    struct weft_error no_tokens = {0}, cause = {0};
    enum weft_status got =
        wf_trainer_data_read(d, &d->val_batch, batch, t->done + 1, n_targets, &no_tokens);
    const struct weft_exec_io io = {.step = t->done,
                                    .inputs = d->input_at,
                                    .targets = d->target_at,
                                    .scale = 1.0F,
                                    .losses = losses,
                                    .failure = got == WEFT_OK ? NULL : &no_tokens,
                                    .forward_only = true};

    memset(losses, 0, d->n_micros * sizeof *losses);
    enum weft_status st = weft_exec_step(t->exec, &io, &cause);
    if (st == WEFT_OK)
        return WEFT_OK;
    bool no_input = got != WEFT_OK && st == got; /* this rank has sent all its messages */
    if (!no_input && st != WEFT_NUMERIC && st != WEFT_DATA) {
        if (err != NULL)
            *err = cause;
        return st;
    }
    *failure = cause;
    return WEFT_OK;
}

/* Evaluates batches [begin, end).  The losses are gathered after the last one, so that a rank
 * starts the next batch while other ranks still compute the previous one. */
static enum weft_status run_window(struct wf_trainer *t, uint64_t begin, uint64_t end,
                                   struct wf_eval_result *sums, struct weft_error *err)
{
    size_t n_targets[WF_EVAL_WINDOW];
    size_t n = (size_t)(end - begin), n_micros = t->data.n_micros, first = n;
    struct weft_error failure = {0}; /* of batch `first` */

    for (size_t i = 0; i < n; i++) {
        struct weft_error own = {0};
        WEFT_TRY(run_batch(t, begin + i, t->data.val_losses + i * n_micros, &n_targets[i], &own,
                           err));
        if (own.status != WEFT_OK && first == n) {
            first = i;
            failure = own;
        }
    }

    const struct weft_error none = {0};
    for (size_t i = 0; i < n; i++) {
        double sum;
        WEFT_TRY(gather_loss(t, t->data.val_losses + i * n_micros,
                             i == first ? &failure : &none, &sum, err));
        sums->loss += sum;
        sums->targets += n_targets[i];
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_evaluate(struct wf_trainer *t, struct wf_eval_result *out,
                                     struct weft_error *err)
{
    struct wf_eval_result sums = {0};
    enum weft_status st = WEFT_OK;
    uint64_t n = t->data.val_batches;
    if (t->data.val_shards == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "there is no evaluation data; set data.val");
    t->evaluates = true;
    for (uint64_t b = 0; st == WEFT_OK && b < n; b += WF_EVAL_WINDOW)
        st = run_window(t, b, n - b < WF_EVAL_WINDOW ? n : b + WF_EVAL_WINDOW, &sums, err);
    t->evaluates = false;
    if (st == WEFT_OK && sums.targets == 0)
        return WEFT_FAIL(err, WEFT_DATA,
                         "data.val: the loss mask excludes all tokens of %.200s",
                         wf_shards_path(t->data.val_shards, 0));
    if (st == WEFT_OK)
        *out = (struct wf_eval_result){sums.loss / (double)sums.targets, sums.targets};
    return st;
}
