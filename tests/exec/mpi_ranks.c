/* Runs schedules under MPI with the stages of tests/support/tracer.h: loss functions, several
 * tensors per boundary, rows that change from step to step, and any subset of the ranks in any
 * order.  test_exec.c checks the same on threads. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "tracer.h"

static const struct {
    const char *name;
    struct weft_gen_params params;
} schedules[] = {
    {"1f1b", {.ranks = 4, .micros = 6}},
    {"zb-h1", {.ranks = 3, .micros = 4}},
    {"interleaved-1f1b", {.ranks = 2, .micros = 4, .chunks = 2}},
    {"zb-v", {.ranks = 4, .micros = 4}},
    {"dualpipe", {.ranks = 4, .micros = 8}},
};

static enum weft_status run_case(struct weft_comm *comm, size_t i, uint32_t options,
                                 struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    struct tracer_model model;
    WEFT_TRY(weft_schedule_generate(schedules[i].name, &schedules[i].params, &s, err));
    tracer_model_init(&model, weft_schedule_placement(s), 3, 10 * i + options);
    model.tensors = options & 1;
    model.vary_rows = options & 2;
    model.has_outputs = options & 4;
    struct tracer_run run = {.schedule = s,
                             .model = &model,
                             .steps = 2,
                             .evals = 3,
                             .shuffle_ranks = true,
                             .outputs_on = model.has_outputs && options & 1
                                               ? WEFT_OUTPUTS_ON_FIRST
                                               : WEFT_OUTPUTS_ON_LAST};
    enum weft_status st = tracer_run_on(comm, &run, 1, err);
    weft_schedule_free(s);
    return st;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    if (weft_comm_size(comm) != 4)
        return WEFT_FAIL(err, WEFT_USAGE, "start 4 ranks, not %u", weft_comm_size(comm));
    for (size_t i = 0; i < WEFT_LEN(schedules); i++)
        for (uint32_t options = 0; options < 8; options++)
            WEFT_TRY(run_case(comm, i, options, err));
    if (weft_comm_rank(comm) == 0)
        printf("%zu runs\n", 8 * WEFT_LEN(schedules));
    return WEFT_OK;
}

int main(void)
{
    struct weft_error err = {.msg = ""};
    enum weft_status st = weft_comm_run_mpi(run_rank, NULL, &err);
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg);
    exit(weft_status_exit_code(st));
}
