/* Tests GELU and SwiGLU.  Compares the reference with formulas and finite differences, and the
 * fast tables with the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mats.h"

/* A sigmoid is as small as e^-a for arguments a up to 25 here; rounding a to fp32 changes it by
 * 25 * 2^-24, relative.  A matrix of one element allows twice that. */
static const double bound = 1e-6;

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * pow(x, 3))));
}

static double gelu_at(const void *x)
{
    return gelu(*(const double *)x);
}

struct gate_up {
    double gate, up;
};

static double swiglu_at(const void *context)
{
    const struct gate_up *x = context;
    return x->gate / (1 + exp(-x->gate)) * x->up;
}

static void check_reference(void **state)
{
    (void)state;
    for (int i = -60; i <= 60; i++) {
        float x = (float)i / 8, up = 1.5f, dy = 0.75f, out, dgate, dup;
        struct wf_mat in = {&x, 1, WF_DTYPE_F32}, to = {&out, 1, WF_DTYPE_F32};
        struct wf_mat d = {&dy, 1, WF_DTYPE_F32}, u = {&up, 1, WF_DTYPE_F32};
        struct wf_mat dg = {&dgate, 1, WF_DTYPE_F32}, du = {&dup, 1, WF_DTYPE_F32};
        double exact = x;
        wf_ops_ref.gelu_forward(to, in, 1, 1);
        assert_true(fabs(out - gelu(x)) <= 1e-7 * fabs(gelu(x)) + 1e-30);
        wf_ops_ref.gelu_backward(to, d, in, 1, 1);
        assert_true(fabs(out - dy * mats_slope(gelu_at, &exact, &exact)) <= 1e-7);

        struct gate_up both = {x, up};
        wf_ops_ref.swiglu_forward(to, in, u, 1, 1);
        assert_true(fabs(out - swiglu_at(&both)) <= 1e-7 * fabs(swiglu_at(&both)));
        wf_ops_ref.swiglu_backward(dg, du, d, in, u, 1, 1);
        assert_true(fabs(dgate - dy * mats_slope(swiglu_at, &both, &both.gate)) <= 2e-7);
        assert_true(fabs(dup - dy * mats_slope(swiglu_at, &both, &both.up)) <= 1e-6);
    }
}

/* Checks errors relative to each result, since GELU is small near zero. */
static void check_relative(void **state)
{
    (void)state;
    static const float points[] = {1e-30f, 1e-10f, 1e-4f, 0.01f, 0.5f, 1, 3, 8, 50, 1e10f};
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < 2 * sizeof points / sizeof points[0]; i++) {
            float x = i % 2 ? -points[i / 2] : points[i / 2], out, one = 1, d, du, want[4];
            struct wf_mat in = {&x, 1, WF_DTYPE_F32}, to = {&out, 1, WF_DTYPE_F32};
            struct wf_mat up = {&one, 1, WF_DTYPE_F32}, dup = {&du, 1, WF_DTYPE_F32};

            fast->gelu_forward(to, in, 1, 1);
            double g = gelu(x);
            if (x > -4) /* below, the formula above cancels */
                assert_true(fabs(out - g) <= 1e-6 * fabs(g));

            fast->swiglu_forward(to, in, up, 1, 1);
            struct gate_up both = {x, 1};
            if (x > -80)
                assert_true(fabs(out - swiglu_at(&both)) <= 1e-6 * fabs(swiglu_at(&both)));

            struct wf_mat to_d = {&d, 1, WF_DTYPE_F32}, ref = {want, 1, WF_DTYPE_F32};
            fast->gelu_backward(to_d, up, in, 1, 1);
            wf_ops_ref.gelu_backward(ref, up, in, 1, 1);
            assert_true(fabsf(d - want[0]) <= 1e-6f * (1 + fabsf(want[0])));

            fast->swiglu_backward(to_d, dup, up, in, up, 1, 1);
            assert_true(isfinite(d) && isfinite(du));
        }
}

static void check_non_finite(void **state)
{
    (void)state;
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++) {
        float x[20], one[20], out[20], more[20];

        for (int i = 0; i < 20; i++)
            x[i] = one[i] = 1;
        x[17] = NAN;
        struct wf_mat in = {x, 20, WF_DTYPE_F32}, to = {out, 20, WF_DTYPE_F32};
        struct wf_mat ones = {one, 20, WF_DTYPE_F32}, to2 = {more, 20, WF_DTYPE_F32};

        for (int op = 0; op < 4; op++) {
            if (op == 0)
                fast->gelu_forward(to, in, 1, 20);
            else if (op == 1)
                fast->gelu_backward(to, ones, in, 1, 20);
            else if (op == 2)
                fast->swiglu_forward(to, in, ones, 1, 20);
            else
                fast->swiglu_backward(to, to2, ones, in, ones, 1, 20);

            for (int i = 0; i < 20; i++)
                assert_int_equal(isnan(out[i]) != 0, i == 17);
        }
    }
}

