/* Runs the actions of a rank for one step. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/exec/exec_priv.h"

/* -- messages ------------------------------------------------------------------------------- */

static void fill_message(struct weft_exec *e, struct weft_message *m,
                         const struct envelope *what)
{
    *m = (struct weft_message){.head = {.kind = (uint32_t)what->kind,
                                        .stage = what->stage,
                                        .micro = e->setup.first_micro + what->micro,
                                        .part = what->part,
                                        .step = e->io->step},
                               .peer = e->ranks[what->peer],
                               .channel = what->channel,
                               .bytes = what->bytes,
                               .data = what->data};
    if (what->shape != NULL)
        memcpy(m->head.shape, what->shape, sizeof m->head.shape);
}

enum weft_status wf_exec_send(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err)
{
    fill_message(e, m, what);
    e->bytes_to[2 * (size_t)what->peer + (what->channel == WF_COMM_CHANNEL_BACKWARD)] +=
        what->bytes;
    e->times.sent_bytes += what->bytes;
    return weft_comm_send(e->comm, m, err);
}

enum weft_status wf_exec_post(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err)
{
    fill_message(e, m, what);
    return weft_comm_post(e->comm, m, err);
}

/* Describes the message of an action: an activation or its gradient. */
static struct envelope envelope_of(struct weft_exec *e, struct weft_action a)
{
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool forward = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_F;
    /* The stage whose output or output gradient is sent. */
    uint32_t lower = up ? a.stage : a.stage - 1;
    return (struct envelope){
        .kind = forward ? WF_MESSAGE_ACTIVATION : WF_MESSAGE_GRADIENT,
        .stage = lower,
        .micro = a.micro,
        .peer = weft_placement_rank(e->place, up ? lower + 1 : lower, a.micro),
        .channel = forward ? WF_COMM_CHANNEL_FORWARD : WF_COMM_CHANNEL_BACKWARD,
        .bytes = up ? c->out_bytes : c->in_bytes,
        .data = up ? wf_exec_out(e, a.stage, a.micro) : c->in,
        .shape = up ? c->out_shape : c->in_shape,
    };
}

/* -- receives ------------------------------------------------------------------------------- */

/* Reclaims input buffers whose gradients have been sent. */
static enum weft_status reclaim(struct weft_exec *e, uint32_t stage, struct weft_error *err)
{
    struct stage_buffers *h = &e->local[e->program->local_of[stage]];
    while (h->n_returning > 0) {
        uint32_t micro = h->returning[h->first_returning];
        struct cell *c = wf_exec_cell(e, stage, micro);
        struct weft_action a = {.kind = WEFT_ACT_SEND_B, .stage = stage, .micro = micro};
        bool blocks_done = true;
        WEFT_TRY(weft_comm_test(e->comm, &c->send_b, err));
        if (e->n_blocks > 0)
            WEFT_TRY(wf_exec_blocks_sent(e, a, &blocks_done, err));
        if (!c->send_b.done || !blocks_done)
            break;
        h->free_in[h->n_free_in++] = c->in_set;
        h->first_returning = (h->first_returning + 1) % (h->n_in + 1);
        h->n_returning--;
    }
    return WEFT_OK;
}

/* Finds memory for a receive if a buffer is free now.  A receive that is posted ahead must
 * leave enough buffers for the receives that are due. */
static enum weft_status find_room(struct weft_exec *e, struct weft_action a, bool due,
                                  bool *found, struct weft_error *err)
{
    struct stage_buffers *h = &e->local[e->program->local_of[a.stage]];
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    *found = true;
    if (e->by_reference)
        return WEFT_OK;
    /* The gradient overwrites the activation, once the activation was sent. */
    if (a.kind == WEFT_ACT_RECV_B) {
        *found = c->send_f.head.magic != 0;
        if (*found)
            WEFT_TRY(weft_comm_test(e->comm, &c->send_f, err));
        *found = *found && c->send_f.done;
        return WEFT_OK;
    }
    if (e->forward_only && e->n_blocks > 0)
        WEFT_TRY(wf_exec_forward_take_set(e, a.micro, found, err));
    else if (!e->forward_only)
        WEFT_TRY(reclaim(e, a.stage, err));
    *found = *found && h->n_free_in > 0 && (due || h->n_ahead < WF_INPUTS_AHEAD);
    if (*found) {
        c->in_set = h->free_in[--h->n_free_in];
        c->in = h->in + c->in_set * h->in_stride;
        c->ahead = !due;
        h->n_ahead += !due;
    }
    return WEFT_OK;
}

