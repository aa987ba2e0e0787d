/* Sums of floating-point vectors without rounding, for one instruction set.  Additions and
 * subtractions alone make up the exact parts, so the compiler cannot fuse any of them. */
#include "compute/kern/sums.h"

#include <math.h>

#include "compute/kern/fast/exact.h"

typedef int32_t vec_half_i32 __attribute__((vector_size(2 * VEC)));
typedef uint32_t vec_half_u32 __attribute__((vector_size(2 * VEC)));
typedef uint16_t vec_half_u16 __attribute__((vector_size(VEC)));

/* -- vectors ------------------------------------------------------------------------------- */

VEC_INLINE vec_half_f64 f64_load(const double *p)
{
    vec_half_f64 v;
    memcpy(&v, p, sizeof v);
    return v;
}

VEC_INLINE void f64_store(double *p, vec_half_f64 v)
{
    memcpy(p, &v, sizeof v);
}

VEC_INLINE vec_half_f64 f64_abs(vec_half_f64 x)
{
    return (vec_half_f64)((vec_half_i64)x & INT64_MAX);
}

VEC_INLINE vec_half_f64 f64_select(vec_half_i64 mask, vec_half_f64 yes, vec_half_f64 no)
{
    return (vec_half_f64)((mask & (vec_half_i64)yes) | (~mask & (vec_half_i64)no));
}

VEC_INLINE bool any_i64(vec_half_i64 mask)
{
    int64_t all = 0;
    for (int i = 0; i < HALF; i++)
        all |= mask[i];
    return all != 0;
}

VEC_INLINE bool any_i32(vec_half_i32 mask)
{
    int32_t all = 0;
    for (int i = 0; i < HALF; i++)
        all |= mask[i];
    return all != 0;
}

/* Loads HALF elements. */
VEC_INLINE vec_half_f64 load(const void *x, enum wf_sum_type type)
{
    if (type == WF_SUM_F64)
        return f64_load(x);
    if (type == WF_SUM_F32)
        return half_to_f64(half_load(x));
    vec_half_u16 h;
    memcpy(&h, x, sizeof h);
    return half_to_f64((vec_half)(__builtin_convertvector(h, vec_half_u32) << 16));
}

VEC_INLINE const void *element(const void *x, enum wf_sum_type type, size_t i)
{
    return (const char *)x + i * wf_sum_type_size(type);
}

/* -- adding -------------------------------------------------------------------------------- */

/* A sum as the rounded sum and its error. */
struct pair {
    vec_half_f64 sum, error;
};

/* Adds without loss (D. Knuth's TwoSum): a + b = sum + error exactly, for all magnitudes. */
VEC_INLINE struct pair two_sum(vec_half_f64 a, vec_half_f64 b)
{
    vec_half_f64 sum = a + b, rounded_b = sum - a;
    return (struct pair){sum, (a - (sum - rounded_b)) + (b - rounded_b)};
}

/* True lanes are events in any element so far. */
struct events {
    vec_half_i64 lost, skipped;
};

static unsigned flags_of(const struct events *e)
{
    return (any_i64(e->lost) ? WF_SUM_LOST : 0U) | (any_i64(e->skipped) ? WF_SUM_SKIPPED : 0U);
}

/* Adds HALF elements of x to sums, or sets the sums if `lost` is NULL. */
VEC_INLINE void add_half(double *sum, double *lost, const void *x, enum wf_sum_type type,
                         struct events *e)
{
    vec_half_f64 v = load(x, type);
    vec_half_i64 fits = f64_abs(v) < WF_SUM_LIMIT;
    v = (vec_half_f64)((vec_half_i64)v & fits);
    e->skipped |= ~fits;
    if (lost == NULL) {
        f64_store(sum, v + 0.0);
        return;
    }
    struct pair p = two_sum(f64_load(sum), v);
    e->lost |= p.error != 0;
    f64_store(sum, p.sum);
    f64_store(lost, p.error);
}

