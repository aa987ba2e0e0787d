/* Tests embedding, rotary positions, conversion, addition, column sums and the search for
 * non-finite elements. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "mats.h"

enum { IDS = 11 };

/* Runs a check for each table and shape, the reference first. */
static void each(void (*check)(const struct wf_ops *ops, int isa, size_t rows, size_t cols))
{
    const struct wf_ops *ops = &wf_ops_ref;
    for (int isa = -1; isa < 0 || (ops = mats_ops(isa)) != NULL; isa++) {
        for (size_t i = 0; i < mats_n_shapes; i++)
            check(ops, isa, mats_shapes[i].rows, mats_shapes[i].cols);
        check(ops, isa, 0, 5);
        check(ops, isa, 2, 50257);
    }
}

static void pick(int32_t *ids, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        ids[r] = (int32_t)(r * 7 % IDS);
}

static void embed_case(const struct wf_ops *ops, int isa, size_t rows, size_t cols)
{
    struct mats m;
    mats_begin(&m, "embed, isa %d, %zu x %zu", isa, rows, cols);
    struct wf_mat x = mats_new(&m, rows, cols, WF_DTYPE_F32);
    float *wte = mats_random_floats(&m, IDS * cols, 1),
          *wpe = mats_random_floats(&m, 64 * cols, 1);
    int32_t ids[64], positions[64];

    pick(ids, rows);
    for (size_t r = 0; r < rows; r++)
        positions[r] = (int32_t)(rows - 1 - r);

    for (int with = 0; with < 2; with++) {
        ops->embed(x, wte, ids, with ? wpe : NULL, with ? positions : NULL, rows, cols);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                float want = wte[(size_t)ids[r] * cols + c];
                if (with)
                    want += wpe[(size_t)positions[r] * cols + c];
                assert_true(*wf_mat_f32(x, r, c) == want);
            }
    }

    mats_end(&m);
}

static void check_embed(void **state)
{
    (void)state;
    each(embed_case);
}

/* Compares rotations with the formula, and checks that a rotation and its inverse cancel. */
static void rope_case(const struct wf_ops *ops, int isa, size_t heads, size_t half,
                      enum wf_dtype type)
{
    enum { ROWS = 5, PLACES = 9 };
    struct mats m;
    mats_begin(&m, "rope, isa %d, %zu heads of %zu, %s", isa, heads, 2 * half,
               wf_dtype_name(type));

    struct wf_mat x = mats_random(&m, ROWS, heads * 2 * half, type, 2);
    struct wf_mat before = mats_copy(&m, x, ROWS, heads * 2 * half);
    float *cosines = mats_floats(&m, PLACES * half), *sines = mats_floats(&m, PLACES * half);

    for (size_t i = 0; i < PLACES * half; i++) {
        double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }

    const int32_t positions[ROWS] = {0, 8, 3, 3, 1};
    struct wf_mat want = mats_new(&m, ROWS, heads * 2 * half, type);
    for (int back = 0; back < 2; back++) {
        for (size_t r = 0; r < ROWS; r++)
            for (size_t h = 0; h < heads; h++)
                for (size_t i = 0; i < half; i++) {
                    size_t c = h * 2 * half + i;
                    double angle = (double)positions[r] *
                                   pow(10000, -(double)i / (double)half) * (back ? -1 : 1);
                    double a = mats_get(before, r, c), b = mats_get(before, r, c + half);
                    mats_put(want, r, c, (float)(a * cos(angle) - b * sin(angle)));
                    mats_put(want, r, c + half, (float)(a * sin(angle) + b * cos(angle)));
                }

        struct wf_mat y = mats_copy(&m, before, ROWS, heads * 2 * half);
        ops->rope(y, cosines, sines, positions, back != 0, ROWS, heads, 2 * half);
        mats_allclose(&m, "turned", y, want, ROWS, heads * 2 * half, 1e-6);
    }

