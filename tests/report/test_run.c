/* Runs as they are found: cut lines, restarts, nothing at all; and why ranks are idle, against the
 * simulator, which knows the schedule. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/report/page_priv.h"
#include "training/report/report.h"
#include "training/report/run.h"

static void put(const struct folder *f, const char *name, const char *mode, const char *text)
{
    FILE *out = fopen(folder_in(f, name), mode);
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void check_metrics(void **state)
{
    struct folder f = folder_new();
    struct wf_run run;
    assert_int_equal(wf_run_init(&run, f.path, NULL), WEFT_OK);
    assert_int_equal(wf_run_update(&run, NULL), WEFT_DATA); /* no run yet */
    put(&f, "metrics.jsonl", "w",
        "{\"step\":1,\"loss\":4,\"ms\":2}\n{\"step\":2,\"loss\":null}\nnonsense\n"
        "{\"step\":3,\"loss\":2}\n{\"loss\":1}\n{\"step\":4,\"lo");
    assert_int_equal(wf_run_update(&run, NULL), WEFT_OK);
    assert_int_equal(run.n_points, 3);
    assert_int_equal(run.n_malformed, 2);
    assert_true(isnan(run.points[1].loss) && run.points[2].loss == 2);
    assert_true(isnan(run.points[2].val_loss) && run.points[0].ms == 2);
    put(&f, "metrics.jsonl", "a", "ss\":1.5}\n{\"step\":4,\"val_loss\":9}\n");
    assert_int_equal(wf_run_update(&run, NULL), WEFT_OK);
    assert_int_equal(run.n_points, 4); /* the line that was cut is whole by now */
    assert_true(run.points[3].loss == 1.5 && run.points[3].val_loss == 9);
    put(&f, "metrics.jsonl", "a", "{\"step\":3,\"loss\":7}\n"); /* again from a checkpoint */
    assert_int_equal(wf_run_update(&run, NULL), WEFT_OK);
    assert_true(run.n_points == 3 && run.n_restarts == 1 && run.points[2].loss == 7);
    assert_true(wf_run_last(&run, WF_RUN_COLUMN(loss)) == 7);
    assert_true(wf_run_mean(&run, WF_RUN_COLUMN(loss), 2) == 5.5); /* 7 and 4: 2 has none */
    assert_true(wf_run_min(&run, WF_RUN_COLUMN(loss)) == 4);
    put(&f, "metrics.jsonl", "w", "{\"step\":1,\"loss\":8}\n"); /* another file */
    assert_int_equal(wf_run_update(&run, NULL), WEFT_OK);
    assert_true(run.n_points == 1 && run.n_restarts == 0 && run.points[0].loss == 8);
    wf_run_release(&run);
    folder_remove(&f);
    (void)state;
}

static void check_names(void **state)
{
    static const struct {
        const char *dir, *name;
    } cases[] = {{"runs/a", "a"},    {"runs/a//", "a"},        {"a", "a"},
                 {"/", "run"},       {"/usr/.", "usr"},        {"/usr/lib/..", "usr"},
                 {"x/<b>&", "<b>&"}, {"x/\x1b[1m\n", "?[1m?"}, {"\xff", "?"}};
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_run run;
        assert_int_equal(wf_run_init(&run, cases[i].dir, NULL), WEFT_OK);
        assert_string_equal(run.name, cases[i].name);
        wf_run_release(&run);
    }
    (void)state;
}

/* Times of stages all unlike, so that there is imbalance and waiting. */
static void check_idle_of(const char *name, uint32_t ranks, uint32_t micros, uint32_t chunks,
                          double hop)
{
    struct weft_gen_params params = {.ranks = ranks, .micros = micros, .chunks = chunks};
    struct weft_schedule *s = NULL;
    double f[64], i[64], w[64];
    for (int k = 0; k < 64; k++) {
        f[k] = 1 + k * 5 % 3 * 0.25;
        i[k] = 1 + k * 7 % 4 * 0.25;
        w[k] = 1 + k * 3 % 5 * 0.125;
    }
    assert_int_equal(weft_schedule_generate(name, &params, &s, NULL), WEFT_OK);
    size_t n = weft_schedule_placement(s)->n_stages;
    const struct weft_cost cost = {.f = {f, n}, .i = {i, n}, .w = {w, n}, .hop = hop};
    const struct weft_sim_options options = {.cost = &cost};
    struct weft_sim sim;
    struct weft_metrics m;
    struct wf_run_trace t = {0};
    assert_int_equal(weft_sim_init(&sim, s, &options, NULL), WEFT_OK);
    assert_int_equal(weft_metrics_init(&m, s, &cost, NULL, NULL), WEFT_OK);
    assert_int_equal(weft_trace_init_plan(&t.trace, s, &m, NULL, NULL), WEFT_OK);
    assert_int_equal(wf_run_trace_explain(&t, NULL), WEFT_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        const struct weft_idle_time *a = &t.idle[r], *b = &sim.idle[r];
        double busy = 0;
        assert_true(fabs(a->warm_up - b->warm_up) < 1e-9);
        assert_true(fabs(a->drain - b->drain) < 1e-9);
        assert_true(fabs(a->communication - b->communication) < 1e-9);
        assert_true(fabs(a->imbalance - b->imbalance) < 1e-9);
        assert_true(fabs(a->data - b->data) < 1e-9);
        for (size_t k = 0; k < WEFT_N_ACT_KINDS; k++)
            busy += t.busy[r * WEFT_N_ACT_KINDS + k];
        assert_true(fabs(busy + a->warm_up + a->drain + a->communication + a->imbalance +
                         a->data - t.trace.makespan) < 1e-9);
    }
    wf_run_trace_release(&t);
    weft_metrics_release(&m);
    weft_sim_release(&sim);
    weft_schedule_free(s);
}

