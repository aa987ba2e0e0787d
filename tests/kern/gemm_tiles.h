/* Checks the inner loops of products (compute/kern/gemm_kernel.h) against sums in double, for
 * any table of them. */
#ifndef GEMM_TILES_H
#define GEMM_TILES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/kern/gemm_kernel.h"
#include "support/mats.h"

/* Returns a bound of the rounding error of a sum of k products of numbers up to 1, relative to
 * tile_size(): each of k additions rounds a partial sum, which is about sqrt(k), by half an
 * ulp; errors of either sign add up to sqrt(k) of these.  Allows a few times that. */
static double tile_bound(size_t k)
{
    return 0x1p-23 * (2 + sqrt((double)k));
}

static double tile_size(size_t k)
{
    return 2 + sqrt((double)k);
}

/* Returns zeroed memory of exactly the given size, aligned to cache lines, so that a sanitizer
 * detects overruns. */
static void *tile_memory(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(posix_memalign(&at, 64, bytes != 0 ? bytes : 1), 0);
    memset(at, 0, bytes);
    return at;
}

/* Fills with numbers that bf16 represents exactly if the factor will be rounded to it. */
static float *tile_factor(size_t n, enum wf_pack form)
{
    float *w = tile_memory(n * sizeof *w);
    for (size_t i = 0; i < n; i++) {
        float x = (float)mats_number();
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (form != WF_PACK_F32)
            bits &= 0xffff0000;
        memcpy(&w[i], &bits, sizeof bits);
    }
    return w;
}

static float *tile_transposed(const float *w, size_t rows, size_t cols)
{
    float *t = tile_memory(rows * cols * sizeof *t);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            t[c * rows + r] = w[r * cols + c];
    return t;
}

static const struct tile_shape {
    size_t rows, cols, k;
} tile_shapes[] = {
    {1, 1, 1},   {1, 48, 2},  {2, 3, 3},   {3, 17, 4},   {4, 16, 5},    {5, 33, 31},
    {6, 47, 32}, {7, 48, 63}, {8, 48, 64}, {8, 48, 101}, {8, 20, 1024}, {8, 48, 300},
};

/* Checks a panel of a product, with everything that may be added. */
static void tile_check_rows(const struct wf_gemm_kernel *kernel, enum wf_pack form,
                            const struct tile_shape *s, int variant)
{
    struct mats m;
    enum wf_dtype type = form == WF_PACK_BF16_PAIRS ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    enum wf_dtype c_type = variant == 3 ? WF_DTYPE_BF16 : WF_DTYPE_F32;

    mats_begin(&m, "rows %zu cols %zu k %zu form %d variant %d", s->rows, s->cols, s->k, form,
               variant);
    m.size = tile_size(s->k);

    struct wf_mat a = mats_random(&m, s->rows, s->k, type, 1);
    struct wf_mat c = mats_random(&m, s->rows, s->cols, c_type, 1);
    struct wf_mat want = mats_copy(&m, c, s->rows, s->cols);
    struct wf_mat add = {0}, add_ref = {0};
    const float *bias = variant >= 1 ? mats_random_floats(&m, s->cols, 1) : NULL;
    if (variant == 2) { /* adds to C */
        add = c;
        add_ref = mats_copy(&m, c, s->rows, s->cols);
    }

    float *w = tile_factor(s->k * s->cols, form);
    struct wf_packed b = {s->k, s->cols, form,
                          tile_memory(wf_packed_bytes(s->k, s->cols, form))};
    kernel->pack_weight(&b, NULL, w, s->k, s->cols, 0, s->k);
    kernel->rows(c, a.at, a.ld, b.at, s->k, bias, add, s->rows, s->cols,
                 (struct wf_prefetch){0});

    wf_gemm_ref(s->rows, s->cols, s->k, a, (struct wf_mat){w, s->cols, WF_DTYPE_F32}, bias,
                add_ref, want);
    mats_allclose(&m, "c", c, want, s->rows, s->cols, tile_bound(s->k));

    free(b.at);
    free(w);
    mats_end(&m);
}

/* Checks one tile of a gradient: all three rows of strips and a panel of k rows. */
static void tile_check_sink(const struct wf_gemm_kernel *kernel, const struct wf_ops *ops,
                            enum wf_pack form, const struct tile_shape *s)
{
    struct mats m;
    enum wf_dtype type = form == WF_PACK_BF16_PAIRS ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    size_t strips = 3, rows = (strips - 1) * WF_STRIP + s->rows;

    mats_begin(&m, "sink rows %zu cols %zu k %zu form %d", rows, s->cols, s->k, form);
    m.size = tile_size(s->k);
    struct wf_mat a = mats_random(&m, s->k, rows, type, 1);
    struct wf_mat b = mats_random(&m, s->k, s->cols, type, 1);
    float *got = mats_floats(&m, rows * s->cols), *want = mats_floats(&m, rows * s->cols);

