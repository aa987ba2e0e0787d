/* Creates an executor and allocates all of its memory. */
#include "weft/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "runtime/exec/exec_priv.h"

static enum weft_status check_stage(const struct weft_exec_setup *s, uint32_t number,
                                    struct weft_error *err)
{
    const struct weft_stage *stage = &s->stages[number];
    const struct weft_stage_ops *ops = stage->ops;
    if (ops == NULL || ops->forward == NULL || ops->backward_input == NULL ||
        ops->backward_weight == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u runs stage %u, but this stage is not given",
                         s->program->rank, number);
    /* Sizes are compared only for stages on this rank; between ranks, message headers are
     * checked. */
    if (number > 0 && weft_program_slots(s->program, number - 1) > 0 &&
        s->stages[number - 1].out_bytes != stage->in_bytes)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "stage %u has %zu output bytes per row, but stage %u has %zu input bytes",
            number - 1, s->stages[number - 1].out_bytes, number, stage->in_bytes);
    return WEFT_OK;
}

static enum weft_status check_setup(const struct weft_exec_setup *s, struct weft_error *err)
{
    const struct weft_placement *place = s->program->place;
    if (place->n_ranks > 1 && s->comm == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "a schedule of %u ranks needs a transport",
                         place->n_ranks);
    if (s->comm != NULL && (uint64_t)s->rank_offset + place->n_ranks > weft_comm_size(s->comm))
        return WEFT_FAIL(err, WEFT_USAGE, "the schedule has %u ranks, but only %u are running",
                         place->n_ranks, weft_comm_size(s->comm));
    if (place->n_ranks > 1 && weft_comm_rank(s->comm) != s->rank_offset + s->program->rank)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the program is for rank %u of the schedule, which must run on rank "
                         "%u, not on rank %u",
                         s->program->rank, s->rank_offset + s->program->rank,
                         weft_comm_rank(s->comm));
    for (uint32_t h = 0; h < s->program->n_local; h++)
        WEFT_TRY(check_stage(s, s->program->local[h].stage, err));
    return WEFT_OK;
}

/* Computes the bytes of the largest micro-batch, with `each` bytes per row. */
static bool rows_bytes(const struct weft_exec *e, size_t each, size_t *out)
{
    size_t bytes;
    if (!wf_size_mul(each, e->max_rows, &bytes) || bytes > SIZE_MAX / 4)
        return false;
    *out = wf_size_round_up(bytes, BUFFER_ALIGN);
    return true;
}

static char *allocate(struct weft_exec *e, size_t n, size_t each)
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
    bool last = plan->stage + 1 == e->place->n_stages;
    bool fits = rows_bytes(e, last ? 0 : stage->out_bytes, &h->out_bytes) &&
                rows_bytes(e, plan->stage == 0 ? 0 : stage->in_bytes, &h->in_bytes);
    h->out = fits ? allocate(e, plan->n_out, h->out_bytes) : NULL;
    if (h->out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the output of stage %u", plan->stage);
    return WEFT_OK;
}

