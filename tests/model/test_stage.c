/* Tests transformer stages: compares gradients with finite differences and memory with the
 * plan, and checks error messages.  test_cuts.c tests models of several stages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "compute/model/stage.h"
#include "weft/spec.h"

enum { ROWS = 3, SEQ = 10, TOKENS = ROWS * SEQ };

static const struct weft_model models[] = {
    {.arch = WEFT_ARCH_GPT2,
     .layers = 3,
     .dim = 24,
     .heads = 3,
     .kv_heads = 3,
     .ffn = 40,
     .vocab = 50,
     .ctx = 16,
     .tied = true,
     .norm_eps = 1e-5F},
    {.arch = WEFT_ARCH_LLAMA,
     .layers = 3,
     .dim = 32,
     .heads = 4,
     .kv_heads = 2,
     .ffn = 72,
     .vocab = 67,
     .ctx = 16,
     .norm_eps = 1e-5F,
     .rope = {.theta = 10000}},
    {.arch = WEFT_ARCH_LLAMA,
     .layers = 5,
     .dim = 16,
     .heads = 2,
     .kv_heads = 2,
     .ffn = 24,
     .vocab = 33,
     .ctx = 16,
     .tied = true,
     .norm_eps = 1e-5F,
     .residual_block_layers = 2,
     .rope =
         {.theta = 500, .kind = WEFT_ROPE_LLAMA3, .factor = 4, .low = 1, .high = 4, .ctx = 8}},
    {.arch = WEFT_ARCH_GPT2,
     .layers = 4,
     .dim = 24,
     .heads = 2,
     .kv_heads = 2,
     .ffn = 96,
     .vocab = 40,
     .ctx = 10,
     .norm_eps = 1e-5F,
     .residual_block_layers = 2},
};
static const char *const names[] = {"gpt2", "llama", "llama, block residuals",
                                    "gpt2, block residuals"};

struct rig {
    struct wf_pool *pool;
    struct wf_tstage *stage;
    int32_t tokens[TOKENS], targets[TOKENS];
};

static struct wf_tstage_spec spec_of(const struct weft_model *model, struct wf_pool *pool)
{
    return (struct wf_tstage_spec){.model = *model,
                                   .item1 = model->layers + 2,
                                   .seq = SEQ,
                                   .row_counts = {ROWS},
                                   .n_row_counts = 1,
                                   .slots = 1,
                                   .pool = pool};
}

/* Initial values would leave queries of mixes and all biases zero, which hides errors. */
static void disturb(struct wf_tstage *t)
{
    size_t n;
    struct wf_param *params = wf_tstage_params(t, &n);
    for (size_t p = 0; p < n; p++) {
        uint64_t stream = 0;
        for (const char *c = params[p].desc.name; *c != '\0'; c++)
            stream = stream * 31 + (unsigned char)*c;
        for (size_t i = 0; i < params[p].n; i++)
            params[p].value[i] = params[p].value[i] * 6 +
                                 (float)wf_random_below(9, stream, i, 2001) / 4000.0F - 0.25F;
    }
    wf_tstage_pack(t);
}

