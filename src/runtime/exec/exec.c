/* Creates an executor and allocates all of its memory. */
#include "weft/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "runtime/exec/exec_priv.h"

/* Computes the bytes of the largest micro-batch, with `each` bytes per row. */
static bool rows_bytes(const struct weft_exec *e, size_t each, size_t *out)
{
    size_t bytes;
    if (!wf_size_mul(each, e->max_rows, &bytes) || bytes > SIZE_MAX / 4)
        return false;
    *out = wf_size_round_up(bytes, BUFFER_ALIGN);
    return true;
}

char *wf_exec_allocate(struct weft_exec *e, size_t n, size_t each)
{
    size_t bytes;
    if (!wf_size_mul(n, each, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    char *at = wf_pages_alloc(bytes + BUFFER_ALIGN);
    if (at == NULL)
        return NULL;
    /* Touches the pages now, so that the first step is not slowed by page faults. */
    memset(at, 0, bytes + BUFFER_ALIGN);
    e->bytes += bytes;
    return at;
}

static enum weft_status make_outputs(struct weft_exec *e, uint32_t index,
                                     struct weft_error *err)
{
    const struct wf_local_stage *plan = &e->program->local[index];
    const struct weft_stage *stage = &e->setup.stages[plan->stage];
    struct stage_buffers *h = &e->local[index];
    h->in_tensors = wf_exec_boundary(stage, false);
    h->out_tensors = wf_exec_boundary(stage, true);
    size_t in = 0, out;
    if (plan->stage > 0)
        WEFT_TRY(wf_exec_boundary_bytes(&h->in_tensors, e->max_rows, &in, err));
    WEFT_TRY(wf_exec_boundary_bytes(&h->out_tensors, e->max_rows, &out, err));
    h->in_bytes = wf_size_round_up(in, BUFFER_ALIGN);
    h->out_bytes = wf_size_round_up(out, BUFFER_ALIGN);
    h->out = wf_exec_allocate(e, plan->n_out, h->out_bytes);
    h->out_user = malloc(((size_t)plan->n_out + 1) * sizeof *h->out_user);
    for (uint32_t i = 0; h->out_user != NULL && i < plan->n_out; i++)
        h->out_user[i] = WF_NO_MICRO;
    if (h->out == NULL || h->out_user == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the output of stage %u", plan->stage);
    return WEFT_OK;
}

/* Allocates the input buffers of a stage.  Only transports that copy and forward-only programs
 * need input buffers. */
static enum weft_status make_inputs(struct weft_exec *e, uint32_t index, struct weft_error *err)
{
    const struct wf_local_stage *plan = &e->program->local[index];
    struct stage_buffers *h = &e->local[index];
    h->in_stride = h->in_bytes;
    if (!e->forward_only)
        h->in_stride += h->max_brings * (e->block_bytes + e->sum_bytes);
    h->n_in = weft_program_inputs(e->program, plan->stage, !e->by_reference);
    if (h->n_in == 0)
        return WEFT_OK;
    h->in = wf_exec_allocate(e, h->n_in, h->in_stride);
    h->free_in = calloc(h->n_in, sizeof *h->free_in);
    h->returning = calloc((size_t)h->n_in + 1, sizeof *h->returning);
    if (h->in == NULL || h->free_in == NULL || h->returning == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the input of stage %u", plan->stage);
    for (uint32_t i = 0; i < h->n_in; i++)
        h->free_in[h->n_free_in++] = i;
    return WEFT_OK;
}

/* Returns the index of a receive's queue.  There are two queues per peer, before empty queues
 * are dropped. */
static size_t queue_index(const struct weft_exec *e, struct weft_action a)
{
    return 2 * (size_t)wf_exec_peer(e, a) + (a.kind == WEFT_ACT_RECV_B);
}

static enum weft_status make_recv_queues(struct weft_exec *e, struct weft_error *err)
{
    size_t n = 2 * (size_t)e->place->n_ranks, next = 0;
    e->recv_queues = calloc(n, sizeof *e->recv_queues);
    e->receives = calloc(e->list.len + 1, sizeof *e->receives);
    e->queue_of = calloc(e->list.len + 1, sizeof *e->queue_of);
    if (e->recv_queues == NULL || e->receives == NULL || e->queue_of == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the channels of rank %u", e->rank);
    for (size_t i = 0; i < e->list.len; i++)
        if (wf_is_receive(e->list.at[i]))
            e->recv_queues[queue_index(e, e->list.at[i])].n++;
    for (size_t l = 0; l < n; l++) {
        e->recv_queues[l].peer = (uint32_t)(l / 2);
        e->recv_queues[l].backward = l % 2 != 0;
        e->recv_queues[l].at = e->receives + next;
        next += e->recv_queues[l].n;
        e->recv_queues[l].n = 0;
    }
    for (size_t i = 0; i < e->list.len; i++)
        if (wf_is_receive(e->list.at[i])) {
            e->queue_of[i] = (uint32_t)queue_index(e, e->list.at[i]);
            struct recv_queue *queue = &e->recv_queues[e->queue_of[i]];
            queue->at[queue->n++] = i;
        }
    e->n_recv_queues = n;
    return WEFT_OK;
}

static enum weft_status make_rows(struct weft_exec *e, struct weft_error *err)
{
    const uint32_t *rows = e->setup.rows;
    uint32_t n = e->place->n_micros;
    e->rows = calloc(n, sizeof *e->rows);
    e->usual_rows = calloc(n, sizeof *e->usual_rows);
    if (e->rows == NULL || e->usual_rows == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the rows of %u micros", n);
    e->max_rows = wf_exec_max_rows(&e->setup);
    for (uint32_t m = 0; m < n; m++)
        e->usual_rows[m] = rows == NULL ? 1 : rows[m];
    return WEFT_OK;
}

static enum weft_status make_ranks(struct weft_exec *e, struct weft_error *err)
{
    const uint32_t *ranks = e->setup.ranks;
    e->ranks = calloc(e->place->n_ranks, sizeof *e->ranks);
    if (e->ranks == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the numbers of %u ranks",
                         e->place->n_ranks);
    for (uint32_t r = 0; r < e->place->n_ranks; r++)
        e->ranks[r] = ranks == NULL ? r : ranks[r];
    e->setup.ranks = NULL; /* borrowed during weft_exec_new() only */
    return WEFT_OK;
}

static enum weft_status make_lists(struct weft_exec *e, struct weft_error *err)
{
    size_t n = e->list.len + 1;
    e->events = calloc(n, sizeof *e->events);
    e->start_ns = calloc(n, sizeof *e->start_ns);
    e->end_ns = calloc(n, sizeof *e->end_ns);
    e->event_bytes = calloc(n, sizeof *e->event_bytes);
    e->last_to = calloc(e->place->n_ranks, sizeof *e->last_to);
    e->bytes_to = calloc(2 * (size_t)e->place->n_ranks, sizeof *e->bytes_to);
    e->local = calloc((size_t)e->program->n_local + 1, sizeof *e->local);
    e->cells = calloc((size_t)e->program->n_local * e->place->n_micros + 1, sizeof *e->cells);
    if (e->events == NULL || e->start_ns == NULL || e->end_ns == NULL ||
        e->event_bytes == NULL || e->last_to == NULL || e->bytes_to == NULL ||
        e->local == NULL || e->cells == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the %zu actions of rank %u", n - 1,
                         e->rank);
    for (uint32_t r = 0; r < e->place->n_ranks; r++)
        e->last_to[r] = SIZE_MAX;
    for (size_t i = 0; i < e->list.len; i++) {
        struct weft_action a = e->list.at[i];
        if (a.kind == WEFT_ACT_SEND_B)
            e->last_to[wf_exec_peer(e, a)] = i;
        bool second = i > 0 && e->list.at[i - 1].paired;
        if (!second && (weft_act_is_compute(a.kind) || weft_act_is_message(a.kind)))
            e->events[e->n_events++] = i;
    }
    return WEFT_OK;
}

static enum weft_status build(struct weft_exec *e, struct weft_error *err)
{
    WEFT_TRY(make_rows(e, err));
    WEFT_TRY(make_ranks(e, err));
    WEFT_TRY(make_lists(e, err));
    WEFT_TRY(make_recv_queues(e, err));
    for (uint32_t h = 0; h < e->program->n_local; h++)
        WEFT_TRY(make_outputs(e, h, err));
    WEFT_TRY(wf_exec_outputs_new(e, err));
    if (e->setup.blocks.traffic != NULL) {
        e->n_blocks = weft_traffic_n_blocks(e->setup.blocks.traffic);
        size_t row = e->setup.blocks.row_elements;
        if (row > SIZE_MAX / sizeof(int64_t) ||
            !rows_bytes(e, row * sizeof(float), &e->block_bytes) ||
            !rows_bytes(e, row * sizeof(int64_t), &e->sum_bytes))
            return WEFT_FAIL(err, WEFT_NOMEM,
                             "residual blocks of %zu elements per row are too large", row);
        WEFT_TRY(wf_exec_blocks_new(e, err));
    }
    for (uint32_t h = 0; h < e->program->n_local; h++)
        WEFT_TRY(make_inputs(e, h, err));
    if (e->forward_only)
        WEFT_TRY(wf_exec_forward_new(e, err));
    return wf_exec_set_rows(e, NULL, err);
}

/* Creates an executor of a program of the setup.  `owner` is NULL or the executor that will own
 * the new one. */
static enum weft_status make_exec(const struct weft_exec_setup *setup,
                                  const struct weft_program *program,
                                  const struct weft_exec *owner, struct weft_exec **out,
                                  struct weft_error *err)
{
    struct weft_exec *e = calloc(1, sizeof *e);
    if (e == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for an executor");
    e->setup = *setup;
    e->program = program;
    e->forward_only = program->forward_only;
    e->last = e;
    e->borrows_outputs = owner != NULL;
    e->output_memory = owner != NULL ? owner->output_memory : NULL;
    e->place = e->program->place;
    e->rank = e->program->rank;
    e->comm = setup->comm;
    e->by_reference = e->comm == NULL || weft_comm_by_reference(e->comm);
    e->list = weft_schedule_rank(e->program->schedule, e->rank);
    enum weft_status st = build(e, err);
    if (st != WEFT_OK) {
        weft_exec_free(e);
        return st;
    }
    *out = e;
    return WEFT_OK;
}

enum weft_status weft_exec_new(const struct weft_exec_setup *setup, struct weft_exec **out,
                               struct weft_error *err)
{
    struct weft_exec *e = NULL;
    WEFT_TRY(wf_exec_check_setup(setup, err));
    if (out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "the result of weft_exec_new() is NULL");
    WEFT_TRY(make_exec(setup, setup->program, NULL, &e, err));
    enum weft_status st = WEFT_OK;
    if (!e->forward_only)
        st = make_exec(setup, setup->program->forward, e, &e->forward, err);
    if (st != WEFT_OK) {
        weft_exec_free(e);
        return st;
    }
    e->bytes += e->forward != NULL ? e->forward->bytes : 0;
    *out = e;
    return WEFT_OK;
}

void weft_exec_free(struct weft_exec *e)
{
    if (e == NULL)
        return;
    weft_exec_free(e->forward);
    wf_exec_drain(e);
    wf_exec_forward_free(e);
    for (uint32_t i = 0; e->local != NULL && i < e->program->n_local; i++) {
        free(e->local[i].out);
        free(e->local[i].out_user);
        free(e->local[i].in);
        free(e->local[i].free_in);
        free(e->local[i].returning);
        free(e->local[i].blocks);
    }
    free(e->ranks);
    free(e->rows);
    free(e->usual_rows);
    if (!e->borrows_outputs)
        free(e->output_memory);
    free(e->output_number);
    free(e->output_messages);
    free(e->local);
    free(e->cells);
    free(e->copies);
    free(e->block_messages);
    free(e->call_value);
    free(e->call_sum);
    free(e->call_fresh);
    free(e->recv_queues);
    free(e->receives);
    free(e->queue_of);
    free(e->last_to);
    free(e->events);
    free(e->start_ns);
    free(e->end_ns);
    free(e->event_bytes);
    free(e->bytes_to);
    free(e);
}
