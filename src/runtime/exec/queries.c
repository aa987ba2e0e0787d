/* What a program can read from an executor: saved micro-batches, gradients, measurements. */
#include "base/error.h"
#include "runtime/exec/exec_priv.h"

static const struct stage_buffers *local_stage(const struct weft_exec *e, uint32_t stage)
{
    if (e == NULL || stage >= e->place->n_stages || e->program->local_of[stage] == WF_NOT_LOCAL)
        return NULL;
    return &e->last->local[e->program->local_of[stage]];
}

/* -- what stages hold ----------------------------------------------------------------------- */

uint32_t weft_exec_num_saved(const struct weft_exec *e, uint32_t stage)
{
    if (e != NULL && stage == WEFT_ALL_STAGES)
        return e->last->saved.now;
    const struct stage_buffers *h = local_stage(e, stage);
    return h == NULL ? 0 : h->saved.now;
}

uint32_t weft_exec_max_saved(const struct weft_exec *e, uint32_t stage)
{
    if (e != NULL && stage == WEFT_ALL_STAGES)
        return e->last->saved.max;
    const struct stage_buffers *h = local_stage(e, stage);
    return h == NULL ? 0 : h->saved.max;
}

enum weft_status weft_exec_param_grads(const struct weft_exec *e, uint32_t stage,
                                       struct weft_param_grad *out, size_t max, size_t *n,
                                       struct weft_error *err)
{
    if (e == NULL || n == NULL || (out == NULL && max > 0))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the executor, the list of gradients or their number is NULL");
    if (local_stage(e, stage) == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "rank %u does not run stage %u", e->rank, stage);
    const struct weft_stage *s = &e->setup.stages[stage];
    if (s->ops->param_grads == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "stage %u does not list its parameters; give it ops->param_grads",
                         stage);
    *n = s->ops->param_grads(s->self, out, max);
    return WEFT_OK;
}

/* -- measurements --------------------------------------------------------------------------- */

size_t weft_exec_bytes(const struct weft_exec *e)
{
    return e == NULL ? 0 : e->bytes;
}

struct weft_cell_id weft_exec_failed_at(const struct weft_exec *e)
{
    return e == NULL ? (struct weft_cell_id){0} : e->last->failed_at;
}

struct weft_exec_times weft_exec_times(const struct weft_exec *e)
{
    return e == NULL ? (struct weft_exec_times){0} : e->last->times;
}

size_t weft_exec_n_events(const struct weft_exec *e)
{
    return e == NULL ? 0 : e->last->n_events;
}

struct weft_trace_event weft_exec_event(const struct weft_exec *e, size_t i)
{
    e = e == NULL ? NULL : e->last;
    if (e == NULL || i >= e->n_events)
        return (struct weft_trace_event){0};
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
        event.lane = wf_is_receive(a) ? WEFT_LANE_RECV : WEFT_LANE_SEND;
        event.bytes = e->event_bytes[at];
        event.peer = wf_exec_peer(e, a);
    }
    return event;
}

uint64_t weft_exec_bytes_to(const struct weft_exec *e, uint32_t rank, bool backward)
{
    if (e == NULL || rank >= e->place->n_ranks)
        return 0;
    return e->last->bytes_to[2 * (size_t)rank + backward];
}