static struct rig *make_rig_with(const struct weft_model *model, bool one_micro)
{
    struct rig *r = calloc(1, sizeof *r);
    struct weft_error err = {0};
    assert_non_null(r);
    assert_int_equal(wf_pool_new(2, &r->pool, &err), WEFT_OK);
    struct wf_tstage_spec spec = spec_of(model, r->pool);
    spec.one_micro = one_micro;
    if (wf_tstage_new(&spec, &r->stage, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    wf_tstage_init_weights(r->stage, 5);
    disturb(r->stage);
    for (int i = 0; i < TOKENS; i++) {
        r->tokens[i] = (int32_t)wf_random_below(1, 0, (uint64_t)i, model->vocab);
        r->targets[i] = (int32_t)wf_random_below(1, 1, (uint64_t)i, model->vocab);
    }
    return r;
}

static struct rig *make_rig(const struct weft_model *model)
{
    return make_rig_with(model, false);
}

static void free_rig(struct rig *r)
{
    wf_tstage_free(r->stage);
    wf_pool_free(r->pool);
    free(r);
}

static double run_forward(struct rig *r, bool train)
{
    double loss = NAN;
    struct weft_error err = {0};
    struct weft_stage stage = wf_tstage_stage(r->stage);
    struct weft_stage_call call = {.rows = ROWS,
                                   .train = train,
                                   .loss = &loss,
                                   .targets = r->targets,
                                   .scale = 1.0F / TOKENS,
                                   .in = r->tokens};
    if (stage.ops->forward(stage.self, &call, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return loss;
}

static double run_step(struct rig *r)
{
    struct weft_error err = {0};
    struct weft_stage stage = wf_tstage_stage(r->stage);
    struct weft_stage_call call = {.rows = ROWS};
    wf_tstage_begin_step(r->stage);
    double loss = run_forward(r, true);
    if (weft_stage_backward(&stage, &call, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return loss;
}

/* Moving a tensor along its gradient changes the loss by the gradient's norm. */
static void check_differences(void **state)
{
    const struct weft_model *model = *state;
    struct rig *r = make_rig(model);
    size_t n;

    run_step(r);
    struct wf_param *params = wf_tstage_params(r->stage, &n);

    for (size_t p = 0; p < n; p++) {
        struct wf_param *w = &params[p];
        double length = 0;
        for (size_t i = 0; i < w->n; i++)
            length += pow((double)w->exact[i] * 0x1p-50, 2);
        length = sqrt(length);

        /* The first mix has a single vector. */
        if (w->desc.item == 1 &&
            (w->desc.role == WF_ROLE_ATTN_MIX_QUERY || w->desc.role == WF_ROLE_ATTN_MIX_NORM)) {
            assert_true(length < 1e-6);
            continue;
        }
        assert_true(length > 1e-6);

        float *kept = malloc(w->n * sizeof *kept);
        assert_non_null(kept);
        memcpy(kept, w->value, w->n * sizeof *kept);

        double step = 2e-3 / length, loss[2];
        if (step > 2e-2)
            step = 2e-2;
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < w->n; i++)
                w->value[i] = (float)(kept[i] + (side == 0 ? step : -step) *
                                                    (double)w->exact[i] * 0x1p-50 / length);
            wf_tstage_pack(r->stage);
            loss[side] = run_forward(r, false) / TOKENS;
        }

        memcpy(w->value, kept, w->n * sizeof *kept);
        free(kept);

        double got = (loss[0] - loss[1]) / (2 * step);
        /* Losses have errors of about 1e-7, and the step is finite. */
        if (fabs(got - length) > 0.02 * length + 4e-7 / step)
            fail_msg("%s: the loss says %g, the gradient %g", w->desc.name, got, length);
    }

    wf_tstage_pack(r->stage);
    free_rig(r);
}

/* With one micro-batch, matrices of layers and of the head have fp32 gradients that equal the
 * exact sums. */
static void check_one_micro(void **state)
{
    struct rig *wide = make_rig(*state), *narrow = make_rig_with(*state, true);
    size_t n, n_only = 0;

    for (int step = 0; step < 2; step++) { /* the second overwrites the first */
        assert_true(run_step(wide) == run_step(narrow));
        struct wf_param *a = wf_tstage_params(wide->stage, &n);
        struct wf_param *b = wf_tstage_params(narrow->stage, &n);

        for (size_t p = 0; p < n; p++) {
            assert_false(a[p].single);
            if (!b[p].single) {
                assert_memory_equal(a[p].exact, b[p].exact, a[p].n * sizeof *a[p].exact);
                continue;
            }
            n_only++;
            assert_null(b[p].exact);
            for (size_t i = 0; i < a[p].n; i++) {
                float want = (float)((double)a[p].exact[i] * 0x1p-50);
                assert_memory_equal(&b[p].fast[i], &want, sizeof want);
            }
        }
    }

    const struct weft_model *model = *state;
    assert_int_equal(n_only, 2 * (model->layers * (model->arch == WEFT_ARCH_GPT2 ? 4 : 7) + 1));

    free_rig(wide);
    free_rig(narrow);
}

/* The list of gradients has no values before a step.  Afterwards it has the names and
 * sizes of the parameters, and the exact sums and the fp32 gradients of one micro-batch
 * have the same values. */
static void check_param_grads(void **state)
{
    enum { MAX_PARAMS = 256 };
    struct rig *rigs[2] = {make_rig(*state), make_rig_with(*state, true)};
    struct weft_param_grad grads[2][MAX_PARAMS];
    size_t n;

    struct wf_param *params = wf_tstage_params(rigs[0]->stage, &n);
    assert_true(n <= MAX_PARAMS);

    for (int k = 0; k < 2; k++) {
        struct weft_stage stage = wf_tstage_stage(rigs[k]->stage);
        wf_tstage_begin_step(rigs[k]->stage);
        assert_int_equal(stage.ops->param_grads(stage.self, NULL, 0), n);
        assert_int_equal(stage.ops->param_grads(stage.self, grads[k], MAX_PARAMS), n);

        for (size_t p = 0; p < n; p++)
            assert_null(grads[k][p].grad);
        run_step(rigs[k]);
        assert_int_equal(stage.ops->param_grads(stage.self, grads[k], MAX_PARAMS), n);
    }

    for (size_t p = 0; p < n; p++) {
        const struct weft_param_grad *a = &grads[0][p], *b = &grads[1][p];
        assert_string_equal(a->name, params[p].desc.name);
        assert_int_equal(a->count, params[p].desc.shape[0] * params[p].desc.shape[1]);
        assert_int_equal(a->dtype, WEFT_DTYPE_I64);
        assert_true(a->unit == 0x1p-50);
        for (size_t i = 0; b->dtype == WEFT_DTYPE_F32 && i < a->count; i++)
            assert_true(((const float *)b->grad)[i] ==
                        (float)((double)((const int64_t *)a->grad)[i] * a->unit));
    }

    free_rig(rigs[0]);
    free_rig(rigs[1]);
}

/* Ignored targets add nothing, and the others are unaffected. */
static void check_ignored(void **state)
{
    const struct weft_model *model = *state;
    struct rig *r = make_rig(model);
    int32_t all[TOKENS];
    size_t n;

    memcpy(all, r->targets, sizeof all);
    double whole = run_step(r), parts = 0;

    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < TOKENS; i++)
            r->targets[i] = i % 2 == half ? all[i] : -1;
        parts += run_step(r);
    }

    assert_true(fabs(whole - parts) < 1e-9 * whole);
    for (int i = 0; i < TOKENS; i++)
        r->targets[i] = -1;
    assert_true(run_step(r) == 0.0);

    struct wf_param *params = wf_tstage_params(r->stage, &n);
    for (size_t p = 0; p < n; p++)
        for (size_t i = 0; i < params[p].n; i++)
            assert_true(params[p].exact[i] == 0);

    free_rig(r);
}

/* -- memory -------------------------------------------------------------------------------- */

static void check_memory(void **state)
{
    struct weft_model model = *(const struct weft_model *)*state;
    struct wf_pool *pool = NULL;
    struct wf_tstage *t = NULL;
    struct weft_items items;
    /* Large enough that padding to cache lines is small. */
    model.dim *= 8;
    model.ffn *= 8;
    model.vocab *= 10;
    model.ctx = 128;

    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);
    struct wf_tstage_spec spec = spec_of(&model, pool);
    spec.seq = 128;
    spec.slots = 2;
    assert_int_equal(wf_tstage_new(&spec, &t, NULL), WEFT_OK);
    assert_int_equal(weft_items_init_model(&items, &model, ROWS, 128, NULL), WEFT_OK);

    struct wf_tstage_bytes have = wf_tstage_memory(t);
    double state_bytes = -(double)items.shared_bytes, act = 0;

    for (size_t i = 0; i < items.n; i++) {
        state_bytes += (double)items.at[i].state_bytes;
        act += 2.0 * (double)items.at[i].act_bytes;
    }

    double got = (double)have.weights * 3 + (double)have.gradients + (double)have.packed;
    if (fabs(got - state_bytes) > 0.05 * state_bytes)
        fail_msg("weights, gradients, moments: %.0f bytes, planned %.0f", got, state_bytes);
    if (fabs((double)have.activations - act) > 0.05 * act)
        fail_msg("activations: %zu bytes, planned %.0f", have.activations, act);

    weft_items_release(&items);
    wf_tstage_free(t);
    wf_pool_free(pool);
}

/* A tensor has the same offset in both regions, and gaps between tensors stay zero. */
static void check_regions(void **state)
{
    struct rig *r = make_rig(*state);
    size_t n, end = 0;
    run_step(r);
    const struct wf_param *params = wf_tstage_params(r->stage, &n);
    const float *values = params[0].value;
    const int64_t *gradients = params[0].exact;
    for (size_t p = 0; p < n; p++) {
        for (; end < params[p].offset; end++)
            assert_true(values[end] == 0.0F && gradients[end] == 0);
        assert_int_equal(params[p].offset % 16, 0);
        assert_true(params[p].offset == end);
        assert_ptr_equal(params[p].value, values + end);
        assert_ptr_equal(params[p].exact, gradients + end);
        assert_int_equal((uintptr_t)params[p].value % 64, 0);
        end += params[p].n;
    }
    assert_int_equal(wf_tstage_memory(r->stage).weights, (end + 15) / 16 * 64);
    assert_int_equal(wf_tstage_memory(r->stage).gradients, (end + 15) / 16 * 128);
    free_rig(r);
}

/* Compares with the buffers of llm.c for GPT-2 124M: 18 streams of each layer, the attention
 * matrices before and after the softmax, logits and probabilities of the padded vocabulary. */
static void check_against_llmc(void **state)
{
    (void)state;
    struct weft_model model;
    struct weft_items items;
    assert_int_equal(weft_model_find("gpt2-124m", &model, NULL), WEFT_OK);
    assert_int_equal(weft_items_init_model(&items, &model, 1, 1024, NULL), WEFT_OK);
    double act = 0, t = 1024;
    for (size_t i = 0; i < items.n; i++)
        act += (double)items.at[i].act_bytes;
    double llmc = 4 * (12 * t * 768 * 18 + 2 * 12 * 12 * t * t + 2 * t * 50304 + 2 * t * 768);
    assert_true(act < 0.6 * llmc);
    weft_items_release(&items);
}

/* If the products of a large weight overflow, the error names the layer, with and without
 * recomputation. */
static void check_overflow(void **state)
{
    const struct weft_model *model = *state;
    struct wf_pool *pool = NULL;
    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);

