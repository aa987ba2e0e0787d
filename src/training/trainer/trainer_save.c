/* What leaves a run: its weights, and traces of its steps.  Rank 0 writes, the others send. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/ckpt/hf.h"
#include "training/trainer/background.h"
#include "training/trainer/trainer_priv.h"

enum { SAVE_CHANNEL = 7, KIND_WEIGHTS = 0x300, KIND_N_EVENTS, KIND_EVENTS };

/* -- weights -------------------------------------------------------------------------------- */

/* The rank whose copy of a parameter is written: the first that holds it. */
static uint32_t owner(const struct wf_topology *l, size_t param)
{
    for (size_t i = 0; i < l->n_groups; i++)
        for (size_t k = 0; k < l->groups[i].n_tensors; k++)
            if (l->groups[i].tensors[k].param == param)
                return l->groups[i].members[0];
    return 0;
}

static struct wf_param *own_param(const struct wf_trainer *t, size_t param)
{
    for (size_t i = 0; i < t->n_groups; i++)
        for (size_t k = 0; k < t->groups[i].plan->n_tensors; k++)
            if (t->groups[i].plan->tensors[k].param == param)
                return t->groups[i].params[k];
    return NULL;
}

static struct weft_message weights_message(const struct wf_trainer *t, uint32_t peer,
                                           size_t param, float *data)
{
    return (struct weft_message){
        .head = {.kind = KIND_WEIGHTS, .part = (uint32_t)param, .step = t->done},
        .peer = peer,
        .channel = SAVE_CHANNEL,
        .bytes = wf_param_size(&t->topology.params.at[param]) * sizeof(float),
        .data = data,
    };
}

enum weft_status wf_trainer_send_weights(struct wf_trainer *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->topology.params.n; i++) {
        if (owner(&t->topology, i) != t->rank)
            continue;
        struct weft_message m = weights_message(t, 0, i, own_param(t, i)->value);
        WEFT_TRY(weft_comm_send(t->comm, &m, err));
        WEFT_TRY(weft_comm_wait(t->comm, &m, err));
    }
    return WEFT_OK;
}

enum weft_status wf_trainer_fetch_weight(struct wf_trainer *t, size_t param, float *out,
                                         struct weft_error *err)
{
    uint32_t from = owner(&t->topology, param);
    if (from == 0) {
        const struct wf_param *own = own_param(t, param);
        memcpy(out, own->value, own->n * sizeof *out);
        return WEFT_OK;
    }
    struct weft_message m = weights_message(t, from, param, out);
    WEFT_TRY(weft_comm_post(t->comm, &m, err));
    WEFT_TRY(weft_comm_wait(t->comm, &m, err));
    if (m.data != out) /* the sender's, which it may free when ranks give up meanwhile */
        memcpy(out, m.data, m.bytes);
    weft_comm_release(t->comm, &m);
    return WEFT_OK;
}

struct piece {
    struct wf_hf_writer *writer;
    const float *values; /* NULL: this was all */
    size_t n;
};

static enum weft_status append(void *arg, struct weft_error *err)
{
    const struct piece *p = arg;
    return p->values == NULL ? wf_hf_writer_finish(p->writer, err)
                             : wf_hf_writer_append(p->writer, p->values, p->n, err);
}

static enum weft_status write_weights(struct wf_trainer *t, float *room, struct wf_hf_writer *w,
                                      struct weft_error *err)
{
    struct piece piece = {.writer = w};
    for (size_t i = 0; i < t->topology.params.n; i++) {
        uint32_t from = owner(&t->topology, i);
        piece.n = wf_param_size(&t->topology.params.at[i]);
        if (from == 0) {
            piece.values = own_param(t, i)->value;
            WEFT_TRY(wf_background_run(t->comm, append, &piece, err));
            continue;
        }
        WEFT_TRY(wf_trainer_fetch_weight(t, i, room, err));
        piece.values = room;
        WEFT_TRY(wf_background_run(t->comm, append, &piece, err));
    }
    piece.values = NULL;
    return wf_background_run(t->comm, append, &piece, err);
}

/* Room for the largest tensor that comes from another rank. */
static float *room_for_weights(const struct wf_trainer *t)
{
    size_t most = 1;
    for (size_t i = 0; t->n_ranks > 1 && i < t->topology.params.n; i++)
        if (owner(&t->topology, i) != 0 && wf_param_size(&t->topology.params.at[i]) > most)
            most = wf_param_size(&t->topology.params.at[i]);
    return malloc(most * sizeof(float));
}

