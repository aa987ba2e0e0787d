/* Chooses layouts for a small model on this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../trainer/runs.h"
#include "base/error.h"
#include "training/layout/choose.h"
#include "training/layout/topology.h"
#include "training/trainer/load.h"

static void choose(struct wf_train_settings *s, struct wf_layout_choice *out)
{
    struct weft_model model;
    struct weft_error err = {0};
    assert_int_equal(wf_load_run_model(s, &model, NULL), WEFT_OK);
    if (wf_layout_choose(s, &model, NULL, out, &err) != WEFT_OK)
        fail_msg("%s", err.msg);

    /* The choice can run. */
    struct wf_topology topology;
    assert_false(s->parallel.automatic);
    assert_int_equal(wf_topology_init(&topology, s, &model, NULL), WEFT_OK);
    wf_topology_release(&topology);
}

/* The first candidate is stored in the settings, and divisions differ from each other. */
static void check_free(void **state)
{
    enum { MAX = 64 };
    const struct wf_auto_candidate *rows[MAX];
    struct wf_train_settings s;
    struct wf_layout_choice choice;
    (void)state;
    run_settings(&s, "gpt2-tiny");
    s.parallel.automatic = true;
    choose(&s, &choice);
    const struct wf_auto_candidate *best = &choice.candidates.at[0];
    assert_int_equal(s.parallel.pp, best->pp);
    assert_int_equal(s.parallel.dp, best->dp);
    assert_int_equal(s.parallel.threads, best->threads);
    assert_string_equal(s.parallel.schedule, best->schedule);
    assert_int_equal(choice.default_micros, s.parallel.micros);
    assert_true(choice.n_profiles > 0 && choice.profiles[0].layer.f > 0);

    size_t n = wf_layout_choice_divisions(&choice, rows, MAX);
    assert_true(n > 0);
    assert_ptr_equal(rows[0], best);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            assert_false(rows[i]->pp == rows[k]->pp && rows[i]->dp == rows[k]->dp &&
                         rows[i]->threads == rows[k]->threads);
    assert_int_equal(wf_layout_choice_divisions(&choice, rows, 1), 1);
    wf_layout_choice_release(&choice);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* Given keys are kept. */
static void check_given(void **state)
{
    struct wf_train_settings s;
    struct wf_layout_choice choice;
    (void)state;
    run_settings(&s, "gpt2-tiny");
    run_set(&s, "parallel.pp", "2");
    run_set(&s, "parallel.threads", "1");
    run_set(&s, "parallel.schedule", "gpipe");
    s.parallel.automatic = true;
    choose(&s, &choice);
    assert_int_equal(s.parallel.pp, 2);
    assert_int_equal(s.parallel.threads, 1);
    assert_string_equal(s.parallel.schedule, "gpipe");
    for (size_t i = 0; i < choice.candidates.n; i++)
        assert_string_equal(choice.candidates.at[i].schedule, "gpipe");
    wf_layout_choice_release(&choice);
    wf_settings_release(wf_train_setting_list(), &s);
}

/* parallel.micros that is not given is raised to the minimum that can run. */
static void check_micros(void **state)
{
    struct wf_train_settings s;
    struct wf_layout_choice choice;
    (void)state;
    run_settings(&s, "gpt2-tiny");
    run_set(&s, "parallel.dp", "3");
    run_set(&s, "parallel.threads", "1");
    s.parallel.micros = 1;
    s.parallel.given.micros = false;
    s.parallel.automatic = true;
    choose(&s, &choice);
    assert_int_equal(choice.default_micros, 1);
    assert_int_equal(s.parallel.micros, 3);
    wf_layout_choice_release(&choice);
    wf_settings_release(wf_train_setting_list(), &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_free),
        cmocka_unit_test(check_given),
        cmocka_unit_test(check_micros),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL) != 0;
}
