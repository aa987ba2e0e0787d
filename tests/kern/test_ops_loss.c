/* Tests cross-entropy.  Compares the reference with the formula, and the fast tables with the
 * reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mats.h"

enum { COLS = 9 };
struct row {
    double x[COLS];
    int target;
};

static double row_loss(const void *context)
{
    const struct row *p = context;
    double sum = 0;
    for (int c = 0; c < COLS; c++)
        sum += exp(p->x[c]);
    return log(sum) - p->x[p->target];
}

static void check_reference(void **state)
{
    (void)state;
    const float scale = 0.25f;
    for (int target = 0; target < COLS; target++) {
        struct row p = {.target = target};
        float x[COLS], d[COLS];
        for (int c = 0; c < COLS; c++)
            p.x[c] = x[c] = (float)(3 * mats_number());
        double loss;
        wf_ops_ref.cross_entropy(&loss, (struct wf_mat){d, COLS, WF_DTYPE_F32},
                                 (struct wf_mat){x, COLS, WF_DTYPE_F32}, &(int32_t){target},
                                 scale, 1, COLS, COLS);
        assert_true(fabs(loss - row_loss(&p)) <= 1e-13);
        for (int c = 0; c < COLS; c++)
            assert_true(fabs(d[c] - scale * mats_slope(row_loss, &p, &p.x[c])) <= 1e-7);
    }
}

static struct loss_case {
    const char *name;
    size_t rows, cols, padded;
    double spread;
} cases[] = {
    {"one column", 3, 1, 1, 1},      {"one vector", 2, 16, 16, 3},
    {"odd", 5, 37, 40, 3},           {"one more than a block of sums", 2, 1025, 1040, 10},
    {"all equal", 2, 3000, 3000, 0}, {"wide", 3, 2048, 2050, 80},
    {"very wide", 3, 300, 300, 1e6}, {"vocabulary of GPT-2", 4, 50257, 50304, 5},
};

static void compare(const struct wf_ops *fast, int isa, const struct loss_case *k,
                    enum wf_dtype type)
{
    struct mats m;
    mats_begin(&m, "%s, isa %d, %s", k->name, isa, wf_dtype_name(type));
    struct wf_mat logits = mats_random(&m, k->rows, k->cols, WF_DTYPE_F32, k->spread);
    struct wf_mat got = mats_new(&m, k->rows, k->padded, type);
    struct wf_mat want = mats_new(&m, k->rows, k->padded, type);
    int32_t targets[8];
    double losses[8], want_losses[8], alone[8];

    for (size_t r = 0; r < k->rows; r++)
        targets[r] = (int32_t)((r * 7919 + k->cols - 1) % k->cols);
    if (k->rows > 2)
        targets[1] = -1;
    const float scale = 0.125f;

    wf_ops_ref.cross_entropy(want_losses, want, logits, targets, scale, k->rows, k->cols,
                             k->padded);
    fast->cross_entropy(losses, got, logits, targets, scale, k->rows, k->cols, k->padded);
    fast->cross_entropy(alone, (struct wf_mat){NULL, 0, WF_DTYPE_F32}, logits, targets, scale,
                        k->rows, k->cols, k->padded);

    for (size_t r = 0; r < k->rows; r++) {
        if (!(fabs(losses[r] - want_losses[r]) <= 1e-6 * (fabs(want_losses[r]) + 1e-3)))
            fail_msg("%s: loss %zu is %.12g, not %.12g", m.what, r, losses[r], want_losses[r]);
        assert_true(alone[r] == losses[r]);
    }

    mats_allclose(&m, "dlogits", got, want, k->rows, k->padded, 1e-6);
    for (size_t r = 0; r < k->rows; r++)
        for (size_t c = targets[r] < 0 ? 0 : k->cols; c < k->padded; c++)
            assert_true(mats_get(got, r, c) == 0);

    /* in place; the padding is then the caller's gap between rows */
    if (type == WF_DTYPE_F32) {
        fast->cross_entropy(losses, logits, logits, targets, scale, k->rows, k->cols, k->cols);
        mats_equal(&m, "dlogits over logits", logits, got, k->rows, k->cols);
        for (size_t r = 0; r < k->rows; r++)
            assert_true(alone[r] == losses[r]);
    }

    mats_end(&m);
}

static void check_fast(void **state)
{
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++)
        for (int type = WF_DTYPE_F32; type <= WF_DTYPE_BF16; type++)
            compare(fast, isa, *state, (enum wf_dtype)type);
}

/* If the target is almost certain, the rest of its gradient must still be accurate. */
static void check_certain(void **state)
{
    (void)state;
    const struct wf_ops *fast;
    for (int isa = 0; (fast = mats_ops(isa)) != NULL; isa++) {
        float x[3] = {20, 0, 0}, d[3];
        double loss, q = 2 * exp(-20) / (1 + 2 * exp(-20));
        fast->cross_entropy(&loss, (struct wf_mat){d, 3, WF_DTYPE_F32},
                            (struct wf_mat){x, 3, WF_DTYPE_F32}, &(int32_t){0}, 1, 1, 3, 3);
        /* A sum near 1 in fp32 cannot represent differences below 6e-8. */
        assert_true(fabs(loss + log1p(-q)) <= 1e-7 && fabs(d[0] + q) <= 1e-7);
        assert_true(fabs(d[1] - q / 2) <= 1e-6 * q);
    }
}

static void check_non_finite(void **state)
{
    (void)state;
    static const float spoilers[] = {NAN, INFINITY, -INFINITY};
    static const size_t places[] = {0, 5, 63, 64, 130, 199};
    const struct wf_ops *fast = &wf_ops_ref;
    for (int isa = -1; isa < 0 || (fast = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < 3 * 6; i++) {
            float x[200] = {0}, d[200];
            x[places[i / 3]] = spoilers[i % 3];
            double loss;
            fast->cross_entropy(&loss, (struct wf_mat){d, 200, WF_DTYPE_F32},
                                (struct wf_mat){x, 200, WF_DTYPE_F32}, &(int32_t){77}, 1, 1,
                                200, 200);
            assert_false(isfinite(loss));
        }
}

int main(void)
{
    struct CMUnitTest tests[3 + sizeof cases / sizeof cases[0]] = {
        cmocka_unit_test(check_reference),
        cmocka_unit_test(check_certain),
        cmocka_unit_test(check_non_finite),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        tests[3 + i] = (struct CMUnitTest){cases[i].name, check_fast, NULL, NULL, &cases[i]};
    return cmocka_run_group_tests_name("ops_loss", tests, NULL, NULL) != 0;
}
