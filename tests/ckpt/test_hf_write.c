/* Tests writing of Hugging Face directories: round trips, shards, refused
 * input, failed writes. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <jansson.h>
#include <cmocka.h>

#include "base/error.h"
#include "ckpt/hf_tensors.h"
#include "folder.h"
#include "training/ckpt/hf.h"
static struct write_case {
    const char *name;
    uint64_t shard_bytes;
    enum wf_dtype type;
    size_t n_files; /* number of files, including config.json and the index */
} write_cases[] = {
    {"one file", 0, WF_DTYPE_F32, 2},
    {"one file is enough", WF_HF_SHARD_BYTES, WF_DTYPE_F32, 2},
    {"bf16", 0, WF_DTYPE_BF16, 2},
    /* llama-tiny has 411192 - 8 - 3952 bytes of data and no tensor of more than 24576 bytes.
     * All files but the last have more than 100000 - 24576 bytes, so there are 5 or 6 files. */
    {"shards", 100000, WF_DTYPE_F32, 0},
    {"one file per tensor", 1, WF_DTYPE_BF16, 39 + 2},
};

static const char *golden_dir(const char *name, char out[400])
{
    snprintf(out, 400, "%s/train/%s", WEFT_TEST_DATA, name);
    return out;
}

/* Reads a whole directory in the order of `all`.  The caller frees the result. */
static float *read_all(const char *dir, struct hf_tensors *all, struct weft_model *model)
{
    struct wf_hf *hf = NULL;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_hf_open(dir, &hf, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);
    *model = *wf_hf_model(hf);
    hf_list_tensors(model, all);
    size_t n = 0;
    assert_int_equal(weft_model_count_params(model, &n, &err), WEFT_OK);
    float *values = malloc(n * sizeof *values), *at = values;
    assert_non_null(values);
    for (size_t i = 0; i < all->n; at += hf_elements(&all->at[i]), i++)
        assert_int_equal(
            wf_hf_read(hf, all->at[i].name, all->at[i].n_dims, all->at[i].shape, at, &err),
            WEFT_OK);
    wf_hf_free(hf);
    return values;
}

static enum weft_status write_all(const char *dir, const struct weft_model *model,
                                  const struct hf_tensors *all, const float *values,
                                  const struct wf_hf_write_options *options,
                                  struct weft_error *err)
{
    struct wf_hf_writer *w = NULL;
    enum weft_status st = wf_hf_writer_new(dir, model, all->at, all->n, options, &w, err);
    for (size_t i = 0; i < all->n && st == WEFT_OK; i++) {
        size_t n = hf_elements(&all->at[i]), half = n / 2;
        st = wf_hf_writer_append(w, values, half, err);
        if (st == WEFT_OK)
            st = wf_hf_writer_append(w, values + half, n - half, err);
        values += n;
    }
    if (st == WEFT_OK)
        st = wf_hf_writer_finish(w, err);
    wf_hf_writer_free(w);
    return st;
}

/* Rounds to nearest even with integer arithmetic. */
static float as_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t low = bits & 0xffff;
    bits -= low;
    if (low > 0x8000 || (low == 0x8000 && (bits & 0x10000) != 0))
        bits += 0x10000;
    memcpy(&value, &bits, 4);
    return value;
}

static void check_write(void **state)
{
    const struct write_case *c = *state;
    static struct hf_tensors all, again;
    char from[400];
    struct folder f;
    struct weft_error err = {.msg = ""};
    struct weft_model model, model_again;
    struct wf_safetensors_pair pair = {"step", "8"};
    struct wf_hf_write_options options = {c->type, c->shard_bytes, NULL, &pair, 1};
    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);

    folder_make(&f);
    const char *dir = folder_path(&f, "out//");
    enum weft_status st = write_all(dir, &model, &all, values, &options, &err);
    assert_string_equal(err.msg, "");
    assert_int_equal(st, WEFT_OK);

    assert_int_equal(folder_count(f.at), 1);
    if (c->n_files > 0)
        assert_int_equal(folder_count(dir), c->n_files);
    else
        assert_in_range(folder_count(dir), 5 + 2, 6 + 2);

    float *got = read_all(dir, &again, &model_again);
    hf_assert_model(&model_again, &model);
    size_t n;
    assert_int_equal(weft_model_count_params(&model, &n, &err), WEFT_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(got[i] == (c->type == WF_DTYPE_F32 ? values[i] : as_bf16(values[i])));

    free(got);
    free(values);
    folder_remove(f.at);
}

/* The index has the total size and the file names of transformers. */
static void check_index(void **state)
{
    (void)state;
    static struct hf_tensors all;
    char from[400], path[300];
    struct folder f;
    struct weft_error err;
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 200000, NULL, NULL, 0};

    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    folder_make(&f);
    assert_int_equal(write_all(folder_path(&f, "out"), &model, &all, values, &options, &err),
                     WEFT_OK);

    snprintf(path, sizeof path, "%.250s/%s", f.path, "model.safetensors.index.json");
    json_t *root = json_load_file(path, 0, NULL);
    const char *first, *last;
    json_int_t total;

    assert_int_equal(json_unpack(root, "{s:{s:I}, s:{s:s, s:s}}", "metadata", "total_size",
                                 &total, "weight_map", "model.embed_tokens.weight", &first,
                                 "lm_head.weight", &last),
                     0);
    assert_int_equal(total, 411192 - 8 - 3952);
    assert_string_equal(first, "model-00001-of-00003.safetensors");
    assert_string_equal(last, "model-00003-of-00003.safetensors");

    json_decref(root);
    free(values);
    folder_remove(f.at);
}

