/* Uses a loss function, several tensors per boundary and steps of different sizes: a regression
 * by a network with a skip connection, on three ranks.
 *
 *     stage i:  h' = tanh(W [h, x] + b)      x is passed on unchanged
 *     the last: y = V h' + c                 the output, one number per row
 *
 * Two tensors cross each boundary: the hidden values and the input.  No stage computes the
 * loss: the loss function of the step gets the outputs and the targets (doubles here) and
 * returns the loss and the gradient of the outputs.  The outputs are returned on rank 0, which
 * prints the error.  This file is both C11 and C++17.
 *
 *     cc loss.c $(pkg-config --cflags --libs weft) -lm
 *     ./a.out zb-h1                   three threads
 *     mpirun -n 3 ./a.out zb-h1       three processes
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/comm.h"
#include "weft/exec.h"
#include "weft/schedule.h"
#include "weft/stage.h"
#include "weft/tensor.h"

enum { RANKS = 3, MICROS = 6, MAX_ROWS = 12, HIDDEN = 8, INPUTS = 2, STEPS = 1500 };
enum { COLUMNS = HIDDEN + INPUTS, MAX_STAGES = 16 };

/* The hidden values and the input of each row; and one number per row. */
static const struct weft_tensor_shape boundary[2] = {
    {WEFT_DTYPE_F32, 2, {1, HIDDEN, 0, 0, 0, 0, 0, 0}},
    {WEFT_DTYPE_F32, 2, {1, INPUTS, 0, 0, 0, 0, 0, 0}}};
static const struct weft_tensor_shape prediction[1] = {
    {WEFT_DTYPE_F32, 1, {1, 0, 0, 0, 0, 0, 0, 0}}};

/* Returns the address of the inputs within the buffer of a boundary. */
static float *inputs_in(const void *base, uint32_t rows)
{
    return (float *)((char *)base + weft_tensors_offset(boundary, 2, rows, 1));
}

/* -- a stage ------------------------------------------------------------------------------- */

struct slot {
    float hx[MAX_ROWS][COLUMNS]; /* the inputs of the layer */
    float y[MAX_ROWS][HIDDEN];   /* its outputs */
    float dz[MAX_ROWS][HIDDEN];  /* the gradients before tanh */
    float dv[MAX_ROWS];          /* the last stage: the gradients of the predictions */
};

struct layer {
    int first, last;
    float w[HIDDEN][COLUMNS], b[HIDDEN], v[HIDDEN], c;
    float dw[HIDDEN][COLUMNS], db[HIDDEN], dv[HIDDEN], dc;
    struct slot *slots; /* owned */
};

static enum weft_status forward(void *self, const struct weft_stage_call *call,
                                struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    struct slot *slot = &l->slots[call->slot];
    const float *h = (const float *)call->in;
    const float *x = l->first ? h : inputs_in(call->in, call->rows);
    float *out = (float *)call->out;
    (void)err;

    for (uint32_t r = 0; r < call->rows; r++) {
        for (int i = 0; i < HIDDEN; i++)
            slot->hx[r][i] = l->first ? 0 : h[r * HIDDEN + i];
        memcpy(slot->hx[r] + HIDDEN, x + r * INPUTS, INPUTS * sizeof(float));

        float sum = l->c;
        for (int o = 0; o < HIDDEN; o++) {
            float z = l->b[o];
            for (int i = 0; i < COLUMNS; i++)
                z += l->w[o][i] * slot->hx[r][i];
            slot->y[r][o] = tanhf(z);
            sum += l->v[o] * slot->y[r][o];
        }

        if (l->last) {
            out[r] = sum;
            continue;
        }
        memcpy(out + r * HIDDEN, slot->y[r], sizeof slot->y[r]);
        memcpy(inputs_in(out, call->rows) + r * INPUTS, x + r * INPUTS, INPUTS * sizeof(float));
    }
    return WEFT_OK;
}

static enum weft_status backward_input(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    struct slot *slot = &l->slots[call->slot];
    const float *dout = (const float *)call->dout;
    float *din = (float *)call->din;
    (void)err;

    for (uint32_t r = 0; r < call->rows; r++) {
        slot->dv[r] = l->last ? dout[r] : 0;
        for (int o = 0; o < HIDDEN; o++) {
            float dy = l->last ? l->v[o] * dout[r] : dout[r * HIDDEN + o];
            slot->dz[r][o] = dy * (1 - slot->y[r][o] * slot->y[r][o]);
        }
    }

    for (uint32_t r = 0; din != NULL && r < call->rows; r++)
        for (int i = 0; i < COLUMNS; i++) {
            float *to = i < HIDDEN ? &din[r * HIDDEN + i]
                                   : &inputs_in(din, call->rows)[r * INPUTS + i - HIDDEN];
            *to = 0; /* the gradient of x is not needed: all stages get the same x */
            for (int o = 0; i < HIDDEN && o < HIDDEN; o++)
                *to += l->w[o][i] * slot->dz[r][o];
        }
    return WEFT_OK;
}

