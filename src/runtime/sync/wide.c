/* Sums of doubles in fixed point.
 *
 * Digit k has the weight 2^(32 k + first).  A digit is a signed 64-bit integer, so carries wait
 * until the sum is rounded: an addition changes a digit by less than 2^33.
 *
 *     F64   first -1120   from below 2^-1074 / 2^32 to 2^1024 * 2^30
 *     F32   first  -192   from below 2^-149 / 2^32 to 2^128 * 2^30; also for bf16
 *
 * The lowest digit is zero until the sum is divided.  It then keeps the bits that decide how
 * the smallest numbers are rounded. */
#include "runtime/sync/wide.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define DIGIT_MASK UINT64_C(0xffffffff)

struct format {
    int first;     /* exponent of the lowest bit of a sum */
    int smallest;  /* exponent of the smallest positive number */
    int precision; /* bits of a normal number */
    double largest;
    size_t digits; /* two more than the range needs: wf_wide_add() changes three digits */
};

static const struct format *format_of(enum wf_sum_type type)
{
    static const struct format formats[] = {
        [WF_SUM_F32] = {-192, -149, 24, 0x1.fffffep127, 13},
        [WF_SUM_BF16] = {-192, -133, 8, 0x1.fep127, 13},
        [WF_SUM_F64] = {-1120, -1074, 53, 0x1.fffffffffffffp1023, WF_WIDE_MAX_DIGITS},
    };
    return &formats[type];
}

size_t wf_wide_digits(enum wf_sum_type type)
{
    return format_of(type)->digits;
}

void wf_wide_add(int64_t *digits, enum wf_sum_type type, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    int exponent = (int)(bits >> 52 & 0x7ff);
    if (exponent != 0)
        mantissa |= UINT64_C(1) << 52;
    if (mantissa == 0)
        return;

    /* x = mantissa * 2^(position + first), with an odd mantissa. */
    int zeros = __builtin_ctzll(mantissa);
    int position = (exponent != 0 ? exponent : 1) - 1075 + zeros - format_of(type)->first;
    mantissa >>= zeros;

    int64_t *at = digits + position / 32;
    uint64_t low = (mantissa & DIGIT_MASK) << position % 32;
    uint64_t high = (mantissa >> 32) << position % 32;
    int64_t sign = bits >> 63 != 0 ? -1 : 1;
    at[0] += sign * (int64_t)(low & DIGIT_MASK);
    at[1] += sign * (int64_t)((low >> 32) + (high & DIGIT_MASK));
    at[2] += sign * (int64_t)(high >> 32);
}

/* -- rounding ------------------------------------------------------------------------------ */

/* Moves the carries, so that all digits except the last are in [0, 2^32). */
static void carry(int64_t *digits, size_t n)
{
    for (size_t k = 0; k + 1 < n; k++) {
        int64_t low = digits[k] & (int64_t)DIGIT_MASK;
        digits[k + 1] += (digits[k] - low) / (INT64_C(1) << 32);
        digits[k] = low;
    }
}

/* Divides digits in [0, 2^32).  Returns true if there is a remainder. */
static bool divide(int64_t *digits, size_t n, uint32_t of)
{
    uint64_t remainder = 0;
    for (size_t k = n; k-- > 0;) {
        uint64_t part = remainder << 32 | (uint64_t)digits[k];
        digits[k] = (int64_t)(part / of);
        remainder = part % of;
    }
    return remainder != 0;
}

/* Returns the number of the highest bit that is set, or -1. */
static int highest_bit(const int64_t *digits, size_t n)
{
    while (n > 0 && digits[n - 1] == 0)
        n--;
    if (n == 0)
        return -1;
    return (int)(32 * (n - 1)) + 63 - __builtin_clzll((uint64_t)digits[n - 1]);
}

/* Returns up to 64 bits from bit `from` on.  The digits above the highest bit are zero. */
static uint64_t bits_from(const int64_t *digits, size_t n, int from)
{
    uint64_t bits = 0;
    size_t k = (size_t)from / 32;
    int shift = from % 32;
    bits = (uint64_t)digits[k] >> shift;
    if (k + 1 < n)
        bits |= (uint64_t)digits[k + 1] << (32 - shift);
    if (k + 2 < n && shift != 0)
        bits |= (uint64_t)digits[k + 2] << (64 - shift);
    return bits;
}

/* Returns true if a bit below bit `end` is set. */
static bool any_below(const int64_t *digits, int end)
{
    int k = 0;
    for (; 32 * (k + 1) <= end; k++)
        if (digits[k] != 0)
            return true;
    return (digits[k] & ((INT64_C(1) << end % 32) - 1)) != 0;
}

double wf_wide_round(int64_t *digits, enum wf_sum_type type, uint32_t of)
{
    const struct format *f = format_of(type);
    size_t n = f->digits;
    carry(digits, n);
    bool negative = digits[n - 1] < 0;
    if (negative) {
        for (size_t k = 0; k < n; k++)
            digits[k] = -digits[k];
        carry(digits, n);
    }
    int highest = highest_bit(digits, n);
    if (highest < 0)
        return 0;
    bool more = divide(digits, n, of);
    highest = highest_bit(digits, n);

    /* The result is a multiple of 2^(last + first). */
    int last = highest + 1 - f->precision;
    if (last < f->smallest - f->first)
        last = f->smallest - f->first;
    uint64_t kept = bits_from(digits, n, last);
    bool half = (bits_from(digits, n, last - 1) & 1) != 0;
    more |= any_below(digits, last - 1);
    if (half && (more || (kept & 1) != 0))
        kept++;

    double result = ldexp((double)kept, last + f->first);
    if (result > f->largest)
        result = HUGE_VAL;
    return negative ? -result : result;
}
