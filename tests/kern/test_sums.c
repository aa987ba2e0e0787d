/* Tests sums without rounding, for every instruction set: additions lose nothing, and results
 * are rounded once.  The expected values come from sums of large integers. */
#include "compute/kern/sums.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "exact_sum.h"

enum { N = 1003, TYPES = 3, TERMS = 5 };

static const int lowest[TYPES] = {-149, -133, -1074}, highest[TYPES] = {127, 127, 989};

/* Returns a random term.  `range` is 0 for all exponents, 1 for ordinary gradients, 2
 * for subnormal numbers. */
static double term(enum wf_sum_type type, int range, uint64_t stream, uint64_t i)
{
    int low = range == 1 ? -25 : lowest[type];
    int high = range == 0 ? highest[type] : range == 1 ? -5 : low + 30;
    uint64_t random = wf_random_u64(19, stream * TYPES + type, i);
    if (random % 16 == 0)
        return 0;
    return exact_sum_random(random, (enum weft_sync_type)type, low, high);
}

struct vectors {
    double terms[TERMS][N]; /* of the type, converted */
    double x[N];            /* one of them, of the type */
    double sum[N], lost[N], rest[N], more[N];
};

static void pack(struct vectors *v, enum wf_sum_type type, int k)
{
    for (size_t i = 0; i < N; i++)
        exact_sum_put(v->x, (enum weft_sync_type)type, i, v->terms[k][i]);
}

/* Adds the terms.  At every addition, sum + x before it equals sum + lost after it. */
static void add_terms(const struct wf_sum_ops *ops, struct vectors *v, enum wf_sum_type type,
                      size_t n)
{
    memset(v->rest, 0, sizeof v->rest);
    memset(v->more, 0, sizeof v->more);

    for (int k = 0; k < TERMS; k++) {
        pack(v, type, k);
        if (k == 0) {
            assert_int_equal(ops->set(v->sum, v->x, type, n), 0);
            assert_memory_equal(v->sum, v->terms[0], n * sizeof *v->sum);
            continue;
        }

        double before[N];
        memcpy(before, v->sum, sizeof before);
        unsigned flags = ops->add(v->sum, v->lost, v->x, type, n);
        bool any = false;

        for (size_t i = 0; i < n; i++) {
            struct exact_sum e = {0};
            exact_sum_add(&e, before[i]);
            exact_sum_add(&e, v->terms[k][i]);
            assert_true(exact_sum_round(&e, 1, WEFT_SYNC_F64) == v->sum[i]);
            exact_sum_add(&e, -v->sum[i]);
            assert_true(exact_sum_round(&e, 1, WEFT_SYNC_F64) == v->lost[i]);
            any |= v->lost[i] != 0;
        }

        assert_int_equal(flags, any ? WF_SUM_LOST : 0);
        flags = ops->add(v->rest, v->more, v->lost, WF_SUM_F64, n);
        assert_int_equal(flags & WF_SUM_SKIPPED, 0);
    }
}

/* Rounds the sums and compares the results with exact arithmetic.  Returns the number of
 * elements that the function under test leaves undecided. */
static int check_round(const struct wf_sum_ops *ops, const struct vectors *v,
                       enum wf_sum_type type, bool with_rest, uint32_t of, size_t n)
{
    double out[N + 1];
    int open = 0;
    memset(out, 0x55, sizeof out);
    bool undecided = ops->round(out, v->sum, with_rest ? v->rest : NULL, of, type, n);

    for (size_t i = 0; i < n; i++) {
        double got = exact_sum_get(out, (enum weft_sync_type)type, i);
        struct exact_sum e = {0};
        exact_sum_add(&e, v->sum[i]);
        if (with_rest)
            exact_sum_add(&e, v->rest[i]);
        double want = exact_sum_round(&e, of, (enum weft_sync_type)type);
        if (isnan(got))
            open++;
        else if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("type %d, element %zu, divisor %u: %a, expected %a", (int)type, i, of, got,
                     want);
    }

    assert_int_equal(undecided, open != 0);
    assert_int_equal(((unsigned char *)out)[n * wf_sum_type_size(type)], 0x55);
    return open;
}

