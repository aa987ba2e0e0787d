/* Tests the checkpoint store: round trips with any number of ranks bit for bit, refused input
 * and its messages. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/error.h"
#include "ckpt/store_steps.h"
#include "folder.h"
#include "training/ckpt/safetensors.h"
#include "training/ckpt/store.h"
/* -- round trips --------------------------------------------------------------------------- */

static void check_round_trips(void **state)
{
    (void)state;
    struct folder f;

    folder_make(&f);
    for (size_t ranks = 1; ranks <= SAVED_MAX_RANKS; ranks++)
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct saved_options o = saved_step_options(&f, ranks, ranks);
            struct weft_error err = {.msg = ""};
            struct wf_ckpt *s = NULL;
            char name[32];

            o.seed = seed * 1000 + ranks;
            assert_int_equal(saved_write(&o, &err), WEFT_OK);
            snprintf(name, sizeof name, "step-%08zu/", ranks);
            assert_int_equal(wf_ckpt_open(folder_path(&f, name), seed % 2 == 0, &s, &err),
                             WEFT_OK);

            assert_int_equal(wf_ckpt_step(s), ranks);
            assert_string_equal(wf_ckpt_run(s), "run-1");
            assert_string_equal(wf_ckpt_config(s), saved_config);
            assert_string_equal(wf_ckpt_model(s), saved_model);
            for (uint64_t k = 0; k < 3; k++)
                saved_step_compare(s, seed * 7 + k);
            wf_ckpt_free(s);
        }

    assert_int_equal(saved_newest(&f, NULL), SAVED_MAX_RANKS);
    folder_remove(f.at);
}

static void check_params(void **state)
{
    (void)state;
    struct folder f;
    struct wf_ckpt *s = NULL;

    folder_make(&f);
    saved_step(&f, 5, 3);
    assert_int_equal(wf_ckpt_open(folder_path(&f, "step-00000005"), false, &s, NULL), WEFT_OK);
    assert_string_equal(wf_ckpt_path(s), f.path);

    for (size_t i = 0; i < SAVED_PARAMS; i++) {
        const struct wf_ckpt_param *p = wf_ckpt_find(s, saved_params[i].name);
        assert_non_null(p);
        assert_int_equal(p->n_dims, saved_params[i].n_dims);
        assert_int_equal(p->n, saved_params[i].n);
        assert_memory_equal(p->shape, saved_params[i].shape, p->n_dims * sizeof p->shape[0]);
        assert_true(p->has[WF_STORE_FIELD_VALUE] && p->has[WF_STORE_FIELD_M] &&
                    p->has[WF_STORE_FIELD_V]);
    }

    assert_null(wf_ckpt_find(s, "none"));
    struct weft_error err;
    float x[500];

    assert_int_equal(wf_ckpt_read(s, "none", WF_STORE_FIELD_M, 0, 1, x, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "has no 'm' of parameter 'none'"));
    assert_int_equal(wf_ckpt_read(s, "scale", WF_STORE_FIELD_M, 0, 2, x, &err), WEFT_CKPT);
    assert_int_equal(wf_ckpt_read(s, "scale", WF_STORE_FIELD_M, UINT64_MAX, 1, x, &err),
                     WEFT_CKPT);
    assert_int_equal(wf_ckpt_read(s, "scale", WF_STORE_FIELD_M, 1, 0, x, &err), WEFT_OK);

    wf_ckpt_free(s);
    folder_remove(f.at);
}

