/* Compares fixed-point sums, and the slow reference of the other tests, with recorded exact
 * sums and with each other. */
#include "runtime/sync/wide.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "exact_sum.h"

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static double wide_sum(const double *x, uint32_t n, uint32_t of, enum weft_sync_type type)
{
    int64_t digits[WF_WIDE_MAX_DIGITS] = {0};
    for (uint32_t i = 0; i < n; i++)
        wf_wide_add(digits, (enum wf_sum_type)type, x[i]);
    return wf_wide_round(digits, (enum wf_sum_type)type, of);
}

static double reference_sum(const double *x, uint32_t n, uint32_t of, enum weft_sync_type type)
{
    struct exact_sum sum = {0};
    for (uint32_t i = 0; i < n; i++)
        exact_sum_add(&sum, x[i]);
    return exact_sum_round(&sum, of, type);
}

static void test_recorded(void **state)
{
    struct exact_case c;
    int n = 0;
    (void)state;
    FILE *f = fopen(WEFT_TEST_DATA "/sync/sums.txt", "r");
    assert_non_null(f);
    for (; exact_case_read(f, &c); n++) {
        uint32_t of = c.op == WEFT_SYNC_MEAN ? c.n : 1;
        double wide = wide_sum(c.terms, c.n, of, c.type);
        double reference = reference_sum(c.terms, c.n, of, c.type);
        if (!same_bits(wide, c.result) || !same_bits(reference, c.result))
            fail_msg("case %d: %a (wide), %a (reference), expected %a", n, wide, reference,
                     c.result);
    }
    fclose(f);
    assert_int_equal(n, 468);
}

/* Ranges of exponents: everything, subnormal numbers, the largest numbers, ordinary numbers. */
static const int ranges[3][4][2] = {
    {{-149, 127}, {-149, -120}, {100, 127}, {-30, 10}},
    {{-133, 127}, {-133, -120}, {118, 127}, {-10, 10}},
    {{-1074, 1023}, {-1074, -1000}, {960, 1023}, {-60, 10}},
};

static void test_random(void **state)
{
    (void)state;
    for (uint64_t k = 0; k < 60000; k++) {
        enum weft_sync_type type = (enum weft_sync_type)(k % 3);
        const int *range = ranges[type][k / 3 % 4];
        uint32_t n = 1 + (uint32_t)(wf_random_u64(k, 0, 0) % 12);
        static const uint32_t divisors[] = {1, 2, 3, 7, 64, 1000003, UINT32_C(1) << 30};
        uint32_t of = divisors[wf_random_below(k, 1, 0, WEFT_LEN(divisors))];
        double x[13];
        for (uint32_t i = 0; i < n; i++)
            x[i] = exact_sum_random(wf_random_u64(k, 2, i), type, range[0], range[1]);
        if (k % 5 == 0) /* the first term cancels */
            x[n++] = -x[0];
        double wide = wide_sum(x, n, of, type), reference = reference_sum(x, n, of, type);
        if (!same_bits(wide, reference))
            fail_msg("sum %u: %a, expected %a", (unsigned)k, wide, reference);
    }
}

/* Adds the largest number as often as a sum allows.  The digits do not overflow. */
static void test_many(void **state)
{
    static const double largest[] = {0x1.fffffep127, 0x1.fep127, 0x1.fffffffffffffp1023};
    (void)state;
    for (int type = 0; type < 3; type++) {
        int64_t digits[WF_WIDE_MAX_DIGITS] = {0};
        size_t n = wf_wide_digits((enum wf_sum_type)type);
        wf_wide_add(digits, (enum wf_sum_type)type, largest[type]);
        for (size_t i = 0; i < n; i++)
            digits[i] *= INT64_C(1) << 30; /* 2^30 additions */
        assert_true(same_bits(wf_wide_round(digits, (enum wf_sum_type)type, UINT32_C(1) << 30),
                              largest[type]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