    for (int recompute = WEFT_RECOMPUTE_NONE; recompute <= WEFT_RECOMPUTE_FULL; recompute++) {
        struct wf_tstage_spec spec = spec_of(model, pool);
        struct wf_tstage *t = NULL;
        struct weft_error err = {0};
        size_t n;
        double loss;
        int32_t tokens[TOKENS] = {0};

        spec.recompute = (enum weft_recompute)recompute;
        assert_int_equal(wf_tstage_new(&spec, &t, NULL), WEFT_OK);
        wf_tstage_init_weights(t, 3);

        struct wf_param *params = wf_tstage_params(t, &n);
        for (size_t p = 0; p < n; p++)
            if (params[p].desc.item == 2 && params[p].desc.role == WF_ROLE_UP)
                for (size_t i = 0; i < params[p].n; i++)
                    params[p].value[i] = 3e38F;
        wf_tstage_pack(t);

        struct weft_stage stage = wf_tstage_stage(t);
        struct weft_stage_call call = {.rows = ROWS,
                                       .in = tokens,
                                       .targets = tokens,
                                       .scale = 1,
                                       .loss = &loss,
                                       .train = true};

        assert_int_equal(stage.ops->forward(stage.self, &call, &err), WEFT_NUMERIC);
        if (strstr(err.msg, "in layer 1 the MLP's") == NULL)
            fail_msg("recompute %d: %s", recompute, err.msg);

        wf_tstage_free(t);
    }

