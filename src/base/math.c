/* Elementary functions by reduction to a small range, and polynomials there.  The compiler must
 * not fuse multiplications and additions (CMakeLists.txt: -ffp-contract=off). */
#include "base/math.h"

#include <math.h>
#include <string.h>

/* Adding and subtracting this number rounds to the nearest integer. */
static const double round_magic = 0x1.8p52;

static const double log2_e = 0x1.71547652b82fep+0;
/* ln 2 in two parts.  The first one has 42 bits, so its product with an exponent is exact. */
static const double ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the polynomial c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
static double polynomial(const double *c, int n, double x)
{
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* -- exponentials -------------------------------------------------------------------------- */

/* Returns e^r - 1 for |r| < 0.36: Taylor's series up to r^14. */
static double small_expm1(double r)
{
    static const double c[] = {
        1.0 / 2,         1.0 / 6,          1.0 / 24,          1.0 / 120,     1.0 / 720,
        1.0 / 5040,      1.0 / 40320,      1.0 / 362880,      1.0 / 3628800, 1.0 / 39916800,
        1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200,
    };
    return r + r * r * polynomial(c, sizeof c / sizeof *c, r);
}

/* Returns 2^n, for normal results. */
static double power_of_2(int n)
{
    return from_bits((uint64_t)(n + 1023) << 52);
}

double wf_math_exp(double x)
{
    if (x != x) /* NOLINT(misc-redundant-expression): NaN */
        return x;
    if (x > 710)
        return INFINITY;
    if (x < -746)
        return 0;

    /* x = n ln 2 + r.  The result is scaled in two steps, since 2^n may be out of range. */
    double n = (x * log2_e + round_magic) - round_magic;
    double r = (x - n * ln2_high) - n * ln2_low;
    int exponent = (int)n, half = exponent / 2;
    return (1 + small_expm1(r)) * power_of_2(half) * power_of_2(exponent - half);
}

double wf_math_expm1(double x)
{
    return fabs(x) < 0.35 ? small_expm1(x) : wf_math_exp(x) - 1;
}

/* -- logarithm ----------------------------------------------------------------------------- */

/* With s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 + 2/5 s^5 + ...  Since 2 s = f - s f, and
 * s f = f^2/2 - s f^2/2, the largest term is f itself, which has no error. */
double wf_math_log(double x)
{
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (isinf(x))
        return x;

    int exponent = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        exponent = -54;
    }
    /* x = m 2^exponent with m from sqrt(1/2) to sqrt(2) */
    uint64_t bits = bits_of(x), fraction = bits & 0xfffffffffffff;
    uint64_t top = fraction < UINT64_C(0x6a09e667f3bcd) ? 1023 : 1022;
    exponent += (int)(bits >> 52) - (int)top;

    double f = from_bits(top << 52 | fraction) - 1, s = f / (2 + f), z = s * s;
    double rest = z * polynomial(c, sizeof c / sizeof *c, z), half = 0.5 * f * f;
    double small = half - (s * (half + rest) + exponent * ln2_low);
    return exponent * ln2_high - (small - f);
}

/* -- trigonometric functions --------------------------------------------------------------- */

/* Returns sin(r) for |r| <= pi / 4. */
static double small_sin(double r)
{
    static const double c[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
    double z = r * r;
    return r + r * z * polynomial(c, sizeof c / sizeof *c, z);
}

/* Returns cos(r) for |r| <= pi / 4. */
static double small_cos(double r)
{
    static const double c[] = {
        1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
        1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
    double z = r * r;
    return 1 - (0.5 * z - z * z * polynomial(c, sizeof c / sizeof *c, z));
}

/* Returns cos(x - quarters pi / 2).  pi / 2 is a sum of four numbers.  The first three have at
 * most 33 bits, so their products with the number of quarter turns are exact. */
static double cosine_from(double x, int quarters)
{
    static const double parts[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                   0x1.b839a252049c1p-104};
    if (!(fabs(x) < 0x1p50))
        return NAN;
    double n = (x * 0x1.45f306dc9c883p-1 + round_magic) - round_magic, r = x;
    for (int i = 0; i < 4; i++)
        r -= n * parts[i];

    switch (((int64_t)n - quarters) & 3) {
    case 0:
        return small_cos(r);
    case 1:
        return -small_sin(r);
    case 2:
        return -small_cos(r);
    default:
        return small_sin(r);
    }
}

double wf_math_cos(double x)
{
    return cosine_from(x, 0);
}

double wf_math_sin(double x)
{
    return cosine_from(x, 1);
}

/* -- powers -------------------------------------------------------------------------------- */

double wf_math_power(double x, uint64_t n)
{
    double result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if ((n & 1) != 0)
            result *= x;
    return result;
}

double wf_math_pow(double x, double y)
{
    return wf_math_exp(y * wf_math_log(x));
}
