/* Checks ranks as threads: messages arrive in order and by reference, and every wait ends. */
#include "weft/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "ranks.h"

static void run_all(weft_rank_fn *fn, uint32_t max_ranks)
{
    struct weft_error err;
    for (uint32_t n = 1; n <= max_ranks; n++)
        if (weft_comm_run_threads(n, fn, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
}

static void test_ring(void **state)
{
    (void)state;
    run_all(ranks_ring, 8);
}

static void test_collect(void **state)
{
    (void)state;
    run_all(ranks_collect, 8);
}

static void test_sizes(void **state)
{
    (void)state;
    run_all(ranks_sizes, 2);
}

static void test_busy(void **state)
{
    struct weft_error err;
    (void)state;
    if (weft_comm_run_threads(2, ranks_busy, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static void test_own_work(void **state)
{
    struct weft_error err;
    (void)state;
    if (weft_comm_run_threads(3, ranks_own_work, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < ranks_n_faults; i++) {
        const struct ranks_fault *c = &ranks_faults[i];
        struct weft_error err = {0};
        int64_t begin = wf_clock_ns();
        enum weft_status st = weft_comm_run_threads(3, ranks_faulty, (void *)c, &err);
        if (st != c->status || strstr(err.msg, c->message) == NULL)
            fail_msg("%s: status %d, %s", c->name, st, err.msg);
        if (strcmp(c->name, "sleeps") == 0 && strstr(err.msg, "step 5, at action 40") == NULL)
            fail_msg("the action of rank 0 is not named: %s", err.msg);
        assert_true(wf_clock_ns() - begin < INT64_C(60000000000)); /* not a hang */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),     cmocka_unit_test(test_collect),
        cmocka_unit_test(test_sizes),    cmocka_unit_test(test_busy),
        cmocka_unit_test(test_own_work), cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
