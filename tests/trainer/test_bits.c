/* Checks that losses, norms and weights have the same bits for every number of
 * threads, order of micros, split of the backward pass and recomputation, and that a
 * failed step changes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/model/stage.h"
#include "folder.h"
#include "runs.h"
#include "training/data/shard.h"

enum { STEPS = 2 }; /* the second depends on the update of the first */

/* The thread sanitizer makes the test thirty times slower, so it runs a third of the orders. */
#ifdef __SANITIZE_THREAD__
enum { EVERY = 3 };
#else
enum { EVERY = 1 };
#endif

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ at[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t hash_weights(uint64_t h, const struct wf_trainer *t)
{
    size_t n;
    const struct wf_param *params = wf_trainer_params(t, 0, &n);
    for (size_t i = 0; i < n; i++)
        h = hash_bytes(h, params[i].value, params[i].n * sizeof(float));
    return h;
}

/* Returns a hash of losses, norms and final weights of STEPS steps. */
static uint64_t hash_run(const struct wf_train_settings *s)
{
    struct weft_error err = {0};
    struct wf_trainer *t = run_trainer(s);
    uint64_t h = 1;
    for (int i = 0; i < STEPS; i++) {
        struct wf_step_result r;
        if (wf_trainer_step(t, &r, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        h = hash_bytes(h, &r.loss, sizeof r.loss);
        h = hash_bytes(h, &r.grad_norm, sizeof r.grad_norm);
    }
    h = hash_weights(h, t);
    wf_trainer_free(t);
    return h;
}

/* -- orders: schedules of one rank in files ------------------------------------------------ */

static void write_order(const char *path, const char *order)
{
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (const char *c = order; *c != '\0'; c++) {
        if (c == order || c[-1] == ' ')
            fputs(c == order ? "0" : ",0", out);
        if (*c != ' ')
            fputc(*c, out);
    }
    fputc('\n', out);
    fclose(out);
}

/* Four micros of a batch of seven sequences: micros have two sizes. */
static const char *const orders[] = {
    "F0 B0 F1 B1 F2 B2 F3 B3",
    "F0 F1 F2 F3 B0 B1 B2 B3",
    "F0 F1 F2 F3 B3 B2 B1 B0",
    "F3 F1 B1 F2 F0 B0 B3 B2",
    "F0 I0 W0 F1 I1 W1 F2 I2 W2 F3 I3 W3",
    "F0 F1 F2 F3 I0 I1 I2 I3 W0 W1 W2 W3",
    "F2 F3 I3 F0 I2 B0 W3 F1 I1 W1 W2",
};

struct variant {
    const char *precision, *recompute;
};
enum { N_KINDS = 5 };
static const struct variant variants[] = {
    {"fp32", "none"},
    {"fp32", "attention"},
    {"fp32", "full"},
    {"fp32", "full:1"},
    {"fp32", "attention:1,full:0"},
    {"bf16", "none"},
    {"bf16", "attention"},
    {"bf16", "full"},
    {"bf16", "full:1"},
    {"bf16", "attention:1,full:0"},
};

static void settings_of(struct wf_train_settings *s, const char *run, const char *micros,
                        const struct variant *v, unsigned threads)
{
    char number[16];
    snprintf(number, sizeof number, "%u", threads);
    run_settings(s, run);
    run_set(s, "data.batch", "7");
    run_set(s, "parallel.micros", micros);
    run_set(s, "parallel.threads", number);
    run_set(s, "train.precision", v->precision);
    run_set(s, "train.recompute", v->recompute);
}

static uint64_t hash_variant(const char *run, const char *micros, const struct variant *v,
                             unsigned threads, const char *schedule)
{
    struct wf_train_settings s;
    settings_of(&s, run, micros, v, threads);
    if (schedule != NULL)
        run_set(&s, "parallel.schedule", schedule);
    uint64_t h = hash_run(&s);
    wf_settings_release(wf_train_setting_list(), &s);
    return h;
}

/* Recomputation does not change any bit, so each precision has one hash. */
static void check_orders(void **state)
{
    const char *run = *state;
    struct folder f = folder_new();
    uint64_t last = 0;
    for (int p = 0; p < 2; p++) {
        const struct variant *first = &variants[N_KINDS * p];
        uint64_t want = hash_variant(run, "4", first, 1, NULL);
        assert_true(want != last); /* the hash is sensitive to differences */
        last = want;
        for (int v = 0; v < N_KINDS; v++)
            for (size_t i = (size_t)v % EVERY; i < WEFT_LEN(orders); i += EVERY) {
                const char *path = folder_in(&f, "order.csv");
                unsigned threads = 1 + (unsigned)(i + (size_t)v) % 2;
                write_order(path, orders[i]);
                if (hash_variant(run, "4", first + v, threads, path) != want)
                    fail_msg("%s, %s, recompute %s, %u threads, %s: bits differ", run,
                             first->precision, first[v].recompute, threads, orders[i]);
            }
    }
    folder_remove(&f);
}

static void check_threads(void **state)
{
    static const char *const micros[] = {"1", "3", "7"};
    for (size_t m = 0; m < WEFT_LEN(micros); m++)
        for (size_t v = 0; v < WEFT_LEN(variants); v += N_KINDS) {
            uint64_t want = hash_variant(*state, micros[m], &variants[v], 1, NULL);
            for (unsigned threads = 2; threads <= 3; threads++)
                if (hash_variant(*state, micros[m], &variants[v], threads, NULL) != want)
                    fail_msg("%s, %s, %s micros, %u threads: bits differ", (char *)*state,
                             variants[v].precision, micros[m], threads);
        }
}

/* -- steps that fail ----------------------------------------------------------------------- */

/* Checks that a step fails with this message, that the weights do not change, and that the step
 * fails again. */
static void check_step_fails(struct wf_trainer *t, enum weft_status want, const char *words)
{
    uint64_t before = hash_weights(1, t), done = wf_trainer_steps_done(t);
    for (int i = 0; i < 2; i++) {
        struct weft_error err = {0};
        struct wf_step_result r;
        assert_int_equal(wf_trainer_step(t, &r, &err), want);
        if (strstr(err.msg, words) == NULL)
            fail_msg("'%s' lacks '%s'", err.msg, words);
        assert_int_equal(wf_trainer_steps_done(t), done);
        assert_true(hash_weights(1, t) == before);
    }
}

/* Initializes settings of gpt2-tiny with `n` generated tokens; token `odd` is
 * outside the vocabulary. */
static void tokens_settings(struct wf_train_settings *s, const char *path, size_t n, size_t odd)
{
    int32_t *tokens = malloc(n * sizeof *tokens);
    assert_non_null(tokens);
    for (size_t i = 0; i < n; i++)
        tokens[i] = i == odd ? 128 : (int32_t)(i * 7 % 128);
    assert_int_equal(wf_shard_write(path, 129, tokens, n, NULL), WEFT_OK);
    free(tokens);
    run_settings(s, "gpt2-tiny");
    run_set(s, "data.train", path);
}

static void check_vocabulary(void **state)
{
    struct folder f = folder_new();
    struct wf_train_settings s;
    struct wf_step_result r;
    /* A step has 192 tokens; the invalid one is in the second step, in its second
     * micro of four. */
    tokens_settings(&s, folder_in(&f, "t.bin"), 1000, 192 + 60);
    struct wf_trainer *t = run_trainer(&s);
    assert_int_equal(wf_trainer_step(t, &r, NULL), WEFT_OK);
    check_step_fails(t, WEFT_DATA, "step 2, micro 1: ");
    check_step_fails(t, WEFT_DATA, "t.bin");
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), &s);
    folder_remove(&f);
    (void)state;
}

static void check_truncated(void **state)
{
    struct folder f = folder_new();
    struct wf_train_settings s;
    struct wf_step_result r;
    tokens_settings(&s, folder_in(&f, "t.bin"), 1000, SIZE_MAX);
    struct wf_trainer *t = run_trainer(&s);
    assert_int_equal(wf_trainer_step(t, &r, NULL), WEFT_OK);
    /* The file shrinks during the run. */
    assert_int_equal(truncate(folder_in(&f, "t.bin"), 1024 + 2 * 300), 0);
    check_step_fails(t, WEFT_DATA, "t.bin");
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), &s);
    folder_remove(&f);
    (void)state;
}