static enum weft_status backward_weight(void *self, const struct weft_stage_call *call,
                                        struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    struct slot *slot = &l->slots[call->slot];
    (void)err;
    for (uint32_t r = 0; r < call->rows; r++) {
        l->dc += slot->dv[r];
        for (int o = 0; o < HIDDEN; o++) {
            l->dv[o] += slot->dv[r] * slot->y[r][o];
            l->db[o] += slot->dz[r][o];
            for (int i = 0; i < COLUMNS; i++)
                l->dw[o][i] += slot->dz[r][o] * slot->hx[r][i];
        }
    }
    return WEFT_OK;
}

static void set_grad(struct weft_param_grad *g, const char *name, const float *at, size_t count)
{
    g->name = name;
    g->count = count;
    g->dtype = WEFT_DTYPE_F32;
    g->unit = 1;
    g->grad = at;
}

/* Lists the gradients for weft_exec_param_grads(). */
static size_t param_grads(void *self, struct weft_param_grad *out, size_t max)
{
    struct layer *l = (struct layer *)self;
    if (max > 0)
        set_grad(&out[0], "w", &l->dw[0][0], HIDDEN * COLUMNS);
    if (max > 1)
        set_grad(&out[1], "b", l->db, HIDDEN);
    if (max > 2)
        set_grad(&out[2], "v", l->dv, HIDDEN);
    if (max > 3)
        set_grad(&out[3], "c", &l->dc, 1);
    return 4;
}

static const struct weft_stage_ops ops = {forward, backward_input, backward_weight, NULL,
                                          param_grads};

/* Computes the loss: half the squared error, summed over the rows. */
static enum weft_status squared_error(void *arg, const struct weft_loss_call *call,
                                      struct weft_error *err)
{
    const float *y = (const float *)call->outputs;
    const double *target = (const double *)call->targets;
    float *grad = (float *)call->grad;
    (void)arg;
    (void)err;
    *call->loss = 0;
    for (uint32_t r = 0; r < call->rows; r++) {
        double off = y[r] - target[r];
        *call->loss += off * off / 2;
        if (grad != NULL) /* NULL: no backward follows */
            grad[r] = call->scale * (float)off;
    }
    return WEFT_OK;
}

/* -- a rank -------------------------------------------------------------------------------- */

struct rank {
    struct weft_program *program;
    struct weft_exec *exec;
    struct layer layers[MAX_STAGES];
    struct weft_stage stages[MAX_STAGES];
    uint32_t n_stages, rows[MICROS];
    float x[MICROS][MAX_ROWS * INPUTS], y[MICROS][MAX_ROWS];
    double targets[MICROS][MAX_ROWS], losses[MICROS];
};

/* Returns a pseudo-random number between -1 and 1. */
static float noise(unsigned i)
{
    i = (i + 1) * 2654435761u;
    i = (i ^ i >> 15) * 2246822519u;
    return (float)((i ^ i >> 13) % 20001) / 10000 - 1;
}

static enum weft_status start_rank(struct rank *r, const struct weft_schedule *s,
                                   struct weft_comm *comm, struct weft_error *err)
{
    enum weft_status st = weft_program_new(s, weft_comm_rank(comm), NULL, &r->program, err);
    r->n_stages = weft_schedule_placement(s)->n_stages;

    for (uint32_t i = 0; st == WEFT_OK && i < r->n_stages && i < MAX_STAGES; i++) {
        struct layer *l = &r->layers[i];
        struct weft_stage *stage = &r->stages[i];
        uint32_t n_slots = weft_program_slots(r->program, i);
        stage->in = boundary;
        stage->n_in = 2;
        l->first = i == 0;
        l->last = i + 1 == r->n_stages;
        /* Rank 0 also reads the output of the last stage, because it receives it. */
        stage->out = l->last ? prediction : boundary;
        stage->n_out = l->last ? 1 : 2;

        if (n_slots == 0)
            continue; /* belongs to another rank */
        stage->ops = &ops;
        stage->self = l;
        l->slots = (struct slot *)calloc(n_slots, sizeof *l->slots);
        if (l->slots == NULL)
            return WEFT_NOMEM;

        for (int o = 0; o < HIDDEN; o++) {
            l->v[o] = l->last ? 0.5F * noise(77u + (unsigned)o) : 0;
            for (int k = 0; k < COLUMNS; k++)
                l->w[o][k] = 0.6F * noise(1000u * i + (unsigned)(o * COLUMNS + k));
        }
    }

