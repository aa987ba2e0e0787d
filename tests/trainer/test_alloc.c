/* Checks that steps after the first one allocate nothing.  It counts the calls of all
 * allocation functions. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/model/stage.h"
#include "counter.h"
#include "runs.h"

static void check_steps(void **state)
{
    if (!COUNTER_WORKS)
        skip();

    static const char *const recompute[] = {"none", "full"};
    for (size_t i = 0; i < 2; i++) {
        struct wf_train_settings s;
        struct weft_error err = {0};
        struct wf_step_result result;

        run_settings(&s, *state);
        run_set(&s, "train.recompute", recompute[i]);
        run_set(&s, "parallel.threads", "2");
        struct wf_trainer *t = run_trainer(&s);
        assert_int_equal(wf_trainer_step(t, &result, &err), WEFT_OK);

        size_t before = counter_calls();
        for (int step = 0; step < 3; step++)
            assert_int_equal(wf_trainer_step(t, &result, &err), WEFT_OK);
        size_t after = counter_calls();

        assert_true(before > 0);
        assert_int_equal(after - before, 0);

        wf_trainer_free(t);
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"gpt2", check_steps, NULL, NULL, (void *)"gpt2-tiny"},
        {"llama", check_steps, NULL, NULL, (void *)"llama-tiny"},
        {"block residuals", check_steps, NULL, NULL, (void *)"llama-tiny-tied-residual"},
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL) != 0;
}
