/* Drives pipeline stages without an executor: each rank walks its list of a schedule, calls
 * its own stage, moves the data itself, and keeps what crosses the boundaries of the stage in
 * the stores of weft/activations.h.  Three stages with one factor per column fit y = w0 w1 w2
 * x to 6 x.
 *
 *     before: input x, its gradient  ->  stage: y = w x  ->  after: output y, its gradient
 *
 * A stage drops an input after its backward.  With 1f1b, stage s of P stages therefore stores
 * at most P - s inputs at one time, however many micro-batches a step has.
 *
 *     cc activations.c $(pkg-config --cflags --libs weft) -lm
 *     ./a.out                     three threads
 *     mpirun -n 3 ./a.out         three processes
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft/activations.h"
#include "weft/comm.h"
#include "weft/schedule.h"

enum { RANKS = 3, MICROS = 8, SEQ = 4, HIDDEN = 8, SIZE = SEQ * HIDDEN, STEPS = 200 };
enum { FORWARD = WEFT_USER_CHANNEL, BACKWARD }; /* channels */

/* The state of one rank. */
struct rank {
    struct weft_comm *comm;
    uint32_t number, step;
    float w[HIDDEN], dw[HIDDEN];
    struct weft_activations *before, *after; /* owned: the two boundaries of the stage */
    struct weft_message sent_y[MICROS], sent_dx[MICROS];
    size_t peak_bytes; /* maximum of the bytes in `before` */
    double loss;
};

/* Returns element i of micro-batch m of a step, between -1 and 1. */
static float sample(uint32_t step, uint32_t m, uint32_t i)
{
    return sinf((float)((step * MICROS + m) * SIZE + i));
}

/* Describes one transfer; the memory belongs to a store. */
static void describe(struct weft_message *message, const struct rank *r, uint32_t peer,
                     uint32_t channel, uint32_t micro, float *data)
{
    memset(message, 0, sizeof *message);
    message->peer = peer;
    message->channel = channel;
    message->data = data;
    message->bytes = SIZE * sizeof(float);
    message->head.micro = micro;
    message->head.step = r->step;
}

/* Receives a tensor into a store.  The data may arrive in the sender's memory, which the
 * receiver must not keep.  Storing copies the data, unless it is already in place. */
static enum weft_status receive(struct rank *r, uint32_t peer, uint32_t channel, uint32_t micro,
                                struct weft_activations *store, enum weft_boundary which,
                                struct weft_error *err)
{
    struct weft_message in;
    float *at = NULL;
    enum weft_status st = weft_activations_place(store, which, micro, &at, err);
    if (st != WEFT_OK)
        return st;
    describe(&in, r, peer, channel, micro, at);
    st = weft_comm_post(r->comm, &in, err);
    if (st == WEFT_OK)
        st = weft_comm_wait(r->comm, &in, err);
    if (st != WEFT_OK)
        return st;
    st = weft_activations_store(store, which, micro, (const float *)in.data, SIZE, err);
    weft_comm_release(r->comm, &in);
    return st;
}

static enum weft_status forward(struct rank *r, uint32_t m, struct weft_error *err)
{
    float *x = NULL, *y = NULL;
    enum weft_status st = WEFT_OK;

    if (r->number > 0)
        st = receive(r, r->number - 1, FORWARD, m, r->before, WEFT_BOUNDARY_ACTIVATION, err);
    if (st == WEFT_OK)
        st = weft_activations_place(r->before, WEFT_BOUNDARY_ACTIVATION, m, &x, err);
    if (st == WEFT_OK)
        st = weft_activations_place(r->after, WEFT_BOUNDARY_ACTIVATION, m, &y, err);
    if (st != WEFT_OK)
        return st;

    for (uint32_t i = 0; i < SIZE; i++) {
        if (r->number == 0)
            x[i] = sample(r->step, m, i);
        y[i] = r->w[i % HIDDEN] * x[i];
    }

    if (weft_activations_bytes(r->before) > r->peak_bytes)
        r->peak_bytes = weft_activations_bytes(r->before);

    if (r->number + 1 == RANKS)
        return WEFT_OK;
    describe(&r->sent_y[m], r, r->number + 1, FORWARD, m, y);
    return weft_comm_send(r->comm, &r->sent_y[m], err);
}

/* Computes the gradient of the loss, the mean of (y - 6 x)^2 / 2, on the last stage. */
static enum weft_status start_backward(struct rank *r, uint32_t m, struct weft_error *err)
{
    const float *y = NULL;
    float dy[SIZE];
    enum weft_status st = weft_activations_get(r->after, WEFT_BOUNDARY_ACTIVATION, m, &y, err);
    if (st != WEFT_OK)
        return st;
    for (uint32_t i = 0; i < SIZE; i++) {
        float off = y[i] - 6 * sample(r->step, m, i);
        dy[i] = off / (MICROS * SIZE);
        r->loss += (double)(off * off) / (2 * MICROS * SIZE);
    }
    return weft_activations_store(r->after, WEFT_BOUNDARY_GRADIENT, m, dy, SIZE, err);
}

