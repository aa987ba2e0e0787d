/* Implements a custom pipeline: a perceptron of four stages on four ranks, run by a schedule
 * that is selected by name.  It classifies the points of two spirals.
 *
 *     stage 0: 2 -> 16, tanh    stages 1, 2: 16 -> 16, tanh    stage 3: 16 -> 2, softmax, loss
 *
 * A stage is the same as in mlp.c, but weft calls it.  Every rank compiles its part of the
 * schedule, creates its stages with the number of slots that they need, and runs the steps;
 * weft moves activations and gradients between the ranks.
 *
 *     cc pipeline.c $(pkg-config --cflags --libs weft) -lm
 *     ./a.out zb-h1                   four threads
 *     mpirun -n 4 ./a.out zb-h1       four processes
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft/comm.h"
#include "weft/exec.h"
#include "weft/schedule.h"
#include "weft/stage.h"

enum { RANKS = 4, MICROS = 8, ROWS = 16, WIDTH = 16, STEPS = 600 };

/* -- a stage ------------------------------------------------------------------------------- */

/* Saved between the forward and the backward of a micro. */
struct slot {
    float x[ROWS][WIDTH];  /* the input */
    float y[ROWS][WIDTH];  /* the output */
    float dz[ROWS][WIDTH]; /* the gradient before the activation */
};

struct layer {
    int in, out;
    int last;
    float w[WIDTH][WIDTH], b[WIDTH];   /* w[out][in] */
    float dw[WIDTH][WIDTH], db[WIDTH]; /* sums over the step's micros */
    struct slot *slots;                /* owned */
};

static void softmax_loss(const struct weft_stage_call *call, int row, const float *z, float *dz)
{
    float top = z[0] > z[1] ? z[0] : z[1];
    float sum = expf(z[0] - top) + expf(z[1] - top);
    int target = ((const int32_t *)call->targets)[row];
    *call->loss += logf(sum) + top - z[target];
    for (int o = 0; o < 2; o++)
        dz[o] = call->scale * (expf(z[o] - top) / sum - (o == target ? 1.0F : 0.0F));
}

