/* Tests training on shards with a loss mask: the mean over the tokens of a step that count, in
 * any layout, with micro-batches and steps that have no such token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "folder.h"
#include "runs.h"
#include "training/data/shard.h"
#include "weft/comm.h"

enum { SEQ = 16, N = 8 * SEQ * 4 + 1 };

/* Writes a shard.  Token i counts if counts(i) is true. */
static void write_masked(const char *path, bool (*counts)(size_t i))
{
    struct wf_shard_writer *w = NULL;
    int32_t tokens[N];
    bool counted[N];
    for (size_t i = 0; i < N; i++) {
        tokens[i] = (int32_t)(i * i * 7 % 90);
        counted[i] = counts(i);
    }
    assert_int_equal(wf_shard_writer_new(path, 90, &w, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_add_masked(w, tokens, counted, N, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_finish(w, NULL), WEFT_OK);
    wf_shard_writer_free(w);
}

static void settings_of(struct wf_train_settings *s, const char *run, const char *data,
                        const char *batch, const char *micros)
{
    run_settings(s, run);
    run_set(s, "data.train", data);
    run_set(s, "data.seq", "16");
    run_set(s, "data.batch", batch);
    run_set(s, "parallel.micros", micros);
}

/* Results of a run: losses, norms and a hash of the weights of this rank's stages. */
struct outcome {
    double loss[2], norm[2];
    uint64_t weights;
};

static enum weft_status run_steps(const struct wf_train_settings *s, struct weft_comm *comm,
                                  int steps, struct outcome *out, struct weft_error *err)
{
    struct wf_trainer *t = NULL;
    size_t n;
    WEFT_TRY(wf_trainer_new(s, comm, &t, err));
    enum weft_status st = WEFT_OK;
    for (int i = 0; st == WEFT_OK && i < steps; i++) {
        struct wf_step_result r;
        st = wf_trainer_step(t, &r, err);
        if (st == WEFT_OK) {
            out->loss[i] = r.loss;
            out->norm[i] = r.grad_norm;
        }
    }
    if (st == WEFT_OK && comm == NULL) {
        const struct wf_param *params = wf_trainer_params(t, 0, &n);
        for (size_t i = 0; i < n; i++)
            out->weights = wf_hash(out->weights, params[i].value, params[i].n * sizeof(float));
    }
    wf_trainer_free(t);
    return st;
}

static bool in_first_rows(size_t i)
{
    return i <= 3 * SEQ && i % 5 != 0;
}

/* Micro-batches without a token that counts change no bit: three rows of which some tokens
 * count give the same step with and without five masked rows. */
static void masked_rows_change_no_bit(void **state)
{
    struct folder f = folder_new();
    struct wf_train_settings few, many;
    struct outcome a = {0}, b = {0};
    struct weft_error err = {0};
    write_masked(folder_in(&f, "m.bin"), in_first_rows);
    settings_of(&few, *state, folder_in(&f, "m.bin"), "3", "3");
    settings_of(&many, *state, folder_in(&f, "m.bin"), "8", "8");
    if (run_steps(&few, NULL, 1, &a, &err) != WEFT_OK ||
        run_steps(&many, NULL, 1, &b, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_true(a.loss[0] > 1 && a.norm[0] > 0);
    assert_true(a.loss[0] == b.loss[0] && a.norm[0] == b.norm[0] && a.weights == b.weights);
    wf_settings_release(wf_train_setting_list(), &few);
    wf_settings_release(wf_train_setting_list(), &many);
    folder_remove(&f);
}

static bool some(size_t i)
{
    return i % 7 < 3 && (i < SEQ || i > 5 * SEQ);
}

struct layout_case {
    const struct wf_train_settings *s;
    struct outcome want;
};

static enum weft_status run_rank(struct weft_comm *comm, void *ctx, struct weft_error *err)
{
    const struct layout_case *c = ctx;
    struct outcome have = {0};
    WEFT_TRY(run_steps(c->s, comm, 2, &have, err));
    for (int i = 0; i < 2; i++)
        if (have.loss[i] != c->want.loss[i] || have.norm[i] != c->want.norm[i])
            return WEFT_FAIL(err, WEFT_INTERNAL, "step %d: loss %.17g, norm %.17g", i,
                             have.loss[i], have.norm[i]);
    return WEFT_OK;
}

/* Pipelines and replicas give the bits of one rank, with four micro-batches of two rows, of
 * which one has no token that counts. */
static void layouts_change_no_bit(void **state)
{
    static const struct {
        const char *pp, *dp;
        uint32_t ranks;
    } layouts[] = {{"2", "1", 2}, {"1", "2", 2}, {"2", "2", 4}, {"1", "4", 4}};
    struct folder f = folder_new();
    struct wf_train_settings s;
    struct weft_error err = {0};
    write_masked(folder_in(&f, "m.bin"), some);
    settings_of(&s, *state, folder_in(&f, "m.bin"), "8", "4");
    struct layout_case c = {.s = &s};
    if (run_steps(&s, NULL, 2, &c.want, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    wf_settings_release(wf_train_setting_list(), &s);

    for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
        settings_of(&s, *state, folder_in(&f, "m.bin"), "8", "4");
        run_set(&s, "parallel.pp", layouts[i].pp);
        run_set(&s, "parallel.dp", layouts[i].dp);
        run_set(&s, "parallel.threads", "1");
        if (weft_comm_run_threads(layouts[i].ranks, run_rank, &c, &err) != WEFT_OK)
            fail_msg("pp %s, dp %s: %s", layouts[i].pp, layouts[i].dp, err.msg);
        wf_settings_release(wf_train_setting_list(), &s);
    }
    folder_remove(&f);
}

static bool only_later(size_t i)
{
    return i > 8 * SEQ;
}

/* A step whose tokens are all masked has the loss 0 and the gradient 0, and the run continues. */
static void masked_step_is_zero(void **state)
{
    struct folder f = folder_new();
    struct wf_train_settings s;
    struct outcome have = {0};
    struct weft_error err = {0};
    write_masked(folder_in(&f, "m.bin"), only_later);
    settings_of(&s, *state, folder_in(&f, "m.bin"), "8", "4");
    if (run_steps(&s, NULL, 2, &have, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    assert_true(have.loss[0] == 0 && have.norm[0] == 0);
    assert_true(have.loss[1] > 1 && have.norm[1] > 0);
    wf_settings_release(wf_train_setting_list(), &s);
    folder_remove(&f);
}

int main(void)
{
    struct CMUnitTest tests[3 * N_RUNS];
    static void (*const checks[])(void **) = {masked_rows_change_no_bit, layouts_change_no_bit,
                                              masked_step_is_zero};
    static char names[3 * N_RUNS][64];
    for (size_t i = 0; i < 3 * N_RUNS; i++) {
        static const char *const kinds[] = {"masked rows", "layouts", "masked step"};
        snprintf(names[i], sizeof names[i], "%s, %s", run_names[i / 3], kinds[i % 3]);
        tests[i] =
            (struct CMUnitTest){names[i], checks[i % 3], NULL, NULL, (void *)run_names[i / 3]};
    }
    return cmocka_run_group_tests_name("mask", tests, NULL, NULL) != 0;
}
