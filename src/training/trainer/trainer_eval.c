/* The loss on other data: forwards alone, through the same pipeline. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "training/trainer/trainer_priv.h"

static size_t summary_bytes(const struct wf_topology *l, uint32_t rank)
{
    struct wf_range micros = wf_topology_micros(l, rank / l->pp);
    return sizeof(struct step_summary) + (micros.end - micros.begin) * sizeof(double);
}

static enum weft_status gather_losses(struct wf_trainer *t, struct weft_error *err)
{
    if (t->comm == NULL) {
        memcpy(t->summaries[0], t->summary, summary_bytes(&t->topology, 0));
        return WEFT_OK;
    }
    for (uint32_t r = 0; t->rank == 0 && r < t->n_ranks; r++)
        t->summary_sizes[r] = summary_bytes(&t->topology, r);
    enum weft_status st =
        weft_comm_gather(t->comm, t->summary, summary_bytes(&t->topology, t->rank),
                         t->summaries, t->summary_sizes, err);
    for (uint32_t r = 0; t->rank == 0 && r < t->n_ranks; r++)
        t->summary_sizes[r] = wf_trainer_summary_bytes(&t->topology, r);
    return st;
}

/* A failure of one rank's forward is told to all. */
static enum weft_status gather_result(struct wf_trainer *t, enum weft_status failed,
                                      const struct weft_error *failure, double *sum,
                                      struct weft_error *err)
{
    struct {
        uint32_t status;
        double sum;
        char error[480];
    } all = {.status = WEFT_OK};
    struct step_summary *head = (struct step_summary *)t->summary;
    *head = (struct step_summary){.status = (uint32_t)failed};
    snprintf(head->error, sizeof head->error, "%s", failed == WEFT_OK ? "" : failure->msg);
    memcpy(wf_trainer_summary_losses(t->summary), t->losses, t->n_micros * sizeof(double));
    WEFT_TRY(gather_losses(t, err));
    for (uint32_t r = 0; t->rank == 0 && r < t->n_ranks; r++) {
        const struct step_summary *h = t->summaries[r];
        if (h->status == WEFT_OK || all.status != WEFT_OK)
            continue;
        all.status = h->status;
        memcpy(all.error, h->error, sizeof all.error);
    }
    if (t->rank == 0)
        all.sum = wf_trainer_total_loss(t);
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
    size_t n_targets;
    struct weft_error failure = {0};
    double sum;
    WEFT_TRY(wf_trainer_read_tokens(t, &t->val_batch, batch, &n_targets, err));
    const struct weft_exec_io io = {.step = t->done,
                                    .inputs = t->input_at,
                                    .targets = t->target_at,
                                    .scale = 1.0F,
                                    .losses = t->losses,
                                    .forward_only = true};
    memset(t->losses, 0, t->n_micros * sizeof *t->losses);
    enum weft_status st = weft_exec_step(t->exec, &io, &failure);
    if (st != WEFT_OK && st != WEFT_NUMERIC && st != WEFT_DATA) {
        if (err != NULL)
            *err = failure;
        return st;
    }
    WEFT_TRY(gather_result(t, st, &failure, &sum, err));
    sums->loss += sum;
    sums->targets += n_targets;
    return WEFT_OK;
}

enum weft_status wf_trainer_evaluate(struct wf_trainer *t, struct wf_eval_result *out,
                                     struct weft_error *err)
{
    if (t->val_shards == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "there is nothing to evaluate on: give data.val");
    *out = (struct wf_eval_result){0};
    for (uint64_t b = 0; b < t->val_batches; b++)
        WEFT_TRY(evaluate_batch(t, b, out, err));
    out->loss /= (double)out->targets;
    return WEFT_OK;
}
