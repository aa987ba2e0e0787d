/* Implements custom stages: a small perceptron in two stages, trained by the same calls that
 * a pipeline makes.  It classifies points as inside a disk (class 0) or in the ring around
 * it (class 1).
 *
 *     stage 0: 2 -> 16, tanh        stage 1: 16 -> 2, softmax, loss
 *
 * Each stage implements weft/stage.h: forward saves the inputs of its backward in the given
 * slot, backward_input computes the gradient of the input, backward_weight adds to the weight
 * gradients.  Both stages run in one thread.  The four micros of a step run their forwards one
 * after the other and their backwards in reverse order.
 *
 *     cc mlp.c $(pkg-config --cflags --libs weft) -lm
 *     ./a.out
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weft/stage.h"

enum { WIDTH = 16, ROWS = 32, MICROS = 4, STEPS = 400 };

struct layer {
    int in, out;
    int last;
    float w[WIDTH][WIDTH], b[WIDTH];   /* w[out][in] */
    float dw[WIDTH][WIDTH], db[WIDTH]; /* sums over the step's micros */
    /* Saved between forward and backward, by slot. */
    float x[MICROS][ROWS][WIDTH];  /* the input */
    float y[MICROS][ROWS][WIDTH];  /* the output */
    float dz[MICROS][ROWS][WIDTH]; /* the gradient before the activation */
};

static void softmax_loss(struct layer *l, const struct weft_stage_call *call, float *z, int row)
{
    float *dz = l->dz[call->slot][row];
    float top = z[0] > z[1] ? z[0] : z[1];
    float sum = expf(z[0] - top) + expf(z[1] - top);
    int target = ((const int32_t *)call->targets)[row];
    if (target < 0) { /* ignored */
        memset(dz, 0, l->out * sizeof(float));
        return;
    }
    *call->loss += logf(sum) + top - z[target];
    for (int o = 0; o < l->out; o++)
        dz[o] = call->scale * (expf(z[o] - top) / sum - (o == target ? 1.0F : 0.0F));
}

static enum weft_status forward(void *self, const struct weft_stage_call *call,
                                struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    const float *in = (const float *)call->in;
    float *out = (float *)call->out;
    (void)err;

    if (l->last)
        *call->loss = 0;

    for (uint32_t row = 0; row < call->rows; row++) {
        float *x = l->x[call->slot][row], *y = l->y[call->slot][row];
        memcpy(x, in + row * l->in, l->in * sizeof(float));

        for (int o = 0; o < l->out; o++) {
            float z = l->b[o];
            for (int i = 0; i < l->in; i++)
                z += l->w[o][i] * x[i];
            y[o] = l->last ? z : tanhf(z);
        }

        if (l->last)
            softmax_loss(l, call, y, (int)row);
        else
            memcpy(out + row * l->out, y, l->out * sizeof(float));
    }
    return WEFT_OK;
}

static enum weft_status backward_input(void *self, const struct weft_stage_call *call,
                                       struct weft_error *err)
{
    struct layer *l = (struct layer *)self;
    const float *dout = (const float *)call->dout;
    float *din = (float *)call->din;
    (void)err;
    for (uint32_t row = 0; row < call->rows; row++) {
        float *dz = l->dz[call->slot][row], *y = l->y[call->slot][row];
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
    (void)err;
    for (uint32_t row = 0; row < call->rows; row++)
        for (int o = 0; o < l->out; o++) {
            float dz = l->dz[call->slot][row][o];
            l->db[o] += dz;
            for (int i = 0; i < l->in; i++)
                l->dw[o][i] += dz * l->x[call->slot][row][i];
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

static void start(struct layer *l, int in, int out, int last)
{
    memset(l, 0, sizeof *l);
    l->in = in;
    l->out = out;
    l->last = last;
    for (int o = 0; o < out; o++)
        for (int i = 0; i < in; i++)
            l->w[o][i] =
                noise(1000u * (unsigned)(in + out) + (unsigned)(o * in + i)) / sqrtf((float)in);
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

static void draw_points(unsigned step, unsigned micro, float *points, int32_t *classes)
{
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned at = ((step * MICROS + micro) * ROWS + row) * 2;
        float x = points[2 * row] = noise(at), y = points[2 * row + 1] = noise(at + 1);
        classes[row] = x * x + y * y > 0.5F;
    }
}

/* Returns a call for a micro.  Fields that it does not use are 0. */
static struct weft_stage_call make_call(uint32_t micro)
{
    struct weft_stage_call call;
    memset(&call, 0, sizeof call);
    call.micro = micro;
    call.slot = micro;
    call.rows = ROWS;
    return call;
}

static double train_step(const struct weft_stage *stage, unsigned step, struct weft_error *err)
{
    static float points[MICROS][ROWS * 2], middle[MICROS][ROWS * WIDTH];
    static float gradient[ROWS * WIDTH];
    static int32_t classes[MICROS][ROWS];
    double sum = 0;

    for (uint32_t m = 0; m < MICROS; m++) {
        struct weft_stage_call first = make_call(m), last = make_call(m);
        double loss = 0;
        draw_points(step, m, points[m], classes[m]);
        first.in = points[m];
        first.out = middle[m];
        last.in = middle[m];
        last.targets = classes[m];
        last.scale = 1.0F / (MICROS * ROWS);
        last.loss = &loss;
        first.train = last.train = true;

        if (stage[0].ops->forward(stage[0].self, &first, err) != WEFT_OK ||
            stage[1].ops->forward(stage[1].self, &last, err) != WEFT_OK)
            return NAN;
        sum += loss;
    }

    for (uint32_t m = MICROS; m-- > 0;) {
        struct weft_stage_call first = make_call(m), last = make_call(m);
        last.din = gradient;
        first.dout = gradient;
        if (weft_stage_backward(&stage[1], &last, err) != WEFT_OK ||
            weft_stage_backward(&stage[0], &first, err) != WEFT_OK)
            return NAN;
    }
    return sum / (MICROS * ROWS);
}

int main(void)
{
    static struct layer layers[2];
    static struct weft_stage stages[2]; /* zeroed: the model has no outer activations */
    struct weft_error err = {WEFT_OK, NULL, 0, ""};
    double first = 0, loss = 0;

    start(&layers[0], 2, WIDTH, 0);
    start(&layers[1], WIDTH, 2, 1);
    for (int i = 0; i < 2; i++) {
        stages[i].ops = &ops;
        stages[i].self = &layers[i];
    }
    stages[0].out_bytes = stages[1].in_bytes = WIDTH * sizeof(float);

    for (unsigned step = 0; step < STEPS; step++) {
        loss = train_step(stages, step, &err);
        if (step == 0)
            first = loss;
        if (step % 100 == 0)
            printf("step %3u  loss %.4f\n", step, loss);
        update(&layers[0], 1.0F);
        update(&layers[1], 1.0F);
    }

    printf("step %3d  loss %.4f\n", STEPS, loss);
    return loss < first / 3 ? 0 : 1;
}
