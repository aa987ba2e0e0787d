/* Compares the names and shapes of parameters with files of reference runs, and tests initial
 * values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/model/params.h"
#include "training/ckpt/hf.h"

static const char *const runs[] = {"gpt2-tiny", "llama-tiny", "llama-tiny-tied-residual"};

/* Checks that the file and the list have the same tensors and shapes. */
static void check_file(void **state)
{
    char dir[400];
    struct wf_hf *hf = NULL;
    struct wf_param_list list;

    snprintf(dir, sizeof dir, "%s/train/%s", WEFT_TEST_DATA, (const char *)*state);
    assert_int_equal(wf_hf_open(dir, &hf, NULL), WEFT_OK);
    const struct weft_model *model = wf_hf_model(hf);
    assert_int_equal(wf_param_list_init(&list, model, 0, model->layers + 2, NULL), WEFT_OK);

    const char **all = malloc(list.n * sizeof *all);
    size_t total = 0, params;
    assert_non_null(all);

    for (size_t i = 0; i < list.n; i++) {
        const struct wf_param_desc *d = &list.at[i];
        float *out = malloc(wf_param_size(d) * sizeof *out);
        assert_non_null(out);
        struct weft_error err = {0};
        if (wf_hf_read(hf, d->name, d->n_dims, (uint64_t[]){d->shape[0], d->shape[1]}, out,
                       &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        free(out);
        all[i] = d->name;
        total += wf_param_size(d);
    }

    assert_int_equal(wf_hf_check_names(hf, all, list.n, NULL), WEFT_OK);
    assert_int_equal(weft_model_count_params(model, &params, NULL), WEFT_OK);
    assert_int_equal(total, params);

    free(all);
    wf_param_list_release(&list);
    wf_hf_free(hf);
}

/* The items of all stages of any partition together are those of the model; a separate tied
 * head has the weight again. */
static void check_cuts(void **state)
{
    (void)state;
    struct weft_model model;
    assert_int_equal(weft_model_find("d2", &model, NULL), WEFT_OK);
    struct wf_param_list whole, first, last;
    assert_int_equal(wf_param_list_init(&whole, &model, 0, 4, NULL), WEFT_OK);
    for (uint32_t cut = 1; cut < 4; cut++) {
        assert_int_equal(wf_param_list_init(&first, &model, 0, cut, NULL), WEFT_OK);
        assert_int_equal(wf_param_list_init(&last, &model, cut, 4, NULL), WEFT_OK);
        assert_int_equal(first.n + last.n, whole.n + 1);
        for (size_t i = 0; i < whole.n; i++) {
            const struct wf_param_desc *d = i < first.n ? &first.at[i] : &last.at[i - first.n];
            assert_string_equal(d->name, whole.at[i].name);
        }
        assert_string_equal(last.at[last.n - 1].name, whole.at[0].name);
        wf_param_list_release(&first);
        wf_param_list_release(&last);
    }
    wf_param_list_release(&whole);
}

/* Initial values are normal numbers with the right deviation that depend on name, seed and
 * position alone. */
static void check_initial_values(void **state)
{
    (void)state;
    enum { N = 100000 };
    static float a[N], b[N];
    struct wf_param_desc d = {.name = "x", .n_dims = 2, .shape = {N, 1}, .init_std = 0.02F};

    wf_param_fill(&d, 1, 0, N, a);
    for (size_t from = 0; from < N; from += 777) /* in pieces */
        wf_param_fill(&d, 1, from, from + 777 < N ? from + 777 : N, b + from);
    assert_memory_equal(a, b, sizeof a);

    double sum = 0, squares = 0, inside = 0;
    for (size_t i = 0; i < N; i++) {
        sum += a[i];
        squares += (double)a[i] * a[i];
        inside += fabs((double)a[i]) < 0.02;
    }

    /* Three standard errors. */
    assert_true(fabs(sum / N) < 3 * 0.02 / sqrt(N));
    assert_true(fabs(sqrt(squares / N) - 0.02) < 3 * 0.02 / sqrt(2.0 * N));
    assert_true(fabs(inside / N - 0.6827) < 3 * sqrt(0.6827 * 0.3173 / N));

    /* Another seed or another name gives other values. */
    wf_param_fill(&d, 2, 0, N, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    d.name[0] = 'y';
    wf_param_fill(&d, 1, 0, N, b);
    assert_true(memcmp(a, b, sizeof a) != 0);

    d = (struct wf_param_desc){.name = "norm", .init_value = 1.0F};
    wf_param_fill(&d, 1, 0, 3, b);
    assert_true(b[0] == 1.0F && b[1] == 1.0F && b[2] == 1.0F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {runs[0], check_file, NULL, NULL, (void *)runs[0]},
        {runs[1], check_file, NULL, NULL, (void *)runs[1]},
        {runs[2], check_file, NULL, NULL, (void *)runs[2]},
        cmocka_unit_test(check_cuts),
        cmocka_unit_test(check_initial_values),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL) != 0;
}