static enum weft_status try_post(struct weft_exec *e, struct recv_queue *queue, bool due,
                                 bool *posted, struct weft_error *err)
{
    struct weft_action a = e->list.at[queue->at[queue->next_post]];
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    WEFT_TRY(find_room(e, a, due, posted, err));
    if (!*posted)
        return WEFT_OK;
    struct envelope what = envelope_of(e, a);
    WEFT_TRY(wf_exec_post(e, queue->backward ? &c->recv_b : &c->recv_f, &what, err));
    if (e->n_blocks > 0)
        WEFT_TRY(wf_exec_blocks_post(e, a, err));
    queue->next_post++;
    return WEFT_OK;
}

enum weft_status wf_exec_post_ahead(struct weft_exec *e, struct weft_error *err)
{
    for (size_t i = 0; i < e->n_recv_queues; i++) {
        struct recv_queue *queue = &e->recv_queues[i];
        bool posted = true;
        while (posted && queue->next_post < queue->n &&
               queue->next_post < queue->next_arrival + POST_AHEAD)
            WEFT_TRY(try_post(e, queue, false, &posted, err));
    }
    return WEFT_OK;
}

struct due {
    struct weft_exec *e;
    struct recv_queue *queue;
    struct weft_message *m;
};

/* Sets *yes once the message has arrived.  Meanwhile it posts other receives: the sender of
 * this message may wait for a buffer that becomes free only when this rank receives a
 * gradient. */
static enum weft_status has_arrived(void *arg, bool *yes, struct weft_error *err)
{
    struct due *due = arg;
    bool posted = due->queue->next_post > due->queue->next_arrival;
    if (!posted)
        WEFT_TRY(try_post(due->e, due->queue, true, &posted, err));
    if (!due->e->by_reference)
        WEFT_TRY(wf_exec_post_ahead(due->e, err));
    if (!posted)
        return WEFT_OK;
    WEFT_TRY(weft_comm_test(due->e->comm, due->m, err));
    *yes = due->m->done;
    return WEFT_OK;
}

/* Completes the next scheduled receive. */
static enum weft_status receive(struct weft_exec *e, size_t position, struct weft_error *err)
{
    struct weft_action a = e->list.at[position];
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    struct recv_queue *queue = &e->recv_queues[e->queue_of[position]];
    struct weft_message *m = queue->backward ? &c->recv_b : &c->recv_f;
    struct due due = {e, queue, m};
    WEFT_TRY(weft_comm_wait_until(e->comm, e->ranks[queue->peer], has_arrived, &due, err));
    queue->next_arrival++;
    e->received_bytes += m->bytes;
    if (e->forward_only && e->by_reference) {
        wf_exec_forward_keep_input(e, a, m);
    } else if (!queue->backward) {
        c->in = m->data;
        e->local[e->program->local_of[a.stage]].n_ahead -= c->ahead;
        c->ahead = false;
    }
    if (e->n_blocks > 0)
        WEFT_TRY(wf_exec_blocks_wait(e, a, err));
    /* Messages are in the memory of their senders' executors.  A sender of activations later
     * receives their gradients, which shows that the activations were read.  A sender of
     * gradients waits only for the release of its last gradient: a channel keeps its order, so
     * all earlier gradients were released, too. */
    if (e->by_reference && queue->backward && queue->next_arrival == queue->n) {
        weft_comm_release(e->comm, m);
        if (e->n_blocks > 0)
            wf_exec_blocks_release(e, a);
    }
    return WEFT_OK;
}

/* -- sends ---------------------------------------------------------------------------------- */

static enum weft_status send(struct weft_exec *e, struct weft_action a, struct weft_error *err)
{
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    bool forward = a.kind == WEFT_ACT_SEND_F;
    struct envelope what = envelope_of(e, a);
    WEFT_TRY(wf_exec_send(e, forward ? &c->send_f : &c->send_b, &what, err));
    if (e->n_blocks > 0)
        WEFT_TRY(wf_exec_blocks_send(e, a, err));
    c->sending = e->forward_only;
    struct stage_buffers *h = &e->local[e->program->local_of[a.stage]];
    if (!forward && !e->by_reference) {
        h->returning[(h->first_returning + h->n_returning) % (h->n_in + 1)] = a.micro;
        h->n_returning++;
    }
    return WEFT_OK;
}

