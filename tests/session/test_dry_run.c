/* Checks the figures of dry runs against formulas, and the events of a dry run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>

#include "../trainer/runs.h"
#include "base/cores.h"
#include "base/error.h"
#include "training/session/dry_run.h"

/* The reference run: GPT-2 with 128 tied tokens; 8 sequences in 4 micro-batches. */
enum { VOCAB = 128, DIM = 48, SEQ = 24, BATCH = 8, MICROS = 4, PARAMS = 122400 };

static int set_up(void **state)
{
    struct wf_train_settings *s = calloc(1, sizeof *s);
    assert_non_null(s);
    run_settings(s, "gpt2-tiny");
    run_set(s, "parallel.threads", "1");
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    wf_settings_release(wf_train_setting_list(), *state);
    free(*state);
    return 0;
}

static void init(struct wf_dry_run *d, const struct wf_train_settings *s)
{
    struct weft_error err = {0};
    if (wf_dry_run_init(d, s, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

/* A pipeline sends each activation once forward and its gradient once backward.  Both ranks have
 * the tied embedding. */
static void check_pipeline(void **state)
{
    struct wf_train_settings *s = *state;
    struct wf_dry_run d;
    const size_t one_way = sizeof(float) * BATCH * SEQ * DIM;
    size_t total;
    run_set(s, "parallel.pp", "2");
    init(&d, s);
    assert_int_equal(d.n_params, PARAMS);
    assert_true(d.token_flops > 0);
    assert_int_equal(wf_topology_total_bytes(&d.topology, false, &total, NULL), WEFT_OK);
    assert_int_equal(d.total_bytes, total);
    assert_int_equal(d.ranks[0].total + d.ranks[1].total, total);
    assert_string_equal(d.recompute, "none");

    assert_int_equal(d.pipeline_bytes, 2 * one_way);
    assert_int_equal(d.busiest.forward_bytes + d.busiest.backward_bytes, one_way);
    assert_int_equal(d.busiest.from + d.busiest.to, 1);
    assert_int_equal(d.weight_bytes, sizeof(float) * VOCAB * DIM);
    assert_int_equal(d.gradient_bytes, sizeof(int64_t) * VOCAB * DIM);

    assert_int_equal(d.plan.n_ranks, 2);
    assert_int_equal(d.plan.n_events, 2 * MICROS * 2); /* a forward and a backward each */
    assert_true(d.peak_flops > 0 && d.plan.unit_seconds == 1 / d.peak_flops);
    wf_dry_run_release(&d);
}

/* Replicas send no activations, and exchange all parameters. */
static void check_replicas(void **state)
{
    struct wf_train_settings *s = *state;
    struct wf_dry_run d;
    run_set(s, "parallel.dp", "2");
    run_set(s, "train.reduction", "fast");
    run_set(s, "train.recompute", "full:0-1");
    init(&d, s);
    assert_int_equal(d.pipeline_bytes, 0);
    assert_in_range(d.weight_bytes, sizeof(float) * PARAMS, sizeof(float) * (PARAMS + 16 * 52));
    assert_int_equal(d.gradient_bytes, d.weight_bytes); /* fast sums are fp32 */
    assert_string_equal(d.recompute, "full:0-1");
    wf_dry_run_release(&d);
}

/* Under a launcher this process is one rank, so that the rank has all cores of the process. */
static void check_launched(void **state)
{
    struct wf_train_settings *s = *state;
    struct wf_dry_run d;
    run_set(s, "parallel.pp", "2");
    run_set(s, "parallel.threads", "auto");
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    init(&d, s);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    assert_int_equal(d.topology.threads, wf_cores_available());
    wf_dry_run_release(&d);
}

/* -- events --------------------------------------------------------------------------------- */

static void count_event(void *arg, const struct wf_session_event *e)
{
    int *n = arg;
    assert_int_equal(e->kind, WF_SESSION_EVENT_DRY_RUN);
    assert_int_equal(e->n_ranks, 2);
    assert_int_equal(e->dry_run->n_params, PARAMS);
    (*n)++;
}

/* The figures are emitted before a lack of memory is reported, but not if the data is missing. */
static void check_events(void **state)
{
    struct wf_train_settings *s = *state;
    int n = 0;
    struct wf_session session = {.settings = s, .on_event = count_event, .arg = &n};
    run_set(s, "parallel.pp", "2");
    assert_int_equal(wf_session_dry_run(&session, NULL), WEFT_OK);
    assert_int_equal(n, 1);
    run_set(s, "train.memory_limit", "100000");
    assert_int_equal(wf_session_dry_run(&session, NULL), WEFT_NOMEM);
    assert_int_equal(n, 2);
    run_set(s, "data.train", "/nonexistent");
    assert_int_equal(wf_session_dry_run(&session, NULL), WEFT_DATA);
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check_pipeline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_replicas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_launched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(check_events, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("dry_run", tests, NULL, NULL) != 0;
}