    ops->rope(x, cosines, sines, positions, false, ROWS, heads, 2 * half);
    ops->rope(x, cosines, sines, positions, true, ROWS, heads, 2 * half);
    mats_allclose(&m, "there and back", x, before, ROWS, heads * 2 * half,
                  type == WF_DTYPE_F32 ? 1e-6 : 0x1p-7);

    mats_end(&m);
}

static void check_rope(void **state)
{
    (void)state;
    static const size_t halves[] = {1, 3, 8, 16, 20, 32, 64};
    const struct wf_ops *ops = &wf_ops_ref;
    for (int isa = -1; isa < 0 || (ops = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
            for (size_t heads = 1; heads < 4; heads++)
                for (int type = WF_DTYPE_F32; type <= WF_DTYPE_BF16; type++)
                    rope_case(ops, isa, heads, halves[i], (enum wf_dtype)type);
}

/* Returns the nearer of the two bf16 neighbours of x, by distances in double. */
static wf_bf16 nearest_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t pair[2] = {bits & 0xffff0000, (bits & 0xffff0000) + 0x10000};
    float near[2];
    memcpy(near, pair, sizeof near);
    double d0 = fabs((double)x - near[0]);
    double d1 =
        isinf(near[1]) ? fabs((double)x - copysign(0x1p128, x)) : fabs((double)x - near[1]);
    bool up = d1 < d0 || (d1 == d0 && (pair[0] >> 16) % 2 == 1);
    return (wf_bf16)(pair[up] >> 16);
}

/* Covers all exponents, ties, and the largest and smallest numbers. */
static void check_bf16(void **state)
{
    (void)state;
    enum { N = 4099 };
    static float x[N], back[N];
    static wf_bf16 got[N];
    const struct wf_ops *ops = &wf_ops_ref;
    for (int isa = -1; isa < 0 || (ops = mats_ops(isa)) != NULL; isa++) {
        for (size_t i = 0; i < N; i++) {
            uint32_t bits = (uint32_t)wf_random_u64(3, 4, i);
            if (i % 4 == 1)
                bits = (bits & 0xffff0000) | 0x8000; /* a tie */
            else if (i % 4 == 2)
                bits = (bits & 0xff800000) | 0x7fffff; /* rounds to the next exponent */
            memcpy(&x[i], &bits, sizeof bits);
        }

        x[7] = 0;
        x[8] = -0.0f;
        x[9] = INFINITY;
        x[10] = 1e-45f;
        const uint32_t low_nan = 0x7f800001; /* NaN only because of its lower half */
        memcpy(&x[11], &low_nan, sizeof low_nan);

        ops->convert((struct wf_mat){got, N, WF_DTYPE_BF16},
                     (struct wf_mat){x, N, WF_DTYPE_F32}, 1, N);
        ops->convert((struct wf_mat){back, N, WF_DTYPE_F32},
                     (struct wf_mat){got, N, WF_DTYPE_BF16}, 1, N);

        for (size_t i = 0; i < N; i++) {
            if (isnan(x[i]))
                assert_true(isnan(back[i]));
            else if (isinf(x[i]))
                assert_true(back[i] == x[i]);
            else
                assert_int_equal(got[i], nearest_bf16(x[i]));
        }
    }
}

static void convert_case(const struct wf_ops *ops, int isa, size_t rows, size_t cols)
{
    for (int types = 0; types < 4; types++) {
        struct mats m;
        mats_begin(&m, "convert, isa %d, %zu x %zu, types %d", isa, rows, cols, types);
        struct wf_mat x =
            mats_random(&m, rows, cols, types & 1 ? WF_DTYPE_BF16 : WF_DTYPE_F32, 9);
        struct wf_mat y = mats_new(&m, rows, cols, types & 2 ? WF_DTYPE_BF16 : WF_DTYPE_F32);
        ops->convert(y, x, rows, cols);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < cols; c++) {
                float from = (float)mats_get(x, r, c);
                if (y.type == WF_DTYPE_F32)
                    assert_true(*wf_mat_f32(y, r, c) == from);
                else
                    assert_int_equal(*wf_mat_bf16(y, r, c), nearest_bf16(from));
            }
        mats_end(&m);
    }
}

