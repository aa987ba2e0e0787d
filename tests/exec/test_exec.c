/* Runs every built-in schedule on threads or processes, with stages in exact arithmetic.
 * The results equal those of sequential execution, and every buffer is kept exactly as
 * long as planned. */
#include "weft/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "forked.h"
#include "tracer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 4 }; /* only every fourth case is run */
#else
enum { EVERY = 1 };
#endif

static const uint32_t micros[] = {1, 2, 3, 4, 6, 8};
static weft_launch_fn *launch; /* starts processes; NULL: threads */

/* Checks a schedule and takes ownership of it. */
typedef void check_fn(struct tracer_batch *b, struct weft_schedule *s,
                      const struct weft_gen_params *params, const char *name, uint64_t number);

/* Calls check for every schedule and every size that it accepts.  Returns the
 * number of schedules. */
static size_t for_all(check_fn *check)
{
    static struct tracer_batch batch;
    size_t n_generators, n = 0;
    const struct weft_generator *all = weft_generator_list(&n_generators);

    batch.n = 0;
    for (size_t g = 0; g < n_generators; g++) {
        size_t before = n;
        bool chunks = all[g].flags & WEFT_GEN_USES_CHUNKS; /* otherwise the number is fixed */

        for (uint32_t i = 0; i < 4 * 3 * WEFT_LEN(micros); i++) {
            struct weft_gen_params params = {.ranks = 1 + i % 4,
                                             .chunks = chunks ? 1 + i / 4 % 3 : 0,
                                             .micros = micros[i / 12]};
            struct weft_schedule *s = NULL;
            bool search = all[g].flags & WEFT_GEN_USES_COST; /* slow with a sanitizer */
            if ((!chunks && i / 4 % 3 > 0) || (search && EVERY > 1 && params.micros > 3) ||
                weft_schedule_generate(all[g].name, &params, &s, NULL) != WEFT_OK)
                continue;

            if (n++ % EVERY == 0)
                check(&batch, s, &params, all[g].name, n);
            else
                weft_schedule_free(s);
        }

        assert_true(n > before); /* every schedule accepts some size */
    }

    tracer_batch_finish(&batch);
    return n;
}

static struct weft_schedule *make(const struct weft_gen_params *params, const char *name)
{
    struct weft_schedule *s = NULL;
    assert_int_equal(weft_schedule_generate(name, params, &s, NULL), WEFT_OK);
    return s;
}

static void add(struct tracer_batch *b, struct weft_schedule *s, struct tracer_run *run,
                const struct weft_gen_params *params, const char *name)
{
    snprintf(run->label, sizeof run->label, "%s, %u ranks, %u chunks, %u micros%s%s", name,
             params->ranks, params->chunks, params->micros, run->copying ? ", copying" : "",
             run->lay_slots ? ", slots in one piece" : "");
    run->launch = launch;
    tracer_batch_add(b, s, run);
}

/* -- results, slots, events, bytes --------------------------------------------------------- */

static void check_plain(struct tracer_batch *b, struct weft_schedule *s,
                        const struct weft_gen_params *params, const char *name, uint64_t number)
{
    struct tracer_model model;
    tracer_model_init(&model, weft_schedule_placement(s), number % 2 == 0 ? 1 : 3, number);
    model.tensors = number % 3 == 1;
    model.vary_rows = number % 4 == 1;
    model.has_outputs = number % 5 < 3;
    for (int copying = COPYING_NONE; copying <= COPYING_RENDEZVOUS; copying++) {
        struct tracer_run run = {.model = &model,
                                 .steps = 2,
                                 .evals = (uint32_t)(number % 3),
                                 .first_micro = (uint32_t)(number % 5),
                                 .lay_slots = (number + (uint64_t)copying) % 2 == 0,
                                 .shuffle_ranks = number % 3 != 0,
                                 .outputs_on = model.has_outputs && number % 2 == 0
                                                   ? WEFT_OUTPUTS_ON_FIRST
                                                   : WEFT_OUTPUTS_ON_LAST,
                                 .copying = (enum copying)copying};
        add(b, copying == COPYING_NONE ? s : NULL, &run, params, name);
    }
}

