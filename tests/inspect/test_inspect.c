/* Checks that inspect recognizes kinds of files and directories and reports
 * facts about them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/inspect/inspect.h"

#define TINY WEFT_TEST_DATA "/train/gpt2-tiny"

static void put(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void check_kinds(void **state)
{
    static const struct {
        const char *name, *text;
        enum wf_artifact want;
    } files[] = {
        {"a", "# weft schedule v1\n", WF_ARTIFACT_SCHEDULE},
        {"a.csv", "anything", WF_ARTIFACT_SCHEDULE},
        {"a.jsonl", "{}", WF_ARTIFACT_METRICS},
        {"a.yaml", "train: {}", WF_ARTIFACT_SETTINGS},
        {"a.trace", "anything", WF_ARTIFACT_TRACE},
        {"a.safetensors", "anything", WF_ARTIFACT_SAFETENSORS},
        {"a.bin", "anything", WF_ARTIFACT_SHARDS},
        {"words", "some words", WF_ARTIFACT_UNKNOWN},
        {"0", "weftrank", WF_ARTIFACT_FLIGHT},
    };
    struct folder dir = folder_new();
    enum wf_artifact kind;
    for (size_t i = 0; i < WEFT_LEN(files); i++) {
        put(folder_in(&dir, files[i].name), files[i].text);
        assert_int_equal(wf_artifact_detect(folder_in(&dir, files[i].name), &kind, NULL),
                         WEFT_OK);
        assert_int_equal(kind, files[i].want);
    }
    put(folder_in(&dir, "empty"), "");
    assert_int_equal(wf_artifact_detect(folder_in(&dir, "empty"), &kind, NULL), WEFT_DATA);
    assert_int_equal(wf_artifact_detect(folder_in(&dir, "missing"), &kind, NULL), WEFT_DATA);

    assert_int_equal(wf_artifact_detect(TINY, &kind, NULL), WEFT_OK);
    assert_int_equal(kind, WF_ARTIFACT_MODEL);
    assert_int_equal(wf_artifact_detect(dir.path, &kind, NULL), WEFT_OK);
    assert_int_equal(kind, WF_ARTIFACT_SHARDS);
    put(folder_in(&dir, "config.yaml"), "{}");
    assert_int_equal(wf_artifact_detect(dir.path, &kind, NULL), WEFT_OK);
    assert_int_equal(kind, WF_ARTIFACT_RUN);
    folder_remove(&dir);
    (void)state;
}

static void check_metrics(void **state)
{
    struct folder dir = folder_new();
    const char *path = folder_in(&dir, "metrics.jsonl");
    struct wf_metrics_info m;
    put(path,
        "{\"step\":1,\"loss\":2}\n{\"step\":2,\"loss\":null}\n{\"step\":1,\"loss\":3}\n{\"st");
    assert_int_equal(wf_metrics_inspect(path, &m, NULL), WEFT_OK);
    assert_true(m.lines == 3 && m.last_step == 1 && m.restarts == 1 && m.truncated);
    assert_true(m.first_loss == 2 && m.last_loss == 3);
    put(path, "{\"step\":1,\"loss\":2}\n{\"step\":3,\"loss\":2}\n");
    assert_int_equal(wf_metrics_inspect(path, &m, NULL), WEFT_DATA);
    put(path, "{\"step\":0,\"loss\":2}\n");
    assert_int_equal(wf_metrics_inspect(path, &m, NULL), WEFT_DATA);
    folder_remove(&dir);
    (void)state;
}

static void check_model(void **state)
{
    struct wf_model_info m;
    struct wf_shards_info s;
    assert_int_equal(wf_model_inspect(&m, TINY, NULL), WEFT_OK);
    assert_int_equal(m.params.n, 52);
    assert_int_equal(m.n_params, 122400);
    for (size_t i = 0; i < m.params.n; i++)
        assert_non_null(wf_model_info_locate(&m, i).file);
    wf_model_info_release(&m);
    assert_int_equal(wf_shards_inspect(TINY "/tokens.bin", &s, NULL), WEFT_OK);
    assert_true(s.n_tokens == 1537 && s.n_files == 1 && s.width == 2 && s.largest == 127);
    (void)state;
}

static void check_run(void **state)
{
    struct folder dir = folder_new();
    struct wf_run_info r;
    put(folder_in(&dir, "config.yaml"), "train: {steps: 7}\n");
    put(folder_in(&dir, "metrics.jsonl"), "{\"step\":1,\"loss\":2}\n");
    assert_int_equal(wf_run_inspect(&r, dir.path, NULL), WEFT_OK);
    assert_true(r.has_settings && r.has_metrics && !r.has_model && !r.finished);
    assert_true(r.settings.train.steps == 7 && r.metrics.last_step == 1 && r.n_traces == 0);
    wf_run_info_release(&r);
    put(folder_in(&dir, "config.yaml"), "train: {stepps: 7}\n");
    assert_int_equal(wf_run_inspect(&r, dir.path, NULL), WEFT_DATA);
    folder_remove(&dir);
    (void)state;
}

/* -- any path ------------------------------------------------------------------------------- */