/* GPT-2 and block residuals are written, too. */
static void check_write_others(void **state)
{
    (void)state;
    static struct hf_tensors all, again;
    static const char *const names[] = {"gpt2-tiny", "llama-tiny", "llama-tiny-tied-residual"};
    for (size_t i = 0; i < WEFT_LEN(names); i++) {
        char from[400];
        struct folder f;
        struct weft_error err;
        struct weft_model model, model_again;
        struct wf_hf_write_options options = {WF_DTYPE_F32, 0, NULL, NULL, 0};

        float *values = read_all(golden_dir(names[i], from), &all, &model);
        folder_make(&f);
        const char *dir = folder_path(&f, "out");
        assert_int_equal(mkdir(dir, 0777), 0); /* an empty directory is allowed */
        assert_int_equal(write_all(dir, &model, &all, values, &options, &err), WEFT_OK);

        float *got = read_all(dir, &again, &model_again);
        size_t n;
        assert_int_equal(weft_model_count_params(&model, &n, &err), WEFT_OK);
        assert_memory_equal(got, values, n * sizeof *got);

        free(got);
        free(values);
        folder_remove(f.at);
    }
}

static void check_write_errors(void **state)
{
    (void)state;
    static struct hf_tensors all;
    char from[400];
    struct folder f;
    struct weft_error err = {.msg = ""};
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 100000, NULL, NULL, 0};
    struct wf_hf_writer *w = NULL;

    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    folder_make(&f);

    /* The directory exists already. */
    folder_put(&f, "file", "", 0);
    assert_int_equal(write_all(f.path, &model, &all, values, &options, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "/file is a file; use a new directory"));
    assert_int_equal(write_all(f.at, &model, &all, values, &options, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, " exists and is not empty; use another name, or move it"));
    assert_int_equal(write_all(folder_path(&f, "no/out"), &model, &all, values, &options, &err),
                     WEFT_IO);
    assert_non_null(strstr(err.msg, "no/out cannot be created: No such file or directory"));

    /* Duplicate names are errors. */
    struct wf_hf_tensor twice[2] = {{"a", 1, {1}}, {"a", 1, {1}}};
    options.shard_bytes = 1;
    assert_int_equal(
        wf_hf_writer_new(folder_path(&f, "out"), &model, twice, 2, &options, &w, &err),
        WEFT_CKPT);
    assert_non_null(strstr(err.msg, "tensor 'a' is listed twice"));
    assert_int_equal(
        wf_hf_writer_new(f.path, &(struct weft_model){0}, twice, 1, &options, &w, &err),
        WEFT_USAGE);

    /* Too few and too many elements are errors. */
    options.shard_bytes = 100000;
    assert_int_equal(wf_hf_writer_new(f.path, &model, all.at, all.n, &options, &w, &err),
                     WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, hf_elements(&all.at[0]), &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_finish(w, &err), WEFT_INTERNAL);
    assert_non_null(strstr(err.msg, "tensor 'model.layers.0.input_layernorm.weight' lacks"));
    assert_int_equal(wf_hf_writer_append(w, values, 100000, &err), WEFT_INTERNAL);
    assert_int_equal(folder_count(f.at), 2);
    wf_hf_writer_free(w);
    wf_hf_writer_free(NULL);
    assert_int_equal(folder_count(f.at), 1);

    assert_int_equal(wf_hf_writer_new(f.path, &model, twice, 1, &options, &w, &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, 1, &err), WEFT_OK);
    assert_int_equal(wf_hf_writer_append(w, values, 1, &err), WEFT_INTERNAL);
    assert_non_null(strstr(err.msg, "1 elements were appended after the last tensor"));
    wf_hf_writer_free(w);
    assert_int_equal(folder_count(f.at), 1);

    free(values);
    folder_remove(f.at);
}

/* A write error at any point leaves no files. */
static void check_full(void **state)
{
    (void)state;
    static struct hf_tensors all;
    char from[400];
    struct folder f;
    struct rlimit before;
    struct weft_model model;
    struct wf_hf_write_options options = {WF_DTYPE_F32, 100000, NULL, NULL, 0};

    float *values = read_all(golden_dir("llama-tiny", from), &all, &model);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    folder_make(&f);

    static const rlim_t limits[] = {0, 100, 1000, 3000, 10000, 90000};
    for (size_t i = 0; i < WEFT_LEN(limits); i++) {
        struct weft_error err = {.msg = ""};
        struct rlimit limit = {limits[i], before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);

        enum weft_status st =
            write_all(folder_path(&f, "out"), &model, &all, values, &options, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(st, WEFT_IO);
        assert_non_null(strstr(err.msg, strerror(EFBIG)));
        assert_int_equal(folder_count(f.at), 0);
    }

    signal(SIGXFSZ, SIG_DFL);
    free(values);
    folder_remove(f.at);
}
int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_index),
        cmocka_unit_test(check_write_others),
        cmocka_unit_test(check_write_errors),
        cmocka_unit_test(check_full),
    };
    struct CMUnitTest tests[WEFT_LEN(write_cases) + WEFT_LEN(others)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(write_cases); i++)
        tests[n++] =
            (struct CMUnitTest){write_cases[i].name, check_write, NULL, NULL, &write_cases[i]};
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];
    return cmocka_run_group_tests_name("hf_write", tests, NULL, NULL) != 0;
}
