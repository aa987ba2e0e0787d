/* Compares AdamW and the norm of gradients with plain arithmetic in double, and checks that the
 * bits do not depend on the number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"
#include "compute/optim/adamw.h"

/* Matrices and vectors with sizes below, at and above the bounds of tasks and segments. */
static const struct shape {
    const char *name;
    size_t rows, cols;
    bool decay;
} shapes[] = {
    {"one", 1, 1, false},       {"row", 1, 300, true},      {"panel", 64, 64, true},
    {"over", 65, 3, true},      {"wide", 130, 257, true},   {"vector", 4096, 1, false},
    {"longer", 9001, 1, false}, {"blocks", 128, 320, true},
};
enum { N = WEFT_LEN(shapes), STEPS = 5 };

struct model {
    struct wf_optim_tensor at[N];
    double *w[N], *m[N], *v[N]; /* the expected values, in double */
    unsigned char *seen[N];     /* how often each row was reported */
    bool fast;
};

static size_t size_of(size_t i)
{
    return shapes[i].rows * shapes[i].cols;
}

static double number(uint64_t stream, uint64_t i)
{
    return (double)(wf_random_u64(3, stream, i) >> 11) * 0x1p-52 - 1;
}

static void *zeroed(size_t n, size_t size)
{
    void *at = calloc(n, size);
    assert_non_null(at);
    return at;
}

static void model_make(struct model *model, bool fast)
{
    model->fast = fast;

    for (size_t i = 0; i < N; i++) {
        size_t n = size_of(i);
        struct wf_optim_tensor *t = &model->at[i];
        *t = (struct wf_optim_tensor){.name = shapes[i].name,
                                      .rows = shapes[i].rows,
                                      .cols = shapes[i].cols,
                                      .decay = shapes[i].decay};

        t->value = zeroed(n, sizeof *t->value);
        if (fast)
            t->fast = zeroed(n, sizeof *t->fast);
        else
            t->exact = zeroed(n, sizeof *t->exact);

        model->w[i] = zeroed(n, sizeof(double));
        model->m[i] = zeroed(n, sizeof(double));
        model->v[i] = zeroed(n, sizeof(double));
        model->seen[i] = zeroed(shapes[i].rows, 1);

        for (size_t k = 0; k < n; k++)
            model->w[i][k] = t->value[k] = (float)number(i, k);
    }
}

static void model_free(struct model *model)
{
    for (size_t i = 0; i < N; i++) {
        free(model->at[i].value);
        free(model->at[i].exact);
        free(model->at[i].fast);
        free(model->w[i]);
        free(model->m[i]);
        free(model->v[i]);
        free(model->seen[i]);
    }
}

/* Returns a number with a magnitude from 1e-6 to 1, which is typical of gradients. */
static double gradient(size_t step, size_t tensor, size_t k)
{
    double x = number(100 + 10 * step + tensor, k);
    return (double)(float)(x * pow(10, -(double)(k % 7)));
}

static void model_gradients(struct model *model, size_t step)
{
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < size_of(i); k++) {
            double g = gradient(step, i, k);
            if (model->fast)
                model->at[i].fast[k] = (float)g;
            else
                model->at[i].exact[k] = llrint(ldexp(g, WF_EXACT_BITS));
        }
}

static double plain_squares(size_t step)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < size_of(i); k++)
            sum += gradient(step, i, k) * gradient(step, i, k);
    return sum;
}

static const struct wf_optim_settings how = {0.9, 0.95, 1e-8, 0.1};

static void plain_update(struct model *model, size_t step, double lr, double scale)
{
    double correct1 = 1 - pow(how.beta1, (double)step + 1);
    double correct2 = 1 - pow(how.beta2, (double)step + 1);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < size_of(i); k++) {
            double g = gradient(step, i, k) * scale;
            double *w = &model->w[i][k], *m = &model->m[i][k], *v = &model->v[i][k];
            *m = how.beta1 * *m + (1 - how.beta1) * g;
            *v = how.beta2 * *v + (1 - how.beta2) * g * g;
            if (shapes[i].decay)
                *w -= lr * how.weight_decay * *w;
            *w -= lr * (*m / correct1) / (sqrt(*v / correct2) + how.eps);
        }
}

static void count_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct model *model = arg;
    assert_true(tensor < N && row0 < row1 && row1 <= shapes[tensor].rows);
    assert_true(row0 % WF_PACK_ROWS == 0 &&
                (row1 % WF_PACK_ROWS == 0 || row1 == shapes[tensor].rows));
    for (size_t r = row0; r < row1; r++)
        model->seen[tensor][r]++;
}