/* Allocates the input buffers of a stage.  Only transports that copy need input buffers. */
static enum weft_status make_inputs(struct weft_exec *e, uint32_t index, struct weft_error *err)
{
    const struct wf_local_stage *plan = &e->program->local[index];
    struct stage_buffers *h = &e->local[index];
    h->in_stride = h->in_bytes + h->max_brings * (e->block_bytes + e->sum_bytes);
    if (plan->n_in == 0 || e->by_reference)
        return WEFT_OK;
    h->n_in = plan->n_in + INPUTS_AHEAD;
    h->in = allocate(e, h->n_in, h->in_stride);
    h->free_in = calloc(h->n_in, sizeof *h->free_in);
    h->returning = calloc((size_t)h->n_in + 1, sizeof *h->returning);
    if (h->in == NULL || h->free_in == NULL || h->returning == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the input of stage %u", plan->stage);
    for (uint32_t i = 0; i < h->n_in; i++)
        h->free_in[h->n_free_in++] = i;
    return WEFT_OK;
}

static bool is_receive(struct weft_action a)
{
    return a.kind == WEFT_ACT_RECV_F || a.kind == WEFT_ACT_RECV_B;
}

static uint32_t peer_of(const struct weft_exec *e, struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    return weft_placement_rank(e->place, up ? a.stage + 1 : a.stage - 1, a.micro);
}

/* Returns the index of a receive's queue.  There are two queues per peer, before empty queues
 * are dropped. */
static size_t queue_index(const struct weft_exec *e, struct weft_action a)
{
    return 2 * (size_t)peer_of(e, a) + (a.kind == WEFT_ACT_RECV_B);
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
        if (is_receive(e->list.at[i]))
            e->recv_queues[queue_index(e, e->list.at[i])].n++;
    for (size_t l = 0; l < n; l++) {
        e->recv_queues[l].peer = (uint32_t)(l / 2);
        e->recv_queues[l].backward = l % 2 != 0;
        e->recv_queues[l].at = e->receives + next;
        next += e->recv_queues[l].n;
        e->recv_queues[l].n = 0;
    }
    for (size_t i = 0; i < e->list.len; i++)
        if (is_receive(e->list.at[i])) {
            e->queue_of[i] = (uint32_t)queue_index(e, e->list.at[i]);
            struct recv_queue *queue = &e->recv_queues[e->queue_of[i]];
            queue->at[queue->n++] = i;
        }
    e->n_recv_queues = n;
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
            e->last_to[peer_of(e, a)] = i;
        bool second = i > 0 && e->list.at[i - 1].paired;
        if (!second && (weft_act_is_compute(a.kind) || weft_act_is_message(a.kind)))
            e->events[e->n_events++] = i;
    }
    return WEFT_OK;
}

static enum weft_status build(struct weft_exec *e, struct weft_error *err)
{
    e->max_rows = 1;
    for (uint32_t m = 0; m < e->place->n_micros; m++)
        if (wf_exec_rows(e, m) > e->max_rows)
            e->max_rows = wf_exec_rows(e, m);
    WEFT_TRY(make_lists(e, err));
    WEFT_TRY(make_recv_queues(e, err));
    for (uint32_t h = 0; h < e->program->n_local; h++)
        WEFT_TRY(make_outputs(e, h, err));
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
    return WEFT_OK;
}

enum weft_status weft_exec_new(const struct weft_exec_setup *setup, struct weft_exec **out,
                               struct weft_error *err)
{
    WEFT_TRY(check_setup(setup, err));
    struct weft_exec *e = calloc(1, sizeof *e);
    if (e == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for an executor");
    e->setup = *setup;
    e->program = setup->program;
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

void weft_exec_free(struct weft_exec *e)
{
    if (e == NULL)
        return;
    wf_exec_drain(e);
    for (uint32_t i = 0; e->local != NULL && i < e->program->n_local; i++) {
        free(e->local[i].out);
        free(e->local[i].in);
        free(e->local[i].free_in);
        free(e->local[i].returning);
        free(e->local[i].blocks);
    }
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

/* -- measurements ---------------------------------------------------------------------- */

size_t weft_exec_bytes(const struct weft_exec *e)
{
    return e->bytes;
}

struct weft_cell_id weft_exec_failed_at(const struct weft_exec *e)
{
    return e->failed_at;
}

struct weft_exec_times weft_exec_times(const struct weft_exec *e)
{
    return e->times;
}

size_t weft_exec_n_events(const struct weft_exec *e)
{
    return e->n_events;
}

struct weft_trace_event weft_exec_event(const struct weft_exec *e, size_t i)
{
    size_t at = e->events[i];
    struct weft_action a = e->list.at[at];
    struct weft_trace_event event = {.start = (double)(e->start_ns[at] - e->origin_ns),
                                     .rank = e->rank,
                                     .lane = WEFT_LANE_COMPUTE,
                                     .action = a,
                                     .peer = WEFT_NO_RANK};
    int64_t end = e->end_ns[at];
    if (a.paired) {
        event.partner = e->list.at[at + 1];
        end = e->end_ns[at + 1];
    }
    event.length = (double)(end - e->start_ns[at]);
    if (weft_act_is_message(a.kind)) {
        event.lane = is_receive(a) ? WEFT_LANE_RECV : WEFT_LANE_SEND;
        event.bytes = e->event_bytes[at];
        event.peer = peer_of(e, a);
    }
    return event;
}

uint64_t weft_exec_bytes_to(const struct weft_exec *e, uint32_t rank, bool backward)
{
    return e->bytes_to[2 * (size_t)rank + backward];
}
