/* Checks that every misuse of the reducer is an error and changes nothing, and that errors name
 * the ranks that do not respond. */
#include "weft/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* -- misuse -------------------------------------------------------------------------------- */

struct rank_state {
    struct weft_sync *s;
    float x[4];
};

static const uint32_t two_ids[] = {8, 9};
static const size_t two_sizes[] = {1, 3};

static enum weft_status push_both(struct rank_state *r, uint64_t step, struct weft_error *err)
{
    for (size_t i = 0; i < 4; i++)
        r->x[i] = 1;
    WEFT_TRY(weft_sync_push(r->s, step, 9, r->x + 1, err));
    return weft_sync_push(r->s, step, 8, r->x, err);
}

static enum weft_status whole_step(struct rank_state *r, uint64_t step, struct weft_error *err)
{
    WEFT_TRY(weft_sync_register(r->s, step, two_ids, two_sizes, 2, err));
    WEFT_TRY(push_both(r, step, err));
    return weft_sync_wait(r->s, step, err);
}

/* Makes an invalid call: step 4 is finished, step 5 is registered and its parameter
 * 9 is pushed. */
static enum weft_status misuse(struct rank_state *r, int what, struct weft_error *err)
{
    static const uint32_t twice[] = {1, 2, 1};
    static const size_t three[] = {1, 1, 1}, huge[] = {SIZE_MAX / 4, 1, 1};
    static const struct weft_sync_param unknown = {1, 1, 1, (enum weft_sync_type)3},
                                        many = {1, UINT32_C(1) << 31, 1, WEFT_SYNC_F32};
    bool done;

    switch (what) {
    case 0:
        return weft_sync_push(r->s, 5, 7, r->x, err);
    case 1:
        return weft_sync_push(r->s, 5, 9, r->x, err);
    case 2:
        return weft_sync_push(r->s, 6, 9, r->x, err);
    case 3:
        return weft_sync_push(r->s, 4, 9, r->x, err);
    case 4:
        return weft_sync_wait(r->s, 5, err);
    case 5:
        return weft_sync_wait(r->s, 6, err);
    case 6:
        return weft_sync_wait(r->s, 4, err);
    case 7:
        return weft_sync_register(r->s, 5, two_ids, two_sizes, 2, err);
    case 8:
        return weft_sync_register(r->s, 4, two_ids, two_sizes, 2, err);
    case 9:
        return weft_sync_register(r->s, 6, twice, three, 3, err);
    case 10:
        return weft_sync_register(r->s, 6, twice + 1, huge, 1, err);
    case 11:
        return weft_sync_push(r->s, 5, 8, NULL, err);
    case 12:
        return weft_sync_test(r->s, 77, &done, err);
    case 13:
        return weft_sync_register_params(r->s, 6, &unknown, 1, err);
    case 14:
        return weft_sync_register_params(r->s, 6, &many, 1, err);
    case 15:
        return weft_sync_register_params(r->s, 6, NULL, 1, err);
    case 16:
        return weft_sync_register(r->s, 6, two_ids, NULL, 2, err);
    default:
        return weft_sync_register(r->s, UINT64_MAX, NULL, NULL, 0, err);
    }
}

static const char *const misuse_errors[] = {
    "rank 0, step 5: pushes parameter 7, which is not registered",
    "rank 0, step 5: pushes parameter 9 twice",
    "rank 0 pushes a gradient of step 6, which it has not registered",
    "rank 0 pushes a gradient of step 4, which it has waited for already",
    "rank 0 waits for step 5 but has not pushed what it registered: parameter 8",
    "rank 0 waits for step 6, which it has not registered",
    "rank 0 waits for step 4, which it has waited for already",
    "rank 0 registers step 5 twice",
    "rank 0 registers step 4 after step 5: steps must ascend",
    "rank 0, step 6: parameter 1 is listed twice in the set",
    "parameters overflow",
    "pushes NULL for parameter 8",
    "rank 0 tests step 77, which it has not registered",
    "rank 0, step 6: parameter 1 has the unknown element type 3",
    "rank 0, step 6: parameter 1 has 2147483648 gradients (maximum 1073741824)",
    "rank 0, step 6: registers NULL as 1 parameters",
    "rank 0, step 6: registers NULL as 2 parameters",
    "is not a valid step number",
};

