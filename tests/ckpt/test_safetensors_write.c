/* Tests the writer of safetensors files: round trips, refused tensors, failed writes. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/ckpt/half.h"
#include "training/ckpt/safetensors.h"

static float number(size_t i)
{
    return (float)((double)((i * 2654435761U) & 0xffffff) / 8388608 - 1);
}

enum { N_LARGE = 70001 };

/* A file with all special cases is written in pieces and read back whole and in parts. */
static void check_round_trip(void **state)
{
    (void)state;
    static const struct wf_safetensors_entry entries[] = {
        {"empty.first", WF_DTYPE_F32, 1, {0}},
        {"scalar", WF_DTYPE_F32, 0, {0}},
        {"half", WF_DTYPE_BF16, 1, {N_LARGE}},
        {"a \"quoted\\ name", WF_DTYPE_F32, 3, {1, 7, 1}},
        {"whole", WF_DTYPE_F32, 2, {1, N_LARGE}},
        {"empty.last", WF_DTYPE_BF16, 2, {3, 0}},
    };
    static const struct wf_safetensors_pair pairs[] = {{"step", "12"}, {"na\"me", "\xc3\xa4"}};
    struct folder f;
    struct wf_safetensors_writer *w = NULL;
    struct weft_error err = {.msg = ""};
    float *values = malloc(N_LARGE * sizeof *values), *got = malloc(N_LARGE * sizeof *got);
    assert_true(values != NULL && got != NULL);
    for (size_t i = 0; i < N_LARGE; i++)
        values[i] = number(i);
    folder_make(&f);
    const char *path = folder_path(&f, "m.safetensors");
    assert_int_equal(wf_safetensors_writer_new(path, entries, WEFT_LEN(entries), pairs,
                                               WEFT_LEN(pairs), &w, &err),
                     WEFT_OK);
    assert_int_not_equal(access(path, F_OK), 0); /* only the temporary file exists */
    for (size_t e = 0; e < WEFT_LEN(entries); e++) {
        size_t n = e == 1 ? 1 : e == 3 ? 7 : e == 2 || e == 4 ? N_LARGE : 0;
        for (size_t i = 0, part; i < n; i += part) {
            part = n - i < 30000 ? n - i : 30000;
            assert_int_equal(wf_safetensors_writer_append(w, values + i, part, &err), WEFT_OK);
        }
    }
    assert_int_equal(wf_safetensors_writer_append(w, values, 1, &err), WEFT_INTERNAL);
    assert_int_equal(wf_safetensors_writer_finish(w, &err), WEFT_OK);
    wf_safetensors_writer_free(w);
    assert_int_equal(folder_count(f.at), 1);

    size_t len;
    char *bytes = folder_get(path, &len);
    uint64_t n_header;
    memcpy(&n_header, bytes, 8);
    assert_int_equal((8 + n_header) % 64, 0);
    assert_int_equal(len, 8 + n_header + 4 + 2 * N_LARGE + 28 + 4 * N_LARGE);
    assert_int_equal(strncmp(bytes + 8, "{\"__metadata__\":{\"format\":\"pt\",", 31), 0);
    free(bytes);

    struct wf_safetensors *s = NULL;
    assert_int_equal(wf_safetensors_open(path, &s, &err), WEFT_OK);
    assert_string_equal(wf_safetensors_metadata(s, "format"), "pt");
    assert_string_equal(wf_safetensors_metadata(s, "na\"me"), "\xc3\xa4");
    assert_int_equal(wf_safetensors_count(s), WEFT_LEN(entries));
    for (size_t e = 0; e < WEFT_LEN(entries); e++) {
        const struct wf_safetensors_tensor *t = wf_safetensors_find(s, entries[e].name);
        assert_non_null(t);
        assert_int_equal(t->n_dims, entries[e].n_dims);
        assert_memory_equal(t->shape, entries[e].shape, t->n_dims * sizeof t->shape[0]);
        assert_int_equal(wf_safetensors_read(s, t, 0, (size_t)t->n, got, &err), WEFT_OK);
        for (size_t i = 0; i < t->n; i++)
            assert_true(got[i] == (t->type == WF_DTYPE_F32
                                       ? values[i]
                                       : wf_f32_from_bf16(wf_bf16_from_f32(values[i]))));
        if (t->n < 50000)
            continue;
        assert_int_equal(wf_safetensors_read(s, t, 40000, 10, got + 7, &err), WEFT_OK);
        assert_memory_equal(got + 40000, got + 7, 10 * sizeof *got);
    }
    wf_safetensors_free(s);
    folder_remove(f.at);
    free(values);
    free(got);
}

