/* Tests the socket transport, and runs a pipeline over it.
 *
 *     cc main.c socket_control.c socket_data.c socket_launch.c \
 *         $(pkg-config --cflags --libs weft-conformance weft)
 *     ./a.out                        the pipeline, by every schedule that weft knows
 *     ./a.out conformance            the conformance suite of weft
 *
 * The pipeline fits y = w0 w1 ... x to 6 x.  Every schedule must give the same loss on
 * processes as on threads, bit for bit.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weft/conformance.h>
#include <weft/weft.h>

#include "socket_transport.h"

/* -- the conformance suite ----------------------------------------------------------------- */

static enum weft_status launch(void *arg, uint32_t n, weft_rank_fn *fn, void *fn_arg,
                               struct weft_error *err)
{
    (void)arg;
    return socket_run(n, 0, fn, fn_arg, err);
}

static void report(void *arg, const struct weft_conformance_case *c,
                   const struct weft_error *failure)
{
    (void)arg;
    printf("%-50s %s\n", c->name, failure == NULL ? "passed" : failure->msg);
    fflush(stdout);
}

static int test_transport(void)
{
    struct weft_conformance_setup setup;
    struct weft_conformance_result result;
    struct weft_error err;
    memset(&setup, 0, sizeof setup);
    setup.launch = launch;
    setup.processes = true;
    if (weft_transport_conformance(&setup, report, NULL, &result, &err) != WEFT_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("%zu passed, %zu failed\n", result.n_passed, result.n_failed);
    return result.n_failed == 0 ? 0 : 1;
}

/* -- stages -------------------------------------------------------------------------------- */

enum { RANKS = 4, MICROS = 8, STEPS = 200, MAX_STAGES = 32, MAX_SLOTS = 64 };

struct factor {
    float w, dw;
    bool last;
    float x[MAX_SLOTS], dy[MAX_SLOTS]; /* saved from the forward to the backward of a micro */
};

static enum weft_status forward(void *self, const struct weft_stage_call *c,
                                struct weft_error *err)
{
    struct factor *f = (struct factor *)self;
    (void)err;
    f->x[c->slot] = *(const float *)c->in;
    float y = f->w * f->x[c->slot];
    if (f->last) { /* the loss is (y - target)^2 / 2 */
        float off = y - (float)*(const int32_t *)c->targets;
        *c->loss = off * off / 2;
        f->dy[c->slot] = c->scale * off;
    } else {
        *(float *)c->out = y;
    }
    return WEFT_OK;
}

static enum weft_status backward_input(void *self, const struct weft_stage_call *c,
                                       struct weft_error *err)
{
    struct factor *f = (struct factor *)self;
    (void)err;
    if (c->dout != NULL)
        f->dy[c->slot] = *(const float *)c->dout;
    if (c->din != NULL)
        *(float *)c->din = f->w * f->dy[c->slot];
    return WEFT_OK;
}

static enum weft_status backward_weight(void *self, const struct weft_stage_call *c,
                                        struct weft_error *err)
{
    struct factor *f = (struct factor *)self;
    (void)err;
    /* Multiples of 2^-10 have exact sums here, so that the order of micros does not matter. */
    f->dw += (float)(int32_t)(f->dy[c->slot] * f->x[c->slot] * 1024) / 1024;
    return WEFT_OK;
}

/* -- a rank -------------------------------------------------------------------------------- */

struct job {
    const struct weft_schedule *schedule;
    double *loss; /* of the last step, in memory that all processes share */
};

struct rank {
    struct weft_program *program;
    struct weft_exec *exec;
    uint32_t n_stages;
    struct factor factors[MAX_STAGES];
    struct weft_stage stages[MAX_STAGES];
};

static enum weft_status start(struct rank *r, const struct weft_schedule *s,
                              struct weft_comm *comm, struct weft_error *err)
{
    static const struct weft_stage_ops ops = {forward, backward_input, backward_weight, NULL,
                                              NULL};
    struct weft_exec_setup setup;
    enum weft_status st = weft_program_new(s, weft_comm_rank(comm), NULL, &r->program, err);
    if (st != WEFT_OK)
        return st;

    r->n_stages = weft_schedule_placement(s)->n_stages;
    if (r->n_stages > MAX_STAGES)
        return socket_fail(err, WEFT_USAGE, "%u stages are too many", r->n_stages);

    for (uint32_t i = 0; i < r->n_stages; i++) {
        uint32_t n_slots = weft_program_slots(r->program, i);
        if (n_slots == 0)
            continue; /* belongs to another rank */
        if (n_slots > MAX_SLOTS)
            return socket_fail(err, WEFT_USAGE, "%u slots are too many", n_slots);
        r->factors[i].w = 1;
        r->factors[i].last = i + 1 == r->n_stages;
        r->stages[i].ops = &ops;
        r->stages[i].self = &r->factors[i];
        r->stages[i].in_bytes = i == 0 ? 0 : sizeof(float);
        r->stages[i].out_bytes = i + 1 == r->n_stages ? 0 : sizeof(float);
    }

    memset(&setup, 0, sizeof setup);
    setup.program = r->program;
    setup.comm = comm;
    setup.stages = r->stages;
    return weft_exec_new(&setup, &r->exec, err);
}

static enum weft_status train(struct rank *r, double *losses, struct weft_error *err)
{
    static const float x[MICROS] = {-1, -0.5F, 0.5F, 1, 1.5F, 2, -1.5F, 0.25F};
    static const int32_t y[MICROS] = {-6, -3, 3, 6, 9, 12, -9, 2};
    const void *inputs[MICROS];
    const void *targets[MICROS];
    struct weft_exec_io io;

    memset(&io, 0, sizeof io);
    for (int m = 0; m < MICROS; m++) {
        inputs[m] = &x[m];
        targets[m] = &y[m];
    }

    io.inputs = inputs;
    io.targets = targets;
    io.scale = 1.0F / MICROS;
    io.losses = losses;

    for (io.step = 0; io.step < STEPS; io.step++) {
        enum weft_status st = weft_exec_step(r->exec, &io, err);
        if (st != WEFT_OK)
            return st;
        for (uint32_t i = 0; i < r->n_stages; i++) {
            r->factors[i].w -= 0.00390625F * r->factors[i].dw;
            r->factors[i].dw = 0;
        }
    }
    return WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct job *job = (const struct job *)arg;
    const struct weft_placement *place = weft_schedule_placement(job->schedule);
    double losses[MICROS] = {0};
    struct rank *r = (struct rank *)calloc(1, sizeof *r);
    if (r == NULL)
        return socket_fail(err, WEFT_NOMEM, "no memory for a rank");
    enum weft_status st = start(r, job->schedule, comm, err);
    if (st == WEFT_OK)
        st = train(r, losses, err);
    for (uint32_t m = 0; st == WEFT_OK && m < MICROS; m++)
        if (weft_placement_rank(place, place->n_stages - 1, m) == weft_comm_rank(comm))
            job->loss[m] = losses[m];
    weft_exec_free(r->exec);
    weft_program_free(r->program);
    free(r);
    return st;
}

/* -- all schedules ------------------------------------------------------------------------- */

/* Runs a schedule on threads and on processes, and compares the losses of the last step. */
static enum weft_status run_schedule(const struct weft_schedule *s, double *shared,
                                     struct weft_error *err)
{
    double threads[MICROS] = {0}, sum = 0;
    struct job a = {s, threads}, b = {s, shared};
    enum weft_status st = weft_comm_run_threads(RANKS, run_rank, &a, err);
    memset(shared, 0, sizeof threads);
    if (st == WEFT_OK)
        st = socket_run(RANKS, 0, run_rank, &b, err);
    if (st != WEFT_OK)
        return st;
    if (memcmp(threads, shared, sizeof threads) != 0)
        return socket_fail(err, WEFT_NUMERIC, "the losses on threads and processes differ");
    for (int m = 0; m < MICROS; m++)
        sum += shared[m];
    printf("%-20s loss %.6f on %d processes, as on threads\n", weft_schedule_name(s),
           sum / MICROS, (int)RANKS);
    return WEFT_OK;
}

static enum weft_status run_all(double *shared, struct weft_error *err)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    for (size_t i = 0; i < n; i++) {
        struct weft_gen_params params;
        struct weft_schedule *s = NULL;
        memset(&params, 0, sizeof params);
        params.ranks = RANKS;
        params.micros = MICROS;
        enum weft_status st = weft_schedule_generate(all[i].name, &params, &s, err);
        if (st == WEFT_OK)
            st = run_schedule(s, shared, err);
        weft_schedule_free(s);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    struct weft_error err;
    memset(&err, 0, sizeof err);
    if (argc > 1 && strcmp(argv[1], "conformance") == 0)
        return test_transport();
    void *shared = mmap(NULL, MICROS * sizeof(double), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    enum weft_status st = run_all((double *)shared, &err);
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg);
    munmap(shared, MICROS * sizeof(double));
    return weft_status_exit_code(st);
}