/* -- compute -------------------------------------------------------------------------------- */

static bool on_this_rank(const struct weft_exec *e, uint32_t stage, uint32_t micro)
{
    return weft_placement_rank(e->place, stage, micro) == e->rank;
}

/* Returns an entry of a list that a rank with an error may lack. */
static const void *entry_of(const void *const *list, uint32_t micro)
{
    return list == NULL ? NULL : list[micro];
}

static struct weft_stage_call make_call(struct weft_exec *e, struct weft_action a)
{
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    const struct weft_exec_io *io = e->io;
    bool first = a.stage == 0, end = (uint32_t)a.stage + 1 == e->place->n_stages;
    bool last = end && !e->has_outputs; /* computes the loss */
    if (!first && on_this_rank(e, a.stage - 1, a.micro))
        c->in = wf_exec_out(e, a.stage - 1, a.micro);
    struct weft_stage_call call = {
        .micro = e->setup.first_micro + a.micro,
        .slot = e->program->cells[wf_program_cell(e->program, a.stage, a.micro)].slot,
        .rows = wf_exec_rows(e, a.micro),
        .scale = io->scale,
        .train = !e->forward_only,
    };
    if (a.kind == WEFT_ACT_F) {
        call.in = first ? entry_of(io->inputs, a.micro) : c->in;
        call.out = last  ? NULL
                   : end ? wf_exec_output_at(e, a.micro)
                         : wf_exec_out(e, a.stage, a.micro);
        call.targets = last ? entry_of(io->targets, a.micro) : NULL;
        call.loss = last && io->losses != NULL ? &io->losses[a.micro] : NULL;
    } else {
        void *grad = io->input_grads == NULL ? NULL : io->input_grads[a.micro];
        /* The weight gradient uses only its slot: the buffers may already be reused. */
        bool gone = a.kind == WEFT_ACT_W;
        call.dout = last || gone ? NULL : wf_exec_out(e, a.stage, a.micro);
        call.din = gone ? NULL : first ? grad : c->in;
        call.in = first ? entry_of(io->inputs, a.micro) : NULL;
        call.targets = last ? entry_of(io->targets, a.micro) : NULL;
    }
    return call;
}

static enum weft_status dispatch(struct weft_exec *e, struct weft_action a,
                                 const struct weft_stage_call *call, struct weft_error *err)
{
    const struct weft_stage *stage = &e->setup.stages[a.stage];
    switch (a.kind) {
    case WEFT_ACT_F:
        WEFT_TRY(stage->ops->forward(stage->self, call, err));
        if (!e->has_outputs || (uint32_t)a.stage + 1 < e->place->n_stages)
            return WEFT_OK;
        return wf_exec_call_loss(e, a, call, err);
    case WEFT_ACT_B:
        return weft_stage_backward(stage, call, err);
    case WEFT_ACT_I:
        return stage->ops->backward_input(stage->self, call, err);
    default:
        return stage->ops->backward_weight(stage->self, call, err);
    }
}

/* Calls a stage and completes its error.  Stages are the caller's code and may return an error
 * without a message or a status; other ranks would then report an old cause or no cause. */
static enum weft_status call_stage(struct weft_exec *e, struct weft_action a,
                                   const struct weft_stage_call *call, struct weft_error *err)
{
    char text[WEFT_ACTION_TEXT_MAX];
    if (err != NULL)
        err->status = WEFT_OK;
    enum weft_status st = dispatch(e, a, call, err);
    if (st == WEFT_OK || (err != NULL && err->status == st))
        return st;
    weft_action_print(a, text);
    return WEFT_FAIL(err, st, "rank %u, step %" PRIu64 ": the stage failed at %s: %s", e->rank,
                     e->io->step, text, weft_status_text(st));
}

static void count_saved(struct saved_count *count, struct weft_action a)
{
    if (a.kind == WEFT_ACT_F)
        count->now++;
    else if (a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_W)
        count->now--;
    count->max = count->now > count->max ? count->now : count->max;
}

/* Runs a compute action.  A failed step continues without computing, so that no rank waits for
 * a message that never arrives. */
