/* Every schedule by name, run on threads with stages in exact arithmetic: the same numbers as one
 * after the other, and nothing lies in memory longer or shorter than it should. */
#include "weft/exec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tracer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 4 }; /* of the cases, one in so many */
#else
enum { EVERY = 1 };
#endif

static const uint32_t micros[] = {1, 2, 3, 4, 6, 8};

typedef void check_fn(const struct weft_schedule *s, const struct weft_params *params,
                      const char *name, uint64_t number);

/* All sizes that a schedule accepts; returns how many. */
static size_t for_all(check_fn *check)
{
    size_t n_generators, n = 0;
    const struct weft_generator *all = weft_generators(&n_generators);
    for (size_t g = 0; g < n_generators; g++) {
        size_t before = n;
        bool chunks = all[g].takes & WEFT_TAKES_CHUNKS; /* else it has its own number */
        for (uint32_t i = 0; i < 4 * 3 * WEFT_LEN(micros); i++) {
            struct weft_params params = {.ranks = 1 + i % 4,
                                         .chunks = chunks ? 1 + i / 4 % 3 : 0,
                                         .micros = micros[i / 12]};
            if (!chunks && i / 4 % 3 > 0)
                continue;
            struct weft_schedule *s = NULL;
            if (weft_schedule_make(all[g].name, &params, &s, NULL) != WEFT_OK)
                continue;
            if (n++ % EVERY == 0)
                check(s, &params, all[g].name, n);
            weft_schedule_free(s);
        }
        assert_true(n > before); /* every one accepts some */
    }
    return n;
}

static void run_or_fail(struct tracer_run *run, const struct weft_params *params,
                        const char *name)
{
    struct weft_error err = {.msg = ""};
    if (tracer_run(run, &err) != WEFT_OK)
        fail_msg("%s, %u ranks, %u chunks, %u micros%s%s: %s", name, params->ranks,
                 params->chunks, params->micros, run->copying ? ", copying" : "",
                 run->lay_slots ? ", slots in one piece" : "", err.msg);
}

/* -- results, slots, events, bytes ------------------------------------------------------------ */

static void check_plain(const struct weft_schedule *s, const struct weft_params *params,
                        const char *name, uint64_t number)
{
    struct tracer_model model;
    tracer_model_init(&model, weft_schedule_placement(s), number % 2 == 0 ? 1 : 3, number);
    for (int copying = 0; copying < 2; copying++) {
        struct tracer_run run = {.schedule = s,
                                 .model = &model,
                                 .steps = 2,
                                 .lay_slots = (number + (uint64_t)copying) % 2 == 0,
                                 .copying = copying != 0};
        run_or_fail(&run, params, name);
    }
}

static void test_generators(void **state)
{
    (void)state;
    assert_true(for_all(check_plain) > 600);
}

/* -- block residuals -------------------------------------------------------------------------- */

static void check_blocks(const struct weft_schedule *s, const struct weft_params *params,
                         const char *name, uint64_t number)
{
    struct tracer_model model;
    tracer_model_init(&model, weft_schedule_placement(s), 1, number);
    /* A block and an activation have as many bytes, and all micros too: so the figures are made. */
    model.row_elements = 2 * (1 + number % 5);
    for (uint32_t i = 0; i < model.n_stages; i++)
        model.words[i] = model.row_elements / 2;
    for (uint32_t i = 0; i < model.n_micros; i++)
        model.rows[i] = 1 + number % 3;
    model.finished_by[model.n_blocks++] = 0;
    for (uint32_t i = 0; i < model.n_stages && model.n_blocks < TRACER_STAGES; i++)
        if ((number + i) % 3 != 0)
            model.finished_by[model.n_blocks++] = i;
    for (int cache = WEFT_BLOCKS_OFF; cache <= WEFT_BLOCKS_FULL; cache++) {
        struct tracer_run run = {.schedule = s,
                                 .model = &model,
                                 .steps = 2,
                                 .cache = (enum weft_block_cache)cache,
                                 .copying = (number + (uint64_t)cache) % 2 == 0};
        run_or_fail(&run, params, name);
    }
}

static void test_blocks(void **state)
{
    (void)state;
    assert_true(for_all(check_blocks) > 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generators),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL) != 0;
}