/* Returns the type of matrix i; `types` has one bit per matrix. */
static enum wf_dtype type_of(unsigned types, int i)
{
    return types >> i & 1 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
}

static void gelu_case(const struct wf_ops *fast, int isa, struct mats_shape s, unsigned types)
{
    struct mats m;
    size_t rows = s.rows, cols = s.cols;
    mats_begin(&m, "gelu, isa %d, %zu x %zu, types %u", isa, rows, cols, types);
    struct wf_mat pre = mats_random(&m, rows, cols, type_of(types, 0), 6);
    struct wf_mat dy = mats_random(&m, rows, cols, type_of(types, 1), 1);
    struct wf_mat out = mats_new(&m, rows, cols, type_of(types, 2));
    struct wf_mat want = mats_new(&m, rows, cols, type_of(types, 2));
    wf_ops_ref.gelu_forward(want, pre, rows, cols);
    fast->gelu_forward(out, pre, rows, cols);
    mats_allclose(&m, "out", out, want, rows, cols, bound);
    wf_ops_ref.gelu_backward(want, dy, pre, rows, cols);
    fast->gelu_backward(out, dy, pre, rows, cols);
    mats_allclose(&m, "dpre", out, want, rows, cols, bound);

    struct wf_mat same = mats_copy(&m, dy, rows, cols); /* dpre is dy */
    want = mats_new(&m, rows, cols, dy.type);
    wf_ops_ref.gelu_backward(want, dy, pre, rows, cols);
    fast->gelu_backward(same, same, pre, rows, cols);
    mats_allclose(&m, "dpre over dy", same, want, rows, cols, bound);
    same = mats_copy(&m, pre, rows, cols); /* dpre is pre */
    want = mats_new(&m, rows, cols, pre.type);
    wf_ops_ref.gelu_backward(want, dy, pre, rows, cols);
    fast->gelu_backward(same, dy, same, rows, cols);
    mats_allclose(&m, "dpre over pre", same, want, rows, cols, bound);
    wf_ops_ref.gelu_forward(want, pre, rows, cols);
    fast->gelu_forward(pre, pre, rows, cols); /* out is pre */
    mats_allclose(&m, "out over pre", pre, want, rows, cols, bound);
    mats_end(&m);
}

static void check_gelu(void **state)
{
    (void)state;
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < mats_n_shapes; i++)
            for (unsigned types = 0; types < 8; types++)
                gelu_case(fast, isa, mats_shapes[i], types);
}

static void swiglu_case(const struct wf_ops *fast, int isa, struct mats_shape s, unsigned types)
{
    struct mats m;
    size_t rows = s.rows, cols = s.cols;
    mats_begin(&m, "swiglu, isa %d, %zu x %zu, types %u", isa, rows, cols, types);
    struct wf_mat gate = mats_random(&m, rows, cols, type_of(types, 0), 12);
    struct wf_mat up = mats_random(&m, rows, cols, type_of(types, 1), 1);
    struct wf_mat dy = mats_random(&m, rows, cols, type_of(types, 2), 1);
    struct wf_mat out = mats_new(&m, rows, cols, type_of(types, 3));
    struct wf_mat want = mats_new(&m, rows, cols, type_of(types, 3));
    wf_ops_ref.swiglu_forward(want, gate, up, rows, cols);
    fast->swiglu_forward(out, gate, up, rows, cols);
    mats_allclose(&m, "out", out, want, rows, cols, bound);

    struct wf_mat dgate = mats_new(&m, rows, cols, gate.type);
    struct wf_mat dup = mats_new(&m, rows, cols, up.type);
    struct wf_mat want_dgate = mats_new(&m, rows, cols, gate.type);
    struct wf_mat want_dup = mats_new(&m, rows, cols, up.type);
    wf_ops_ref.swiglu_backward(want_dgate, want_dup, dy, gate, up, rows, cols);
    fast->swiglu_backward(dgate, dup, dy, gate, up, rows, cols);
    mats_allclose(&m, "dgate", dgate, want_dgate, rows, cols, bound);
    mats_allclose(&m, "dup", dup, want_dup, rows, cols, bound);
    fast->swiglu_backward(gate, up, dy, gate, up, rows, cols); /* both in place */
    mats_equal(&m, "dgate over gate", gate, dgate, rows, cols);
    mats_equal(&m, "dup over up", up, dup, rows, cols);
    mats_end(&m);
}

static void check_swiglu(void **state)
{
    (void)state;
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < mats_n_shapes; i++)
            for (unsigned types = 0; types < 16; types++)
                swiglu_case(fast, isa, mats_shapes[i], types);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_reference),  cmocka_unit_test(check_relative),
        cmocka_unit_test(check_non_finite), cmocka_unit_test(check_gelu),
        cmocka_unit_test(check_swiglu),
    };
    return cmocka_run_group_tests_name("ops_act", tests, NULL, NULL) != 0;
}