static void check_plain(void **state)
{
    for (int fast = 0; fast < 2; fast++) {
        struct model model;
        struct wf_pool *pool = NULL;
        struct wf_optim *o = NULL;

        model_make(&model, fast);
        assert_int_equal(wf_pool_new(2, &pool, NULL), WEFT_OK);
        assert_int_equal(wf_optim_new(model.at, N, &how, pool, &o, NULL), WEFT_OK);

        for (size_t step = 0; step < STEPS; step++) {
            double lr = 1e-2 / (double)(step + 1), scale = 0.5 + 0.1 * (double)step;
            model_gradients(&model, step);
            double squares = wf_optim_norm_squared(o), want = plain_squares(step);
            assert_true(fabs(squares - want) <= 1e-12 * want);
            wf_optim_update(o, &(struct wf_optim_step){step + 1, lr, scale}, count_rows,
                            &model);
            plain_update(&model, step, lr, scale);
        }

        for (size_t i = 0; i < N; i++) {
            for (size_t k = 0; k < size_of(i); k++)
                if (fabs(model.at[i].value[k] - model.w[i][k]) > 2e-6)
                    fail_msg("%s[%zu]: %.9g, want %.9g", shapes[i].name, k,
                             (double)model.at[i].value[k], model.w[i][k]);
            for (size_t r = 0; r < shapes[i].rows; r++)
                assert_int_equal(model.seen[i][r], STEPS);
        }

        wf_optim_free(o);
        wf_pool_free(pool);
        model_free(&model);
    }
    (void)state;
}

/* The norm adds segments of 4096 elements from the start of each tensor, in order.  The test
 * adds them in the same way and gets the same bits. */
static void check_order(void **state)
{
    struct model model;
    struct wf_pool *pool = NULL;
    struct wf_optim *o = NULL;

    model_make(&model, false);
    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);
    assert_int_equal(wf_optim_new(model.at, N, &how, pool, &o, NULL), WEFT_OK);
    model_gradients(&model, 0);

    double want = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < size_of(i); k += 4096) {
            size_t rest = size_of(i) - k;
            want +=
                wf_ops()->sum_squares(model.at[i].exact + k, NULL, rest < 4096 ? rest : 4096);
        }
    double got = wf_optim_norm_squared(o);
    assert_memory_equal(&got, &want, sizeof got);

    size_t n = 0, elements = 0;
    for (size_t i = 0; i < N; i++)
        elements += size_of(i);
    assert_int_equal(wf_optim_bytes(o), 8 * elements);

    const struct wf_optim_tensor *tensors = wf_optim_tensors(o, &n);
    assert_int_equal(n, N);
    assert_ptr_equal(tensors[2].value, model.at[2].value);
    assert_non_null(tensors[2].m);

    wf_optim_free(o);
    wf_pool_free(pool);
    model_free(&model);
    (void)state;
}

/* Runs some steps.  The results are the weights and the squared norms of the gradients. */
static void run_with(unsigned threads, struct model *model, double *squares)
{
    struct wf_pool *pool = NULL;
    struct wf_optim *o = NULL;
    assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
    assert_int_equal(wf_optim_new(model->at, N, &how, pool, &o, NULL), WEFT_OK);
    for (size_t step = 0; step < STEPS; step++) {
        model_gradients(model, step);
        squares[step] = wf_optim_norm_squared(o);
        wf_optim_update(o, &(struct wf_optim_step){step + 1, 1e-3, 0.7}, NULL, NULL);
    }
    wf_optim_free(o);
    wf_pool_free(pool);
}

static void check_threads(void **state)
{
    struct model first;
    double want[STEPS], got[STEPS];
    model_make(&first, false);
    run_with(1, &first, want);
    for (unsigned threads = 2; threads <= 3; threads++) {
        struct model model;
        model_make(&model, false);
        run_with(threads, &model, got);
        assert_memory_equal(got, want, sizeof got);
        for (size_t i = 0; i < N; i++)
            assert_memory_equal(model.at[i].value, first.at[i].value, size_of(i) * 4);
        model_free(&model);
    }
    model_free(&first);
    (void)state;
}

static void check_non_finite(void **state)
{
    struct model model;
    struct wf_pool *pool = NULL;
    struct wf_optim *o = NULL;
    model_make(&model, true);
    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);
    assert_int_equal(wf_optim_new(model.at, N, &how, pool, &o, NULL), WEFT_OK);
    model_gradients(&model, 0);
    model.at[6].fast[9000] = INFINITY;
    assert_false(isfinite(wf_optim_norm_squared(o)));
    model.at[4].fast[5000] = NAN;
    assert_false(isfinite(wf_optim_norm_squared(o)));
    wf_optim_free(o);
    wf_pool_free(pool);
    model_free(&model);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_plain),
        cmocka_unit_test(check_order),
        cmocka_unit_test(check_threads),
        cmocka_unit_test(check_non_finite),
    };
    return cmocka_run_group_tests_name("adamw", tests, NULL, NULL) != 0;
}
