/* Checks training on several ranks, each a thread: traffic is as predicted, a
 * step allocates nothing, and a failure on one rank is reported on all ranks. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/model/stage.h"
#include "counter.h"
#include "evaluations.h"
#include "runs.h"
#include "training/trainer/trainer_priv.h"
#include "weft/comm.h"

/* -- running ranks ------------------------------------------------------------------------- */

struct ranks {
    struct wf_train_settings settings;
    weft_rank_fn *after; /* checks the trainer of each rank */
};

/* The trainer of the calling rank. */
static _Thread_local struct wf_trainer *trainer;

static enum weft_status train_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct ranks *r = arg;
    WEFT_TRY(wf_trainer_new(&r->settings, comm, &trainer, err));
    enum weft_status st = r->after(comm, arg, err);
    wf_trainer_free(trainer);
    return st;
}

static void run_ranks(struct ranks *r, enum weft_status want, const char *words)
{
    struct weft_error err = {0};
    uint32_t n = r->settings.parallel.pp * r->settings.parallel.dp;
    enum weft_status st = weft_comm_run_threads(n, train_rank, r, &err);
    if (st != want || strstr(err.msg, words) == NULL)
        fail_msg("status %d, '%s': wanted %d, '%s'", st, err.msg, want, words);
    wf_settings_release(wf_train_setting_list(), &r->settings);
}

static void set_layout(struct ranks *r, const char *pp, const char *dp, const char *schedule)
{
    run_set(&r->settings, "parallel.pp", pp);
    run_set(&r->settings, "parallel.dp", dp);
    run_set(&r->settings, "parallel.schedule", schedule);
    run_set(&r->settings, "parallel.threads", "1");
    run_set(&r->settings, "train.timeout", "10");
}

/* -- bytes --------------------------------------------------------------------------------- */

static enum weft_status compare_bytes(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct wf_topology *l = wf_trainer_info(trainer).topology;
    size_t elements = (size_t)l->batch / l->micros * l->seq * l->model.dim;
    const struct weft_payload payload = {4 * elements, 8 * elements};
    struct weft_traffic_step want;
    struct wf_step_result result;
    uint32_t rank = weft_comm_rank(comm);

    (void)arg;
    WEFT_TRY(wf_trainer_step(trainer, &result, err));
    WEFT_TRY(weft_traffic_step_init(&want, wf_topology_traffic(l, 0), payload, err));

    uint64_t forward = 0, backward = 0;
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; i < want.n_links; i++) {
        const struct weft_traffic_link *link = &want.links[i];
        if (link->from != rank)
            continue;
        forward += link->forward_bytes;
        backward += link->backward_bytes;

        uint64_t f = weft_exec_bytes_to(trainer->exec, link->to, false);
        uint64_t b = weft_exec_bytes_to(trainer->exec, link->to, true);
        if (f != link->forward_bytes || b != link->backward_bytes)
            st = WEFT_FAIL(err, WEFT_INTERNAL,
                           "%u to %u: %zu and %zu bytes sent, %zu and %zu predicted", rank,
                           link->to, (size_t)f, (size_t)b, link->forward_bytes,
                           link->backward_bytes);
    }

    for (uint32_t r = 0; r < l->pp; r++) { /* no other bytes were sent */
        forward -= weft_exec_bytes_to(trainer->exec, r, false);
        backward -= weft_exec_bytes_to(trainer->exec, r, true);
    }

    if (st == WEFT_OK && (forward != 0 || backward != 0))
        st = WEFT_FAIL(err, WEFT_INTERNAL, "rank %u sent more than predicted", rank);

    weft_traffic_step_release(&want);
    return st;
}

static void check_bytes(void **state)
{
    static const char *const caches[] = {"off", "received", "full"};
    static const char *const layouts[][3] = {
        {"2", "1f1b", "1"}, {"3", "zb-h1", "1"},    {"2", "interleaved-1f1b", "3"},
        {"3", "zb-v", "2"}, {"2", "dualpipe", "1"}, {"2", "looped-bfs", "3"},
    };
    (void)state;
    for (size_t c = 0; c < WEFT_LEN(caches); c++)
        for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
            struct ranks r = {.after = compare_bytes};
            run_settings(&r.settings, "llama-tiny-tied-residual");
            set_layout(&r, layouts[i][0], "1", layouts[i][1]);
            if (strcmp(layouts[i][1], "dualpipe") != 0)
                run_set(&r.settings, "parallel.chunks", layouts[i][2]);
            run_set(&r.settings, "parallel.cache", caches[c]);
            run_ranks(&r, WEFT_OK, "");
        }
}

/* -- allocations --------------------------------------------------------------------------- */

static enum weft_status count_calls(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    static atomic_size_t before;
    struct wf_step_result result;
    (void)arg;
    for (int i = 0; i < 2; i++)
        WEFT_TRY(wf_trainer_step(trainer, &result, err));
    WEFT_TRY(weft_comm_barrier(comm, err));
    if (weft_comm_rank(comm) == 0)
        before = counter_calls();
    WEFT_TRY(weft_comm_barrier(comm, err));
    for (int i = 0; i < 3; i++)
        WEFT_TRY(wf_trainer_step(trainer, &result, err));
    WEFT_TRY(weft_comm_barrier(comm, err));
    size_t calls = counter_calls() - before;
    WEFT_TRY(weft_comm_barrier(comm, err));
    if (calls != 0)
        return WEFT_FAIL(err, WEFT_INTERNAL, "%zu allocations in three steps", calls);
    return WEFT_OK;
}

