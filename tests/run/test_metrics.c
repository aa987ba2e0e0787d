/* Checks metrics.jsonl: every line is JSON, numbers are read back unchanged, and existing files
 * are appended to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>
#include <cmocka.h>

#include "folder.h"
#include "training/run/metrics.h"

static void check_rates(void **state)
{
    struct wf_metrics_record r = {.tokens = 3000, .ms = 1500};
    wf_metrics_rates(&r, 6e6, 48e9);
    assert_true(r.tok_s == 2000);
    assert_true(fabs(r.mfu - 0.25) < 1e-15); /* 2000 * 6e6 = 12e9 of 48e9 */
    r.ms = 0;
    wf_metrics_rates(&r, 6e6, 48e9);
    assert_true(r.tok_s == 0 && r.mfu == 0);
    (void)state;
}

static double get(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void check_line(FILE *in, const struct wf_metrics_record *want)
{
    char text[1024];
    assert_non_null(fgets(text, sizeof text, in));
    json_t *line = json_loads(text, 0, NULL);
    assert_non_null(line);
    assert_int_equal(json_object_size(line), 10);
    assert_true(get(line, "step") == (double)want->step);
    assert_true(get(line, "loss") == want->loss);
    assert_true(get(line, "grad_norm") == want->grad_norm);
    assert_true(get(line, "lr") == want->lr);
    assert_true(get(line, "tokens") == (double)want->tokens);
    assert_true(get(line, "ms") == want->ms);
    assert_true(get(line, "tok_s") == want->tok_s);
    assert_true(get(line, "mfu") == want->mfu);
    assert_true(get(line, "bubble") == want->bubble);
    assert_true(get(line, "bubble_plan") == want->bubble_plan);
    json_decref(line);
}

static void check_log(void **state)
{
    const struct wf_metrics_record records[] = {
        {1, 1.0 / 3, 0.1 + 0.2, 3e-4, 192, 8.125, 23630.76923076923, 0.3, 0, 0, 0},
        {2, 4.940656458412465e-324, 1e300, 0, 1, 1e-3, 1e6, 1, 0.183, 0.179, 0},
    };

    struct folder f = folder_new();
    const char *path = folder_in(&f, "metrics.jsonl");
    for (int i = 0; i < 2; i++) { /* closed and opened again between them */
        struct wf_metrics_log *log = NULL;
        assert_int_equal(wf_metrics_log_new(path, &log, NULL), WEFT_OK);
        assert_int_equal(wf_metrics_log_add(log, &records[i], NULL), WEFT_OK);

        /* Lines are flushed: other processes see them before the file is closed. */
        FILE *in = fopen(path, "r");
        assert_non_null(in);
        for (int k = 0; k <= i; k++)
            check_line(in, &records[k]);
        assert_int_equal(fgetc(in), EOF);
        fclose(in);

        wf_metrics_log_free(log);
    }

    folder_remove(&f);
    (void)state;
}

static void check_errors(void **state)
{
    struct wf_metrics_log *log = NULL;
    struct weft_error err = {0};
    assert_int_equal(wf_metrics_log_new("nowhere/at/all.jsonl", &log, &err), WEFT_IO);
    assert_non_null(strstr(err.msg, "nowhere/at/all.jsonl"));
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(wf_metrics_log_new("/dev/full", &log, &err), WEFT_OK);
        assert_int_equal(wf_metrics_log_add(log, &(struct wf_metrics_record){0}, &err),
                         WEFT_IO);
        wf_metrics_log_free(log);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_rates),
        cmocka_unit_test(check_log),
        cmocka_unit_test(check_errors),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL) != 0;
}
