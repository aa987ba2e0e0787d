/* Checks that steps on four ranks allocate nothing, by counting the calls of all allocators. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "counter.h"
#include "tracer.h"

static void check_steps(void **state)
{
    struct weft_gen_params params = {.ranks = 4, .micros = 8};
    if (!COUNTER_WORKS)
        skip();

    for (uint32_t blocks = 0; blocks < 2; blocks++) {
        struct weft_schedule *s = NULL;
        struct weft_error err = {.msg = ""};
        struct tracer_model model;

        assert_int_equal(weft_schedule_generate(*state, &params, &s, &err), WEFT_OK);
        tracer_model_init(&model, weft_schedule_placement(s), 1, 7);
        model.has_outputs = model.tensors = model.vary_rows = blocks == 0;
        for (uint32_t i = 0; blocks > 0 && i < model.n_stages; i++) {
            model.words[i] = 4;
            model.row_elements = 8;
            model.finished_by[model.n_blocks++] = i;
        }

        struct tracer_run run = {.schedule = s,
                                 .model = &model,
                                 .steps = TRACER_STEPS,
                                 .evals = 2,
                                 .cache = WEFT_BLOCK_CACHE_FULL,
                                 .allocations = counter_calls};

        size_t before = counter_calls();
        if (tracer_run(&run, 1, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        assert_true(counter_calls() > before); /* the counter works */

        weft_schedule_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"1f1b", check_steps, NULL, NULL, (void *)"1f1b"},
        {"zb-v", check_steps, NULL, NULL, (void *)"zb-v"},
        {"interleaved-zb", check_steps, NULL, NULL, (void *)"interleaved-zb"},
        {"dualpipe", check_steps, NULL, NULL, (void *)"dualpipe"},
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL) != 0;
}
