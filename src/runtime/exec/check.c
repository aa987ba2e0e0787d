/* Checks what callers pass to the executor, before anything is allocated or sent. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "runtime/exec/exec_priv.h"

/* -- ranks ---------------------------------------------------------------------------------- */

static uint32_t rank_in_comm(const struct weft_exec_setup *s, uint32_t rank)
{
    return s->ranks == NULL ? rank : s->ranks[rank];
}

/* Checks the numbers of ranks.  The number of ranks is small, so that all pairs are compared. */
static enum weft_status check_ranks(const struct weft_exec_setup *s, struct weft_error *err)
{
    uint32_t n = s->program->place->n_ranks, size = weft_comm_size(s->comm);
    uint32_t own = rank_in_comm(s, s->program->rank);
    if (n > size)
        return WEFT_FAIL(err, WEFT_USAGE, "the schedule has %u ranks, but only %u are running",
                         n, size);
    for (uint32_t r = 0; r < n; r++) {
        if (rank_in_comm(s, r) >= size)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u of the schedule must run on rank %u, but only ranks 0 to "
                             "%u are running",
                             r, rank_in_comm(s, r), size - 1);
        for (uint32_t k = 0; s->ranks != NULL && k < r; k++)
            if (s->ranks[k] == s->ranks[r])
                return WEFT_FAIL(err, WEFT_USAGE,
                                 "ranks %u and %u of the schedule must both run on rank %u; "
                                 "give each its own rank",
                                 k, r, s->ranks[r]);
    }
    if (weft_comm_rank(s->comm) != own)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the program is for rank %u of the schedule, which must run on rank "
                         "%u, not on rank %u",
                         s->program->rank, own, weft_comm_rank(s->comm));
    return WEFT_OK;
}

/* -- stages --------------------------------------------------------------------------------- */

static enum weft_status check_tensors(const struct weft_exec_setup *s, uint32_t stage, bool out,
                                      struct weft_error *err)
{
    const struct boundary b = wf_exec_boundary(&s->stages[stage], out);
    size_t unused;
    enum weft_status st = wf_exec_boundary_bytes(&b, wf_exec_max_rows(s), &unused, err);
    if (st != WEFT_OK && err != NULL) {
        char before[48];
        snprintf(before, sizeof before, "%s of stage %u: ", out ? "output" : "input", stage);
        wf_error_wrap(err, before, "");
    }
    return st;
}

/* Compares the tensors at the boundary below a stage.  Both stages must be on this rank;
 * between ranks, message headers are checked. */
static enum weft_status check_boundary(const struct weft_exec_setup *s, uint32_t stage,
                                       struct weft_error *err)
{
    const struct boundary below = wf_exec_boundary(&s->stages[stage - 1], true);
    const struct boundary above = wf_exec_boundary(&s->stages[stage], false);
    char out[WEFT_SHAPE_TEXT], in[WEFT_SHAPE_TEXT];
    wf_exec_boundary_print(&below, 1, out);
    wf_exec_boundary_print(&above, 1, in);
    if (strcmp(in, out) == 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "stage %u has the output %s per row, but stage %u has the input %s; both "
                     "must be the same",
                     stage - 1, out, stage, in);
}

static enum weft_status check_stage(const struct weft_exec_setup *s, uint32_t number,
                                    struct weft_error *err)
{
    const struct weft_stage_ops *ops = s->stages[number].ops;
    bool backward = !s->program->forward_only;
    if (ops == NULL || ops->forward == NULL ||
        (backward && (ops->backward_input == NULL || ops->backward_weight == NULL)))
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u runs stage %u, but this stage is not given",
                         s->program->rank, number);
    if (number > 0)
        WEFT_TRY(check_tensors(s, number, false, err));
    WEFT_TRY(check_tensors(s, number, true, err));
    if (number > 0 && weft_program_slots(s->program, number - 1) > 0)
        return check_boundary(s, number, err);
    return WEFT_OK;
}

