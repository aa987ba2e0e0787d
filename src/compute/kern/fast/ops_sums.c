/* Sums of gradients, their norm and AdamW, for one instruction set. */
#include <assert.h>

#include "compute/kern/fast/exact.h"
#include "compute/kern/fast/ops_priv.h"

static const int32_t below_4096 = 0x457fffff;

/* Range violations so far: contributions of 4096 or more (compared as bits without the sign),
 * and sums of 2^62 or more. */
struct sum_flags {
    vec_i32 contributions;
    vec_half_u64 sums;
};

static bool any_out_of_range(const struct sum_flags *d)
{
    return vec_any(d->contributions) || any_negative(d->sums);
}

/* Adds VEC elements of x to exact sums. */
VEC_INLINE void exact_add(int64_t *sums, const float *x, bool fresh, struct sum_flags *d)
{
    d->contributions |= (vec_i32)vec_abs(vec_load(x)) > below_4096;
    for (int i = 0; i < VEC; i += HALF) {
        vec_half_u64 sum = (vec_half_u64)exact_from(half_load(x + i));
        if (!fresh) {
            sum += (vec_half_u64)exact_load(sums + i);
            d->sums |= exact_out_of_range(sum);
        }
        exact_store(sums + i, (vec_half_i64)sum);
    }
}

VEC_INLINE bool exact_add_row(int64_t *sums, const float *x, size_t n, bool fresh)
{
    struct sum_flags d = {{0}, {0}};
    size_t i = 0;
    for (; i + VEC <= n; i += VEC)
        exact_add(sums + i, x + i, fresh, &d);
    if (i < n) {
        float last_x[VEC] = {0};
        int64_t last[VEC] = {0};
        memcpy(last_x, x + i, (n - i) * sizeof *x);
        if (!fresh)
            memcpy(last, sums + i, (n - i) * sizeof *sums);
        exact_add(last, last_x, fresh, &d);
        memcpy(sums + i, last, (n - i) * sizeof *sums);
    }
    return any_out_of_range(&d);
}

VEC_INLINE void fast_add(float *sums, const float *x, size_t c, size_t n, bool fresh,
                         vec_i32 *bad)
{
    vec sum = f32_load(x, c, n);
    if (!fresh)
        sum += f32_load(sums, c, n);
    *bad |= (vec_i32)vec_abs(sum) > 0x7f7fffff;
    f32_store(sums, c, n, sum);
}

VEC_INLINE void single_put(float *sums, const float *x, size_t c, size_t n, vec_i32 *bad)
{
    vec sum = f32_load(x, c, n);
    *bad |= (vec_i32)vec_abs(sum) > below_4096;
    f32_store(sums, c, n, exact_round(sum));
}

static bool single_put_row(float *sums, const float *x, size_t n)
{
    vec_i32 bad = {0};
    EACH_VEC(i, k, n, single_put(sums, x, i, k, &bad));
    return vec_any(bad);
}

static bool fast_add_row(float *sums, const float *x, size_t n, bool fresh)
{
    vec_i32 bad = {0};
    if (fresh)
        EACH_VEC(i, k, n, fast_add(sums, x, i, k, true, &bad));
    else
        EACH_VEC(i, k, n, fast_add(sums, x, i, k, false, &bad));
    return vec_any(bad);
}

bool WF_KERN(wf_ops_sink_add)(struct wf_sink sink, const float *x, size_t n)
{
    assert(!sink.single || (sink.fast != NULL && sink.fresh));
    if (sink.single)
        return single_put_row(sink.fast, x, n);
    if (sink.exact == NULL)
        return fast_add_row(sink.fast, x, n, sink.fresh);
    return sink.fresh ? exact_add_row(sink.exact, x, n, true)
                      : exact_add_row(sink.exact, x, n, false);
}

static bool seen_before(const int32_t *ids, size_t r)
{
    size_t before = 0;
    while (ids[before] != ids[r])
        before++;
    return before < r;
}

enum { PIECE = 64 }; /* columns per block of sums on the stack */

/* Adds all rows that have the same id as row r to the content of the table.  Row r must be the
 * first row with this id. */
static bool single_scatter(float *table, const int32_t *ids, struct wf_mat dx, size_t r,
                           size_t rows, size_t col, size_t n)
{
    int64_t sums[PIECE];
    bool bad = exact_add_row(sums, table, n, true);
    for (size_t other = r; other < rows; other++)
        if (ids[other] == ids[r])
            bad |= exact_add_row(sums, wf_mat_f32(dx, other, col), n, false);
    WF_KERN(wf_ops_exact_to_f32)(table, sums, n);
    return bad;
}

bool WF_KERN(wf_ops_scatter)(struct wf_sink sink, size_t table_cols, const int32_t *ids,
                             struct wf_mat dx, size_t rows, size_t col0, size_t col1)
{
    assert(!sink.fresh);
    bool bad = false;
    for (size_t r = 0; r < rows; r++) {
        size_t at = (size_t)ids[r] * table_cols + col0;
        if (sink.single) {
            for (size_t c = col0; c < col1 && !seen_before(ids, r); c += PIECE)
                bad |= single_scatter(sink.fast + at + (c - col0), ids, dx, r, rows, c,
                                      col1 - c < PIECE ? col1 - c : PIECE);
            continue;
        }
        const float *x = wf_mat_f32(dx, r, col0);
        bad |= sink.exact != NULL ? exact_add_row(sink.exact + at, x, col1 - col0, false)
                                  : fast_add_row(sink.fast + at, x, col1 - col0, false);
    }
    return bad;
}

