/* Compares whole runs with references that were computed in float64. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/model/stage.h"
#include "runs.h"
#include "training/ckpt/safetensors.h"

struct expected {
    double loss[RUN_STEPS], grad_norm[RUN_STEPS], lr[RUN_STEPS];
};

static void read_list(const json_t *json, const char *key, double *out)
{
    const json_t *list = json_object_get(json, key);
    assert_int_equal(json_array_size(list), RUN_STEPS);
    for (size_t i = 0; i < RUN_STEPS; i++)
        out[i] = json_number_value(json_array_get(list, i));
}

static struct expected read_expected(const char *run)
{
    struct expected e;
    json_t *json = json_load_file(run_path(run, "expect.json"), 0, NULL);
    assert_non_null(json);
    read_list(json, "loss", e.loss);
    read_list(json, "grad_norm", e.grad_norm);
    read_list(json, "lr", e.lr);
    json_decref(json);
    return e;
}

static void check_near(const char *run, uint32_t micros, uint64_t step, const char *what,
                       double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound * fabs(want)))
        fail_msg("%s, %u micros, step %d: %s %.9g, want %.9g (%.2g off)", run, micros,
                 (int)step, what, got, want, fabs(got - want) / fabs(want));
}

/* Finds a tensor.  Names in the GPT-2 reference lack the prefix "transformer.", as
 * in older files. */
static const struct wf_safetensors_tensor *find(const struct wf_safetensors *file,
                                                const char *name)
{
    static const char prefix[] = "transformer.";
    const struct wf_safetensors_tensor *t = wf_safetensors_find(file, name);
    if (t == NULL && strncmp(name, prefix, strlen(prefix)) == 0)
        t = wf_safetensors_find(file, name + strlen(prefix));
    return t;
}

static void check_weights(const char *run, const struct wf_trainer *t, double bound)
{
    struct wf_safetensors *file = NULL;
    struct weft_error err = {0};
    size_t n;

    const struct wf_param *params = wf_trainer_params(t, 0, &n);
    assert_int_equal(wf_safetensors_open(run_path(run, "final.safetensors"), &file, &err),
                     WEFT_OK);

    for (size_t i = 0; i < n; i++) {
        const struct wf_param *p = &params[i];
        const struct wf_safetensors_tensor *want = find(file, p->desc.name);
        float *values = malloc(p->n * sizeof *values);
        assert_non_null(values);
        assert_non_null(want);
        assert_int_equal(wf_safetensors_read(file, want, 0, p->n, values, &err), WEFT_OK);

        for (size_t k = 0; k < p->n; k++)
            if (!(fabs((double)p->value[k] - (double)values[k]) <= bound))
                fail_msg("%s: %s[%zu] is %.8g, want %.8g", run, p->desc.name, k,
                         (double)p->value[k], (double)values[k]);

        free(values);
    }

    wf_safetensors_free(file);
}

/* Maximum deviations: relative for loss and norm, absolute for weights. */
struct bounds {
    double loss, norm, weights; /* 0: not compared */
};

static void check_run(const char *run, const struct wf_train_settings *s, struct bounds b)
{
    struct expected want = read_expected(run);
    struct weft_error err = {0};
    struct wf_trainer *t = run_trainer(s);
    for (uint64_t step = 0; step < RUN_STEPS; step++) {
        struct wf_step_result got;
        if (wf_trainer_step(t, &got, &err) != WEFT_OK)
            fail_msg("%s: %s", run, err.msg);
        assert_int_equal(got.step, step + 1);
        assert_int_equal(got.tokens, (uint64_t)s->data.batch * s->data.seq);
        uint32_t m = s->parallel.micros;
        check_near(run, m, got.step, "lr", got.lr, want.lr[step], 1e-12);
        check_near(run, m, got.step, "loss", got.loss, want.loss[step], b.loss);
        if (b.norm > 0)
            check_near(run, m, got.step, "norm", got.grad_norm, want.grad_norm[step], b.norm);
    }
    assert_int_equal(wf_trainer_steps_done(t), RUN_STEPS);
    if (b.weights > 0)
        check_weights(run, t, b.weights);
    wf_trainer_free(t);
}

static void check_fp32(void **state)
{
    static const char *const micros[] = {"1", "2", "3", "4", "8"};
    for (size_t i = 0; i < sizeof micros / sizeof micros[0]; i++)
        for (int fast = 0; fast < 2; fast++) {
            struct wf_train_settings s;
            run_settings(&s, *state);
            run_set(&s, "parallel.micros", micros[i]);
            run_set(&s, "parallel.threads", "2");
            run_set(&s, "train.reduction", fast ? "fast" : "exact");
            check_run(*state, &s, (struct bounds){2e-5, 2e-5, 1e-4});
            wf_settings_release(wf_train_setting_list(), &s);
        }
}

static void check_recompute(void **state)
{
    static const char *const what[] = {"attention", "full"};
    for (size_t i = 0; i < sizeof what / sizeof what[0]; i++) {
        struct wf_train_settings s;
        run_settings(&s, *state);
        run_set(&s, "train.recompute", what[i]);
        run_set(&s, "parallel.threads", "1");
        check_run(*state, &s, (struct bounds){2e-5, 2e-5, 1e-4});
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

static void check_bf16(void **state)
{
    static const char *const micros[] = {"1", "4"};
    for (size_t i = 0; i < sizeof micros / sizeof micros[0]; i++) {
        struct wf_train_settings s;
        run_settings(&s, *state);
        run_set(&s, "parallel.micros", micros[i]);
        run_set(&s, "parallel.threads", "2");
        run_set(&s, "train.precision", "bf16");
        check_run(*state, &s, (struct bounds){.loss = 0.02});
        wf_settings_release(wf_train_setting_list(), &s);
    }
}

int main(void)
{
    static char names[3 * N_RUNS][64];
    static void (*const checks[])(void **) = {check_fp32, check_recompute, check_bf16};
    static const char *const kinds[] = {"fp32", "recompute", "bf16"};
    struct CMUnitTest tests[3 * N_RUNS];
    for (size_t i = 0; i < 3 * N_RUNS; i++) {
        snprintf(names[i], sizeof names[i], "%s, %s", run_names[i / 3], kinds[i % 3]);
        tests[i] =
            (struct CMUnitTest){names[i], checks[i % 3], NULL, NULL, (void *)run_names[i / 3]};
    }
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL) != 0;
}