/* The files are plain safetensors, which other programs can read. */
static void check_plain_files(void **state)
{
    (void)state;
    struct folder f;
    struct wf_safetensors *s = NULL;
    size_t n = 0;

    folder_make(&f);
    saved_step(&f, 5, 2);

    for (int r = 0; r < 2; r++) {
        char name[64];
        snprintf(name, sizeof name, "step-00000005/rank-%05d.safetensors", r);
        assert_int_equal(wf_safetensors_open(folder_path(&f, name), &s, NULL), WEFT_OK);
        assert_string_equal(wf_safetensors_metadata(s, "step"), "5");
        assert_string_equal(wf_safetensors_metadata(s, "run"), "run-1");

        for (size_t i = 0; i < wf_safetensors_count(s); i++) {
            const struct wf_safetensors_tensor *t = wf_safetensors_at(s, i);
            assert_string_equal(t->dtype, "F32");
            n += t->n;
        }

        if (wf_safetensors_find(s, "wte.weight#m@0") != NULL) {
            uint32_t bits, want = saved_bits(5, 0, WF_STORE_FIELD_M, 0);
            assert_int_equal(wf_safetensors_read(s, wf_safetensors_find(s, "wte.weight#m@0"), 0,
                                                 1, (float *)(void *)&bits, NULL),
                             WEFT_OK);
            assert_int_equal(bits, want);
        }
        wf_safetensors_free(s);
    }

    assert_int_equal(n, 3 * (400 + 8 + 105 + 1 + 1023));
    folder_remove(f.at);
}

static void check_same_step_again(void **state)
{
    (void)state;
    struct folder f;
    folder_make(&f);
    saved_step(&f, 7, 8);
    struct saved_options o = saved_step_options(&f, 7, 2);
    o.run = "another";
    assert_int_equal(saved_write(&o, NULL), WEFT_OK);
    assert_int_equal(saved_newest(&f, NULL), 7);
    assert_int_equal(folder_count(folder_path(&f, "step-00000007")), 3);
    assert_int_equal(folder_count(f.at), 1);
    struct wf_ckpt *s = NULL;
    assert_int_equal(wf_ckpt_open(folder_path(&f, "step-00000007"), true, &s, NULL), WEFT_OK);
    assert_string_equal(wf_ckpt_run(s), "another");
    wf_ckpt_free(s);
    folder_remove(f.at);
}

static void *read_all(void *store)
{
    bool same = false;
    for (uint64_t seed = 0; seed < 5; seed++)
        if (saved_compare(store, seed, &same, NULL) != WEFT_OK || !same)
            return "differs";
    return NULL;
}

static void check_threads(void **state)
{
    (void)state;
    struct folder f;
    struct wf_ckpt *s = NULL;
    pthread_t threads[4];
    folder_make(&f);
    saved_step(&f, 7, 4);
    assert_int_equal(wf_ckpt_open_newest(f.at, false, &s, NULL, NULL), WEFT_OK);
    for (size_t i = 0; i < WEFT_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, s), 0);
    for (size_t i = 0; i < WEFT_LEN(threads); i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    wf_ckpt_free(s);
    folder_remove(f.at);
}

/* -- refused writes ------------------------------------------------------------------------ */

/* A piece of a parameter, usually "p" with 10 elements. */
struct piece {
    const char *name;
    uint64_t n_all;
    int field;
    uint64_t begin, n;
};

/* clang-format off */
static struct bad_set {
    const char *name;
    struct piece pieces[2][4]; /* of two ranks */
    const char *want;
} bad_sets[] = {
    {"nothing", {{{0}}, {{0}}}, "step-00000009: there are no parameters"},
    {"a gap at the start", {{{"p", 10, 0, 1, 9}}, {{0}}},
     "step-00000009: elements 0 .. 0 of 'value' of parameter 'p' are missing"},
    {"a gap", {{{"p", 10, 0, 0, 3}}, {{"p", 10, 0, 5, 5}}},
     "elements 3 .. 4 of 'value' of parameter 'p' are missing"},
    {"the end is missing", {{{"p", 10, 0, 0, 3}}, {{0}}}, "elements 3 .. 9 of 'value'"},
    {"twice", {{{"p", 10, 0, 0, 10}}, {{"p", 10, 0, 0, 10}}},
     "elements 0 .. 9 of 'value' of parameter 'p' are duplicated"},
    {"an overlap", {{{"p", 10, 0, 0, 6}}, {{"p", 10, 0, 5, 5}}},
     "elements 5 .. 5 of 'value' of parameter 'p' are duplicated"},
    {"a gap in a moment", {{{"p", 10, 0, 0, 10}, {"p", 10, 1, 0, 10}}, {{"p", 10, 2, 0, 9}}},
     "elements 9 .. 9 of 'v' of parameter 'p' are missing"},
    {"no value", {{{"p", 10, 1, 0, 10}}, {{0}}}, "parameter 'p' has no value"},
    {"moments of one parameter only", {{{"p", 10, 0, 0, 10}, {"q", 4, 0, 0, 4}}, {{"p", 10, 1, 0, 10}}},
     "parameter 'q' has no 'm', unlike 'p'"},
    {"two shapes", {{{"p", 10, 0, 0, 5}}, {{"p", 11, 0, 5, 6}}}, "parameter 'p' has two shapes"},
};
/* clang-format on */

