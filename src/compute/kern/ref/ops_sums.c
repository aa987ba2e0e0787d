/* Reference sums of gradients, their norm and AdamW. */
#include <assert.h>
#include <math.h>

#include "compute/kern/ref/ops_priv.h"

static const double unit = 0x1p-50;
static const int64_t limit = INT64_C(1) << 62; /* 2^12 in units of 2^-50 */
_Static_assert(WF_EXACT_BITS == 50, "unit and limit assume 50 bits");

/* Computes a += b.  Returns true if a, b or the sum is out of range.  If a or b is out of
 * range, a does not change. */
static bool exact_add(int64_t *a, int64_t b)
{
    if (*a <= -limit || *a >= limit || b <= -limit || b >= limit)
        return true;
    *a += b;
    return *a <= -limit || *a >= limit;
}

bool wf_ref_sink_add(struct wf_sink sink, const float *x, size_t n)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++) {
        if (sink.exact != NULL) {
            if (sink.fresh)
                sink.exact[i] = 0;
            bad |= !(fabsf(x[i]) < 4096) || exact_add(&sink.exact[i], llrint(x[i] / unit));
        } else if (sink.single) {
            bad |= !(fabsf(x[i]) < 4096);
            sink.fast[i] = (float)(rint(x[i] / unit) * unit + 0.0);
        } else {
            sink.fast[i] = sink.fresh ? x[i] : sink.fast[i] + x[i];
            bad |= !isfinite(sink.fast[i]);
        }
    }
    return bad;
}

bool wf_ref_exact_merge(int64_t *a, const int64_t *b, size_t n)
{
    bool bad = false;
    for (size_t i = 0; i < n; i++)
        bad |= exact_add(&a[i], b[i]);
    return bad;
}

void wf_ref_exact_to_f32(float *out, const int64_t *sums, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)sums[i] * (float)unit;
}

static float gradient(const int64_t *exact, const float *fast, size_t i)
{
    return exact != NULL ? (float)exact[i] * (float)unit : fast[i];
}

/* Element i is added to partial sum i % 16.  The 16 partial sums are then added in pairs at
 * distance 8, 4, 2 and 1.  Every instruction set can use this order. */
double wf_ref_sum_squares(const int64_t *exact, const float *fast, size_t n)
{
    assert(n <= WF_NORM_SEGMENT);
    double sums[16] = {0};
    for (size_t i = 0; i < n; i++) {
        double x = gradient(exact, fast, i);
        sums[i % 16] += x * x;
    }
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

void wf_ref_adamw(float *w, float *m, float *v, const int64_t *exact, const float *fast,
                  size_t n, const struct wf_adamw *how)
{
    for (size_t i = 0; i < n; i++) {
        double g = gradient(exact, fast, i) * (double)how->scale;
        double m1 = how->beta1 * (double)m[i] + (1 - (double)how->beta1) * g;
        double v1 = how->beta2 * (double)v[i] + (1 - (double)how->beta2) * g * g;
        double step = m1 / how->correct1 / (sqrt(v1 / how->correct2) + how->eps);
        m[i] = (float)m1;
        v[i] = (float)v1;
        w[i] = (float)(w[i] * (1 - (double)how->lr * how->decay) - how->lr * step);
    }
}