/* Outputs for rank 0 need a last stage with outputs, on rank 0 as well. */
static enum weft_status check_outputs(const struct weft_exec_setup *s, struct weft_error *err)
{
    uint32_t last = s->program->place->n_stages - 1;
    bool local = s->program->local_of[last] != WF_NOT_LOCAL;
    if (s->outputs_on != WEFT_OUTPUTS_ON_FIRST || (!local && s->program->rank != 0))
        return WEFT_OK;
    if (!wf_stage_has_outputs(&s->stages[last]))
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "rank %u: rank 0 is to receive the outputs of stage %u, which has none; "
            "give the tensors of its output on both ranks",
            s->program->rank, last);
    return check_tensors(s, last, true, err);
}

enum weft_status wf_exec_check_setup(const struct weft_exec_setup *s, struct weft_error *err)
{
    if (s == NULL || s->program == NULL || s->stages == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%s of the executor is NULL",
                         s == NULL            ? "the setup"
                         : s->program == NULL ? "the program"
                                              : "the list of stages");
    uint32_t n_ranks = s->program->place->n_ranks;
    if (n_ranks > 1 && s->comm == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "a schedule of %u ranks needs a transport", n_ranks);
    if (n_ranks > 1)
        WEFT_TRY(check_ranks(s, err));
    if (s->blocks.traffic != NULL && s->blocks.merge == NULL && !s->program->forward_only)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "residual blocks need a function that adds their gradients; set "
                         "blocks.merge");
    for (uint32_t h = 0; h < s->program->n_local; h++)
        WEFT_TRY(check_stage(s, s->program->local[h].stage, err));
    return check_outputs(s, err);
}

/* -- steps ---------------------------------------------------------------------------------- */

static enum weft_status report_missing(const struct weft_exec *e, const char *what,
                                       uint32_t micro, const char *why, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_USAGE, "rank %u: io.%s has no entry for micro %u; %s", e->rank,
                     what, e->setup.first_micro + micro, why);
}

/* Checks the loss function of a rank that runs the last stage. */
static enum weft_status check_loss(const struct weft_exec *e, const struct weft_exec_io *io,
                                   struct weft_error *err)
{
    uint32_t last = e->place->n_stages - 1;
    if (!e->has_outputs && io->loss != NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "rank %u: stage %u computes the loss itself; a loss function needs the "
            "tensors of its output",
            e->rank, last);
    if (e->has_outputs && io->loss == NULL && (!e->forward_only || io->losses != NULL))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "rank %u: the loss function is missing: stage %u returns outputs and "
                         "computes no loss",
                         e->rank, last);
    return WEFT_OK;
}

static enum weft_status check_micro(const struct weft_exec *e, const struct weft_exec_io *io,
                                    uint32_t m, struct weft_error *err)
{
    bool first = weft_placement_rank(e->place, 0, m) == e->rank;
    bool last = weft_placement_rank(e->place, e->place->n_stages - 1, m) == e->rank;
    bool loss = last && (!e->has_outputs || io->loss != NULL);
    if (first && (io->inputs == NULL || io->inputs[m] == NULL))
        return report_missing(e, "inputs", m, "this rank runs the first stage", err);
    if (loss && (io->targets == NULL || io->targets[m] == NULL))
        return report_missing(e, "targets", m, "this rank computes the loss", err);
    if (loss && io->losses == NULL)
        return report_missing(e, "losses", m, "this rank computes the loss", err);
    return WEFT_OK;
}

enum weft_status wf_exec_check_io(const struct weft_exec *e, const struct weft_exec_io *io,
                                  struct weft_error *err)
{
    bool receives = e->setup.outputs_on == WEFT_OUTPUTS_ON_FIRST && e->rank == 0;
    for (uint32_t m = 0; receives && m < e->place->n_micros; m++)
        if (io->outputs == NULL || io->outputs[m] == NULL)
            return report_missing(e, "outputs", m, "rank 0 receives them", err);
    if (io->failure != NULL) /* nothing is computed */
        return WEFT_OK;
    if (e->program->local_of[e->place->n_stages - 1] != WF_NOT_LOCAL)
        WEFT_TRY(check_loss(e, io, err));
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        WEFT_TRY(check_micro(e, io, m, err));
    return WEFT_OK;
}
