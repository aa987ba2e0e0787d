/* The counts that a message is cut into: never more than the limit, and all of it. */
#include "runtime/comm/mpi/pieces.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"

/* Every size up to past the largest that can be counted, with a small limit. */
static void test_all_small(void **state)
{
    enum { LIMIT = 20, BLOCK = 6 };
    (void)state;
    for (size_t bytes = 0; bytes < 200; bytes++) {
        struct weft_pieces p = {-1, -1};
        bool fits = weft_pieces_of(bytes, LIMIT, BLOCK, &p);
        assert_int_equal(fits, bytes < (LIMIT + 1) * BLOCK);
        if (!fits)
            continue;
        assert_in_range(p.n_blocks, 0, LIMIT);
        assert_in_range(p.rest, 0, bytes <= LIMIT ? LIMIT : BLOCK - 1);
        assert_int_equal((size_t)p.n_blocks * BLOCK + (size_t)p.rest, bytes);
        assert_int_equal(p.n_blocks == 0, bytes <= LIMIT);
    }
}

static void test_real_limit(void **state)
{
    const size_t block = 1 << 20, limit = INT_MAX;
    const struct {
        size_t bytes;
        bool fits;
        int n_blocks, rest;
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
        struct weft_pieces p = {0, 0};
        assert_int_equal(weft_pieces_of(cases[i].bytes, limit, block, &p), cases[i].fits);
        assert_int_equal(p.n_blocks, cases[i].n_blocks);
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
