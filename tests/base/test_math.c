/* Tests the elementary functions: accuracy against libm in long double, special values, and
 * bits that must be the same on every machine. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/math.h"
#include "base/random.h"

enum { N = 20000 };

static double uniform(uint64_t stream, uint64_t i)
{
    return (double)(wf_random_u64(1, stream, i) >> 11) * 0x1p-53;
}

static double power_of_half(double x)
{
    return wf_math_pow(x, 0.5);
}

static double power_of_ten(double x)
{
    return wf_math_power(x, 10);
}

static long double pow10l_of(long double x)
{
    return powl(x, 10);
}

/* Arguments are uniform in [low, high).  Errors are in units of the last place of a result. */
static const struct {
    const char *name;
    double (*fn)(double);
    long double (*want)(long double);
    double low, high, error;
} functions[] = {
    {"exp", wf_math_exp, expl, -700, 700, 2},
    {"exp near 0", wf_math_exp, expl, -1, 1, 2},
    {"expm1", wf_math_expm1, expm1l, -30, 2, 4},
    {"expm1 near 0", wf_math_expm1, expm1l, -0.01, 0.01, 2},
    {"log", wf_math_log, logl, 0, 10, 2},
    {"log of large numbers", wf_math_log, logl, 1e3, 1e300, 2},
    {"log near 1", wf_math_log, logl, 0.999, 1.001, 2},
    {"log of subnormal numbers", wf_math_log, logl, 0, 0x1p-1022, 2},
    {"cos", wf_math_cos, cosl, -10, 10, 2},
    {"sin", wf_math_sin, sinl, -10, 10, 2},
    {"cos of large angles", wf_math_cos, cosl, 0, 1e6, 3},
    {"sin of large angles", wf_math_sin, sinl, 0, 1e6, 3},
    {"square root as a power", power_of_half, sqrtl, 0, 1e6, 8},
    {"tenth power", power_of_ten, pow10l_of, 0.5, 2, 10},
};

static void check_accuracy(void **state)
{
    (void)state;
    if (sizeof(long double) <= sizeof(double))
        skip(); /* no better reference */
    for (size_t f = 0; f < WEFT_LEN(functions); f++)
        for (uint64_t i = 0; i < N; i++) {
            double x =
                functions[f].low + uniform(f, i) * (functions[f].high - functions[f].low);
            double got = functions[f].fn(x);
            long double want = functions[f].want(x);
            double unit = nextafter(fabs((double)want), INFINITY) - fabs((double)want);
            if (!(fabsl((long double)got - want) <= (long double)(functions[f].error * unit)))
                fail_msg("%s of %a: %a, want %La", functions[f].name, x, got, want);
        }
}

static void check_special(void **state)
{
    (void)state;
    assert_true(wf_math_exp(0) == 1 && wf_math_expm1(0) == 0 && wf_math_log(1) == 0);
    assert_true(wf_math_cos(0) == 1 && wf_math_sin(0) == 0);
    assert_true(isinf(wf_math_exp(710.5)) && isinf(wf_math_exp(INFINITY)));
    assert_true(wf_math_exp(-746.5) == 0 && wf_math_exp(-INFINITY) == 0);
    assert_true(wf_math_exp(-745) == 0x1p-1074); /* the smallest subnormal number */
    assert_true(wf_math_expm1(-100) == -1);
    assert_true(isnan(wf_math_exp(NAN)) && isnan(wf_math_expm1(NAN)) &&
                isnan(wf_math_log(NAN)));
    assert_true(isinf(wf_math_log(0)) && wf_math_log(0) < 0 && isnan(wf_math_log(-1)));
    assert_true(isinf(wf_math_log(INFINITY)));
    assert_true(isnan(wf_math_cos(INFINITY)) && isnan(wf_math_sin(NAN)));
    assert_true(wf_math_power(0.9, 1) == 0.9 && wf_math_power(0, 3) == 0);
    assert_true(wf_math_power(3, 4) == 81 && wf_math_power(7, 0) == 1);
}

/* A change of one bit in any result changes the hash. */
static void check_bits(void **state)
{
    uint64_t h = 0;
    (void)state;
    for (size_t f = 0; f < WEFT_LEN(functions); f++)
        for (uint64_t i = 0; i < N; i++) {
            double x = functions[f].fn(functions[f].low +
                                       uniform(f, i) * (functions[f].high - functions[f].low));
            h = wf_hash(h, &x, sizeof x);
        }
    if (h != UINT64_C(0x4963e96843d1a3a4))
        fail_msg("the hash of all results is %" PRIx64, h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_accuracy),
        cmocka_unit_test(check_special),
        cmocka_unit_test(check_bits),
    };
    return cmocka_run_group_tests_name("math", tests, NULL, NULL);
}
