/* Allocates matrices between guard bytes, fills them with random numbers, compares them, and
 * checks the guards at the end of a test. */
#include "mats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

enum {
    GUARD = 0xff,
    MARGIN = 132, /* bytes before and after; not a multiple of a vector */
    GAP = 3,      /* elements between rows */
};

const struct mats_shape mats_shapes[] = {
    {1, 1},  {1, 7},  {3, 1},  {2, 8},   {5, 16},   {3, 17},  {4, 31},
    {7, 33}, {1, 64}, {2, 65}, {9, 130}, {64, 100}, {3, 768}, {2, 3072},
};
const size_t mats_n_shapes = sizeof mats_shapes / sizeof mats_shapes[0];

const struct wf_ops *mats_ops(int i)
{
    return i <= WF_ISA_AVX512 ? wf_ops_of((enum wf_isa)i) : NULL;
}

void mats_begin(struct mats *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(m->what, sizeof m->what, format, args);
    va_end(args);
    m->n = 0;
    m->size = 0;
}

struct wf_mat mats_new(struct mats *m, size_t rows, size_t cols, enum wf_dtype type)
{
    assert_true(m->n < MATS_MAX);
    struct mats_buffer *b = &m->block[m->n++];
    size_t ld = cols + GAP;
    b->size = 2 * MARGIN + rows * ld * wf_dtype_size(type);
    b->at = malloc(b->size);
    assert_non_null(b->at);
    memset(b->at, GUARD, b->size);
    b->mat = (struct wf_mat){b->at + MARGIN, ld, type};
    b->rows = rows;
    b->cols = cols;
    return b->mat;
}

double mats_number(void)
{
    static uint64_t position;
    return (double)(int64_t)wf_random_u64(1, 2, position++) * 0x1p-63;
}

struct wf_mat mats_random(struct mats *m, size_t rows, size_t cols, enum wf_dtype type,
                          double scale)
{
    struct wf_mat a = mats_new(m, rows, cols, type);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            mats_put(a, r, c, (float)(scale * mats_number()));
    return a;
}

struct wf_mat mats_copy(struct mats *m, struct wf_mat from, size_t rows, size_t cols)
{
    struct wf_mat a = mats_new(m, rows, cols, from.type);
    for (size_t r = 0; r < rows; r++)
        memcpy(wf_mat_at(a, r, 0).at, wf_mat_at(from, r, 0).at, cols * wf_dtype_size(a.type));
    return a;
}

float *mats_floats(struct mats *m, size_t n)
{
    return mats_new(m, 1, n, WF_DTYPE_F32).at;
}

float *mats_random_floats(struct mats *m, size_t n, double scale)
{
    return mats_random(m, 1, n, WF_DTYPE_F32, scale).at;
}

static void check_guards(const struct mats *m, const struct mats_buffer *b)
{
    size_t width = wf_dtype_size(b->mat.type), row = b->mat.ld * width;
    for (size_t i = 0; i < b->size; i++) {
        bool inside =
            i >= MARGIN && i < b->size - MARGIN && (i - MARGIN) % row < b->cols * width;
        if (!inside && b->at[i] != GUARD)
            fail_msg("%s: byte %zu of matrix %zu, which is not part of it, was written",
                     m->what, i, (size_t)(b - m->block));
    }
}

void mats_end(struct mats *m)
{
    for (size_t i = 0; i < m->n; i++)
        check_guards(m, &m->block[i]);
    for (size_t i = 0; i < m->n; i++)
        free(m->block[i].at);
    m->n = 0;
}

double mats_get(struct wf_mat a, size_t r, size_t c)
{
    if (a.type == WF_DTYPE_F32)
        return *wf_mat_f32(a, r, c);
    uint32_t bits = (uint32_t)*wf_mat_bf16(a, r, c) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Truncates to bf16, which suffices to create inputs. */
void mats_put(struct wf_mat a, size_t r, size_t c, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (a.type == WF_DTYPE_F32)
        *wf_mat_f32(a, r, c) = value;
    else
        *wf_mat_bf16(a, r, c) = (wf_bf16)(bits >> 16);
}

void mats_allclose(const struct mats *m, const char *name, struct wf_mat got,
                   struct wf_mat want, size_t rows, size_t cols, double bound)
{
    double most = m->size;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            most = fmax(most, fabs(mats_get(want, r, c)));
    double neighbour = got.type == WF_DTYPE_BF16 ? 0x1p-7 : 0;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) {
            double a = mats_get(got, r, c), b = mats_get(want, r, c);
            double allowed = bound * (fabs(b) + most) + neighbour * fabs(b);
            if (!(fabs(a - b) <= allowed)) /* also fails for NaN */
                fail_msg("%s: %s(%zu, %zu) is %.9g, not %.9g: off by %g, allowed %g", m->what,
                         name, r, c, a, b, fabs(a - b), allowed);
        }
}

void mats_allclose_floats(const struct mats *m, const char *name, const float *got,
                          const float *want, size_t n, double bound)
{
    mats_allclose(m, name, (struct wf_mat){(void *)(uintptr_t)got, n, WF_DTYPE_F32},
                  (struct wf_mat){(void *)(uintptr_t)want, n, WF_DTYPE_F32}, 1, n, bound);
}

void mats_equal(const struct mats *m, const char *name, struct wf_mat got, struct wf_mat want,
                size_t rows, size_t cols)
{
    assert_int_equal(got.type, want.type);
    for (size_t r = 0; r < rows; r++)
        if (memcmp(wf_mat_at(got, r, 0).at, wf_mat_at(want, r, 0).at,
                   cols * wf_dtype_size(got.type)) != 0)
            fail_msg("%s: %s differs in row %zu", m->what, name, r);
}

double mats_slope(double (*f)(const void *), const void *context, double *x)
{
    const double step = 1e-4, at = *x;
    /* Four points: the error is of order step^4. */
    double values[4];
    const double offsets[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
        *x = at + offsets[i] * step;
        values[i] = f(context);
    }
    *x = at;
    return (8 * (values[2] - values[1]) - (values[3] - values[0])) / (12 * step);
}