/* Puts a NaN into each tensor in turn; the message must name the tensor. */
static void check_nan(void **state)
{
    struct wf_train_settings s;
    size_t n;

    run_settings(&s, *state);
    run_set(&s, "parallel.threads", "1");
    struct wf_trainer *t = run_trainer(&s);
    const struct wf_param *params = wf_trainer_params(t, 0, &n);

    for (size_t i = 0; i < n; i++) {
        float *value = params[i].value, kept = value[0];
        struct weft_error err = {0};
        struct wf_step_result r;

        value[0] = NAN;
        wf_trainer_pack(t);
        enum weft_status st = wf_trainer_step(t, &r, &err);

        if (st != WEFT_NUMERIC || strstr(err.msg, "step 1, micro ") == NULL ||
            strstr(err.msg, params[i].desc.name) == NULL)
            fail_msg("%s: NaN in %s: status %d, '%s'", (char *)*state, params[i].desc.name, st,
                     err.msg);
        assert_int_equal(wf_trainer_steps_done(t), 0);

        value[0] = kept;
        wf_trainer_pack(t);
    }

    /* Failed steps have no effect on later ones. */
    uint64_t h = 1;
    for (int i = 0; i < STEPS; i++) {
        struct wf_step_result r;
        assert_int_equal(wf_trainer_step(t, &r, NULL), WEFT_OK);
        h = hash_bytes(h, &r.loss, sizeof r.loss);
        h = hash_bytes(h, &r.grad_norm, sizeof r.grad_norm);
    }

    h = hash_weights(h, t);
    wf_trainer_free(t);
    assert_true(h == hash_run(&s));
    wf_settings_release(wf_train_setting_list(), &s);
}