/* Adds HALF exact sums b to a. */
VEC_INLINE vec_half_u64 merge(int64_t *a, const int64_t *b)
{
    vec_half_u64 more = (vec_half_u64)exact_load(b), sum = (vec_half_u64)exact_load(a) + more;
    exact_store(a, (vec_half_i64)sum);
    return exact_out_of_range(sum) | exact_out_of_range(more);
}

bool WF_KERN(wf_ops_exact_merge)(int64_t *a, const int64_t *b, size_t n)
{
    vec_half_u64 bad = {0};
    size_t i = 0;
    for (; i + HALF <= n; i += HALF)
        bad |= merge(a + i, b + i);
    if (i < n) {
        int64_t last_a[HALF] = {0}, last_b[HALF] = {0};
        memcpy(last_a, a + i, (n - i) * sizeof *a);
        memcpy(last_b, b + i, (n - i) * sizeof *b);
        bad |= merge(last_a, last_b);
        memcpy(a + i, last_a, (n - i) * sizeof *a);
    }
    return any_negative(bad);
}

/* Returns the gradient's elements i .. i + n as fp32, n <= VEC; exactly one of exact and fast
 * is not NULL. */
VEC_INLINE vec gradient(const int64_t *exact, const float *fast, size_t i, size_t n)
{
    if (exact == NULL)
        return f32_load(fast, i, n);
    if (n == VEC)
        return exact_to_vec(exact + i);
    int64_t last[VEC] = {0};
    memcpy(last, exact + i, n * sizeof *exact);
    return exact_to_vec(last);
}

void WF_KERN(wf_ops_exact_to_f32)(float *out, const int64_t *sums, size_t n)
{
    EACH_VEC(i, k, n, f32_store(out, i, k, gradient(sums, NULL, i, k)));
}

/* For every vector width, element i is added to partial sum i % 16.  The square of an fp32 is
 * exact in double, so a fused multiply-add gives the same result as a separate addition. */
enum { SQUARE_LANES = 16 / HALF };

VEC_INLINE void add_squares(vec_half_f64 *sums, vec x)
{
    vec_half_f64 low = half_to_f64(__builtin_shufflevector(x, x, VEC_LOW_HALF));
    vec_half_f64 high = half_to_f64(__builtin_shufflevector(x, x, VEC_HIGH_HALF));
    sums[0] += low * low;
    sums[1] += high * high;
}

double WF_KERN(wf_ops_sum_squares)(const int64_t *exact, const float *fast, size_t n)
{
    assert(n <= WF_NORM_SEGMENT);
    vec_half_f64 lanes[SQUARE_LANES] = {{0}};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16 / VEC; k++)
            add_squares(lanes + 2 * k, gradient(exact, fast, i + (size_t)k * VEC, VEC));
    for (int k = 0; i < n; k++, i += VEC)
        add_squares(lanes + 2 * k, gradient(exact, fast, i, n - i < VEC ? n - i : VEC));
    double sums[16];
    memcpy(sums, lanes, sizeof sums);
    for (int half = 8; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            sums[k] += sums[k + half];
    return sums[0];
}

/* The factors that all elements share, computed once. */
struct adamw_factors {
    float scale, beta1, rest1, beta2, rest2, step, correct2, eps, keep;
};

VEC_INLINE void adamw_one(float *w, float *m, float *v, vec g, size_t i, size_t n,
                          const struct adamw_factors *f)
{
    g *= f->scale;
    vec m1 = vec_fma(vec_set(f->beta1), f32_load(m, i, n), f->rest1 * g);
    vec v1 = vec_fma(vec_set(f->beta2), f32_load(v, i, n), f->rest2 * (g * g));
    f32_store(m, i, n, m1);
    f32_store(v, i, n, v1);
    vec step = f->step * m1 / (vec_sqrt(v1 * f->correct2) + f->eps);
    f32_store(w, i, n, vec_fms(vec_set(f->keep), f32_load(w, i, n), step));
}

void WF_KERN(wf_ops_adamw)(float *w, float *m, float *v, const int64_t *exact,
                           const float *fast, size_t n, const struct wf_adamw *how)
{
    const struct adamw_factors f = {
        how->scale,        how->beta1,     1 - how->beta1,
        how->beta2,        1 - how->beta2, how->lr / how->correct1,
        1 / how->correct2, how->eps,       (float)(1 - (double)how->lr * how->decay),
    };
    if (exact != NULL)
        EACH_VEC(i, k, n, adamw_one(w, m, v, gradient(exact, NULL, i, k), i, k, &f));
    else
        EACH_VEC(i, k, n, adamw_one(w, m, v, gradient(NULL, fast, i, k), i, k, &f));
}