/* clang-format off */
static struct bad_entry {
    const char *name, *want;
    struct wf_safetensors_entry at[2];
    struct wf_safetensors_pair pair;
} bad_entries[] = {
    {"a name twice", "tensor 'a' is listed twice",
     {{"a", WF_DTYPE_F32, 1, {1}}, {"a", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"a bad name", "the name of tensor 'a/b' contains '/'",
     {{"a/b", WF_DTYPE_F32, 1, {1}}, {"a", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"the metadata's name", "is reserved for the metadata",
     {{"__metadata__", WF_DTYPE_F32, 1, {1}}, {"a", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"f16", "tensor 'a' cannot be written as f16; use f32 or bf16",
     {{"a", WF_DTYPE_F16, 1, {1}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"too many dimensions", "tensor 'a' has 9 dimensions (maximum 8)",
     {{"a", WF_DTYPE_F32, 9, {1}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"too many elements", "tensor 'a' has too many elements",
     {{"a", WF_DTYPE_F32, 2, {UINT64_MAX, 2}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"too many bytes", "tensor 'a' has too many bytes",
     {{"a", WF_DTYPE_F32, 1, {UINT64_MAX / 2}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"k", "v"}},
    {"too far", "tensor 'b' exceeds the maximum size of a file",
     {{"a", WF_DTYPE_F32, 1, {(uint64_t)1 << 60}}, {"b", WF_DTYPE_F32, 1, {(uint64_t)1 << 60}}}, {"k", "v"}},
    {"metadata in another encoding", "metadata 'k' is not UTF-8",
     {{"a", WF_DTYPE_F32, 1, {1}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"k", "\xff"}},
    {"format twice", "metadata 'format' is listed twice",
     {{"a", WF_DTYPE_F32, 1, {1}}, {"b", WF_DTYPE_F32, 1, {1}}}, {"format", "np"}},
};
/* clang-format on */

static void check_bad_entry(void **state)
{
    const struct bad_entry *c = *state;
    struct folder f;
    struct wf_safetensors_writer *w = NULL;
    struct weft_error err = {.msg = ""};
    folder_make(&f);
    assert_int_equal(
        wf_safetensors_writer_new(folder_path(&f, "m"), c->at, 2, &c->pair, 1, &w, &err),
        WEFT_CKPT);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("'%s' is not in '%s'", c->want, err.msg);
    assert_null(w);
    assert_int_equal(folder_count(f.at), 0);
    folder_remove(f.at);
}

static const struct wf_safetensors_entry one_entry = {"a", WF_DTYPE_F32, 1, {300000}};

/* Too many elements, too few, and an abandoned writer leave the existing file unchanged. */
static void check_unfinished(void **state)
{
    (void)state;
    struct folder f;
    struct wf_safetensors_writer *w = NULL;
    struct weft_error err;
    float *values = calloc(300001, sizeof *values);

    folder_make(&f);
    folder_put(&f, "m", "old", 3);
    const char *path = folder_path(&f, "m");

    assert_int_equal(wf_safetensors_writer_new(path, &one_entry, 1, NULL, 0, &w, &err),
                     WEFT_OK);
    assert_int_equal(wf_safetensors_writer_append(w, values, 300001, &err), WEFT_INTERNAL);
    assert_non_null(
        strstr(err.msg, "tensor 'a' needs 300000 elements, but 300001 were appended"));

    assert_int_equal(wf_safetensors_writer_append(w, values, 299999, &err), WEFT_OK);
    assert_int_equal(wf_safetensors_writer_finish(w, &err), WEFT_INTERNAL);
    assert_non_null(strstr(err.msg, "tensor 'a' lacks 1 elements"));
    assert_int_equal(folder_count(f.at), 2);

    wf_safetensors_writer_free(w);
    wf_safetensors_writer_free(NULL);
    assert_int_equal(folder_count(f.at), 1);

    size_t len;
    char *old = folder_get(path, &len);
    assert_string_equal(old, "old");
    free(old);
    free(values);
    folder_remove(f.at);
}

/* A full disk, simulated by the limit on the size of files, is reported and leaves no files. */
static void check_full(void **state)
{
    (void)state;
    struct rlimit before, limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    float *values = calloc(300000, sizeof *values);
    /* The limits are in the middle of the data and in the last bytes, which finish() writes. */
    static const rlim_t limits[] = {500000, 1200000};

    for (size_t i = 0; i < WEFT_LEN(limits); i++) {
        struct folder f;
        struct wf_safetensors_writer *w = NULL;
        struct weft_error err = {.msg = ""};
        folder_make(&f);

        limit = (struct rlimit){limits[i], before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        enum weft_status st =
            wf_safetensors_writer_new(folder_path(&f, "m"), &one_entry, 1, NULL, 0, &w, &err);
        for (size_t k = 0; k < 300000 && st == WEFT_OK; k += 1000)
            st = wf_safetensors_writer_append(w, values + k, 1000, &err);
        if (st == WEFT_OK)
            st = wf_safetensors_writer_finish(w, &err);

        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(st, WEFT_IO);
        assert_non_null(strstr(err.msg, f.path));
        assert_non_null(strstr(err.msg, strerror(EFBIG)));

        wf_safetensors_writer_free(w);
        assert_int_equal(folder_count(f.at), 0);
        folder_remove(f.at);
    }

    signal(SIGXFSZ, SIG_DFL);
    free(values);
}
/* A directory that does not exist is an error. */
static void check_no_directory(void **state)
{
    (void)state;
    struct folder f;
    struct wf_safetensors_writer *w = NULL;
    struct weft_error err;
    folder_make(&f);
    assert_int_equal(
        wf_safetensors_writer_new(folder_path(&f, "no/m"), &one_entry, 1, NULL, 0, &w, &err),
        WEFT_IO);
    assert_non_null(strstr(err.msg, "no/m cannot be written: No such file"));
    folder_remove(f.at);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(check_round_trip),
        cmocka_unit_test(check_unfinished),
        cmocka_unit_test(check_full),
        cmocka_unit_test(check_no_directory),
    };
    struct CMUnitTest tests[WEFT_LEN(bad_entries) + WEFT_LEN(others)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(bad_entries); i++)
        tests[n++] = (struct CMUnitTest){bad_entries[i].name, check_bad_entry, NULL, NULL,
                                         &bad_entries[i]};
    for (size_t i = 0; i < WEFT_LEN(others); i++)
        tests[n++] = others[i];
    return cmocka_run_group_tests_name("safetensors_write", tests, NULL, NULL) != 0;
}