static void check_table(const struct wf_sum_ops *ops, int isa)
{
    static struct vectors v;
    static const uint32_t divisors[] = {1, 2, 3, 4, 7, 12, 1024, 999983, UINT32_C(1) << 30};
    for (int type = 0; type < TYPES; type++)
        for (int range = 0; range < 3; range++) {
            int open = 0;

            for (int k = 0; k < TERMS; k++)
                for (size_t i = 0; i < N; i++)
                    v.terms[k][i] = term((enum wf_sum_type)type, range, (uint64_t)k, i);

            for (size_t n = N; n > 0; n = n > 20 ? n / 7 : n - 1) {
                add_terms(ops, &v, (enum wf_sum_type)type, n);
                for (size_t k = 0; k < WEFT_LEN(divisors); k++)
                    for (int rest = 0; rest < 2; rest++)
                        open += check_round(ops, &v, (enum wf_sum_type)type, rest != 0,
                                            divisors[k], n);
            }

            /* Elements of ordinary size are almost never left open.  An fp64 sum with a rest is
             * sometimes a multiple of 3 whose third is halfway between two fp64. */
            print_message("isa %d, type %d, range %d: %d open\n", isa, type, range, open);
            if (range == 1)
                assert_true(open <= (type == WF_SUM_F64 ? 20 : 0));
        }
}

static void test_tables(void **state)
{
    (void)state;
    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512_BF16; isa++)
        if (wf_sum_ops_of((enum wf_isa)isa) != NULL)
            check_table(wf_sum_ops_of((enum wf_isa)isa), isa);
    assert_ptr_equal(wf_sum_ops(), wf_sum_ops_of(wf_isa()));
}

/* Values that are not below the limit count as zero, in every position. */
static void test_skipped(void **state)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, 0x1p990, -0x1p1000};
    (void)state;

    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512; isa++) {
        const struct wf_sum_ops *ops = wf_sum_ops_of((enum wf_isa)isa);
        for (int type = 0; ops != NULL && type < TYPES; type++)
            for (size_t k = 0; k < (type == WF_SUM_F64 ? 5 : 3); k++)
                for (size_t at = 0; at < 19; at++) {
                    double x[20], sum[20], lost[20];

                    for (size_t i = 0; i < 20; i++)
                        exact_sum_put(x, (enum weft_sync_type)type, i, -1.5);
                    if (type == WF_SUM_F64)
                        x[at] = bad[k];
                    else if (type == WF_SUM_F32)
                        ((float *)x)[at] = (float)bad[k];
                    else
                        ((uint16_t *)x)[at] = (uint16_t[]){0x7fc0, 0x7f80, 0xff80}[k];

                    assert_int_equal(ops->set(sum, x, (enum wf_sum_type)type, 19),
                                     WF_SUM_SKIPPED);
                    assert_int_equal(ops->add(sum, lost, x, (enum wf_sum_type)type, 19),
                                     WF_SUM_SKIPPED);
                    for (size_t i = 0; i < 19; i++)
                        assert_true(sum[i] == (i == at ? 0 : -3));
                }
    }
}

/* Rounds a quotient halfway between two numbers, and quotients slightly beside it. */
static void test_ties(void **state)
{
    (void)state;
    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512; isa++) {
        const struct wf_sum_ops *ops = wf_sum_ops_of((enum wf_isa)isa);
        for (uint32_t of = 1; ops != NULL && of < 40; of++) {
            /* 2^24 + 1 and 2^24 + 3 are halfway between two fp32. */
            double sum[4] = {of * 16777217.0, of * 16777219.0, of * 16777217.0,
                             of * 16777219.0};
            double rest[4] = {0, 0, 0x1p-149, -0x1p-149};
            float out[4];
            bool open = ops->round(out, sum, NULL, of, WF_SUM_F32, 2);
            assert_false(open);
            assert_true(out[0] == 16777216 && out[1] == 16777220);
            open = ops->round(out, sum, rest, of, WF_SUM_F32, 4);
            assert_true(open); /* the rest is too small for a double */
            assert_true(out[0] == 16777216 && isnan(out[2]) && isnan(out[3]));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_skipped),
        cmocka_unit_test(test_ties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