static void test_generators(void **state)
{
    (void)state;
    assert_true(for_all(check_plain) > 500);
}

/* -- block residuals ----------------------------------------------------------------------- */

/* Adds blocks to the model.  Blocks and activations have the same size, and so
 * have all micros. */
static void add_blocks(struct tracer_model *m, uint64_t number)
{
    m->row_elements = 2 * (1 + number % 5);
    for (uint32_t i = 0; i < m->n_stages; i++)
        m->words[i] = m->row_elements / 2;
    for (uint32_t i = 0; i < m->n_micros; i++)
        m->rows[i] = 1 + number % 3;
    m->finished_by[m->n_blocks++] = 0;
    for (uint32_t i = 0; i < m->n_stages && m->n_blocks < TRACER_STAGES; i++)
        if ((number + i) % 3 != 0)
            m->finished_by[m->n_blocks++] = i;
}

static void check_blocks(struct tracer_batch *b, struct weft_schedule *s,
                         const struct weft_gen_params *params, const char *name,
                         uint64_t number)
{
    struct tracer_model model;
    tracer_model_init(&model, weft_schedule_placement(s), 1, number);
    add_blocks(&model, number);
    for (int cache = WEFT_BLOCK_CACHE_OFF; cache <= WEFT_BLOCK_CACHE_FULL; cache++) {
        struct tracer_run run = {.model = &model,
                                 .steps = 2,
                                 .cache = (enum weft_block_cache)cache,
                                 .shuffle_ranks = number % 2 == 0,
                                 .copying = (enum copying)((number + (uint64_t)cache) % 3)};
        add(b, cache == WEFT_BLOCK_CACHE_OFF ? s : NULL, &run, params, name);
    }
}

static void test_blocks(void **state)
{
    (void)state;
    assert_true(for_all(check_blocks) > 500);
}

/* -- receive buffers ----------------------------------------------------------------------- */

/* Rank 1 is late, after its first forward, and then has no buffer for micro 3 until rank 0
 * receives gradients: rank 0 must receive them although it waits for micro 4. */
static const char tight[] =
    "0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0F3,0SEND_F3,1RECV_F4,1F4,1B4,1SEND_B4,1RECV_F5,1F5,"
    "1B5,1SEND_B5,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2,0RECV_B3,0B3\n"
    "0F5,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2,1RECV_F3,"
    "1F3,1B3,1SEND_B3,0F4,0SEND_F4,0SEND_F5,0RECV_B4,0B4,0RECV_B5,0B5\n";

