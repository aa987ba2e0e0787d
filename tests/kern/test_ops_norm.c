/* Tests LayerNorm and RMSNorm.  Compares the reference with formulas and finite differences,
 * and the fast tables with the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mats.h"

enum { ROWS = 3, COLS = 7 };
static const float eps = 1e-5f;

struct norm {
    double x[ROWS][COLS], w[COLS], b[COLS], dy[ROWS][COLS];
    bool centred; /* LayerNorm */
};

/* Returns the sum of y * dy over all elements as a function of x, w and b, in double. */
static double norm_loss(const void *context)
{
    const struct norm *p = context;
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        double mean = 0, squares = 0;
        for (int c = 0; c < COLS; c++)
            mean += p->centred ? p->x[r][c] / COLS : 0;
        for (int c = 0; c < COLS; c++)
            squares += (p->x[r][c] - mean) * (p->x[r][c] - mean) / COLS;
        for (int c = 0; c < COLS; c++) {
            double y = (p->x[r][c] - mean) / sqrt(squares + (double)eps) * p->w[c] + p->b[c];
            loss += y * p->dy[r][c];
        }
    }
    return loss;
}

static void set(double *exact, float *rounded, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++)
        exact[i] = rounded[i] = (float)(scale * mats_number());
}

static void check_slopes(double *at, const float *got, size_t n, const float *past,
                         const struct norm *p)
{
    for (size_t i = 0; i < n; i++) {
        double want = mats_slope(norm_loss, p, &at[i]) + (past != NULL ? past[i] : 0);
        assert_true(fabs(got[i] - want) <= 1e-6 * (1 + fabs(want)));
    }
}

static void check_reference(void **state)
{
    bool centred = *(bool *)*state;
    struct norm p = {.centred = centred};
    float x[ROWS * COLS], w[COLS], b[COLS], dy[ROWS * COLS], past[ROWS * COLS];
    float out[ROWS * COLS], dx[ROWS * COLS], keep[ROWS * COLS], dw[COLS], db[COLS];
    float mean[ROWS], rstd[ROWS];

    set(&p.x[0][0], x, ROWS * COLS, 2);
    set(p.w, w, COLS, 1.5);
    set(p.b, b, COLS, centred ? 1 : 0);
    set(&p.dy[0][0], dy, ROWS * COLS, 1);
    for (int i = 0; i < ROWS * COLS; i++)
        past[i] = (float)mats_number();

    struct wf_mat mx = {x, COLS, WF_DTYPE_F32}, mout = {out, COLS, WF_DTYPE_F32};
    struct wf_mat mdx = {dx, COLS, WF_DTYPE_F32}, mdy = {dy, COLS, WF_DTYPE_F32};
    struct wf_mat mpast = {past, COLS, WF_DTYPE_F32}, mkeep = {keep, COLS, WF_DTYPE_F32};

    if (centred) {
        wf_ops_ref.layernorm_forward(mout, mean, rstd, mx, w, b, eps, ROWS, COLS);
        wf_ops_ref.layernorm_backward(mdx, mpast, mkeep, dw, db, mdy, mx, mean, rstd, w, ROWS,
                                      COLS);
        check_slopes(p.b, db, COLS, NULL, &p);
    } else {
        wf_ops_ref.rmsnorm_forward(mout, rstd, mx, w, eps, ROWS, COLS);
        wf_ops_ref.rmsnorm_backward(mdx, mpast, mkeep, dw, mdy, mx, rstd, w, ROWS, COLS);
    }

    double loss = 0;
    for (int i = 0; i < ROWS * COLS; i++)
        loss += (double)out[i] * dy[i];
    assert_true(fabs(loss - norm_loss(&p)) <= 1e-5);
    check_slopes(&p.x[0][0], dx, ROWS * COLS, past, &p);
    check_slopes(p.w, dw, COLS, NULL, &p);
    assert_memory_equal(keep, past, sizeof past);
}

struct forward {
    struct wf_mat out;
    float *mean, *rstd;
};

static struct forward forward(struct mats *m, const struct wf_ops *ops, bool centred,
                              struct wf_mat x, enum wf_dtype out_type, const float *w,
                              const float *b, size_t rows, size_t cols)
{
    struct forward f = {mats_new(m, rows, cols, out_type), mats_floats(m, rows),
                        mats_floats(m, rows)};
    if (centred)
        ops->layernorm_forward(f.out, f.mean, f.rstd, x, w, b, eps, rows, cols);
    else
        ops->rmsnorm_forward(f.out, f.rstd, x, w, eps, rows, cols);
    return f;
}

struct backward {
    struct wf_mat dx;
    float *dw, *db;
};

static struct backward backward(struct mats *m, const struct wf_ops *ops, bool centred,
                                struct wf_mat dx, struct wf_mat past, struct wf_mat keep,
                                struct wf_mat dy, struct wf_mat x, const struct forward *f,
                                const float *w, size_t rows, size_t cols)
{
    struct backward b = {dx, mats_floats(m, cols), mats_floats(m, cols)};
    if (centred)
        ops->layernorm_backward(dx, past, keep, b.dw, b.db, dy, x, f->mean, f->rstd, w, rows,
                                cols);
    else
        ops->rmsnorm_backward(dx, past, keep, b.dw, dy, x, f->rstd, w, rows, cols);
    return b;
}