struct misuse_run {
    int what;      /* -1: all of them; then rank 0 continues as usual */
    bool returned; /* rank 0 returns its error; otherwise it only frees, and returns WEFT_OK */
    char error_of_rank_1[480];
};

static enum weft_status all_misuses(struct rank_state *r, struct weft_error *err)
{
    for (int i = 0; i < (int)WEFT_LEN(misuse_errors); i++) {
        enum weft_status st = misuse(r, i, err);
        if (st != WEFT_USAGE || strstr(err->msg, misuse_errors[i]) == NULL)
            return WEFT_FAIL(err, WEFT_INTERNAL, "misuse %d gives %d", i, st);
    }
    WEFT_TRY(weft_sync_push(r->s, 5, 8, r->x, err));
    WEFT_TRY(weft_sync_wait(r->s, 5, err));
    WEFT_TRY(weft_sync_leave(r->s, err));
    if (weft_sync_leave(r->s, NULL) != WEFT_USAGE ||
        weft_sync_register(r->s, 9, NULL, NULL, 0, NULL) != WEFT_USAGE)
        return WEFT_FAIL(err, WEFT_INTERNAL, "a rank can continue after it has left");
    return WEFT_OK;
}

static enum weft_status run_misuse(struct rank_state *r, const struct misuse_run *run,
                                   struct weft_error *err)
{
    r->x[0] = r->x[1] = r->x[2] = r->x[3] = 1;
    WEFT_TRY(weft_sync_register(r->s, 5, two_ids, two_sizes, 2, err));
    WEFT_TRY(weft_sync_push(r->s, 5, 9, r->x + 1, err));
    if (run->what < 0)
        return all_misuses(r, err);
    enum weft_status st = misuse(r, run->what, err);
    return run->returned ? st : WEFT_OK;
}

static enum weft_status misuse_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct misuse_run *run = arg;
    struct rank_state r = {0};
    bool wrong = weft_comm_rank(comm) == 0;
    weft_comm_set_timeout(comm, 40);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_MEAN, &r.s, err));
    enum weft_status st = whole_step(&r, 4, err);
    if (st == WEFT_OK)
        st = wrong ? run_misuse(&r, run, err) : whole_step(&r, 5, err);
    if (st == WEFT_OK && run->what < 0)
        for (size_t i = 0; i < 4; i++)
            if (r.x[i] != 1)
                st = WEFT_FAIL(err, WEFT_INTERNAL, "a misuse changed a result");
    if (weft_comm_rank(comm) == 1 && st != WEFT_OK)
        snprintf(run->error_of_rank_1, sizeof run->error_of_rank_1, "%s", err->msg);
    weft_sync_free(r.s);
    return st;
}

static void test_misuse(void **state)
{
    (void)state;
    for (int i = 0; i < (int)WEFT_LEN(misuse_errors); i++)
        for (int returned = 0; returned < 2; returned++) {
            struct misuse_run run = {.what = i, .returned = returned != 0};
            struct weft_error err = {0};
            int64_t begin = wf_clock_ns();
            enum weft_status st = weft_comm_run_threads(3, misuse_rank, &run, &err);
            if (st != WEFT_USAGE || strstr(err.msg, misuse_errors[i]) == NULL)
                fail_msg("misuse %d: %d, %s", i, st, err.msg);
            if (strstr(run.error_of_rank_1, misuse_errors[i]) == NULL)
                fail_msg("misuse %d: rank 1 reports %s", i, run.error_of_rank_1);
            assert_true(wf_clock_ns() - begin < INT64_C(30000000000)); /* no rank timed out */
        }
}