    int64_t *exact = tile_memory(rows * s->cols * sizeof *exact);
    char *strip = tile_memory(strips * wf_strip_bytes(s->k, form));
    void *panel = tile_memory(wf_pack_bytes(s->k, WF_PANEL, form));
    kernel->pack_strips(strip, a, rows, s->k);
    kernel->pack_panel(panel, b, s->cols, s->k);

    for (int time = 0; time < 2; time++) /* writes, then adds */
        for (size_t r = 0; r < rows; r += WF_STRIP) {
            struct wf_sink sink = {.exact = exact + r * s->cols, .fresh = time == 0};
            size_t n = rows - r < WF_STRIP ? rows - r : WF_STRIP;
            const char *at = strip + r / WF_STRIP * wf_strip_bytes(s->k, form);
            assert_false(kernel->sink(ops, sink, s->cols, at, panel, s->k, n, s->cols,
                                      &(struct wf_prefetch){0}));
            if (time == 0) { /* a single contribution has the bits of its exact sum */
                float *only = want + r * s->cols, *value = got + r * s->cols;
                sink = (struct wf_sink){.fast = only, .fresh = true, .single = true};
                assert_false(kernel->sink(ops, sink, s->cols, at, panel, s->k, n, s->cols,
                                          &(struct wf_prefetch){0}));
                ops->exact_to_f32(value, exact + r * s->cols, n * s->cols);
                assert_memory_equal(only, value, n * s->cols * sizeof *only);
            }
            sink = (struct wf_sink){.fast = got + r * s->cols, .fresh = time == 0};
            assert_false(kernel->sink(ops, sink, s->cols, at, panel, s->k, n, s->cols,
                                      &(struct wf_prefetch){0}));
        }

    wf_wgrad_ref(want, a, rows, b, s->cols, s->k);
    for (size_t i = 0; i < rows * s->cols; i++)
        want[i] *= 2;
    mats_allclose_floats(&m, "fast sum", got, want, rows * s->cols, 2 * tile_bound(s->k));
    for (size_t i = 0; i < rows * s->cols; i++)
        got[i] = (float)((double)exact[i] * 0x1p-50);
    mats_allclose_floats(&m, "exact sum", got, want, rows * s->cols, 2 * tile_bound(s->k));

    free(exact);
    free(strip);
    free(panel);
    mats_end(&m);
}

/* Checks that a factor packed from its transpose equals the factor packed directly. */
static void tile_check_packing(const struct wf_gemm_kernel *kernel, enum wf_pack form, size_t k,
                               size_t n)
{
    float *w = tile_factor(k * n, WF_PACK_F32), *t = tile_transposed(w, k, n);
    size_t bytes = wf_packed_bytes(k, n, form);
    struct wf_packed same = {k, n, form, tile_memory(bytes)};
    struct wf_packed transposed = {k, n, form, tile_memory(bytes)};

    for (size_t r = 0; r < k; r += 64)
        kernel->pack_weight(&same, NULL, w, k, n, r, r + 64 < k ? r + 64 : k);
    for (size_t r = 0; r < n; r += 64)
        kernel->pack_weight(NULL, &transposed, t, n, k, r, r + 64 < n ? r + 64 : n);
    assert_memory_equal(same.at, transposed.at, bytes);

    for (size_t i = 0; i < k && form != WF_PACK_BF16_PAIRS; i += 7)
        for (size_t j = 0; j < n; j++) {
            size_t k_slice = wf_pack_k_slice(k), k0 = i / k_slice * k_slice;
            const float *panel = wf_packed_at(&same, k0, j / WF_PANEL);
            float got = panel[(i - k0) * WF_PANEL + j % WF_PANEL], want = w[i * n + j];
            if (form == WF_PACK_F32)
                assert_true(got == want);
            else
                assert_true(fabsf(got - want) <= 0x1p-8f * fabsf(want));
        }

    free(same.at);
    free(transposed.at);
    free(t);
    free(w);
}

static void tile_check_all(const struct wf_gemm_kernel *kernel, const struct wf_ops *ops,
                           enum wf_pack form)
{
    static const size_t factors[][2] = {{1, 1},   {2, 48},   {3, 70},    {17, 16},  {64, 64},
                                        {65, 49}, {128, 97}, {1000, 33}, {1600, 50}};
    for (size_t i = 0; i < sizeof tile_shapes / sizeof *tile_shapes; i++) {
        for (int variant = 0; variant < 4; variant++)
            tile_check_rows(kernel, form, &tile_shapes[i], variant);
        tile_check_sink(kernel, ops, form, &tile_shapes[i]);
    }
    static const struct tile_shape panels[] = {
        {16, 48, 7}, {29, 48, 64}, {40, 48, 300}, {27, 33, 40}, {24, 16, 101}};
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) /* several strips of rows */
        for (int variant = 0; variant < 4; variant++)
            tile_check_rows(kernel, form, &panels[i], variant);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        tile_check_packing(kernel, form, factors[i][0], factors[i][1]);
}

#endif
