/* Checks that wrong and missing arguments of the executor are errors that name them, before
 * anything is sent and on every rank. */
#include "weft/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static struct weft_schedule *make(uint32_t ranks, uint32_t micros)
{
    struct weft_gen_params params = {.ranks = ranks, .micros = micros};
    struct weft_schedule *s = NULL;
    assert_int_equal(weft_schedule_generate("1f1b", &params, &s, NULL), WEFT_OK);
    return s;
}

static enum weft_status never(void *self, const struct weft_stage_call *call,
                              struct weft_error *err)
{
    (void)self;
    (void)call;
    return WEFT_FAIL(err, WEFT_INTERNAL, "the stage was called");
}

static const struct weft_stage_ops no_ops = {
    .forward = never, .backward_input = never, .backward_weight = never};

/* -- ranks --------------------------------------------------------------------------------- */

/* Rank 0 of three ranks runs rank 1 of a schedule of two. */
static const struct {
    const char *name;
    uint32_t ranks[2];
    const char *message; /* NULL: the map is valid */
} maps[] = {
    {"valid", {2, 0}, NULL},
    {"valid, too", {1, 0}, NULL},
    {"out of range",
     {3, 0},
     "rank 0 of the schedule must run on rank 3, but only ranks 0 to 2 are running"},
    {"twice", {0, 0}, "ranks 0 and 1 of the schedule must both run on rank 0"},
    {"another rank",
     {0, 1},
     "for rank 1 of the schedule, which must run on rank 1, not on rank 0"},
};

static enum weft_status try_maps(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct weft_stage stages[2] = {{.ops = &no_ops, .out_bytes = 8},
                                         {.ops = &no_ops, .in_bytes = 8}};
    struct weft_program *p = NULL;

    if (weft_comm_rank(comm) != 0)
        return WEFT_OK;
    WEFT_TRY(weft_program_new(arg, 1, NULL, &p, err));

    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < WEFT_LEN(maps); i++) {
        struct weft_exec_setup setup = {
            .program = p, .comm = comm, .ranks = maps[i].ranks, .stages = stages};
        struct weft_error found = {.msg = ""};
        struct weft_exec *e = NULL;
        enum weft_status got = weft_exec_new(&setup, &e, &found);

        weft_exec_free(e);
        if (got != (maps[i].message == NULL ? WEFT_OK : WEFT_USAGE) ||
            (maps[i].message != NULL && strstr(found.msg, maps[i].message) == NULL))
            st = WEFT_FAIL(err, WEFT_INTERNAL, "%s: status %d: %.300s", maps[i].name, (int)got,
                           found.msg);
    }

    weft_program_free(p);
    return st;
}