/* fp32 sums of a row: about 4e-7 of the largest term; up to 64 rows in sequence. */
static const double bound = 2e-6;

static void norm_case(const struct wf_ops *fast, bool centred, int isa, struct mats_shape s,
                      enum wf_dtype type)
{
    struct mats m;
    size_t rows = s.rows, cols = s.cols;
    mats_begin(&m, "%snorm, isa %d, %zu x %zu, %s", centred ? "layer" : "rms", isa, rows, cols,
               wf_dtype_name(type));
    /* LayerNorm's input is fp32; RMSNorm's may be either. */
    enum wf_dtype x_type = centred ? WF_DTYPE_F32 : type;
    const struct wf_mat none = {NULL, 0, WF_DTYPE_F32};
    struct wf_mat x = mats_random(&m, rows, cols, x_type, 3);
    for (size_t r = 0; r < rows; r++) /* nonzero mean */
        for (size_t c = 0; c < cols; c++)
            mats_put(x, r, c, (float)mats_get(x, r, c) + 4);
    struct wf_mat dy = mats_random(&m, rows, cols, type, 1);
    struct wf_mat past = mats_random(&m, rows, cols, x_type, 1);
    float *w = mats_random_floats(&m, cols, 2), *b = mats_random_floats(&m, cols, 1);

    struct forward want = forward(&m, &wf_ops_ref, centred, x, type, w, b, rows, cols);
    struct forward got = forward(&m, fast, centred, x, type, w, b, rows, cols);
    mats_allclose(&m, "out", got.out, want.out, rows, cols, bound);
    mats_allclose_floats(&m, "rstd", got.rstd, want.rstd, rows, bound);
    if (centred)
        mats_allclose_floats(&m, "mean", got.mean, want.mean, rows, bound);

    m.size = 0.5; /* of e * rstd, before the means are subtracted */
    struct wf_mat dx = mats_new(&m, rows, cols, x_type);
    struct wf_mat dx_want = mats_new(&m, rows, cols, x_type);
    struct backward p =
        backward(&m, &wf_ops_ref, centred, dx_want, none, none, dy, x, &want, w, rows, cols);
    struct backward q =
        backward(&m, fast, centred, dx, none, none, dy, x, &want, w, rows, cols);
    mats_allclose(&m, "dx alone", dx, dx_want, rows, cols, bound);
    mats_allclose_floats(&m, "dw", q.dw, p.dw, cols, bound);
    if (centred)
        mats_allclose_floats(&m, "db", q.db, p.db, cols, bound);

    /* With a residual and its copy; then all in place: dx over the residual, and the copy over
     * x. */
    struct wf_mat keep = mats_new(&m, rows, cols, x_type);
    backward(&m, &wf_ops_ref, centred, dx_want, past, keep, dy, x, &want, w, rows, cols);
    mats_equal(&m, "the reference's keep", keep, past, rows, cols);
    keep = mats_new(&m, rows, cols, x_type);
    backward(&m, fast, centred, dx, past, keep, dy, x, &want, w, rows, cols);
    mats_allclose(&m, "dx", dx, dx_want, rows, cols, bound);
    mats_equal(&m, "keep", keep, past, rows, cols);
    struct wf_mat over = mats_copy(&m, past, rows, cols);
    q = backward(&m, fast, centred, over, over, x, dy, x, &want, w, rows, cols);
    mats_equal(&m, "dx over past", over, dx, rows, cols);
    mats_equal(&m, "past over x", x, past, rows, cols);
    mats_allclose_floats(&m, "dw in place", q.dw, p.dw, cols, bound);
    mats_end(&m);
}

static void check_fast(void **state)
{
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < mats_n_shapes; i++)
            for (int type = WF_DTYPE_F32; type <= WF_DTYPE_BF16; type++)
                norm_case(fast, *(bool *)*state, isa, mats_shapes[i], (enum wf_dtype)type);
}

static void check_no_rows(void **state)
{
    (void)state;
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++) {
        float dw[5] = {1, 1, 1, 1, 7}, db[5] = {1, 1, 1, 1, 7}, w[4] = {0};
        struct wf_mat any = {w, 4, WF_DTYPE_F32};
        fast->layernorm_backward(any, any, any, dw, db, any, any, w, w, w, 0, 4);
        for (int i = 0; i < 5; i++)
            assert_true(dw[i] == (i < 4 ? 0 : 7) && db[i] == (i < 4 ? 0 : 7));
    }
}

int main(void)
{
    static bool layer = true, rms = false;
    const struct CMUnitTest tests[] = {
        {"layernorm, reference", check_reference, NULL, NULL, &layer},
        {"rmsnorm, reference", check_reference, NULL, NULL, &rms},
        {"layernorm, fast", check_fast, NULL, NULL, &layer},
        {"rmsnorm, fast", check_fast, NULL, NULL, &rms},
        cmocka_unit_test(check_no_rows),
    };
    return cmocka_run_group_tests_name("ops_norm", tests, NULL, NULL) != 0;
}