static enum weft_status backward(struct rank *r, uint32_t m, struct weft_error *err)
{
    const float *x = NULL, *dy = NULL;
    float *dx = NULL;
    enum weft_status st =
        r->number + 1 == RANKS
            ? start_backward(r, m, err)
            : receive(r, r->number + 1, BACKWARD, m, r->after, WEFT_BOUNDARY_GRADIENT, err);

    if (st == WEFT_OK)
        st = weft_activations_get(r->before, WEFT_BOUNDARY_ACTIVATION, m, &x, err);
    if (st == WEFT_OK)
        st = weft_activations_get(r->after, WEFT_BOUNDARY_GRADIENT, m, &dy, err);
    if (st == WEFT_OK)
        st = weft_activations_place(r->after, WEFT_BOUNDARY_GRADIENT, m, &dx, err);
    if (st != WEFT_OK)
        return st;

    for (uint32_t i = 0; i < SIZE; i++) {
        r->dw[i % HIDDEN] += dy[i] * x[i];
        dx[i] = r->w[i % HIDDEN] * dy[i]; /* in place: dx and dy are the same memory */
    }

    st = weft_activations_drop(r->before, WEFT_BOUNDARY_ACTIVATION, m, err);
    if (st != WEFT_OK || r->number == 0)
        return st;
    describe(&r->sent_dx[m], r, r->number - 1, BACKWARD, m, dx);
    return weft_comm_send(r->comm, &r->sent_dx[m], err);
}

static enum weft_status run_step(struct rank *r, struct weft_action_span todo,
                                 struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    r->loss = 0;
    for (size_t i = 0; i < todo.len && st == WEFT_OK; i++)
        st = todo.at[i].kind == WEFT_ACT_F ? forward(r, todo.at[i].micro, err)
                                           : backward(r, todo.at[i].micro, err);

    /* The receivers release the memory of a send; then the stores can be emptied. */
    for (uint32_t m = 0; m < MICROS && st == WEFT_OK; m++) {
        if (r->number + 1 < RANKS)
            st = weft_comm_wait(r->comm, &r->sent_y[m], err);
        if (r->number > 0 && st == WEFT_OK)
            st = weft_comm_wait(r->comm, &r->sent_dx[m], err);
    }
    weft_activations_reset(r->before);
    weft_activations_reset(r->after);
    for (int h = 0; h < HIDDEN; h++) {
        r->w[h] -= 0.25F * r->dw[h];
        r->dw[h] = 0;
    }
    return st;
}

/* Trains one rank, as a thread or a process. */
static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct weft_schedule *s = (const struct weft_schedule *)arg;
    struct rank r;
    double first = 0;
    memset(&r, 0, sizeof r);
    r.comm = comm;
    r.number = weft_comm_rank(comm);
    for (int h = 0; h < HIDDEN; h++)
        r.w[h] = 1;
    enum weft_status st = weft_activations_new(MICROS, SEQ, HIDDEN, &r.before, err);
    if (st == WEFT_OK)
        st = weft_activations_new(MICROS, SEQ, HIDDEN, &r.after, err);
    for (r.step = 0; r.step < STEPS && st == WEFT_OK; r.step++) {
        st = run_step(&r, weft_schedule_rank(s, r.number), err);
        if (r.step == 0)
            first = r.loss;
    }
    weft_activations_free(r.before);
    weft_activations_free(r.after);
    if (st != WEFT_OK)
        return st;

    size_t want = (RANKS - r.number) * SIZE * sizeof(float);
    if (r.number + 1 == RANKS)
        printf("loss %.4f at first, %.4f at last\n", first, r.loss);
    if (r.peak_bytes == want && (r.number + 1 < RANKS || r.loss < first / 1000))
        return WEFT_OK;
    err->status = WEFT_NUMERIC;
    snprintf(err->msg, sizeof err->msg, "rank %u: %zu bytes (expected %zu), loss %g", r.number,
             r.peak_bytes, want, r.loss);
    return WEFT_NUMERIC;
}

int main(void)
{
    struct weft_gen_params params;
    struct weft_schedule *s = NULL;
    struct weft_error err = {WEFT_OK, NULL, 0, ""};
    memset(&params, 0, sizeof params);
    params.ranks = RANKS;
    params.micros = MICROS;
    enum weft_status st = weft_schedule_generate("1f1b", &params, &s, &err);
    if (st == WEFT_OK)
        st = weft_comm_launcher() != NULL ? weft_comm_run_mpi(run_rank, s, &err)
                                          : weft_comm_run_threads(RANKS, run_rank, s, &err);
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg);
    weft_schedule_free(s);
    return weft_status_exit_code(st);
}