static void test_tight(void **state)
{
    struct weft_schedule *s = NULL;
    struct weft_error err = {.msg = ""};
    struct tracer_model model;

    (void)state;
    if (weft_schedule_parse(tight, sizeof tight - 1, "tight", &s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);

    tracer_model_init(&model, weft_schedule_placement(s), 1, 1);
    model.event = (struct tracer_event){.on = true,
                                        .kind = WEFT_ACT_F,
                                        .stage = 0,
                                        .micro = 5,
                                        .step = 0,
                                        .sleep_ns = 100000000};

    struct tracer_run run = {.schedule = s,
                             .model = &model,
                             .steps = 2,
                             .timeout = 20,
                             .copying = COPYING_RENDEZVOUS,
                             .launch = launch};

    if (tracer_run(&run, 1, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    weft_schedule_free(s);
}

/* -- slots and invalid setups -------------------------------------------------------------- */

/* The middle stage stores nothing; its slots still have different offsets. */
static void test_empty_slots(void **state)
{
    struct weft_gen_params params = {.ranks = 1, .micros = 4, .chunks = 3};
    const size_t bytes[] = {100, 0, 1}, huge[] = {SIZE_MAX, 0, 0},
                 many[] = {SIZE_MAX / 9, 0, 0};
    struct weft_program *p = NULL;
    struct weft_schedule *s = make(&params, "gpipe");
    (void)state;

    assert_int_equal(weft_program_new(s, 0, bytes, &p, NULL), WEFT_OK);
    for (uint32_t stage = 0; stage < 3; stage++) {
        assert_int_equal(weft_program_slots(p, stage), 4);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(weft_program_slot_offset(p, stage, i) % 64, 0);
            for (uint32_t k = 0; k < i; k++)
                assert_int_not_equal(weft_program_slot_offset(p, stage, i),
                                     weft_program_slot_offset(p, stage, k));
        }
    }

    assert_int_equal(weft_program_slot_bytes(p), 4 * (128 + 64 + 64));
    assert_int_equal(weft_program_slot_bound(p), 4 * (128 + 64 + 64));
    weft_program_free(p);

    assert_int_equal(weft_program_new(s, 0, huge, &p, NULL), WEFT_NOMEM);
    assert_int_equal(weft_program_new(s, 0, many, &p, NULL), WEFT_NOMEM);
    assert_int_equal(weft_program_new(s, 1, NULL, &p, NULL), WEFT_USAGE);
    weft_schedule_free(s);
}

static enum weft_status never(void *self, const struct weft_stage_call *call,
                              struct weft_error *err)
{
    (void)self;
    (void)call;
    return WEFT_FAIL(err, WEFT_INTERNAL, "the stage was called");
}

static void test_setup(void **state)
{
    static const struct weft_stage_ops whole = {never, never, never, NULL, NULL},
                                       half = {never, NULL, NULL, never, NULL};
    static const struct {
        struct weft_stage stages[2];
        enum weft_status status;
        const char *message;
    } cases[] = {
        {{{.ops = &whole, .in_bytes = 0, .out_bytes = 8},
          {.ops = &whole, .in_bytes = 8, .out_bytes = 0}},
         WEFT_OK,
         ""},
        {{{.ops = &whole, .in_bytes = 0, .out_bytes = 8},
          {.ops = &whole, .in_bytes = 16, .out_bytes = 0}},
         WEFT_USAGE,
         "stage 0 has the output u8[1,8] per row, but stage 1 has the input u8[1,16]"},
        {{{.ops = &whole, .in_bytes = 0, .out_bytes = 8},
          {.ops = NULL, .in_bytes = 8, .out_bytes = 0}},
         WEFT_USAGE,
         "runs stage 1, but this stage"},
        {{{.ops = &half, .in_bytes = 0, .out_bytes = 8},
          {.ops = &whole, .in_bytes = 8, .out_bytes = 0}},
         WEFT_USAGE,
         "runs stage 0, but this stage"},
        {{{.ops = &whole, .in_bytes = 0, .out_bytes = SIZE_MAX / 2},
          {.ops = &whole, .in_bytes = SIZE_MAX / 2, .out_bytes = 0}},
         WEFT_NOMEM,
         "output of stage 0"},
    };

    struct weft_gen_params params = {.ranks = 1, .micros = 2, .chunks = 2};
    const uint32_t rows[] = {1, 3};
    struct weft_program *p = NULL;
    struct weft_schedule *s = make(&params, "gpipe");

    (void)state;
    assert_int_equal(weft_program_new(s, 0, NULL, &p, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err = {.msg = ""};
        struct weft_exec *e = NULL;
        struct weft_exec_setup setup = {.program = p, .stages = cases[i].stages, .rows = rows};

        enum weft_status st = weft_exec_new(&setup, &e, &err);
        if (st != cases[i].status || strstr(err.msg, cases[i].message) == NULL)
            fail_msg("case %zu: status %d: %s", i, st, err.msg);
        weft_exec_free(e);
    }

    weft_program_free(p);
    weft_schedule_free(s);
}

int main(int argc, char **argv)
{
    launch = forked_select(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generators), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_tight),      cmocka_unit_test(test_empty_slots),
        cmocka_unit_test(test_setup),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL) != 0;
}
