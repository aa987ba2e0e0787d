/* Tests block attention residuals.  Compares the reference with formulas and finite
 * differences, and the fast tables with the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mats.h"

enum { ROWS = 2, COLS = 5, N = 3 };
static const float eps = 1e-5f;

struct mix {
    double v[N][ROWS][COLS], q[COLS], g[COLS], dh[ROWS][COLS];
};

/* Returns the sum of h * dh as a function of v, q and g. */
static double mix_loss(const void *context)
{
    const struct mix *p = context;
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double e[N], sum = 0;
        for (int j = 0; j < N; j++) {
            double squares = 0, s = 0;
            for (int c = 0; c < COLS; c++)
                squares += p->v[j][r][c] * p->v[j][r][c] / COLS;
            for (int c = 0; c < COLS; c++)
                s += p->q[c] * p->v[j][r][c] / sqrt(squares + (double)eps) * p->g[c];
            sum += e[j] = exp(s);
        }
        for (int j = 0; j < N; j++)
            for (int c = 0; c < COLS; c++)
                loss += e[j] / sum * p->v[j][r][c] * p->dh[r][c];
    }
    return loss;
}

static void set(double *exact, float *rounded, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++)
        exact[i] = rounded[i] = (float)(scale * mats_number());
}

static void check_slopes(double *at, const float *got, size_t n, const struct mix *p)
{
    for (size_t i = 0; i < n; i++) {
        double want = mats_slope(mix_loss, p, &at[i]);
        assert_true(fabs(got[i] - want) <= 1e-6 * (1 + fabs(want)));
    }
}

static void check_reference(void **state)
{
    (void)state;
    struct mix p;
    float v[N][ROWS * COLS], dv[N][ROWS * COLS], q[COLS], g[COLS], dq[COLS], dg[COLS];
    float h[ROWS * COLS], dh[ROWS * COLS], alpha[ROWS * N], rstd[ROWS * N];
    struct wf_mat mv[N], mdv[N], mh = {h, COLS, WF_DTYPE_F32}, mdh = {dh, COLS, WF_DTYPE_F32};

    for (int j = 0; j < N; j++) {
        set(&p.v[j][0][0], v[j], ROWS * COLS, 2);
        mv[j] = (struct wf_mat){v[j], COLS, WF_DTYPE_F32};
        mdv[j] = (struct wf_mat){dv[j], COLS, WF_DTYPE_F32};
    }
    set(p.q, q, COLS, 1);
    set(p.g, g, COLS, 1.5);
    set(&p.dh[0][0], dh, ROWS * COLS, 1);

    wf_ops_ref.mix_forward(mh, alpha, rstd, mv, N, q, g, eps, ROWS, COLS);
    double loss = 0;
    for (int i = 0; i < ROWS * COLS; i++)
        loss += (double)h[i] * dh[i];
    assert_true(fabs(loss - mix_loss(&p)) <= 1e-6);

    wf_ops_ref.mix_backward(mdv, dq, dg, mdh, alpha, rstd, mv, N, q, g, ROWS, COLS);
    for (int j = 0; j < N; j++)
        check_slopes(&p.v[j][0][0], dv[j], ROWS * COLS, &p);
    check_slopes(p.q, dq, COLS, &p);
    check_slopes(p.g, dg, COLS, &p);
}

enum { MOST = 20 };

static void mix_case(const struct wf_ops *fast, int isa, struct mats_shape s, size_t n)
{
    const double bound = 4e-6;
    struct mats m;
    size_t rows = s.rows, cols = s.cols;
    mats_begin(&m, "mix of %zu, isa %d, %zu x %zu", n, isa, rows, cols);
    struct wf_mat v[MOST], dv[MOST], dv_want[MOST];
    for (size_t j = 0; j < n; j++) {
        v[j] = mats_random(&m, rows, cols, WF_DTYPE_F32, 1 + (double)j);
        dv[j] = mats_new(&m, rows, cols, WF_DTYPE_F32);
        dv_want[j] = mats_new(&m, rows, cols, WF_DTYPE_F32);
    }
    struct wf_mat h = mats_new(&m, rows, cols, WF_DTYPE_F32),
                  h_want = mats_copy(&m, h, rows, cols);
    struct wf_mat dh = mats_random(&m, rows, cols, WF_DTYPE_F32, 1);
    float *alpha = mats_floats(&m, rows * n), *rstd = mats_floats(&m, rows * n);
    float *alpha_want = mats_floats(&m, rows * n), *rstd_want = mats_floats(&m, rows * n);
    /* The scores have a few units for any number of columns. */
    float *q = mats_random_floats(&m, cols, 4 / sqrt((double)cols));
    float *g = mats_random_floats(&m, cols, 2);
    float *dq = mats_floats(&m, cols), *dg = mats_floats(&m, cols);
    float *dq_want = mats_floats(&m, cols), *dg_want = mats_floats(&m, cols);

    wf_ops_ref.mix_forward(h_want, alpha_want, rstd_want, v, n, q, g, eps, rows, cols);
    fast->mix_forward(h, alpha, rstd, v, n, q, g, eps, rows, cols);
    mats_allclose(&m, "h", h, h_want, rows, cols, bound);
    mats_allclose_floats(&m, "alpha", alpha, alpha_want, rows * n, bound);
    mats_allclose_floats(&m, "rstd", rstd, rstd_want, rows * n, bound);

    wf_ops_ref.mix_backward(dv_want, dq_want, dg_want, dh, alpha_want, rstd_want, v, n, q, g,
                            rows, cols);
    fast->mix_backward(dv, dq, dg, dh, alpha_want, rstd_want, v, n, q, g, rows, cols);
    for (size_t j = 0; j < n; j++)
        mats_allclose(&m, "dv", dv[j], dv_want[j], rows, cols, bound);
    m.size = 1; /* of dh . v, whose mean is subtracted */
    mats_allclose_floats(&m, "dq", dq, dq_want, cols, bound);
    mats_allclose_floats(&m, "dg", dg, dg_want, cols, bound);
    mats_end(&m);
}

static void check_fast(void **state)
{
    (void)state;
    static const size_t numbers[] = {1, 2, 5, MOST};
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < mats_n_shapes; i++)
            for (size_t k = 0; k < 4; k++)
                mix_case(fast, isa, mats_shapes[i], numbers[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_reference),
        cmocka_unit_test(check_fast),
    };
    return cmocka_run_group_tests_name("ops_mix", tests, NULL, NULL) != 0;
}
