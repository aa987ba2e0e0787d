/* Checks that random numbers are a pure function and are uniform enough for tests and searches.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"

/* Compares with the published output of SplitMix64 for seed 0, which mixes multiples of the
 * golden ratio in the same way. */
static void check_published(void **state)
{
    (void)state;
    const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15);
    assert_true(wf_random_mix(1 * golden) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(wf_random_mix(2 * golden) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(wf_random_mix(3 * golden) == UINT64_C(0x06c45d188009454f));
}

static void check_pure(void **state)
{
    (void)state;
    uint64_t forward[100];
    for (unsigned i = 0; i < 100; i++)
        forward[i] = wf_random_u64(1, 2, i);
    for (unsigned i = 100; i-- > 0;)
        assert_true(wf_random_u64(1, 2, i) == forward[i]);
}

/* Different seeds, streams and positions give different numbers. */
static void check_distinct(void **state)
{
    (void)state;
    enum { N = 12 };
    uint64_t seen[N * N * N];
    size_t n = 0;
    for (uint64_t seed = 0; seed < N; seed++)
        for (uint64_t stream = 0; stream < N; stream++)
            for (uint64_t position = 0; position < N; position++) {
                uint64_t value = wf_random_u64(seed, stream, position);
                for (size_t i = 0; i < n; i++)
                    assert_true(seen[i] != value);
                seen[n++] = value;
            }
}

/* Returns chi square of 16,000 draws below 16.  With 15 degrees of freedom, it exceeds 40 once
 * in 2,000 times. */
static double chi_square(int what, uint64_t fixed)
{
    unsigned count[16] = {0};
    for (uint64_t i = 0; i < 16000; i++)
        count[what == 0   ? wf_random_below(i, fixed, 3, 16)
              : what == 1 ? wf_random_below(3, i, fixed, 16)
                          : wf_random_below(fixed, 3, i, 16)]++;
    double sum = 0;
    for (int i = 0; i < 16; i++)
        sum += (count[i] - 1000.0) * (count[i] - 1000.0) / 1000;
    return sum;
}

static void check_uniform(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++)
        for (uint64_t fixed = 0; fixed < 5; fixed++)
            assert_true(chi_square(what, fixed) < 40);
}

static void check_below(void **state)
{
    (void)state;
    static const uint32_t limits[] = {1, 2, 3, 1000, UINT32_MAX};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        uint32_t largest = 0;
        for (uint64_t i = 0; i < 10000; i++) {
            uint32_t value = wf_random_below(7, k, i, limits[k]);
            assert_true(value < limits[k]);
            largest = value > largest ? value : largest;
        }
        assert_true(largest >=
                    limits[k] - 1 - limits[k] / 100); /* values near the limit occur */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_published), cmocka_unit_test(check_pure),
        cmocka_unit_test(check_distinct),  cmocka_unit_test(check_uniform),
        cmocka_unit_test(check_below),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL) != 0;
}