VEC_INLINE unsigned add_row(double *sum, double *lost, const void *x, enum wf_sum_type type,
                            size_t n)
{
    struct events e = {{0}, {0}};
    size_t i = 0;
    for (; i + HALF <= n; i += HALF)
        add_half(sum + i, lost == NULL ? NULL : lost + i, element(x, type, i), type, &e);
    if (i < n) {
        double last_sum[HALF] = {0}, last_lost[HALF], last_x[HALF] = {0};
        memcpy(last_x, element(x, type, i), (n - i) * wf_sum_type_size(type));
        if (lost != NULL)
            memcpy(last_sum, sum + i, (n - i) * sizeof *sum);
        add_half(last_sum, lost == NULL ? NULL : last_lost, last_x, type, &e);
        memcpy(sum + i, last_sum, (n - i) * sizeof *sum);
        if (lost != NULL)
            memcpy(lost + i, last_lost, (n - i) * sizeof *lost);
    }
    return flags_of(&e);
}

static unsigned add(double *sum, double *lost, const void *x, enum wf_sum_type type, size_t n)
{
    return type == WF_SUM_F32    ? add_row(sum, lost, x, WF_SUM_F32, n)
           : type == WF_SUM_BF16 ? add_row(sum, lost, x, WF_SUM_BF16, n)
                                 : add_row(sum, lost, x, WF_SUM_F64, n);
}

static unsigned set(double *sum, const void *x, enum wf_sum_type type, size_t n)
{
    return type == WF_SUM_F32    ? add_row(sum, NULL, x, WF_SUM_F32, n)
           : type == WF_SUM_BF16 ? add_row(sum, NULL, x, WF_SUM_BF16, n)
                                 : add_row(sum, NULL, x, WF_SUM_F64, n);
}

/* -- rounding ------------------------------------------------------------------------------ */

/* The divisor of the results. */
struct divisor {
    double of, factor; /* factor: 1 / of, which is exact if `of` is a power of two */
    bool power_of_2;
};

/* The exact result is between two doubles.  If both are rounded to the same fp32 or bf16, so is
 * the exact result. */
struct bounds {
    vec_half_f64 low, high;
};

/* Divides.  The bounds are equal if the quotient is exact.  The sum of a few fp32 is often a
 * multiple of 3 or 5, and its quotient is then often halfway between two fp32.  Such a quotient
 * has at most 25 bits, so its product with a divisor of up to 28 bits is exact and shows
 * whether the quotient is exact. */
VEC_INLINE struct bounds divide(struct pair p, struct divisor by)
{
    vec_half_f64 q;
    vec_half_i64 inexact = p.error != 0;
    if (by.power_of_2) {
        q = p.sum * by.factor;
    } else {
        const int64_t low_bits = (1 << 28) - 1;
        q = p.sum / by.of;
        inexact |= (((vec_half_i64)q & low_bits) != 0) | (q * by.of != p.sum);
        inexact |= -(int64_t)(by.of > 0x1p28);
    }
    vec_half_f64 margin = (vec_half_f64)((vec_half_i64)(f64_abs(q) * 0x1p-50) & inexact);
    return (struct bounds){q - margin, q + margin};
}

/* Rounds HALF elements.  Returns true for the lanes that are not NaN. */
VEC_INLINE vec_half_i32 round_f32(float *out, struct pair p, struct divisor by)
{
    struct bounds b = divide(p, by);
    vec_half low = __builtin_convertvector(b.low, vec_half);
    vec_half high = __builtin_convertvector(b.high, vec_half);
    vec_half_i32 good = (low == high) & (((vec_half_i32)low & 0x7fffffff) < 0x7f800000);
    vec_half_i32 bits = (good & (vec_half_i32)low) | (~good & 0x7fc00000);
    memcpy(out, &bits, sizeof bits);
    return good;
}

/* The intermediate fp32 is rounded to odd: it is truncated, and its last bit is set if the
 * truncation changed it.  The second rounding is then correct. */