static void check_bad_set(void **state)
{
    const struct bad_set *c = *state;
    static const float zeros[16];
    struct folder f;
    struct wf_store_writer *w[2];
    char *blobs[2];
    size_t bytes[2];
    struct weft_error err = {.msg = ""};

    folder_make(&f);
    saved_step(&f, 4, 2);

    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(wf_store_writer_new(f.at, 9, "r", r, &w[r], &err), WEFT_OK);
        for (const struct piece *p = c->pieces[r]; p->name != NULL; p++)
            assert_int_equal(wf_store_writer_add(w[r], p->name, 1, &p->n_all,
                                                 (enum wf_store_field)p->field, p->begin, zeros,
                                                 p->n, &err),
                             WEFT_OK);
        assert_int_equal(wf_store_writer_finish(w[r], &blobs[r], &bytes[r], &err), WEFT_OK);
    }

    struct wf_store_commit_info parts = {f.at,  9, "r",  "",  "", (const char *const *)blobs,
                                         bytes, 2, NULL, NULL};
    assert_int_equal(wf_store_commit(&parts, 1, &err), WEFT_CKPT);
    if (strstr(err.msg, c->want) == NULL)
        fail_msg("got: %s", err.msg);

    for (int r = 0; r < 2; r++) {
        wf_store_writer_free(w[r]);
        free(blobs[r]);
    }

    assert_int_equal(folder_count(f.at), 1);
    assert_int_not_equal(access(folder_path(&f, ".step-00000009.r.tmp"), F_OK), 0);
    assert_int_equal(saved_newest(&f, NULL), 4);
    folder_remove(f.at);
}

static void check_bad_adds(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_writer *w = NULL;
    struct weft_error err;
    float x[4] = {0};
    uint64_t shape[9] = {4, 1, 1, 1, 1, 1, 1, 1, 1}, zero = 0;
    uint64_t huge[2] = {UINT64_C(1) << 33, UINT64_C(1) << 33};

    folder_make(&f);

    assert_int_equal(wf_store_writer_new(f.at, 1, "a/b", 0, &w, &err), WEFT_USAGE);
    assert_int_equal(wf_store_writer_new(f.at, 1, "", 0, &w, &err), WEFT_USAGE);
    assert_int_equal(wf_store_writer_new(f.at, 1, "a", 100000, &w, &err), WEFT_USAGE);
    assert_int_equal(wf_store_writer_new(f.at, UINT64_MAX, "a", 0, &w, &err), WEFT_USAGE);
    assert_int_equal(wf_store_writer_new("/nonexistent/x", 1, "a", 0, &w, &err), WEFT_IO);
    assert_int_equal(wf_store_writer_new(f.at, 1, "a", 0, &w, &err), WEFT_OK);

    enum wf_store_field v = WF_STORE_FIELD_VALUE;
    assert_int_equal(wf_store_writer_add(w, "p", 1, shape, v, 0, x, 5, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "p", 1, shape, v, 4, x, 1, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "p", 1, shape, v, 0, x, 0, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "q", 9, shape, v, 0, x, 4, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "q", 1, &zero, v, 0, x, 0, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "q", 2, huge, v, 0, x, 4, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "../q", 1, shape, v, 0, x, 4, &err), WEFT_CKPT);
    assert_int_equal(wf_store_writer_add(w, "q\n", 1, shape, v, 0, x, 4, &err), WEFT_CKPT);
    assert_int_equal(
        wf_store_writer_add(w, "q", 1, shape, (enum wf_store_field)3, 0, x, 4, &err),
        WEFT_INTERNAL);

    wf_store_writer_free(w);
    folder_remove(f.at);
}