static void test_ranks(void **state)
{
    struct weft_schedule *s = make(2, 2);
    struct weft_error err = {.msg = ""};
    (void)state;
    if (weft_comm_run_threads(3, try_maps, s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    weft_schedule_free(s);
}

/* -- missing pointers ---------------------------------------------------------------------- */

static enum weft_status do_nothing(void *self, const struct weft_stage_call *call,
                                   struct weft_error *err)
{
    (void)self;
    (void)err;
    if (call->loss != NULL)
        *call->loss = 1;
    return WEFT_OK;
}

static const struct weft_stage_ops idle_ops = {
    .forward = do_nothing, .backward_input = do_nothing, .backward_weight = do_nothing};

static enum weft_status idle_loss(void *arg, const struct weft_loss_call *call,
                                  struct weft_error *err)
{
    (void)arg;
    (void)err;
    *call->loss = 2;
    return WEFT_OK;
}

static const float data[8];
static const void *const full[2] = {data, data}, *const half[2] = {data, NULL};
static float results[2][8];
static void *const outputs[2] = {results[0], results[1]}, *const half_outputs[2] = {results[0]};
static double losses[2];
static const uint32_t wide[2] = {1, 4}, too_wide[2] = {1, 5}, no_rows[2] = {0, 1};

/* A step of one rank with two stages and two micros of at most 4 rows. */
static const struct step_case {
    const char *name;
    size_t out_bytes; /* of the last stage */
    bool first;       /* outputs on rank 0 */
    struct weft_exec_io io;
    const char *message; /* NULL: the step succeeds */
} steps[] = {
    {"complete", 0, false, {.inputs = full, .targets = full, .losses = losses}, NULL},
    {"rows", 0, false, {.inputs = full, .targets = full, .losses = losses, .rows = wide}, NULL},
    {"no inputs",
     0,
     false,
     {.targets = full, .losses = losses},
     "io.inputs has no entry for micro 0"},
    {"an input",
     0,
     false,
     {.inputs = half, .targets = full, .losses = losses},
     "io.inputs has no entry for micro 1"},
    {"no targets",
     0,
     false,
     {.inputs = full, .losses = losses},
     "io.targets has no entry for micro 0"},
    {"a target",
     0,
     false,
     {.inputs = full, .targets = half, .losses = losses},
     "io.targets has no entry for micro 1"},
    {"no losses",
     0,
     false,
     {.inputs = full, .targets = full},
     "io.losses has no entry for micro 0"},
    {"a loss function too many",
     0,
     false,
     {.inputs = full, .targets = full, .losses = losses, .loss = idle_loss},
     "stage 1 computes the loss itself"},
    {"many rows",
     0,
     false,
     {.inputs = full, .targets = full, .losses = losses, .rows = too_wide},
     "micro 1 has 5 rows (expected 1 to 4)"},
    {"no rows",
     0,
     false,
     {.inputs = full, .targets = full, .losses = losses, .rows = no_rows},
     "micro 0 has 0 rows (expected 1 to 4)"},
    {"loss function",
     8,
     false,
     {.inputs = full, .targets = full, .losses = losses, .loss = idle_loss},
     NULL},
    {"no loss function",
     8,
     false,
     {.inputs = full, .targets = full, .losses = losses},
     "the loss function is missing: stage 1 returns outputs"},
    {"no targets of the loss function",
     8,
     false,
     {.inputs = full, .losses = losses, .loss = idle_loss},
     "io.targets has no entry for micro 0"},
    {"no losses of the loss function",
     8,
     false,
     {.inputs = full, .targets = full, .loss = idle_loss},
     "io.losses has no entry for micro 0"},
    {"outputs without a loss",
     8,
     false,
     {.inputs = full, .outputs = outputs, .forward_only = true},
     NULL},
    {"losses without a function",
     8,
     false,
     {.inputs = full, .losses = losses, .forward_only = true},
     "the loss function is missing"},
    {"outputs on rank 0",
     8,
     true,
     {.inputs = full, .targets = full, .losses = losses, .loss = idle_loss, .outputs = outputs},
     NULL},
    {"no outputs on rank 0",
     8,
     true,
     {.inputs = full,
      .targets = full,
      .losses = losses,
      .loss = idle_loss,
      .outputs = half_outputs},
     "io.outputs has no entry for micro 1"},
};

static void test_steps(void **state)
{
    struct weft_gen_params params = {.ranks = 1, .micros = 2, .chunks = 2};
    struct weft_schedule *s = NULL;
    struct weft_program *p = NULL;
    (void)state;

    assert_int_equal(weft_schedule_generate("gpipe", &params, &s, NULL), WEFT_OK);
    assert_int_equal(weft_program_new(s, 0, NULL, &p, NULL), WEFT_OK);

    for (size_t i = 0; i < WEFT_LEN(steps); i++) {
        const struct step_case *c = &steps[i];
        struct weft_stage stages[2] = {
            {.ops = &idle_ops, .out_bytes = 8},
            {.ops = &idle_ops, .in_bytes = 8, .out_bytes = c->out_bytes}};
        struct weft_exec_setup setup = {.program = p,
                                        .stages = stages,
                                        .max_rows = 4,
                                        .outputs_on = c->first ? WEFT_OUTPUTS_ON_FIRST
                                                               : WEFT_OUTPUTS_ON_LAST};
        struct weft_error err = {.msg = ""};
        struct weft_exec *e = NULL;

        if (weft_exec_new(&setup, &e, &err) != WEFT_OK)
            fail_msg("%s: %s", c->name, err.msg);
        enum weft_status st = weft_exec_step(e, &c->io, &err);
        if (st != (c->message == NULL ? WEFT_OK : WEFT_USAGE) ||
            (c->message != NULL && strstr(err.msg, c->message) == NULL))
            fail_msg("%s: status %d: %s", c->name, (int)st, err.msg);

        weft_exec_free(e);
    }

    weft_program_free(p);
    weft_schedule_free(s);
}

static void test_null(void **state)
{
    const struct weft_stage stages[2] = {{.ops = &idle_ops, .out_bytes = 8},
                                         {.ops = &idle_ops, .in_bytes = 8}};
    struct weft_schedule *s = make(1, 2);
    struct weft_program *p = NULL;
    struct weft_exec *e = NULL;
    struct weft_error err = {.msg = ""};
    size_t n = 7;
    (void)state;
    assert_int_equal(weft_program_new(NULL, 0, NULL, &p, &err), WEFT_USAGE);
    assert_int_equal(weft_program_new(s, 0, NULL, NULL, &err), WEFT_USAGE);
    assert_int_equal(weft_program_new(s, 0, NULL, &p, &err), WEFT_OK);
    const struct weft_exec_setup without_stages = {.program = p},
                                 without_program = {.stages = stages},
                                 last = {.program = p, .stages = stages + 1};
    assert_int_equal(weft_exec_new(NULL, &e, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the setup"));
    assert_int_equal(weft_exec_new(&without_program, &e, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the program"));
    assert_int_equal(weft_exec_new(&without_stages, &e, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the list of stages"));
    assert_int_equal(weft_exec_new(&last, NULL, &err), WEFT_USAGE);
    assert_int_equal(weft_exec_step(NULL, NULL, &err), WEFT_USAGE);
    assert_int_equal(weft_exec_new(&last, &e, &err), WEFT_OK);
    assert_int_equal(weft_exec_step(e, NULL, &err), WEFT_USAGE);
    assert_int_equal(weft_exec_param_grads(NULL, 0, NULL, 0, &n, &err), WEFT_USAGE);
    assert_int_equal(weft_exec_param_grads(e, 0, NULL, 1, &n, &err), WEFT_USAGE);
    assert_int_equal(weft_exec_param_grads(e, 1, NULL, 0, &n, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "rank 0 does not run stage 1"));
    assert_int_equal(weft_exec_param_grads(e, 0, NULL, 0, &n, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "stage 0 does not list its parameters"));
    assert_int_equal(n, 7);

    /* Getters return 0 or NULL for NULL and for values out of range. */
    assert_null(weft_program_schedule(NULL));
    assert_int_equal(weft_program_slots(NULL, 0) + weft_program_outputs(NULL, 0), 0);
    assert_int_equal(weft_program_peak(NULL) + weft_program_slot_bytes(NULL), 0);
    assert_int_equal(weft_exec_bytes(NULL) + weft_exec_n_events(NULL), 0);
    assert_int_equal(weft_exec_num_saved(NULL, 0) + weft_exec_max_saved(e, 9), 0);
    assert_int_equal(weft_exec_bytes_to(e, 9, false), 0);
    assert_int_equal(weft_exec_event(e, 999).bytes, 0);
    assert_int_equal(weft_exec_times(NULL).sent_bytes, 0);
    assert_int_equal(weft_exec_failed_at(NULL).stage, 0);
    assert_int_equal(weft_stage_backward(NULL, NULL, &err), WEFT_USAGE);
    weft_exec_free(e);
    weft_program_free(p);
    weft_schedule_free(s);
}

/* -- two ranks ----------------------------------------------------------------------------- */

static const struct weft_tensor_shape pair[] = {{WEFT_DTYPE_F32, 2, {1, 2}},
                                                {WEFT_DTYPE_I32, 1, {1}}},
                                      other[] = {{WEFT_DTYPE_F32, 2, {1, 2}},
                                                 {WEFT_DTYPE_U16, 2, {1, 2}}};

/* Rank 1 deviates from rank 0; all ranks report the same error. */
static const struct pair_case {
    const char *name;
    const struct weft_tensor_shape *in; /* of rank 1 */
    uint32_t rows[2][2];
    bool no_inputs;
    enum weft_status status; /* of the whole run */
    const char *message;
} pairs[] = {
    {"equal", pair, {{2, 3}, {2, 3}}, false, WEFT_OK, ""},
    {"tensors",
     other,
     {{2, 3}, {2, 3}},
     false,
     WEFT_PEER,
     "has the data f32[2,2] i32[2] (expected f32[2,2] u16[2,2] at step 5, stage 0, micro 0)"},
    {"rows",
     pair,
     {{2, 3}, {2, 4}},
     false,
     WEFT_PEER,
     "has the data f32[3,2] i32[3] (expected f32[4,2] i32[4] at step 5, stage 0, micro 1)"},
    {"inputs", pair, {{2, 3}, {2, 3}}, true, WEFT_USAGE, "rank 0: io.inputs has no entry"},
};

static enum weft_status run_pair(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct pair_case *c = arg;
    uint32_t rank = weft_comm_rank(comm);
    const uint32_t many[2] = {1, 5};
    const struct weft_stage stages[2] = {{.ops = &idle_ops, .out = pair, .n_out = 2},
                                         {.ops = &idle_ops, .in = c->in, .n_in = 2}};
    struct weft_schedule *s = make(2, 2);
    struct weft_program *p = NULL;
    struct weft_exec *e = NULL;

    enum weft_status st = weft_program_new(s, rank, NULL, &p, err);
    struct weft_exec_setup setup = {
        .program = p, .comm = comm, .stages = stages, .max_rows = 4};
    if (st == WEFT_OK)
        st = weft_exec_new(&setup, &e, err);

    /* Too many rows on all ranks: nothing is sent, and the next step works. */
    struct weft_exec_io io = {
        .step = 4, .inputs = full, .targets = full, .losses = (double[2]){0}, .rows = many};
    if (st == WEFT_OK && weft_exec_step(e, &io, err) != WEFT_USAGE)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "rank %u accepts 5 rows", rank);

    io.step = 5;
    io.rows = c->rows[rank];
    if (c->no_inputs)
        io.inputs = NULL;
    if (st == WEFT_OK)
        st = weft_exec_step(e, &io, err);

    weft_exec_free(e);
    weft_program_free(p);
    weft_schedule_free(s);
    return st;
}

static void test_pairs(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(pairs); i++) {
        struct weft_error err = {.msg = ""};
        enum weft_status st = weft_comm_run_threads(2, run_pair, (void *)&pairs[i], &err);
        if (st != pairs[i].status ||
            (st != WEFT_OK && strstr(err.msg, pairs[i].message) == NULL))
            fail_msg("%s: status %d: %s", pairs[i].name, (int)st, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests_name("checks", tests, NULL, NULL) != 0;
}
