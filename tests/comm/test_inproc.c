/* Ranks as threads: messages arrive in order, by reference; nothing waits for ever. */
#include "weft/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"

/* -- a ring of ranks ------------------------------------------------------------------------ */

enum { ROUNDS = 200 };

static enum weft_status pass_on(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    uint64_t *sums = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t value = i * n + rank, room = 0;
        struct weft_message out = {.head = {.kind = 7, .step = i},
                                   .peer = (rank + 1) % n,
                                   .channel = WEFT_USER_CHANNEL,
                                   .bytes = sizeof value,
                                   .data = &value};
        struct weft_message in = {.head = {.kind = 7, .step = i},
                                  .peer = (rank + n - 1) % n,
                                  .channel = WEFT_USER_CHANNEL,
                                  .bytes = sizeof room,
                                  .data = &room};
        WEFT_TRY(weft_comm_send(comm, &out, err));
        WEFT_TRY(weft_comm_post(comm, &in, err));
        WEFT_TRY(weft_comm_wait(comm, &in, err));
        uint64_t got;
        memcpy(&got, in.data, sizeof got);
        sums[rank] += got;
        if (in.data == &room) /* it was to be handed over, not copied */
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u got a copy", rank);
        weft_comm_release(comm, &in);
        WEFT_TRY(weft_comm_wait(comm, &out, err));
    }
    return WEFT_OK;
}

static void test_ring(void **state)
{
    (void)state;
    const uint32_t sizes[] = {1, 2, 3, 8};
    for (size_t k = 0; k < WEFT_LEN(sizes); k++) {
        uint64_t sums[8] = {0};
        uint32_t n = sizes[k];
        struct weft_error err;
        if (weft_comm_run_threads(n, pass_on, sums, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        for (uint32_t r = 0; r < n; r++) {
            uint64_t from = (r + n - 1) % n;
            assert_int_equal(sums[r], (uint64_t)n * ROUNDS * (ROUNDS - 1) / 2 + ROUNDS * from);
        }
    }
}

/* -- gather, spread, barrier ---------------------------------------------------------------- */

static enum weft_status collect(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    uint32_t own[8], all[8][8], total = 0;
    void *at[8];
    size_t size[8];
    (void)arg;
    for (uint32_t r = 0; r < n; r++) {
        own[r] = 100 * rank + r;
        at[r] = all[r];
        size[r] = r * sizeof own[0]; /* rank r sends r numbers */
    }
    WEFT_TRY(weft_comm_gather(comm, own, rank * sizeof own[0], at, size, err));
    for (uint32_t r = 0; rank == 0 && r < n; r++)
        for (uint32_t i = 0; i < r; i++)
            total += all[r][i];
    WEFT_TRY(weft_comm_spread(comm, &total, sizeof total, err));
    uint32_t expected = 0;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < r; i++)
            expected += 100 * r + i;
    if (total != expected)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: %u, not %u", rank, total, expected);
    return weft_comm_barrier(comm, err);
}

static void test_collect(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 8; n++)
        if (weft_comm_run_threads(n, collect, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
}

/* -- what goes wrong ------------------------------------------------------------------------ */

enum trouble { WRONG_STEP, WRONG_SIZE, FAILS, SLEEPS, NEVER_SENDS, N_TROUBLES };

struct case_ {
    enum trouble trouble;
    enum weft_status status;
    const char *said; /* part of the message */
};

static enum weft_status make_trouble(struct weft_comm *comm, enum trouble trouble,
                                     struct weft_error *err)
{
    uint64_t value = 1;
    struct weft_message out = {.head = {.kind = 1, .step = trouble == WRONG_STEP ? 6 : 5},
                               .peer = 1,
                               .channel = WEFT_USER_CHANNEL,
                               .bytes = trouble == WRONG_SIZE ? 4 : sizeof value,
                               .data = &value};
    if (trouble == FAILS)
        return WEFT_FAIL(err, WEFT_NUMERIC, "something is not finite");
    if (trouble == SLEEPS)
        nanosleep(&(struct timespec){1, 500000000}, NULL);
    if (trouble == NEVER_SENDS) { /* it waits, too: for something that nobody sends */
        out.peer = 1;
        WEFT_TRY(weft_comm_post(comm, &out, err));
        return weft_comm_wait(comm, &out, err);
    }
    WEFT_TRY(weft_comm_send(comm, &out, err));
    return weft_comm_wait(comm, &out, err);
}

static void say_what(void *arg, uint32_t rank, uint64_t doing, char *out, size_t room)
{
    (void)arg;
    (void)rank;
    snprintf(out, room, "at action %llu", (unsigned long long)doing);
}

/* Rank 0 makes trouble, rank 1 waits for it, rank 2 for rank 1. */
static enum weft_status troubled(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct case_ *c = arg;
    uint32_t rank = weft_comm_rank(comm);
    uint64_t room;
    weft_comm_set_timeout(comm, 0.4);
    weft_comm_describe(comm, say_what, NULL);
    weft_comm_tell(comm, 5, 40 + rank);
    if (rank == 0)
        return make_trouble(comm, c->trouble, err);
    struct weft_message in = {.head = {.kind = 1, .step = 5},
                              .peer = rank - 1,
                              .channel = WEFT_USER_CHANNEL,
                              .bytes = sizeof room,
                              .data = &room};
    WEFT_TRY(weft_comm_post(comm, &in, err));
    WEFT_TRY(weft_comm_wait(comm, &in, err));
    weft_comm_release(comm, &in);
    return WEFT_OK;
}

static void test_trouble(void **state)
{
    static const struct case_ cases[] = {
        {WRONG_STEP, WEFT_PEER, "has the step 6 where 5 was to come"},
        {WRONG_SIZE, WEFT_PEER, "has the number of bytes 4 where 8"},
        {FAILS, WEFT_NUMERIC, "something is not finite"},
        {SLEEPS, WEFT_PEER, "rank 0 gives no sign of life"},
        {NEVER_SENDS, WEFT_PEER, "in a circle"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err = {0};
        int64_t begin = weft_clock_ns();
        enum weft_status st = weft_comm_run_threads(3, troubled, (void *)&cases[i], &err);
        if (st != cases[i].status || strstr(err.msg, cases[i].said) == NULL)
            fail_msg("case %zu: status %d, %s", i, st, err.msg);
        if (cases[i].trouble == SLEEPS && strstr(err.msg, "step 5, at action 40") == NULL)
            fail_msg("what rank 0 was at is not named: %s", err.msg);
        assert_true(weft_clock_ns() - begin < INT64_C(10000000000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_collect),
        cmocka_unit_test(test_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
