/* Checks reading run directories with truncated lines, restarts and missing files. */
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
    assert_int_equal(wf_run_update(&run, NULL), WEFT_DATA); /* not a run yet */

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
    assert_int_equal(run.n_points, 4); /* the truncated line is complete now */
    assert_true(run.points[3].loss == 1.5 && run.points[3].val_loss == 9);

    put(&f, "metrics.jsonl", "a", "{\"step\":3,\"loss\":7}\n"); /* resumed from a checkpoint */
    assert_int_equal(wf_run_update(&run, NULL), WEFT_OK);
    assert_true(run.n_points == 3 && run.n_restarts == 1 && run.points[2].loss == 7);

    assert_true(wf_run_last(&run, WF_RUN_COLUMN(loss)) == 7);
    assert_true(wf_run_mean(&run, WF_RUN_COLUMN(loss), 2) ==
                5.5); /* 7 and 4: step 2 has no loss */
    assert_true(wf_run_min(&run, WF_RUN_COLUMN(loss)) == 4);

    put(&f, "metrics.jsonl", "w", "{\"step\":1,\"loss\":8}\n"); /* the file was replaced */
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

/* A page is written even if files are missing or lines of metrics are malformed. */
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
        {"samples.jsonl",
         "{\"step\":1,\"text\":\"</script><img src=x onerror=alert(1)>\\u0007\"}\n{\"st"},
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

/* A damaged file is named; nothing is left out silently.  A pipe is not waited for. */
static void check_damaged(void **state)
{
    static const struct {
        const char *name, *text; /* NULL: a pipe */
    } files[] = {
        {"config.yaml", "model: ]["}, {"plan.json", "{}"},   {"samples.jsonl", "7\n"},
        {"samples.jsonl", NULL},      {"config.yaml", NULL}, {"metrics.jsonl", NULL},
        {"checkpoints", ""},
    };
    for (size_t i = 0; i < WEFT_LEN(files); i++) {
        struct folder f = folder_new();
        struct weft_error err = {.msg = ""};
        const char *const dirs[] = {f.path};
        put(&f, "metrics.jsonl", "w", "{\"step\":1,\"loss\":3}\n");
        if (files[i].text != NULL) {
            put(&f, files[i].name, "w", files[i].text);
        } else {
            remove(folder_in(&f, files[i].name));
            assert_int_equal(mkfifo(folder_in(&f, files[i].name), 0666), 0);
        }
        assert_int_equal(wf_report_write_file(folder_in(&f, "page.html"), dirs, 1, &err),
                         WEFT_DATA);
        assert_non_null(strstr(err.msg, files[i].name));
        assert_int_not_equal(access(folder_in(&f, "page.html"), F_OK), 0);
        folder_remove(&f);
    }
    (void)state;
}

/* Charts of 100,000 steps are decimated. */
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

/* The page is written as report.html of the run, and not at all if there is no run. */
static void check_file(void **state)
{
    struct folder f = folder_new();
    const char *dirs[] = {f.path};
    char *path = wf_report_path(f.path);
    assert_string_equal(path, folder_in(&f, "report.html"));
    assert_int_equal(wf_report_write_file(path, dirs, 1, NULL), WEFT_DATA);
    assert_int_equal(folder_count(&f), 0);

    put(&f, "metrics.jsonl", "w", "{\"step\":1,\"loss\":4,\"ms\":2}\n");
    assert_int_equal(wf_report_write_file(path, dirs, 1, NULL), WEFT_OK);
    char begin[16] = "";
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_non_null(fgets(begin, sizeof begin, in));
    fclose(in);
    assert_string_equal(begin, "<!DOCTYPE html>");
    free(path);
    folder_remove(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_metrics), cmocka_unit_test(check_file),
        cmocka_unit_test(check_names),   cmocka_unit_test(check_missing),
        cmocka_unit_test(check_damaged), cmocka_unit_test(check_huge),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL) != 0;
}
