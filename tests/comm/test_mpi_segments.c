/* Tests how messages are split into segments: no count exceeds the limit, and the sum is the
 * whole message. */
#include "runtime/comm/mpi/segments.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* Splits all sizes up to the largest possible one and beyond, with a small limit. */
static void test_all_small(void **state)
{
    enum { LIMIT = 20, BLOCK = 6 };
    (void)state;
    for (size_t bytes = 0; bytes < 200; bytes++) {
        struct wf_mpi_segments p = {-1, -1};
        bool fits = wf_mpi_split(bytes, LIMIT, BLOCK, &p);
        assert_int_equal(fits, bytes < (LIMIT + 1) * BLOCK);
        if (!fits)
            continue;
        assert_in_range(p.n_segments, 0, LIMIT);
        assert_in_range(p.rest, 0, bytes <= LIMIT ? LIMIT : BLOCK - 1);
        assert_int_equal((size_t)p.n_segments * BLOCK + (size_t)p.rest, bytes);
        assert_int_equal(p.n_segments == 0, bytes <= LIMIT);
    }
}

static void test_real_limit(void **state)
{
    const size_t block = 1 << 20, limit = INT_MAX;
    const struct {
        size_t bytes;
        bool fits;
        int n_segments, rest;
    } cases[] = {
        {limit, true, 0, INT_MAX},
        {limit + 1, true, 2048, 0},
        {limit + 2, true, 2048, 1},
        {8 * (limit + 1) + 12345, true, 16384, 12345},
        {limit * block + block - 1, true, INT_MAX, (1 << 20) - 1},
        {limit * block + block, false, 0, 0},
        {SIZE_MAX, false, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_mpi_segments p = {0, 0};
        assert_int_equal(wf_mpi_split(cases[i].bytes, limit, block, &p), cases[i].fits);
        assert_int_equal(p.n_segments, cases[i].n_segments);
        assert_int_equal(p.rest, cases[i].rest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_small),
        cmocka_unit_test(test_real_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