    wf_pool_free(pool);
}

static void check_refusals(void **state)
{
    (void)state;
    struct wf_pool *pool = NULL;
    struct wf_tstage *t = NULL;
    struct weft_error err = {0};
    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);
    struct wf_tstage_spec spec = spec_of(&models[0], pool);
    spec.seq = 17;
    assert_int_equal(wf_tstage_new(&spec, &t, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "sequence length 17"));
    spec = spec_of(&models[0], pool);
    spec.item0 = 2, spec.item1 = 9;
    assert_int_equal(wf_tstage_new(&spec, &t, &err), WEFT_USAGE);
    char *const slots[] = {(char *)pool + 1};
    spec = spec_of(&models[0], pool);
    spec.slot_at = slots;
    assert_int_equal(wf_tstage_new(&spec, &t, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "slot 0"));
    assert_null(t);
    wf_pool_free(pool);
}

int main(void)
{
    enum { N = sizeof models / sizeof *models };
    static char titles[7 * N][80];
    struct CMUnitTest tests[7 * N + 2];
    static const struct {
        const char *what;
        CMUnitTestFunction run;
    } kinds[] = {{"differences", check_differences}, {"one micro", check_one_micro},
                 {"ignored targets", check_ignored}, {"memory", check_memory},
                 {"regions", check_regions},         {"overflow", check_overflow},
                 {"gradients", check_param_grads}};

    size_t n = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t m = 0; m < N; m++, n++) {
            snprintf(titles[n], sizeof titles[n], "%s: %s", names[m], kinds[k].what);
            tests[n] =
                (struct CMUnitTest){titles[n], kinds[k].run, NULL, NULL, (void *)&models[m]};
        }

    tests[n++] =
        (struct CMUnitTest){"less memory than llm.c", check_against_llmc, NULL, NULL, NULL};
    tests[n++] = (struct CMUnitTest){"refusals", check_refusals, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("stage", tests, NULL, NULL) != 0;
}