static enum weft_status save_root(struct wf_trainer *t, const char *dir, struct weft_error *err)
{
    const struct wf_hf_write_options options = {
        .type = WF_DTYPE_F32, .shard_bytes = WF_HF_SHARD_BYTES, .bos = -1, .eos = -1};
    const struct wf_param_list *list = &t->topology.params;
    struct wf_hf_tensor *tensors = calloc(list->n + 1, sizeof *tensors);
    float *room = room_for_weights(t);
    struct wf_hf_writer *writer = NULL;
    enum weft_status st = WEFT_OK;
    if (tensors == NULL || room == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to save %zu weights", list->n);
    for (size_t i = 0; st == WEFT_OK && i < list->n; i++) {
        const struct wf_param_desc *d = &list->at[i];
        tensors[i] = (struct wf_hf_tensor){d->name, d->rank, {d->shape[0], d->shape[1]}};
    }
    if (st == WEFT_OK)
        st =
            wf_hf_writer_new(dir, &t->topology.model, tensors, list->n, &options, &writer, err);
    if (st == WEFT_OK)
        st = write_weights(t, room, writer, err);
    wf_hf_writer_free(writer);
    free(room);
    free(tensors);
    return st;
}

enum weft_status wf_trainer_save(struct wf_trainer *t, const char *dir, struct weft_error *err)
{
    if (t->comm != NULL)
        weft_comm_publish(t->comm, t->done, WF_PHASE_SAVE);
    WEFT_TRY(t->rank == 0 ? save_root(t, dir, err) : wf_trainer_send_weights(t, err));
    /* Writing takes as long as the disk does: nobody leaves before it is done. */
    return t->comm == NULL ? WEFT_OK : weft_comm_barrier(t->comm, err);
}

/* -- traces --------------------------------------------------------------------------------- */

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

static struct weft_message trace_message(const struct wf_trainer *t, uint32_t peer,
                                         uint32_t kind, void *data, size_t bytes)
{
    return (struct weft_message){.head = {.kind = kind, .step = t->done},
                                 .peer = peer,
                                 .channel = SAVE_CHANNEL,
                                 .bytes = bytes,
                                 .data = data};
}

static enum weft_status receive_bytes(struct wf_trainer *t, uint32_t from, uint32_t kind,
                                      void *room, size_t bytes, struct weft_error *err)
{
    struct weft_message m = trace_message(t, from, kind, room, bytes);
    WEFT_TRY(weft_comm_post(t->comm, &m, err));
    WEFT_TRY(weft_comm_wait(t->comm, &m, err));
    if (m.data != room)
        memcpy(room, m.data, bytes);
    weft_comm_release(t->comm, &m);
    return WEFT_OK;
}

static enum weft_status send_bytes(struct wf_trainer *t, uint32_t kind, const void *data,
                                   size_t bytes, struct weft_error *err)
{
    struct weft_message m = trace_message(t, 0, kind, (void *)data, bytes);
    WEFT_TRY(weft_comm_send(t->comm, &m, err));
    return weft_comm_wait(t->comm, &m, err);
}

/* Replicas may have schedules of different lengths: each rank says how many events it has. */
static enum weft_status receive_events(struct wf_trainer *t, uint32_t from,
                                       struct weft_trace_event **out, size_t *n,
                                       struct weft_error *err)
{
    uint64_t count = 0;
    WEFT_TRY(receive_bytes(t, from, KIND_N_EVENTS, &count, sizeof count, err));
    *n = (size_t)count;
    *out = calloc(*n + 1, sizeof **out);
    if (*out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace");
    return receive_bytes(t, from, KIND_EVENTS, *out, *n * sizeof **out, err);
}

static enum weft_status send_events(struct wf_trainer *t, const struct weft_trace_event *events,
                                    size_t n, struct weft_error *err)
{
    uint64_t count = n;
    WEFT_TRY(send_bytes(t, KIND_N_EVENTS, &count, sizeof count, err));
    return send_bytes(t, KIND_EVENTS, events, n * sizeof *events, err);
}

/* This rank's, or another's, with times of rank 0's clock: the executor counts from its own begin
 * of the step, which is another moment on each rank. */
static enum weft_status list_events(struct wf_trainer *t, uint32_t rank,
                                    struct weft_trace_event **out, size_t *n,
                                    struct weft_error *err)
{
    if (rank != t->rank)
        return receive_events(t, rank, out, n, err);
    *n = weft_exec_n_events(t->exec);
    *out = calloc(*n + 1, sizeof **out);
    if (*out == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a trace");
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

/* Every rank of a replica in turn: rank 0 gets the events of all, each other one its own. */
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
