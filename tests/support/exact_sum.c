/* Implements a slow reference for sums of floating-point numbers. */
#include "exact_sum.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNIT = -1200 };

void exact_sum_add(struct exact_sum *sum, double x)
{
    int exponent;
    uint64_t *at = signbit(x) ? sum->negative : sum->positive;
    uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
    int position = exponent - 53 - UNIT;
    assert(isfinite(x) && position >= 0 && position + 128 < 64 * EXACT_WORDS);

    /* Adds two words, and then the carry as long as there is one. */
    unsigned __int128 shifted = (unsigned __int128)mantissa << position % 64;
    unsigned __int128 carry = 0;
    for (int i = position / 64; shifted != 0 || carry != 0; i++, shifted >>= 64) {
        carry += (unsigned __int128)at[i] + (uint64_t)shifted;
        at[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static bool is_less(const uint64_t *a, const uint64_t *b)
{
    int i = EXACT_WORDS - 1;
    while (i > 0 && a[i] == b[i])
        i--;
    return a[i] < b[i];
}

static void subtract(uint64_t *out, const uint64_t *a, const uint64_t *b)
{
    bool borrow = false;
    for (int i = 0; i < EXACT_WORDS; i++) {
        unsigned __int128 less = (unsigned __int128)b[i] + borrow;
        out[i] = (uint64_t)(a[i] - less);
        borrow = a[i] < less;
    }
}

static bool bit(const uint64_t *a, int i)
{
    return (a[i / 64] >> i % 64 & 1) != 0;
}

/* Rounds a natural number in units of 2^UNIT.  `more`: the number is slightly larger. */
static double round_natural(const uint64_t *a, bool more, int precision, int smallest)
{
    int top = 64 * EXACT_WORDS - 1;
    while (top >= 0 && !bit(a, top))
        top--;
    int last = top - precision + 1;
    if (last + UNIT < smallest)
        last = smallest - UNIT;

    double kept = 0;
    for (int i = top; i >= last; i--)
        kept = 2 * kept + bit(a, i);
    for (int i = 0; i < last - 1; i++)
        more |= bit(a, i);
    bool odd = bit(a, last), half = bit(a, last - 1);
    if (half && (more || odd))
        kept++;
    return ldexp(kept, last + UNIT);
}

double exact_sum_round(const struct exact_sum *sum, uint32_t of, enum weft_sync_type type)
{
    static const int precisions[] = {24, 8, 53}, smallest[] = {-149, -133, -1074};
    static const double largest[] = {0x1.fffffep127, 0x1.fep127, 0x1.fffffffffffffp1023};
    bool negative = is_less(sum->positive, sum->negative);
    uint64_t size[EXACT_WORDS];
    if (negative)
        subtract(size, sum->negative, sum->positive);
    else
        subtract(size, sum->positive, sum->negative);

    unsigned __int128 rest = 0;
    for (int i = EXACT_WORDS - 1; i >= 0; i--) {
        rest = rest << 64 | size[i];
        size[i] = (uint64_t)(rest / of);
        rest %= of;
    }
    double result = round_natural(size, rest != 0, precisions[type], smallest[type]);
    if (result > largest[type])
        result = INFINITY;
    return negative ? -result : result;
}

double exact_sum_get(const void *x, enum weft_sync_type type, size_t i)
{
    if (type == WEFT_SYNC_F64)
        return ((const double *)x)[i];
    if (type == WEFT_SYNC_F32)
        return (double)((const float *)x)[i];
    float f;
    memcpy(&f, &(uint32_t){(uint32_t)((const uint16_t *)x)[i] << 16}, sizeof f);
    return (double)f;
}

void exact_sum_put(void *x, enum weft_sync_type type, size_t i, double v)
{
    if (type == WEFT_SYNC_F64)
        ((double *)x)[i] = v;
    else if (type == WEFT_SYNC_F32)
        ((float *)x)[i] = (float)v;
    else {
        uint32_t bits;
        memcpy(&bits, &(float){(float)v}, sizeof bits);
        ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
    }
    assert(exact_sum_get(x, type, i) == v);
}

double exact_sum_random(uint64_t random, enum weft_sync_type type, int low, int high)
{
    static const int precisions[] = {24, 8, 53}, smallest[] = {-149, -133, -1074};
    int exponent = low + (int)((random >> 54) % (uint64_t)(high - low + 1));
    int bits = precisions[type];
    if (exponent - bits + 1 < smallest[type])
        bits = exponent + 1 - smallest[type];
    /* The leading bit is set; the others are random. */
    uint64_t mantissa = UINT64_C(1) << (bits - 1);
    mantissa |= random >> 1 & (mantissa - 1);
    double size = ldexp((double)mantissa, exponent - bits + 1);
    return (random & 1) != 0 ? -size : size;
}

bool exact_case_read(FILE *f, struct exact_case *out)
{
    char line[4096];
    do
        if (fgets(line, sizeof line, f) == NULL)
            return false;
    while (line[0] == '#');
    char *rest, *word = strtok_r(line, " \n", &rest);
    *out = (struct exact_case){.type = strcmp(word, "f32") == 0    ? WEFT_SYNC_F32
                                       : strcmp(word, "bf16") == 0 ? WEFT_SYNC_BF16
                                                                   : WEFT_SYNC_F64};
    word = strtok_r(NULL, " ", &rest);
    out->op = strcmp(word, "mean") == 0 ? WEFT_SYNC_MEAN : WEFT_SYNC_SUM;
    out->result = strtod(strtok_r(NULL, " ", &rest), NULL);
    (void)strtok_r(NULL, " ", &rest); /* = */
    while ((word = strtok_r(NULL, " \n", &rest)) != NULL) {
        assert(out->n < sizeof out->terms / sizeof *out->terms);
        out->terms[out->n++] = strtod(word, NULL);
    }
    return true;
}