static void check_idle(void **state)
{
    static const struct {
        const char *name;
        uint32_t chunks;
    } schedules[] = {
        {"gpipe", 0}, {"1f1b", 0}, {"zb-h1", 0}, {"interleaved-1f1b", 2}, {"zb-v", 0}};
    for (size_t k = 0; k < WEFT_LEN(schedules); k++)
        for (uint32_t ranks = 2; ranks <= 8; ranks *= 2)
            for (int hop = 0; hop < 2; hop++)
                check_idle_of(schedules[k].name, ranks, 2 * ranks, schedules[k].chunks,
                              hop * 0.375);
    (void)state;
}

static char *page_of(const struct folder *f)
{
    char *text = NULL;
    size_t len;
    const char *dirs[] = {f->path};
    FILE *out = open_memstream(&text, &len);
    assert_int_equal(wf_report_write(out, dirs, 1, NULL), WEFT_OK);
    fclose(out);
    return text;
}

/* Whatever is missing or broken, there is a page. */
static void check_missing(void **state)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        {"metrics.jsonl", ""},
        {"metrics.jsonl", "{\"step\":1}\n"},
        {"metrics.jsonl", "{\"step\":1,\"loss\":null}\n"},
        {"metrics.jsonl", "{\"step\":1,\"loss\":1e999}\n"},
        {"metrics.jsonl", "{\"step\":1,\"loss\":3,\"ms\":0,\"tok_s\":0,\"bubble\":1}\n"},
        {"config.yaml", "model: ]["},
        {"plan.json", "{}"},
        {"samples.jsonl",
         "{\"step\":1,\"text\":\"</script><img src=x onerror=alert(1)>\\u0007\"}\n7\n"},
        {"schedule.csv", "0F0\n"},
    };
    struct folder f = folder_new();
    for (size_t i = 0; i < WEFT_LEN(files); i++) {
        put(&f, files[i].name, "w", files[i].text);
        char *page = page_of(&f);
        assert_non_null(strstr(page, "</html>"));
        assert_null(strstr(page, "nan"));
        assert_null(strstr(page, "<img"));
        assert_null(strchr(page, '\a'));
        assert_null(strstr(page, "/tmp/"));
        free(page);
    }
    folder_remove(&f);
    (void)state;
}

/* A hundred thousand steps are not a hundred thousand points. */
static void check_huge(void **state)
{
    struct folder f = folder_new();
    FILE *out = fopen(folder_in(&f, "metrics.jsonl"), "w");
    for (int i = 1; i <= 100000; i++)
        fprintf(out,
                "{\"step\":%d,\"loss\":%.17g,\"grad_norm\":%.17g,\"lr\":%.17g,\"ms\":%.17g,"
                "\"tok_s\":%.17g,\"mfu\":%.17g,\"bubble\":%.17g,\"bubble_plan\":0.1}\n",
                i, 3 + sin(i * 0.7), 1 + cos(i * 1.3), 1e-3 / i, 800 + 50 * sin(i * 2.1),
                1e4 + 99 * sin(i), 0.4 + 0.1 * sin(i * 3.3), 0.2 + 0.1 * cos(i * 0.1));
    fclose(out);
    char *page = page_of(&f);
    assert_true(strlen(page) < 2000000);
    free(page);
    folder_remove(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_metrics), cmocka_unit_test(check_names),
        cmocka_unit_test(check_idle),    cmocka_unit_test(check_missing),
        cmocka_unit_test(check_huge),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL) != 0;
}