static enum weft_status compute(struct weft_exec *e, struct weft_action a,
                                struct weft_error *err)
{
    struct weft_stage_call call = make_call(e, a);
    struct weft_stage_blocks blocks;
    if (e->n_blocks > 0 && a.kind != WEFT_ACT_W)
        call.blocks = wf_exec_blocks_begin(e, a, &blocks);
    enum weft_status st = e->failed ? WEFT_OK : call_stage(e, a, &call, err);
    if (e->n_blocks > 0)
        wf_exec_blocks_end(e, a);
    if (!e->forward_only) {
        count_saved(&e->local[e->program->local_of[a.stage]].saved, a);
        count_saved(&e->saved, a);
    }
    if (st != WEFT_NUMERIC && st != WEFT_DATA)
        return st;
    e->failed = true;
    e->failed_at = (struct weft_cell_id){a.stage, a.micro};
    e->failure.status = st;
    if (err != NULL)
        e->failure = *err;
    return WEFT_OK;
}

/* -- the list ------------------------------------------------------------------------------- */

static enum weft_status run_action(struct weft_exec *e, size_t position, struct weft_error *err)
{
    struct weft_action a = e->list.at[position];
    switch (a.kind) {
    case WEFT_ACT_F:
    case WEFT_ACT_B:
    case WEFT_ACT_I:
    case WEFT_ACT_W:
        return compute(e, a, err);
    case WEFT_ACT_SEND_F:
    case WEFT_ACT_SEND_B:
        return send(e, a, err);
    case WEFT_ACT_RECV_F:
    case WEFT_ACT_RECV_B:
        return receive(e, position, err);
    case WEFT_ACT_REDUCE_GRAD:
        if (e->setup.reduce == NULL)
            return WEFT_OK;
        return e->setup.reduce(e->setup.reduce_arg, a.stage, err);
    default:
        return WEFT_OK;
    }
}

/* Runs between two actions: posts receives, makes progress and waits for memory. */
static enum weft_status between_actions(struct weft_exec *e, size_t position,
                                        struct weft_error *err)
{
    if (e->comm == NULL)
        return WEFT_OK;
    weft_comm_publish(e->comm, e->io->step, position);
    WEFT_TRY(wf_exec_post_ahead(e, err));
    WEFT_TRY(weft_comm_progress(e->comm, err));
    if (!e->forward_only)
        return WEFT_OK;
    int64_t begin = wf_clock_ns();
    WEFT_TRY(wf_exec_forward_prepare(e, e->list.at[position], err));
    e->times.wait_ns += wf_clock_ns() - begin;
    return WEFT_OK;
}

struct sent {
    struct weft_exec *e;
    struct weft_action a;
};

static enum weft_status is_sent(void *arg, bool *yes, struct weft_error *err)
{
    struct sent *sent = arg;
    struct weft_exec *e = sent->e;
    struct cell *c = wf_exec_cell(e, sent->a.stage, sent->a.micro);
    struct weft_message *m = sent->a.kind == WEFT_ACT_SEND_F ? &c->send_f : &c->send_b;
    WEFT_TRY(weft_comm_test(e->comm, m, err));
    *yes = m->done;
    return *yes && e->n_blocks > 0 ? wf_exec_blocks_sent(e, sent->a, yes, err) : WEFT_OK;
}

/* Waits for all sends, on transports that copy, because the next step reuses the memory of
 * these sends.  A forward-only step waits later, when it needs the memory. */
static enum weft_status finish_sends(struct weft_exec *e, struct weft_error *err)
{
    if (e->comm == NULL || e->by_reference || e->forward_only)
        return WEFT_OK;
    for (size_t i = 0; i < e->list.len; i++) {
        struct sent sent = {e, e->list.at[i]};
        if (sent.a.kind != WEFT_ACT_SEND_F && sent.a.kind != WEFT_ACT_SEND_B)
            continue;
        uint32_t peer = e->ranks[envelope_of(e, sent.a).peer];
        WEFT_TRY(weft_comm_wait_until(e->comm, peer, is_sent, &sent, err));
    }
    for (uint32_t h = 0; h < e->program->n_local; h++)
        if (e->local[h].n_in > 0)
            WEFT_TRY(reclaim(e, e->program->local[h].stage, err));
    return WEFT_OK;
}