/* A head that is a million times too large makes gradients exceed the range of exact sums. */
static void check_overflow(void **state)
{
    struct wf_train_settings s;
    size_t n;
    run_settings(&s, "llama-tiny");
    struct wf_trainer *t = run_trainer(&s);
    const struct wf_param *params = wf_trainer_params(t, 0, &n);
    assert_string_equal(params[n - 1].desc.name, "lm_head.weight");
    for (size_t i = 0; i < params[n - 1].n; i++)
        params[n - 1].value[i] *= 1e6F;
    wf_trainer_pack(t);
    check_step_fails(t, WEFT_NUMERIC, "step 1, micro 0: ");
    check_step_fails(t, WEFT_NUMERIC, "model.");
    wf_trainer_free(t);
    wf_settings_release(wf_train_setting_list(), &s);
    (void)state;
}

/* -- invalid settings ---------------------------------------------------------------------- */

static void check_settings(void **state)
{
    static const struct {
        const char *key, *value;
        enum weft_status status;
        const char *words;
    } cases[] = {
        {"data.seq", "65", WEFT_USAGE, "data.seq 65 is longer than the model's context of 64"},
        {"parallel.micros", "9", WEFT_USAGE,
         "parallel.micros 9 is greater than data.batch (8 sequences)"},
        {"data.train", "nothing-here.bin", WEFT_DATA, "nothing-here.bin"},
        {"data.batch", "1000", WEFT_DATA, "tokens"},
        {"model.dir", "nothing-here", WEFT_CKPT, "nothing-here"},
    };

    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_train_settings s;
        struct wf_trainer *t = NULL;
        struct weft_error err = {0};
        run_settings(&s, "gpt2-tiny");
        run_set(&s, cases[i].key, cases[i].value);

        assert_int_equal(wf_trainer_new(&s, NULL, &t, &err), cases[i].status);
        if (strstr(err.msg, cases[i].words) == NULL)
            fail_msg("'%s' lacks '%s'", err.msg, cases[i].words);

        assert_null(t);
        wf_settings_release(wf_train_setting_list(), &s);
    }

    struct wf_train_settings s;
    struct wf_trainer *t = NULL;
    run_settings(&s, "gpt2-tiny");
    s.parallel.micros = 0;
    assert_int_equal(wf_trainer_new(&s, NULL, &t, NULL), WEFT_USAGE);
    wf_settings_release(wf_train_setting_list(), &s);
    (void)state;
}

int main(void)
{
    static char names[3 * N_RUNS][64];
    static void (*const checks[])(void **) = {check_orders, check_threads, check_nan};
    static const char *const kinds[] = {"orders", "threads", "NaN"};
    struct CMUnitTest tests[3 * N_RUNS + 4];
    for (size_t i = 0; i < 3 * N_RUNS; i++) {
        snprintf(names[i], sizeof names[i], "%s, %s", run_names[i / 3], kinds[i % 3]);
        tests[i] =
            (struct CMUnitTest){names[i], checks[i % 3], NULL, NULL, (void *)run_names[i / 3]};
    }
    tests[3 * N_RUNS] = (struct CMUnitTest)cmocka_unit_test(check_vocabulary);
    tests[3 * N_RUNS + 1] = (struct CMUnitTest)cmocka_unit_test(check_truncated);
    tests[3 * N_RUNS + 2] = (struct CMUnitTest)cmocka_unit_test(check_settings);
    tests[3 * N_RUNS + 3] = (struct CMUnitTest)cmocka_unit_test(check_overflow);
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL) != 0;
}