static enum weft_status forward(void *self, const struct weft_stage_call *call,
                                struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    struct slot *slot = &l->slots[call->slot];
    const float *in = (const float *)call->in;
    float *out = (float *)call->out;
    (void)err;

    if (l->last)
        *call->loss = 0;

    for (int row = 0; row < ROWS; row++) {
        memcpy(slot->x[row], in + row * l->in, l->in * sizeof(float));

        for (int o = 0; o < l->out; o++) {
            float z = l->b[o];
            for (int i = 0; i < l->in; i++)
                z += l->w[o][i] * slot->x[row][i];
            slot->y[row][o] = l->last ? z : tanhf(z);
        }

        if (l->last)
            softmax_loss(call, row, slot->y[row], slot->dz[row]);
        else
            memcpy(out + row * l->out, slot->y[row], l->out * sizeof(float));
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
    for (int row = 0; row < ROWS; row++) {
        float *dz = slot->dz[row], *y = slot->y[row];
        for (int o = 0; !l->last && o < l->out; o++)
            dz[o] = dout[row * l->out + o] * (1 - y[o] * y[o]);
        for (int i = 0; din != NULL && i < l->in; i++) {
            float sum = 0;
            for (int o = 0; o < l->out; o++)
                sum += l->w[o][i] * dz[o];
            din[row * l->in + i] = sum;
        }
    }
    return WEFT_OK;
}

static enum weft_status backward_weight(void *self, const struct weft_stage_call *call,
                                        struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    struct slot *slot = &l->slots[call->slot];
    (void)err;
    for (int row = 0; row < ROWS; row++)
        for (int o = 0; o < l->out; o++) {
            float dz = slot->dz[row][o];
            l->db[o] += dz;
            for (int i = 0; i < l->in; i++)
                l->dw[o][i] += dz * slot->x[row][i];
        }
    return WEFT_OK;
}

static const struct weft_stage_ops ops = {forward, backward_input, backward_weight, NULL, NULL};

/* Returns a pseudo-random number between -1 and 1. */
static float noise(unsigned i)
{
    i = (i + 1) * 2654435761u;
    i = (i ^ i >> 15) * 2246822519u;
    return (float)((i ^ i >> 13) % 20001) / 10000 - 1;
}

static int start_layer(struct layer *l, uint32_t stage, uint32_t n_stages, uint32_t n_slots)
{
    memset(l, 0, sizeof *l);
    l->in = stage == 0 ? 2 : WIDTH;
    l->out = stage + 1 == n_stages ? 2 : WIDTH;
    l->last = stage + 1 == n_stages;
    l->slots = (struct slot *)calloc(n_slots, sizeof *l->slots);
    for (int o = 0; o < l->out; o++)
        for (int i = 0; i < l->in; i++)
            l->w[o][i] =
                1.5F * noise(1000u * stage + (unsigned)(o * l->in + i)) / sqrtf((float)l->in);
    return l->slots != NULL;
}

static void update(struct layer *l, float rate)
{
    for (int o = 0; o < l->out; o++) {
        l->b[o] -= rate * l->db[o];
        for (int i = 0; i < l->in; i++)
            l->w[o][i] -= rate * l->dw[o][i];
    }
    memset(l->dw, 0, sizeof l->dw);
    memset(l->db, 0, sizeof l->db);
}

/* -- a rank -------------------------------------------------------------------------------- */

struct batch {
    float points[MICROS][ROWS * 2];
    int32_t classes[MICROS][ROWS];
    double losses[MICROS];
};

/* Generates points of two spirals.  Every rank generates the same points. */
static void draw_points(struct batch *b, unsigned step)
{
    for (unsigned m = 0; m < MICROS; m++)
        for (unsigned row = 0; row < ROWS; row++) {
            unsigned at = (step * MICROS + m) * ROWS + row;
            float along = 0.5F + 0.5F * noise(at), angle = 4 * along;
            int side = at % 2;
            b->points[m][2 * row] = (side ? -1.0F : 1.0F) * along * cosf(angle);
            b->points[m][2 * row + 1] = (side ? -1.0F : 1.0F) * along * sinf(angle);
            b->classes[m][row] = side;
        }
}

/* Fills in the error of this program. */
static enum weft_status fail(struct weft_error *err, enum weft_status status,
                             const char *message)
{
    err->status = status;
    snprintf(err->msg, sizeof err->msg, "%s", message);
    return status;
}

/* The state of one rank. */
struct rank {
    struct weft_program *program;
    struct weft_exec *exec;
    struct layer layers[RANKS * 4];
    struct weft_stage stages[RANKS * 4];
    uint32_t n_stages;
    struct batch batch;
};

static enum weft_status start_rank(struct rank *r, const struct weft_schedule *s,
                                   struct weft_comm *comm, struct weft_error *err)
{
    static const uint32_t rows[MICROS] = {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS};
    enum weft_status st = weft_program_new(s, weft_comm_rank(comm), NULL, &r->program, err);
    if (st != WEFT_OK)
        return st;

    r->n_stages = weft_schedule_placement(s)->n_stages;
    for (uint32_t i = 0; i < r->n_stages; i++) {
        uint32_t n_slots = weft_program_slots(r->program, i);
        if (n_slots == 0)
            continue; /* belongs to another rank */
        if (!start_layer(&r->layers[i], i, r->n_stages, n_slots))
            return fail(err, WEFT_NOMEM, "no memory for a stage");
        r->stages[i].ops = &ops;
        r->stages[i].self = &r->layers[i];
        r->stages[i].in_bytes = i == 0 ? 0 : WIDTH * sizeof(float);
        r->stages[i].out_bytes = i + 1 == r->n_stages ? 0 : WIDTH * sizeof(float);
    }

    struct weft_exec_setup setup;
    memset(&setup, 0, sizeof setup); /* fields that are not used are 0 */
    setup.program = r->program;
    setup.comm = comm;
    setup.stages = r->stages;
    setup.rows = rows;
    return weft_exec_new(&setup, &r->exec, err);
}

static enum weft_status train_step(struct rank *r, unsigned step, struct weft_error *err)
{
    const void *inputs[MICROS];
    const void *targets[MICROS];
    for (int m = 0; m < MICROS; m++) {
        inputs[m] = r->batch.points[m];
        targets[m] = r->batch.classes[m];
    }
    draw_points(&r->batch, step);
    struct weft_exec_io io;
    memset(&io, 0, sizeof io);
    io.step = step;
    io.inputs = inputs;
    io.targets = targets;
    io.scale = 1.0F / (MICROS * ROWS);
    io.losses = r->batch.losses;
    enum weft_status st = weft_exec_step(r->exec, &io, err);
    for (uint32_t i = 0; st == WEFT_OK && i < r->n_stages; i++)
        update(&r->layers[i], 0.5F);
    return st;
}

static double mean_loss(const struct batch *b)
{
    double sum = 0;
    for (int m = 0; m < MICROS; m++)
        sum += b->losses[m];
    return sum / (MICROS * ROWS);
}

static enum weft_status train(struct rank *r, int has_loss, struct weft_error *err)
{
    double first = 0, last = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        enum weft_status st = train_step(r, step, err);
        if (st != WEFT_OK)
            return st;
        last = mean_loss(&r->batch);
        if (step == 0)
            first = last;
        if (has_loss && (step % 100 == 0 || step + 1 == STEPS))
            printf("step %3u  loss %.4f\n", step, last);
    }
    if (!has_loss || last < first / 3)
        return WEFT_OK;
    return fail(err, WEFT_NUMERIC, "the loss does not fall");
}

/* Runs one rank, as a thread or a process. */
static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct weft_schedule *s = (const struct weft_schedule *)arg;
    const struct weft_placement *place = weft_schedule_placement(s);
    struct rank *r = (struct rank *)calloc(1, sizeof *r);
    if (r == NULL)
        return fail(err, WEFT_NOMEM, "no memory for a rank");
    enum weft_status st = start_rank(r, s, comm, err);
    if (st == WEFT_OK)
        st = train(
            r, weft_placement_rank(place, place->n_stages - 1, 0) == weft_comm_rank(comm), err);
    weft_exec_free(r->exec);
    weft_program_free(r->program);
    for (int i = 0; i < RANKS * 4; i++)
        free(r->layers[i].slots);
    free(r);
    return st;
}

int main(int argc, char **argv)
{
    struct weft_gen_params params;
    struct weft_schedule *s = NULL;
    struct weft_error err = {WEFT_OK, NULL, 0, ""};

    memset(&params, 0, sizeof params);
    params.ranks = RANKS;
    params.micros = MICROS;
    enum weft_status st =
        weft_schedule_generate(argc > 1 ? argv[1] : "1f1b", &params, &s, &err);

    if (st == WEFT_OK && weft_schedule_placement(s)->n_pipes > 1) {
        fprintf(stderr,
                "%s has two copies of each stage; this example does not add their gradients\n",
                argv[1]);
        weft_schedule_free(s);
        return 1;
    }

    if (st == WEFT_OK)
        st = weft_comm_launcher() != NULL ? weft_comm_run_mpi(run_rank, s, &err)
                                          : weft_comm_run_threads(RANKS, run_rank, s, &err);

    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg);
    weft_schedule_free(s);
    return st == WEFT_OK ? 0 : 1;
}