static void test_misuse_changes_nothing(void **state)
{
    struct misuse_run run = {.what = -1};
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 4; n++)
        if (weft_comm_run_threads(n, misuse_rank, &run, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
}

/* -- ranks that disagree or do not respond ------------------------------------------------- */

enum trouble {
    OTHER_SIZE,
    OTHER_TYPE,
    PUSHES_TOO_OFTEN,
    PUSHES_TOO_FEW,
    OTHER_OP,
    NEVER_REGISTERS,
    NEVER_PUSHES,
    NO_SYNC,
    TWO_SYNCS,
    WAITS_OTHERWISE
};

struct trouble_case {
    enum trouble trouble;
    enum weft_status status;
    const char *message, *also;
};

/* Registers a parameter of which rank 0 has another type, or another number of gradients than
 * it pushes.  All ranks push twice, except that rank 0 pushes once more or once less. */
static enum weft_status push_several(struct weft_sync *s, bool first, enum trouble trouble,
                                     struct weft_error *err)
{
    static _Thread_local double x[3][1]; /* a reducer may read it until it is freed */
    struct weft_sync_param p = {.id = 8, .n_grads = 2, .size = 1, .type = WEFT_SYNC_F32};
    if (first && trouble == OTHER_TYPE)
        p.type = WEFT_SYNC_BF16;
    WEFT_TRY(weft_sync_register_params(s, 2, &p, 1, err));
    int n = !first ? 2 : trouble == PUSHES_TOO_OFTEN ? 3 : trouble == PUSHES_TOO_FEW ? 1 : 2;
    for (int i = 0; i < n; i++)
        WEFT_TRY(weft_sync_push(s, 2, 8, x[i], err));
    return weft_sync_wait(s, 2, err);
}

static enum weft_status trouble_rank(struct weft_comm *comm, struct weft_sync *s,
                                     enum trouble trouble, struct weft_error *err)
{
    static _Thread_local struct rank_state r; /* as above */
    static const size_t others[] = {1, 4};
    r = (struct rank_state){.s = s};
    bool first = weft_comm_rank(comm) == 0;
    if (first && trouble == NEVER_REGISTERS) {
        pause_ms(2000);
        return WEFT_OK;
    }
    if (first && trouble == WAITS_OTHERWISE)
        return weft_comm_barrier(comm, err);
    if (trouble >= OTHER_TYPE && trouble <= PUSHES_TOO_FEW)
        return push_several(s, first, trouble, err);
    WEFT_TRY(weft_sync_register(s, 2, two_ids,
                                first && trouble == OTHER_SIZE ? others : two_sizes, 2, err));
    if (first && trouble == NEVER_PUSHES) {
        pause_ms(2000);
        return WEFT_OK;
    }
    WEFT_TRY(push_both(&r, 2, err));
    return weft_sync_wait(s, 2, err);
}

static enum weft_status run_trouble(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct trouble_case *c = arg;
    struct weft_sync *s = NULL;
    bool first = weft_comm_rank(comm) == 0;
    enum weft_sync_op op = first && c->trouble == OTHER_OP ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN;
    weft_comm_set_timeout(comm, 0.8);
    if (first && c->trouble == NO_SYNC) {
        pause_ms(2000);
        return WEFT_OK;
    }
    WEFT_TRY(weft_sync_new(comm, op, &s, err));
    enum weft_status st;
    if (first && c->trouble == TWO_SYNCS) {
        struct weft_sync *another = NULL;
        st = weft_sync_new(comm, op, &another, err);
    } else {
        st = trouble_rank(comm, s, c->trouble, err);
    }
    weft_sync_free(s);
    return st;
}

static void test_trouble(void **state)
{
    static const struct trouble_case cases[] = {
        {OTHER_SIZE, WEFT_USAGE, "step 2, parameter 9 has ", "4 "},
        {OTHER_TYPE, WEFT_USAGE, "step 2, parameter 8 has ", "bf16 "},
        {PUSHES_TOO_OFTEN, WEFT_USAGE,
         "rank 0, step 2: pushes parameter 8 more often than the 2 times it registered", ""},
        {PUSHES_TOO_FEW, WEFT_USAGE, "rank 0 waits for step 2 but has not pushed",
         "parameter 8"},
        {OTHER_OP, WEFT_USAGE, "the mean", "the sum"},
        {NEVER_REGISTERS, WEFT_PEER, "rank 0 has sent no heartbeat", ""},
        {NEVER_PUSHES, WEFT_PEER, "rank 0 has sent no heartbeat", "at step 2"},
        {NO_SYNC, WEFT_PEER, "rank 0 has sent no heartbeat", ""},
        {TWO_SYNCS, WEFT_USAGE, "free the other weft_sync first", ""},
        {WAITS_OTHERWISE, WEFT_PEER, "form a cycle", "rank 0"},
    };

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err = {0};
        int64_t begin = wf_clock_ns();
        enum weft_status st = weft_comm_run_threads(3, run_trouble, (void *)&cases[i], &err);

        if (st != cases[i].status || strstr(err.msg, cases[i].message) == NULL ||
            strstr(err.msg, cases[i].also) == NULL)
            fail_msg("case %zu: status %d, %s", i, st, err.msg);
        assert_true(wf_clock_ns() - begin < INT64_C(60000000000)); /* not a hang */
    }
}

