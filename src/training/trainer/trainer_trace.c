/* Collects the trace of the last step: rank 0 receives the events of all ranks of a replica. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "training/trainer/messages.h"
#include "training/trainer/trainer_priv.h"

static enum weft_status alloc_events(size_t n, struct weft_trace_event **out,
                                     struct weft_error *err)
{
    *out = calloc(n + 1, sizeof **out);
    return *out == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace of %zu events", n)
                        : WEFT_OK;
}

static enum weft_status add_events(struct weft_trace *out,
                                   const struct weft_trace_event *events, size_t n,
                                   double origin, struct weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct weft_trace_event e = events[i];
        e.start -= origin;
        WEFT_TRY(weft_trace_add_event(out, &e, err));
    }
    return WEFT_OK;
}

/* Receives the events of one rank.  The schedules of replicas may differ in length, so each
 * rank sends its number of events first. */
static enum weft_status receive_events(struct wf_trainer *t, uint32_t from,
                                       struct weft_trace_event **out, size_t *n,
                                       struct weft_error *err)
{
    uint64_t count = 0;
    WEFT_TRY(wf_comm_receive_blocking(
        t->comm, wf_trainer_message(from, WF_MESSAGE_N_EVENTS, t->done, &count, sizeof count),
        err));
    *n = (size_t)count;
    WEFT_TRY(alloc_events(*n, out, err));
    return wf_comm_receive_blocking(
        t->comm, wf_trainer_message(from, WF_MESSAGE_EVENTS, t->done, *out, *n * sizeof **out),
        err);
}

static enum weft_status send_events(struct wf_trainer *t, const struct weft_trace_event *events,
                                    size_t n, struct weft_error *err)
{
    uint64_t count = n;
    WEFT_TRY(wf_comm_send_blocking(
        t->comm, wf_trainer_message(0, WF_MESSAGE_N_EVENTS, t->done, &count, sizeof count),
        err));
    return wf_comm_send_blocking(
        t->comm, wf_trainer_message(0, WF_MESSAGE_EVENTS, t->done, events, n * sizeof *events),
        err);
}

/* Lists the events of one rank with times on the clock of rank 0.  The executor counts time
 * from the start of the step on its own rank, which differs between ranks. */
static enum weft_status list_events(struct wf_trainer *t, uint32_t rank,
                                    struct weft_trace_event **out, size_t *n,
                                    struct weft_error *err)
{
    if (rank != t->rank)
        return receive_events(t, rank, out, n, err);
    *n = weft_exec_n_events(t->exec);
    WEFT_TRY(alloc_events(*n, out, err));
    double begin = (double)(weft_exec_times(t->exec).begin_ns + t->clock_offset_ns);
    for (size_t i = 0; i < *n; i++) {
        (*out)[i] = weft_exec_event(t->exec, i);
        (*out)[i].start += begin;
    }
    return rank == 0 ? WEFT_OK : send_events(t, *out, *n, err);
}

static double first_start(const struct weft_trace_event *events, size_t n)
{
    double first = n == 0 ? 0 : events[0].start;
    for (size_t i = 1; i < n; i++)
        first = events[i].start < first ? events[i].start : first;
    return first;
}

/* Gathers the events of all ranks of a replica on rank 0. */
static enum weft_status collect_trace(struct wf_trainer *t, uint32_t replica,
                                      struct weft_trace_event **rows, size_t *sizes,
                                      struct weft_trace *out, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    double origin = INFINITY;
    for (uint32_t r = 0; r < l->pp; r++) {
        uint32_t rank = replica * l->pp + r;
        if (t->rank != 0 && t->rank != rank)
            continue;
        WEFT_TRY(list_events(t, rank, &rows[r], &sizes[r], err));
        double first = first_start(rows[r], sizes[r]);
        origin = first < origin ? first : origin;
    }
    for (uint32_t r = 0; t->rank == 0 && r < l->pp; r++)
        WEFT_TRY(add_events(out, rows[r], sizes[r], origin, err));
    return t->rank == 0 ? weft_trace_finish(out, err) : WEFT_OK;
}

enum weft_status wf_trainer_trace(struct wf_trainer *t, uint32_t replica,
                                  struct weft_trace *out, struct weft_error *err)
{
    const struct wf_topology *l = &t->topology;
    struct wf_range micros = wf_topology_micros(l, replica);
    struct weft_trace_event **rows = calloc(l->pp, sizeof *rows);
    size_t *sizes = calloc(l->pp, sizeof *sizes);
    *out = (struct weft_trace){0};
    enum weft_status st = WEFT_OK;

    if (rows == NULL || sizes == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace");

    if (st == WEFT_OK && t->rank == 0)
        st = weft_trace_init(out, weft_schedule_name(wf_topology_schedule(l, replica)), l->pp,
                             l->n_stages, (uint32_t)(micros.end - micros.begin), 1e-9, err);
    if (st == WEFT_OK)
        st = collect_trace(t, replica, rows, sizes, out, err);

    for (uint32_t r = 0; rows != NULL && r < l->pp; r++)
        free(rows[r]);
    free(rows);
    free(sizes);

    if (st != WEFT_OK)
        weft_trace_release(out);
    return st;
}