    struct weft_exec_setup setup;
    memset(&setup, 0, sizeof setup);
    setup.program = r->program;
    setup.comm = comm;
    setup.stages = r->stages;
    setup.max_rows = MAX_ROWS;
    setup.outputs_on = WEFT_OUTPUTS_ON_FIRST;
    return st == WEFT_OK ? weft_exec_new(&setup, &r->exec, err) : st;
}

/* Draws the rows of a step; every rank draws the same.  Returns their number. */
static uint32_t draw_rows(struct rank *r, unsigned step)
{
    uint32_t total = 0;
    for (unsigned m = 0; m < MICROS; m++) {
        r->rows[m] = 1 + (step * 7 + m * 5) % MAX_ROWS;
        total += r->rows[m];
        for (unsigned i = 0; i < r->rows[m]; i++) {
            unsigned at = ((step * MICROS + m) * MAX_ROWS + i) * INPUTS;
            float a = r->x[m][2 * i] = noise(at), b = r->x[m][2 * i + 1] = noise(at + 1);
            r->targets[m][i] = sin(2.0 * a) * b;
        }
    }
    return total;
}

static void update(struct layer *l, float rate)
{
    l->c -= rate * l->dc;
    for (int o = 0; o < HIDDEN; o++) {
        l->v[o] -= rate * l->dv[o];
        l->b[o] -= rate * l->db[o];
        for (int i = 0; i < COLUMNS; i++)
            l->w[o][i] -= rate * l->dw[o][i];
    }
    memset(l->dw, 0, sizeof l->dw);
    memset(l->db, 0, sizeof l->db);
    memset(l->dv, 0, sizeof l->dv);
    l->dc = 0;
}

/* Runs a step, and returns the mean squared error of the outputs on rank 0. */
static enum weft_status run_step(struct rank *r, unsigned step, int train, double *error,
                                 struct weft_error *err)
{
    const void *inputs[MICROS], *targets[MICROS];
    void *outputs[MICROS];
    struct weft_exec_io io;
    uint32_t total = draw_rows(r, step);

    for (int m = 0; m < MICROS; m++) {
        inputs[m] = r->x[m];
        targets[m] = r->targets[m];
        outputs[m] = r->y[m];
    }

    memset(&io, 0, sizeof io);
    io.step = step;
    io.rows = r->rows;
    io.inputs = inputs;
    io.targets = targets;
    io.outputs = outputs;
    io.losses = r->losses;
    io.loss = squared_error;
    io.scale = 1.0F / (float)total;
    io.forward_only = !train;

    enum weft_status st = weft_exec_step(r->exec, &io, err);
    for (uint32_t i = 0; st == WEFT_OK && train && i < r->n_stages; i++)
        if (r->stages[i].self != NULL)
            update(&r->layers[i], 0.4F);

    *error = 0;
    for (int m = 0; m < MICROS; m++)
        for (uint32_t i = 0; i < r->rows[m]; i++)
            *error += pow(r->y[m][i] - r->targets[m][i], 2) / total;
    return st;
}

/* Runs one rank, as a thread or a process. */
static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct rank *r = (struct rank *)calloc(1, sizeof *r);
    double before = 0, after = 0, unused = 0;
    if (r == NULL)
        return WEFT_NOMEM;

    enum weft_status st = start_rank(r, (const struct weft_schedule *)arg, comm, err);

    if (st == WEFT_OK)
        st = run_step(r, STEPS, 0, &before, err);
    for (unsigned step = 0; st == WEFT_OK && step < STEPS; step++)
        st = run_step(r, step, 1, &unused, err);
    if (st == WEFT_OK)
        st = run_step(r, STEPS, 0, &after, err);

    if (st == WEFT_OK && weft_comm_rank(comm) == 0) {
        printf("mean squared error %.4f before, %.4f after %d steps\n", before, after, STEPS);
        if (after > before / 5) {
            snprintf(err->msg, sizeof err->msg, "the error does not fall");
            st = err->status = WEFT_NUMERIC;
        }
    }

    weft_exec_free(r->exec);
    weft_program_free(r->program);
    for (int i = 0; i < MAX_STAGES; i++)
        free(r->layers[i].slots);
    free(r);
    return st;
}

int main(int argc, char **argv)
{
    struct weft_gen_params params;
    struct weft_schedule *s = NULL;
    struct weft_error err;
    memset(&params, 0, sizeof params);
    memset(&err, 0, sizeof err);
    params.ranks = RANKS;
    params.micros = MICROS;
    enum weft_status st =
        weft_schedule_generate(argc > 1 ? argv[1] : "1f1b", &params, &s, &err);
    if (st == WEFT_OK)
        st = weft_comm_launcher() != NULL ? weft_comm_run_mpi(run_rank, s, &err)
                                          : weft_comm_run_threads(RANKS, run_rank, s, &err);
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg[0] != '\0' ? err.msg : weft_status_text(st));
    weft_schedule_free(s);
    return weft_status_exit_code(st);
}