static void check_convert(void **state)
{
    (void)state;
    each(convert_case);
}

static void add_case(const struct wf_ops *ops, int isa, size_t rows, size_t cols)
{
    struct mats m;
    mats_begin(&m, "add, isa %d, %zu x %zu", isa, rows, cols);
    struct wf_mat a = mats_random(&m, rows, cols, WF_DTYPE_F32, 1);
    struct wf_mat b = mats_random(&m, rows, cols, WF_DTYPE_F32, 1);
    struct wf_mat out = mats_new(&m, rows, cols, WF_DTYPE_F32);
    struct wf_mat over_a = mats_copy(&m, a, rows, cols), over_b = mats_copy(&m, b, rows, cols);
    ops->add(out, a, b, rows, cols);
    ops->add(over_a, over_a, b, rows, cols);
    ops->add(over_b, a, over_b, rows, cols);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            assert_true(*wf_mat_f32(out, r, c) == *wf_mat_f32(a, r, c) + *wf_mat_f32(b, r, c));
    mats_equal(&m, "out over a", over_a, out, rows, cols);
    mats_equal(&m, "out over b", over_b, out, rows, cols);
    mats_end(&m);
}

static void check_add(void **state)
{
    (void)state;
    each(add_case);
}

static void column_case(const struct wf_ops *ops, int isa, size_t rows, size_t cols)
{
    for (int type = WF_DTYPE_F32; type <= WF_DTYPE_BF16; type++) {
        struct mats m;
        mats_begin(&m, "column_sums, isa %d, %zu x %zu, type %d", isa, rows, cols, type);
        struct wf_mat x = mats_random(&m, rows, cols, (enum wf_dtype)type, 1);
        float *sums = mats_floats(&m, cols), *want = mats_floats(&m, cols);
        for (size_t c = 0; c < cols; c++) {
            double sum = 0;
            for (size_t r = 0; r < rows; r++)
                sum += mats_get(x, r, c);
            want[c] = (float)sum;
        }
        ops->column_sums(sums, x, rows, cols);
        m.size = 1;
        mats_allclose_floats(&m, "sums", sums, want, cols, 1e-6);
        mats_end(&m);
    }
}

static void check_columns(void **state)
{
    (void)state;
    each(column_case);
}

static void bad_case(const struct wf_ops *ops, int isa, size_t rows, size_t cols)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (int type = WF_DTYPE_F32; type <= WF_DTYPE_BF16; type++) {
        struct mats m;
        mats_begin(&m, "find_nonfinite, isa %d, %zu x %zu, type %d", isa, rows, cols, type);
        /* The gaps between rows contain NaN. */
        struct wf_mat x = mats_random(&m, rows, cols, (enum wf_dtype)type, 3e38);
        assert_true(ops->find_nonfinite(x, rows, cols) == SIZE_MAX);
        /* from the end, so that the newest one is the first */
        for (size_t i = rows * cols; i > 0;) {
            i -= i < 97 ? 1 : i / 2;
            mats_put(x, i / cols, i % cols, bad[i % 4]);
            assert_true(ops->find_nonfinite(x, rows, cols) == i);
        }
        mats_end(&m);
    }
}

static void check_find_nonfinite(void **state)
{
    (void)state;
    each(bad_case);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_embed),
        cmocka_unit_test(check_rope),
        cmocka_unit_test(check_bf16),
        cmocka_unit_test(check_convert),
        cmocka_unit_test(check_add),
        cmocka_unit_test(check_columns),
        cmocka_unit_test(check_find_nonfinite),
    };
    return cmocka_run_group_tests_name("ops_rows", tests, NULL, NULL) != 0;
}