/* Returns what was written to `out`, which is closed.  Valid until the next call. */
static const char *text_of(FILE *out)
{
    static char text[4096];
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    return text;
}

/* Reads a path and returns its JSON. */
static const char *json_of(const char *path)
{
    struct wf_inspection v;
    struct wf_json j = {.out = tmpfile()};
    assert_int_equal(wf_inspect(&v, path, wf_input_read_as, NULL), WEFT_OK);
    wf_inspection_write_json(&j, &v, path);
    wf_inspection_release(&v);
    return text_of(j.out);
}

static void put_llmc(const char *path)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fwrite("\xc6\xd7\x34\x01", 1, 4, out); /* 20240326 */
    fclose(out);
}

static void check_any(void **state)
{
    struct folder dir = folder_new();
    struct wf_inspection v;
    struct weft_error err = {0};
    assert_non_null(
        strstr(json_of(TINY "/tokens.bin"),
               "\"kind\":\"tokens\",\"files\":1,\"tokens\":1537,\"type\":\"uint16\","
               "\"largest\":127}"));
    assert_non_null(
        strstr(json_of(TINY), "\"kind\":\"model\",\"arch\":\"gpt2\",\"layers\":4,"));

    put(folder_in(&dir, "m.jsonl"), "{\"step\":1,\"loss\":2}\n");
    assert_non_null(strstr(json_of(folder_in(&dir, "m.jsonl")),
                           "\"kind\":\"metrics\",\"lines\":1,\"last_step\":1,"));
    put(folder_in(&dir, "c.yaml"), "train: {steps: 7}\n");
    assert_non_null(
        strstr(json_of(folder_in(&dir, "c.yaml")), "\"kind\":\"settings\",\"pp\":1,"));
    put(folder_in(&dir, "s.csv"), "0F0,0B0\n");
    assert_non_null(strstr(json_of(folder_in(&dir, "s.csv")), "\"ranks\":1,\"stages\":1,"));

    put(folder_in(&dir, "words"), "some words");
    assert_int_equal(wf_inspect(&v, folder_in(&dir, "words"), wf_input_read_as, &err),
                     WEFT_DATA);
    assert_non_null(strstr(err.msg, "unknown kind of file (expected safetensors, "));
    put_llmc(folder_in(&dir, "llmc"));
    assert_int_equal(wf_inspect(&v, folder_in(&dir, "llmc"), wf_input_read_as, &err),
                     WEFT_DATA);
    assert_non_null(strstr(err.msg, "unknown kind of file"));
    put_llmc(folder_in(&dir, "llmc.bin"));
    assert_int_equal(wf_inspect(&v, folder_in(&dir, "llmc.bin"), wf_input_read_as, &err),
                     WEFT_DATA);
    assert_non_null(strstr(err.msg, "llmc.bin: "));
    assert_null(strstr(err.msg, "unknown kind")); /* the reader of shards reports the error */
    folder_remove(&dir);

    dir = folder_new();
    assert_int_equal(wf_inspect(&v, dir.path, wf_input_read_as, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "not a model (config.json), checkpoint"));
    folder_remove(&dir);
    (void)state;
}

/* A hash needs weights: a directory, or a file of llm.c. */
static void check_hash(void **state)
{
    struct folder dir = folder_new();
    put_llmc(folder_in(&dir, "llmc"));
    assert_int_equal(wf_artifact_check_hash(folder_in(&dir, "llmc"), NULL), WEFT_OK);
    assert_int_equal(wf_artifact_check_hash(dir.path, NULL), WEFT_OK);
    assert_int_equal(wf_artifact_check_hash(folder_in(&dir, "missing"), NULL), WEFT_OK);
    put(folder_in(&dir, "a.csv"), "0F0,0B0\n");
    assert_int_equal(wf_artifact_check_hash(folder_in(&dir, "a.csv"), NULL), WEFT_USAGE);
    put(folder_in(&dir, "empty"), "");
    assert_int_equal(wf_artifact_check_hash(folder_in(&dir, "empty"), NULL), WEFT_DATA);
    struct wf_json j = {.out = tmpfile()};
    wf_inspect_write_hash_json(&j, "m", "0a");
    assert_string_equal(text_of(j.out), "{\"path\":\"m\",\"kind\":\"model\",\"hash\":\"0a\"}");
    folder_remove(&dir);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_kinds), cmocka_unit_test(check_metrics),
        cmocka_unit_test(check_model), cmocka_unit_test(check_run),
        cmocka_unit_test(check_any),   cmocka_unit_test(check_hash),
    };
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL) != 0;
}
