/* Checks that every form of train.recompute gives the same bits on several ranks, that `auto`
 * keeps a run within its memory limit, and that a run resumes with another recomputation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "runs.h"
#include "weft/comm.h"

enum { STEPS = 3 }; /* each loss depends on all weights after the previous step */

struct bits {
    double loss[STEPS], norm[STEPS];
};

/* A run of several ranks: its settings, and on return what rank 0 saw. */
struct recompute_run {
    struct wf_train_settings settings;
    uint64_t first, last; /* steps to run: first + 1 .. last */
    bool checkpoint;      /* write a checkpoint after the last step */
    struct bits got;
    size_t total; /* bytes of all ranks */
    size_t bytes[8];
};

static enum weft_status train_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct recompute_run *r = arg;
    struct wf_trainer *t = NULL;

    WEFT_TRY(wf_trainer_new(&r->settings, comm, &t, err));
    uint32_t rank = weft_comm_rank(comm);
    r->bytes[rank] = wf_trainer_info(t).bytes.total;

    enum weft_status st = WEFT_OK;
    if (wf_trainer_steps_done(t) != r->first)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "the run starts after step %llu",
                       (unsigned long long)wf_trainer_steps_done(t));

    for (uint64_t i = r->first; st == WEFT_OK && i < r->last; i++) {
        struct wf_step_result result;
        st = wf_trainer_step(t, &result, err);
        if (st == WEFT_OK && rank == 0) {
            r->got.loss[i] = result.loss;
            r->got.norm[i] = result.grad_norm;
        }
    }

    if (st == WEFT_OK && r->checkpoint)
        st = wf_trainer_checkpoint(t, err);

    wf_trainer_free(t);
    return st;
}

static void train(struct recompute_run *r)
{
    struct weft_error err = {0};
    uint32_t n = r->settings.parallel.pp * r->settings.parallel.dp;
    if (weft_comm_run_threads(n, train_rank, r, &err) != WEFT_OK)
        fail_msg("recompute %s: %s", r->settings.train.recompute, err.msg);
    for (uint32_t i = 0; i < n; i++)
        r->total += r->bytes[i];
    wf_settings_release(wf_train_setting_list(), &r->settings);
}

static void prepare(struct recompute_run *r, const char *run, const char *pp,
                    const char *schedule, const char *recompute)
{
    *r = (struct recompute_run){.last = STEPS};
    run_settings(&r->settings, run);
    run_set(&r->settings, "parallel.pp", pp);
    run_set(&r->settings, "parallel.schedule", schedule);
    run_set(&r->settings, "parallel.threads", "1");
    run_set(&r->settings, "train.recompute", recompute);
    run_set(&r->settings, "train.timeout", "60");
}

static void assert_same_bits(const struct bits *a, const struct bits *b, const char *what)
{
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&a->loss[i], &b->loss[i], sizeof a->loss[i]) != 0 ||
            memcmp(&a->norm[i], &b->norm[i], sizeof a->norm[i]) != 0)
            fail_msg("%s: step %d: loss %.17g instead of %.17g", what, i + 1, b->loss[i],
                     a->loss[i]);
}

/* -- forms --------------------------------------------------------------------------------- */

static void check_forms(void **state)
{
    static const char *const layouts[][2] = {
        {"1", "1f1b"}, {"2", "1f1b"}, {"2", "zb-h1"}, {"2", "zb-v"}, {"2", "dualpipe"}};
    static const char *const forms[] = {"attention", "full", "full:0", "attention:0,full:1",
                                        "full:s0"};
    struct recompute_run none, other;
    prepare(&none, *state, "1", "1f1b", "none");
    train(&none);
    for (size_t l = 0; l < WEFT_LEN(layouts); l++)
        for (size_t i = 0; i < WEFT_LEN(forms); i++) {
            prepare(&other, *state, layouts[l][0], layouts[l][1], forms[i]);
            if (strcmp(layouts[l][1], "zb-v") == 0)
                run_set(&other.settings, "parallel.chunks", "2");
            train(&other);
            assert_same_bits(&none.got, &other.got, forms[i]);
        }
}

/* -- auto ---------------------------------------------------------------------------------- */

static void check_auto(void **state)
{
    struct recompute_run none, full, fit;
    prepare(&none, *state, "2", "gpipe", "none");
    train(&none);
    prepare(&full, *state, "2", "gpipe", "full");
    train(&full);
    assert_true(full.total < none.total);
    for (int i = 0; i <= 4; i++) {
        size_t limit = full.total + (none.total - full.total) * (size_t)i / 4;
        prepare(&fit, *state, "2", "gpipe", "auto");
        fit.settings.train.memory_limit = limit;
        train(&fit);
        assert_same_bits(&none.got, &fit.got, "auto");
        if (fit.total > limit)
            fail_msg("%zu bytes, the limit is %zu", fit.total, limit);
        if (i == 4)
            assert_int_equal(fit.total, none.total); /* nothing is recomputed */
        else
            assert_true(fit.total < none.total);
    }
}

/* -- resuming ------------------------------------------------------------------------------ */

static void check_resume(void **state)
{
    static const char *const forms[][2] = {
        {"none", "full"}, {"full", "attention:1"}, {"full:0", "auto"}, {"auto", "none"}};
    struct recompute_run whole, first, second;

    prepare(&whole, *state, "1", "1f1b", "none");
    train(&whole);
    for (size_t i = 0; i < WEFT_LEN(forms); i++) {
        struct folder f = folder_new();

        prepare(&first, *state, "1", "1f1b", forms[i][0]);
        run_set(&first.settings, "log.dir", f.path);
        run_set(&first.settings, "checkpoint.every", "100");
        first.last = 2;
        first.checkpoint = true;
        train(&first);

        prepare(&second, *state, "2", "1f1b", forms[i][1]);
        run_set(&second.settings, "log.dir", f.path);
        run_set(&second.settings, "checkpoint.resume", "auto");
        second.first = 2;
        train(&second);

        memcpy(second.got.loss, first.got.loss, 2 * sizeof first.got.loss[0]);
        memcpy(second.got.norm, first.got.norm, 2 * sizeof first.got.norm[0]);
        assert_same_bits(&whole.got, &second.got, forms[i][1]);

        folder_remove_path(f.path);
    }
}

int main(void)
{
    struct CMUnitTest tests[3 * N_RUNS];
    size_t n = 0;
    for (size_t i = 0; i < N_RUNS; i++) {
        void *run = (void *)(uintptr_t)run_names[i];
        tests[n++] = (struct CMUnitTest){"forms", check_forms, NULL, NULL, run};
        tests[n++] = (struct CMUnitTest){"auto", check_auto, NULL, NULL, run};
        tests[n++] = (struct CMUnitTest){"resume", check_resume, NULL, NULL, run};
    }
    return cmocka_run_group_tests_name("recompute", tests, NULL, NULL) != 0;
}
