/* The outputs of a last stage that does not compute the loss: calls the loss function, and
 * passes the outputs to the caller, on this rank or on rank 0 of the schedule.
 *
 * The stage writes its outputs to memory of the caller or to a buffer of their own, because the
 * loss function writes their gradient to the output buffer of the cell, where the backward
 * reads it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "runtime/exec/exec_priv.h"

static uint32_t holder_of(const struct weft_exec *e, uint32_t micro)
{
    return weft_placement_rank(e->place, e->place->n_stages - 1, micro);
}

/* Returns true if this rank sends its outputs to rank 0. */
static bool sends_outputs(const struct weft_exec *e)
{
    return e->setup.outputs_on == WEFT_OUTPUTS_ON_FIRST && e->rank != 0;
}

/* -- memory --------------------------------------------------------------------------------- */

/* Numbers the micro-batches whose last stage is on this rank. */
static uint32_t number_outputs(struct weft_exec *e)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        if (holder_of(e, m) == e->rank)
            e->output_number[m] = n++;
    return n;
}

enum weft_status wf_exec_outputs_new(struct weft_exec *e, struct weft_error *err)
{
    uint32_t n_micros = e->place->n_micros, last = e->place->n_stages - 1;
    bool gathers = e->setup.outputs_on == WEFT_OUTPUTS_ON_FIRST;
    bool local = e->program->local_of[last] != WF_NOT_LOCAL;
    if (!local && !(gathers && e->rank == 0))
        return WEFT_OK;
    e->outputs = wf_exec_boundary(&e->setup.stages[last], true);
    e->has_outputs = wf_stage_has_outputs(&e->setup.stages[last]);
    if (!e->has_outputs)
        return WEFT_OK;
    e->output_number = calloc(n_micros, sizeof *e->output_number);
    e->output_messages = calloc(n_micros, sizeof *e->output_messages);
    if (e->output_number == NULL || e->output_messages == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the outputs of %u micros", n_micros);
    uint32_t n = number_outputs(e);
    if (!local)
        return WEFT_OK;
    /* Outputs for rank 0 are kept until the end of the step. */
    e->output_stride = e->local[e->program->local_of[last]].out_bytes;
    if (e->borrows_outputs)
        return WEFT_OK;
    e->output_memory = wf_exec_allocate(e, sends_outputs(e) ? n : 1, e->output_stride);
    if (e->output_memory == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the outputs of stage %u", last);
    return WEFT_OK;
}

void *wf_exec_output_at(const struct weft_exec *e, uint32_t micro)
{
    if (sends_outputs(e))
        return e->output_memory + e->output_number[micro] * e->output_stride;
    if (e->io->outputs != NULL && e->io->outputs[micro] != NULL)
        return e->io->outputs[micro];
    return e->output_memory;
}

/* -- the loss ------------------------------------------------------------------------------- */

enum weft_status wf_exec_call_loss(struct weft_exec *e, struct weft_action a,
                                   const struct weft_stage_call *stage, struct weft_error *err)
{
    const struct weft_exec_io *io = e->io;
    if (io->loss == NULL)
        return WEFT_OK;
    const struct weft_loss_call call = {
        .micro = stage->micro,
        .rows = stage->rows,
        .outputs = stage->out,
        .targets = io->targets[a.micro],
        .scale = io->scale,
        .loss = &io->losses[a.micro],
        .grad = stage->train ? wf_exec_out(e, a.stage, a.micro) : NULL,
    };
    return io->loss(io->loss_arg, &call, err);
}

/* -- outputs for rank 0 --------------------------------------------------------------------- */

static enum weft_status describe_output(const struct weft_exec *e, uint32_t micro, void *data,
                                        char shape[WEFT_SHAPE_TEXT], struct envelope *out,
                                        struct weft_error *err)
{
    size_t bytes;
    WEFT_TRY(wf_exec_boundary_bytes(&e->outputs, wf_exec_rows(e, micro), &bytes, err));
    wf_exec_boundary_print(&e->outputs, wf_exec_rows(e, micro), shape);
    *out = (struct envelope){
        .kind = WF_MESSAGE_OUTPUT,
        .stage = e->place->n_stages - 1,
        .micro = micro,
        .peer = e->rank == 0 ? holder_of(e, micro) : 0,
        .channel = WF_COMM_CHANNEL_OUTPUT,
        .bytes = bytes,
        .data = data,
        .shape = shape,
    };
    return WEFT_OK;
}

/* Sends the outputs of this rank and waits until rank 0 has them, because the next step writes
 * to the same memory. */
static enum weft_status send_outputs(struct weft_exec *e, struct weft_error *err)
{
    for (uint32_t m = 0; m < e->place->n_micros; m++) {
        struct envelope what;
        char shape[WEFT_SHAPE_TEXT];
        if (holder_of(e, m) != e->rank)
            continue;
        WEFT_TRY(describe_output(e, m, wf_exec_output_at(e, m), shape, &what, err));
        WEFT_TRY(wf_exec_send(e, &e->output_messages[m], &what, err));
    }
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        if (holder_of(e, m) == e->rank)
            WEFT_TRY(weft_comm_wait(e->comm, &e->output_messages[m], err));
    return WEFT_OK;
}

static enum weft_status receive_outputs(struct weft_exec *e, struct weft_error *err)
{
    for (uint32_t m = 0; m < e->place->n_micros; m++) {
        struct envelope what;
        char shape[WEFT_SHAPE_TEXT];
        if (holder_of(e, m) == 0)
            continue;
        WEFT_TRY(describe_output(e, m, e->io->outputs[m], shape, &what, err));
        WEFT_TRY(wf_exec_post(e, &e->output_messages[m], &what, err));
    }
    for (uint32_t m = 0; m < e->place->n_micros; m++) {
        struct weft_message *message = &e->output_messages[m];
        if (holder_of(e, m) == 0)
            continue;
        WEFT_TRY(weft_comm_wait(e->comm, message, err));
        if (message->data != e->io->outputs[m])
            memcpy(e->io->outputs[m], message->data, message->bytes);
        weft_comm_release(e->comm, message);
    }
    return WEFT_OK;
}

enum weft_status wf_exec_return_outputs(struct weft_exec *e, struct weft_error *err)
{
    if (e->setup.outputs_on != WEFT_OUTPUTS_ON_FIRST || !e->has_outputs)
        return WEFT_OK;
    return e->rank == 0 ? receive_outputs(e, err) : send_outputs(e, err);
}