static void check_two_writers(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_writer *a = NULL, *b = NULL, *other = NULL;
    struct weft_error err;
    char *blob = NULL, *none = NULL;
    size_t bytes;
    uint64_t one = 1;
    float x = 1;

    folder_make(&f);
    assert_int_equal(wf_store_writer_new(f.at, 1, "a", 0, &a, &err), WEFT_OK);
    assert_int_equal(wf_store_writer_new(f.at, 1, "a", 0, &b, &err), WEFT_OK);
    assert_int_equal(wf_store_writer_new(f.at, 1, "b", 0, &other, &err), WEFT_OK);

    assert_int_equal(wf_store_writer_add(a, "p", 1, &one, WF_STORE_FIELD_VALUE, 0, &x, 1, &err),
                     WEFT_OK);
    assert_int_equal(wf_store_writer_finish(a, &blob, &bytes, &err), WEFT_OK);
    assert_int_equal(wf_store_writer_finish(b, &none, &bytes, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "rank-00000.safetensors already exists"));

    free(blob);
    assert_int_equal(wf_store_writer_finish(other, &blob, &bytes, &err), WEFT_OK);

    /* Parts of another run and damaged parts are rejected. */
    struct wf_store_commit_info parts = {f.at,   1, "a",  "",  "", (const char *const *)&blob,
                                         &bytes, 1, NULL, NULL};
    assert_int_equal(wf_store_publish(&parts, &err), WEFT_CKPT);
    assert_non_null(
        strstr(err.msg, "part 0 of a checkpoint belongs to step 1 of run 'b', not to"));
    blob[10] ^= 1;
    parts.run = "b";
    assert_int_equal(wf_store_publish(&parts, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "its hash does not match"));

    free(blob);
    wf_store_writer_free(a);
    wf_store_writer_free(b);
    wf_store_writer_free(other);
    folder_remove(f.at);
}

static void check_not_utf8(void **state)
{
    (void)state;
    struct folder f;
    struct wf_store_writer *w = NULL;
    struct weft_error err;
    char *blob = NULL;
    size_t bytes;
    uint64_t one = 1;
    float x = 1;

    folder_make(&f);
    assert_int_equal(wf_store_writer_new(f.at, 1, "a", 0, &w, &err), WEFT_OK);
    assert_int_equal(wf_store_writer_add(w, "p", 1, &one, WF_STORE_FIELD_VALUE, 0, &x, 1, &err),
                     WEFT_OK);
    assert_int_equal(wf_store_writer_finish(w, &blob, &bytes, &err), WEFT_OK);

    struct wf_store_commit_info parts = {
        f.at, 1, "a", "\xff", "", (const char *const *)&blob, &bytes, 1, NULL, NULL};
    assert_int_equal(wf_store_publish(&parts, &err), WEFT_CKPT);
    assert_non_null(strstr(err.msg, "config of a checkpoint is not UTF-8"));

    free(blob);
    wf_store_writer_free(w);
    folder_remove(f.at);
}
int main(void)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_round_trips), cmocka_unit_test(check_params),
        cmocka_unit_test(check_plain_files), cmocka_unit_test(check_same_step_again),
        cmocka_unit_test(check_threads),     cmocka_unit_test(check_bad_adds),
        cmocka_unit_test(check_two_writers), cmocka_unit_test(check_not_utf8),
    };
    struct CMUnitTest tests[WEFT_LEN(plain) + WEFT_LEN(bad_sets)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(plain); i++)
        tests[n++] = plain[i];
    for (size_t i = 0; i < WEFT_LEN(bad_sets); i++)
        tests[n++] =
            (struct CMUnitTest){bad_sets[i].name, check_bad_set, NULL, NULL, &bad_sets[i]};
    return cmocka_run_group_tests_name("store", tests, NULL, NULL) != 0;
}