static void check_allocations(void **state)
{
    if (!COUNTER_WORKS)
        skip();
    static const char *const layouts[][3] = {
        {"2", "2", "1f1b"}, {"3", "1", "zb-h1"}, {"2", "1", "dualpipe"}};
    for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
        struct ranks r = {.after = count_calls};
        run_settings(&r.settings, *state);
        set_layout(&r, layouts[i][0], layouts[i][1], layouts[i][2]);
        run_set(&r.settings, "parallel.cache", "full");
        run_ranks(&r, WEFT_OK, "");
    }
}

/* -- failures ------------------------------------------------------------------------------ */

/* Puts a NaN into each stage in turn: the step fails on all ranks with the same message, and
 * the run continues once the weight is restored. */
static enum weft_status fail_by_nan(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct wf_topology *l = wf_trainer_info(trainer).topology;
    struct wf_step_result result;
    (void)arg;

    for (uint32_t s = 0; s < l->n_stages; s++) {
        struct weft_error bad = {0};
        size_t n;
        const struct wf_param *p = wf_trainer_params(trainer, s, &n);
        float kept = 0;

        if (p != NULL) {
            kept = p[n / 2].value[0];
            p[n / 2].value[0] = NAN;
            wf_trainer_pack(trainer);
        }

        enum weft_status st = wf_trainer_step(trainer, &result, &bad);
        if (st != WEFT_NUMERIC || strstr(bad.msg, "step 1, micro 0: ") == NULL)
            return WEFT_FAIL(err, WEFT_INTERNAL, "stage %u, rank %u: status %d, %.300s", s,
                             weft_comm_rank(comm), st, bad.msg);
        if (p != NULL && strstr(bad.msg, p[n / 2].desc.name) == NULL)
            return WEFT_FAIL(err, WEFT_INTERNAL, "the message lacks %s: %.300s",
                             p[n / 2].desc.name, bad.msg);

        if (p != NULL) {
            p[n / 2].value[0] = kept;
            wf_trainer_pack(trainer);
        }
    }

    WEFT_TRY(wf_trainer_step(trainer, &result, err));
    return result.step == 1 ? WEFT_OK : WEFT_FAIL(err, WEFT_INTERNAL, "not the first step");
}

static void check_nan_weights(void **state)
{
    static const char *const layouts[][3] = {
        {"2", "1", "1f1b"}, {"4", "1", "zb-h1"}, {"2", "1", "zb-v"}};
    for (size_t i = 0; i < WEFT_LEN(layouts); i++) {
        struct ranks r = {.after = fail_by_nan};
        run_settings(&r.settings, *state);
        set_layout(&r, layouts[i][0], layouts[i][1], layouts[i][2]);
        run_ranks(&r, WEFT_OK, "");
    }
}

/* Gives one rank another learning rate. */
static enum weft_status create_with_other_lr(struct weft_comm *comm, void *arg,
                                             struct weft_error *err)
{
    struct wf_train_settings own = ((struct ranks *)arg)->settings;
    if (weft_comm_rank(comm) == 2)
        own.optim.lr = 0.5;
    return wf_trainer_new(&own, comm, &trainer, err);
}

static void check_different_settings(void **state)
{
    struct ranks r = {0};
    struct weft_error err = {0};
    (void)state;
    run_settings(&r.settings, "gpt2-tiny");
    set_layout(&r, "4", "1", "1f1b");
    run_set(&r.settings, "optim.lr", "0.25");
    run_set(&r.settings, "optim.min_lr", "0");
    assert_int_equal(weft_comm_run_threads(4, create_with_other_lr, &r, &err), WEFT_USAGE);
    assert_string_equal(err.msg,
                        "rank 2 does not have the settings of rank 0: in optim rank 0 has "
                        "'lr: 0.25' and rank 2 'lr: 0.5'; give all ranks the same");
    wf_settings_release(wf_train_setting_list(), &r.settings);
}

/* Rank 1 stops sending heartbeats: the other ranks fail and name it. */
static enum weft_status stop_heartbeats(struct weft_comm *comm, void *arg,
                                        struct weft_error *err)
{
    struct wf_step_result result;
    (void)arg;
    WEFT_TRY(wf_trainer_step(trainer, &result, err));
    if (weft_comm_rank(comm) == 1)
        nanosleep(&(struct timespec){3, 0}, NULL);
    return wf_trainer_step(trainer, &result, err);
}

static void check_silent_rank(void **state)
{
    struct ranks r = {.after = stop_heartbeats};
    (void)state;
    run_settings(&r.settings, "gpt2-tiny");
    set_layout(&r, "3", "1", "1f1b");
    run_set(&r.settings, "train.timeout", "1");
    run_ranks(&r, WEFT_PEER, "rank 1 has sent no heartbeat");
}

/* -- evaluation ------------------------------------------------------------------------------ */

struct evaluation {
    struct ranks ranks;
    double want;
};

static enum weft_status evaluate(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct evaluation *x = arg;
    return eval_check(comm, trainer, &x->ranks.settings, x->want, err);
}

static void check_evaluation(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(eval_layouts); i++) {
        struct evaluation x = {.ranks = {.after = evaluate},
                               .want = eval_on_one_rank(&eval_layouts[i])};
        eval_settings(&x.ranks.settings, &eval_layouts[i]);
        run_ranks(&x.ranks, WEFT_OK, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_bytes),
        cmocka_unit_test(check_evaluation),
        {"allocations, gpt2", check_allocations, NULL, NULL, (void *)"gpt2-tiny"},
        {"allocations, residuals", check_allocations, NULL, NULL,
         (void *)"llama-tiny-tied-residual"},
        {"NaN weights, gpt2", check_nan_weights, NULL, NULL, (void *)"gpt2-tiny"},
        {"NaN weights, llama", check_nan_weights, NULL, NULL, (void *)"llama-tiny"},
        cmocka_unit_test(check_different_settings),
        cmocka_unit_test(check_silent_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