VEC_INLINE vec_half_u32 to_bf16(vec_half_f64 x)
{
    vec_half f = __builtin_convertvector(x, vec_half);
    vec_half_f64 back = half_to_f64(f);
    vec_half_i32 too_far = __builtin_convertvector(f64_abs(back) > f64_abs(x), vec_half_i32);
    vec_half_i32 inexact = __builtin_convertvector(back != x, vec_half_i32);
    vec_half_u32 bits = (vec_half_u32)(((vec_half_i32)f + too_far) | (inexact & 1));
    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

VEC_INLINE vec_half_i32 round_bf16(wf_bf16 *out, struct pair p, struct divisor by)
{
    struct bounds b = divide(p, by);
    vec_half_u32 low = to_bf16(b.low), high = to_bf16(b.high);
    vec_half_i32 good = (low == high) & ((low & 0x7fff) < 0x7f80);
    vec_half_u32 bits = ((vec_half_u32)good & low) | (~(vec_half_u32)good & 0x7fc0);
    vec_half_u16 halves = __builtin_convertvector(bits, vec_half_u16);
    memcpy(out, &halves, sizeof halves);
    return good;
}

/* A quotient by a power of two is exact unless it is subnormal.  Any other quotient is
 * corrected by the exact remainder.  What is missing then is `off`, with a relative error far
 * below 2^-40.  If it stays below half of the last digit, even when it is made slightly larger,
 * the quotient is correct. */
VEC_INLINE vec_half_i32 round_f64(double *out, struct pair p, struct divisor by)
{
    vec_half_f64 q, size = f64_abs(p.sum);
    vec_half_i64 good;
    if (by.power_of_2) {
        q = p.sum * by.factor;
        good = (size >= 0x1p-900) | (size == 0) | -(int64_t)(by.of == 1);
    } else {
        vec_half_f64 first = p.sum / by.of, remainder;
        for (int i = 0; i < HALF; i++)
            remainder[i] = fma(-first[i], by.of, p.sum[i]);
        vec_half_f64 correction = (remainder + p.error) / by.of;
        q = first + correction;
        vec_half_f64 off = correction - (q - first);
        good = ((size >= 0x1p-900) | (size == 0)) & (q + off * (1 + 0x1p-40) == q);
    }
    f64_store(out, f64_select(good, q, (vec_half_f64){0} + (double)NAN));
    return __builtin_convertvector(good, vec_half_i32);
}

VEC_INLINE vec_half_i32 round_half(void *out, const double *sum, const double *rest,
                                   struct divisor by, enum wf_sum_type type)
{
    struct pair p = {f64_load(sum), {0}};
    if (rest != NULL)
        p = two_sum(p.sum, f64_load(rest));
    return type == WF_SUM_F32    ? round_f32(out, p, by)
           : type == WF_SUM_BF16 ? round_bf16(out, p, by)
                                 : round_f64(out, p, by);
}

VEC_INLINE bool round_row(void *out, const double *sum, const double *rest, struct divisor by,
                          enum wf_sum_type type, size_t n)
{
    vec_half_i32 bad = {0};
    size_t i = 0, size = wf_sum_type_size(type);
    for (; i + HALF <= n; i += HALF)
        bad |= ~round_half((char *)out + i * size, sum + i, rest == NULL ? NULL : rest + i, by,
                           type);
    if (i < n) {
        double last_out[HALF], last_sum[HALF] = {0}, last_rest[HALF] = {0};
        memcpy(last_sum, sum + i, (n - i) * sizeof *sum);
        if (rest != NULL)
            memcpy(last_rest, rest + i, (n - i) * sizeof *rest);
        bad |= ~round_half(last_out, last_sum, rest == NULL ? NULL : last_rest, by, type);
        memcpy((char *)out + i * size, last_out, (n - i) * size);
    }
    return any_i32(bad);
}

/* The constants select code without branches for the common cases. */
VEC_INLINE bool round_type(void *out, const double *sum, const double *rest, uint32_t of,
                           enum wf_sum_type type, size_t n)
{
    struct divisor by = {.of = of, .factor = 1 / (double)of, .power_of_2 = true};
    if ((of & (of - 1)) == 0)
        return rest == NULL ? round_row(out, sum, NULL, by, type, n)
                            : round_row(out, sum, rest, by, type, n);
    by.power_of_2 = false;
    return round_row(out, sum, rest, by, type, n);
}

static bool round_any(void *out, const double *sum, const double *rest, uint32_t of,
                      enum wf_sum_type type, size_t n)
{
    return type == WF_SUM_F32    ? round_type(out, sum, rest, of, WF_SUM_F32, n)
           : type == WF_SUM_BF16 ? round_type(out, sum, rest, of, WF_SUM_BF16, n)
                                 : round_type(out, sum, rest, of, WF_SUM_F64, n);
}

extern const struct wf_sum_ops WF_KERN(wf_sum_ops);
const struct wf_sum_ops WF_KERN(wf_sum_ops) = {
    .set = set,
    .add = add,
    .round = round_any,
};