/* -- several reducers, skipped steps ------------------------------------------------------- */

/* Runs one reducer after the other on the same ranks. */
static enum weft_status run_repeatedly(struct weft_comm *comm, void *arg,
                                       struct weft_error *err)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct rank_state r = {0};
        WEFT_TRY(weft_sync_new(comm, i % 2 == 0 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN, &r.s, err));
        enum weft_status st = whole_step(&r, 0, err);
        if (st == WEFT_OK && r.x[3] != (float)(i % 2 == 0 ? weft_comm_size(comm) : 1))
            st = WEFT_FAIL(err, WEFT_INTERNAL, "round %d: %g", i, (double)r.x[3]);
        weft_sync_free(r.s);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

static void test_repeated(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 5; n++)
        if (weft_comm_run_threads(n, run_repeatedly, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
    weft_sync_free(NULL);
}

/* Rank 1 has left and waits for its last step, which rank 0 skips.  The first step that rank 0
 * registers completes the wait of rank 1, although rank 1 has not registered it. */
static enum weft_status skip_steps(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    bool skips = weft_comm_rank(comm) == 0;
    uint64_t step = skips ? 5 : 0;
    struct rank_state r = {0};

    (void)arg;
    weft_comm_set_timeout(comm, 20);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &r.s, err));

    for (int i = 0; skips && i < 50; i++) { /* until the note that rank 1 left has arrived */
        pause_ms(1);
        (void)weft_comm_progress(comm, NULL);
    }

    enum weft_status st = weft_sync_register(r.s, step, two_ids, two_sizes, 2, err);
    if (st == WEFT_OK && !skips)
        st = weft_sync_leave(r.s, err);
    if (st == WEFT_OK)
        st = push_both(&r, step, err);
    if (st == WEFT_OK)
        st = weft_sync_wait(r.s, step, err);

    if (st == WEFT_OK && r.x[0] != 1)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "the result is %g, expected 1", (double)r.x[0]);

    weft_sync_free(r.s);
    return st;
}

static void test_skip(void **state)
{
    struct weft_error err;
    (void)state;
    if (weft_comm_run_threads(2, skip_steps, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_misuse),  cmocka_unit_test(test_misuse_changes_nothing),
        cmocka_unit_test(test_trouble), cmocka_unit_test(test_repeated),
        cmocka_unit_test(test_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