void wf_exec_drain(struct weft_exec *e)
{
    if (e->forward_only && e->sends_pending)
        (void)wf_exec_forward_drain(e);
    for (uint32_t r = 0; e->sends_pending && e->by_reference && r < e->place->n_ranks; r++) {
        if (e->last_to[r] == SIZE_MAX)
            continue;
        struct sent sent = {e, e->list.at[e->last_to[r]]};
        if (weft_comm_wait_until(e->comm, e->ranks[r], is_sent, &sent, NULL) != WEFT_OK)
            break; /* after an abort no rank accesses another rank's memory */
    }
    e->sends_pending = false;
}

static void begin_step(struct weft_exec *e, const struct weft_exec_io *io)
{
    e->io = io;
    e->sends_pending = false;
    e->failed = io->failure != NULL;
    if (e->failed) {
        e->failure = *io->failure;
        e->failed_at = (struct weft_cell_id){e->place->n_stages, e->place->n_micros};
    }
    e->received_bytes = 0;
    e->times = (struct weft_exec_times){.begin_ns = wf_clock_ns()};
    e->origin_ns = io->origin_ns != 0 ? io->origin_ns : e->times.begin_ns;
    memset(e->bytes_to, 0, 2 * (size_t)e->place->n_ranks * sizeof *e->bytes_to);
    for (size_t i = 0; i < e->n_recv_queues; i++)
        e->recv_queues[i].next_post = e->recv_queues[i].next_arrival = 0;
    size_t n_cells = (size_t)e->program->n_local * e->place->n_micros;
    for (size_t i = 0; !e->forward_only && i < n_cells; i++)
        e->cells[i].send_f.head.magic = 0; /* marks the message as not sent */
    if (e->forward_only)
        wf_exec_forward_begin(e);
    e->saved = (struct saved_count){0};
    for (uint32_t h = 0; h < e->program->n_local; h++)
        e->local[h].saved = (struct saved_count){0};
}

static enum weft_status run_list(struct weft_exec *e, struct weft_error *err)
{
    for (size_t i = 0; i < e->list.len; i++) {
        struct weft_action a = e->list.at[i];
        uint64_t before = e->times.sent_bytes + e->received_bytes;
        WEFT_TRY(between_actions(e, i, err));
        e->start_ns[i] = wf_clock_ns();
        WEFT_TRY(run_action(e, i, err));
        e->end_ns[i] = wf_clock_ns();
        if (e->forward_only)
            wf_exec_forward_end(e, a, i);
        e->event_bytes[i] = e->times.sent_bytes + e->received_bytes - before;
        if (weft_act_is_compute(a.kind))
            e->times.compute_ns += e->end_ns[i] - e->start_ns[i];
        else
            e->times.wait_ns += e->end_ns[i] - e->start_ns[i];
    }
    e->times.end_ns = wf_clock_ns();
    WEFT_TRY(wf_exec_return_outputs(e, err));
    return finish_sends(e, err);
}

static enum weft_status run_step(struct weft_exec *e, const struct weft_exec_io *io,
                                 struct weft_error *err)
{
    WEFT_TRY(wf_exec_set_rows(e, io->rows, err));
    enum weft_status st = wf_exec_check_io(e, io, err);
    if (st == WEFT_OK) {
        begin_step(e, io);
        st = run_list(e, err);
    }
    if (st == WEFT_OK && e->live_copies != 0)
        st =
            WEFT_FAIL(err, WEFT_INTERNAL, "rank %u has %zu residual blocks left after the step",
                      e->rank, e->live_copies);
    if (st != WEFT_OK && e->comm != NULL) {
        struct weft_error own = {.status = st};
        weft_comm_abort(e->comm, err != NULL ? err : &own);
    }
    e->sends_pending = st == WEFT_OK;
    if (st != WEFT_OK || !e->failed)
        return st;
    if (err != NULL)
        *err = e->failure;
    return e->failure.status;
}

enum weft_status weft_exec_step(struct weft_exec *e, const struct weft_exec_io *io,
                                struct weft_error *err)
{
    if (e == NULL || io == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%s is NULL",
                         e == NULL ? "the executor" : "the description of the step");
    e->last = io->forward_only && e->forward != NULL ? e->forward : e;
    return run_step(e->last, io, err);
}
