/* Checks that inference gives the logits of the training forward for any number of threads and
 * any grouping of tokens.  Compares sampling with a slow implementation that sorts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "compute/model/infer.h"
#include "compute/model/infer_sample.h"
#include "compute/model/stage_priv.h"
#include "training/ckpt/hf.h"

/* -- models -------------------------------------------------------------------------------- */

struct infer_case {
    const char *name;
    const char *dir; /* a model of tests/data/train; NULL: `model` */
    struct weft_model model;
};

#define PLAIN_ROPE                                                                             \
    {                                                                                          \
        .kind = WEFT_ROPE_PLAIN, .theta = 10000                                                \
    }

static struct infer_case cases[] = {
    {"gpt2-tiny", "gpt2-tiny", {0}},
    {"llama-tiny", "llama-tiny", {0}},
    {"llama-tiny-tied-residual", "llama-tiny-tied-residual", {0}},
    {"GPT-2 of odd sizes",
     NULL,
     {WEFT_ARCH_GPT2, 3, 35, 5, 5, 51, 131, 70, false, 1e-5F, 0, {0}}},
    {"GPT-2 with blocks of 2, the last one short",
     NULL,
     {WEFT_ARCH_GPT2, 5, 24, 2, 2, 40, 67, 50, true, 1e-5F, 2, {0}}},
    {"Llama with blocks of 3 that end with the model",
     NULL,
     {WEFT_ARCH_LLAMA, 6, 40, 4, 1, 64, 300, 45, false, 1e-6F, 3, PLAIN_ROPE}},
    {"Llama with each layer a block",
     NULL,
     {WEFT_ARCH_LLAMA, 3, 60, 6, 3, 90, 64, 40, true, 1e-6F, 1, PLAIN_ROPE}},
    {"Llama 3's positions, one layer",
     NULL,
     {WEFT_ARCH_LLAMA,
      1,
      64,
      2,
      2,
      96,
      80,
      90,
      true,
      1e-5F,
      0,
      {.kind = WEFT_ROPE_LLAMA3, .theta = 500, .factor = 8, .low = 1, .high = 4, .ctx = 32}}},
};

struct source {
    struct wf_hf *hf; /* NULL: random weights */
};

static enum weft_status read_weight(void *arg, const struct wf_param_desc *d, float *out,
                                    struct weft_error *err)
{
    const struct source *s = arg;
    uint64_t stream = 0, shape[2] = {d->shape[0], d->shape[1]};
    if (s->hf != NULL)
        return wf_hf_read(s->hf, d->name, d->n_dims, shape, out, err);
    for (const char *c = d->name; *c != '\0'; c++)
        stream = stream * 31 + (unsigned char)*c;
    for (size_t i = 0; i < wf_param_size(d); i++)
        out[i] = (float)wf_random_below(9, stream, i, 2001) / 4000.0F - 0.25F;
    return WEFT_OK;
}

struct rig {
    struct source source;
    struct weft_model model;
    struct wf_pool *pool;
    size_t n; /* tokens: the context length of the model */
    int32_t *tokens;
    float *want; /* (n, vocab): logits of the training forward */
};

/* Runs the training forward of one sequence; its logits still exist afterwards. */
static void train_forward(struct rig *r)
{
    struct wf_tstage_spec spec = {.model = r->model,
                                  .item1 = r->model.layers + 2,
                                  .seq = (uint32_t)r->n,
                                  .row_counts = {1},
                                  .n_row_counts = 1,
                                  .slots = 1,
                                  .precision = WF_DTYPE_F32,
                                  .pool = r->pool};
    struct wf_tstage *t = NULL;
    double loss;
    size_t n, vocab = r->model.vocab;

    assert_int_equal(wf_tstage_new(&spec, &t, NULL), WEFT_OK);
    struct wf_param *params = wf_tstage_params(t, &n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(read_weight(&r->source, &params[i].desc, params[i].value, NULL),
                         WEFT_OK);
    wf_tstage_pack(t);

    struct weft_stage stage = wf_tstage_stage(t);
    struct weft_stage_call call = {
        .rows = 1, .in = r->tokens, .targets = r->tokens, .scale = 1, .loss = &loss};
    assert_int_equal(stage.ops->forward(stage.self, &call, NULL), WEFT_OK);

    r->want = malloc(r->n * vocab * sizeof *r->want);
    for (size_t i = 0; i < r->n; i++)
        memcpy(r->want + i * vocab, wf_mat_f32(t->logits, i, 0), vocab * sizeof *r->want);

    wf_tstage_free(t);
}

static void rig_init(struct rig *r, const struct infer_case *c)
{
    struct weft_error err = {.msg = ""};
    char dir[512];
    *r = (struct rig){.model = c->model};
    if (c->dir != NULL) {
        snprintf(dir, sizeof dir, "%s/train/%s", WEFT_TEST_DATA, c->dir);
        if (wf_hf_open(dir, &r->source.hf, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        r->model = *wf_hf_model(r->source.hf);
    }
    assert_int_equal(wf_pool_new(2, &r->pool, NULL), WEFT_OK);
    r->n = r->model.ctx;
    assert_true(r->n <= HEAD_TOKENS);
    r->tokens = malloc(r->n * sizeof *r->tokens);
    for (size_t i = 0; i < r->n; i++)
        r->tokens[i] = (int32_t)wf_random_below(3, 1, i, r->model.vocab);
    train_forward(r);
}

static void rig_release(struct rig *r)
{
    wf_hf_free(r->source.hf);
    wf_pool_free(r->pool);
    free(r->tokens);
    free(r->want);
}

static struct wf_infer *make(const struct rig *r, struct wf_pool *pool, enum wf_dtype type)
{
    struct wf_infer_spec spec = {r->model, r->model.ctx, type, pool};
    struct weft_error err = {.msg = ""};
    struct wf_infer *m = NULL;
    struct source source = r->source;
    if (wf_infer_new(&spec, &m, &err) != WEFT_OK ||
        wf_infer_load(m, read_weight, &source, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void feed(struct wf_infer *m, const int32_t *tokens, size_t n, float *logits)
{
    struct weft_error err = {.msg = ""};
    if (wf_infer_feed(m, tokens, n, logits, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

static void check_close(const float *got, const float *want, size_t n, double bound,
                        size_t position)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= bound * most))
            fail_msg("position %zu, token %zu: %g, want %g", position, i, got[i], want[i]);
}

/* -- logits -------------------------------------------------------------------------------- */

static void check_logits(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    size_t vocab = r.model.vocab;
    float *logits = malloc(vocab * sizeof *logits);
    struct wf_infer *m = make(&r, r.pool, WF_DTYPE_F32);

    for (size_t i = 0; i < r.n; i++) {
        feed(m, r.tokens + i, 1, logits);
        check_close(logits, r.want + i * vocab, vocab, 1e-5, i);
    }
    assert_int_equal(wf_infer_position(m), r.n);

    wf_infer_free(m);
    /* bf16 has 8 bits, so the bound after some layers is rough. */
    m = make(&r, r.pool, WF_DTYPE_BF16);
    for (size_t i = 0; i < r.n; i++) {
        feed(m, r.tokens + i, 1, logits);
        check_close(logits, r.want + i * vocab, vocab, 0.04, i);
    }

    wf_infer_free(m);
    free(logits);
    rig_release(&r);
}

static void check_token_batches(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    size_t vocab = r.model.vocab, bytes = vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);

    for (int type = 0; type < 2; type++) {
        struct wf_infer *m = make(&r, r.pool, type == 0 ? WF_DTYPE_F32 : WF_DTYPE_BF16);
        for (size_t i = 0; i < r.n; i++)
            feed(m, r.tokens + i, 1, i + 1 == r.n ? want : NULL);
        wf_infer_free(m);

        for (unsigned threads = 1; threads <= 3; threads++) {
            static const size_t pieces[] = {1000, 33, 7};
            struct wf_pool *pool = NULL;
            size_t now = 0;

            assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
            m = make(&r, pool, type == 0 ? WF_DTYPE_F32 : WF_DTYPE_BF16);
            for (int again = 0; again < 2; again++) {
                for (size_t i = 0; i < r.n; i += now) {
                    now = r.n - i < pieces[threads - 1] ? r.n - i : pieces[threads - 1];
                    feed(m, r.tokens + i, now, got);
                }
                assert_memory_equal(got, want, bytes);
                wf_infer_rewind(m, 0); /* again, over the stored keys and values */
            }
            wf_infer_free(m);
            wf_pool_free(pool);
        }
    }

    free(want);
    free(got);
    rig_release(&r);
}

static void check_refusals(void **state)
{
    struct rig r;
    struct weft_error err = {.msg = ""};
    (void)state;

    rig_init(&r, &cases[0]);
    struct wf_infer_spec spec = {r.model, r.model.ctx + 1, WF_DTYPE_F32, r.pool};
    struct wf_infer *m = NULL;

    assert_int_equal(wf_infer_new(&spec, &m, &err), WEFT_USAGE);
    spec.max_tokens = 0;
    assert_int_equal(wf_infer_new(&spec, &m, &err), WEFT_USAGE);
    spec.max_tokens = 8;
    spec.type = WF_DTYPE_F16;
    assert_int_equal(wf_infer_new(&spec, &m, &err), WEFT_USAGE);
    assert_null(m);

    /* Sizes that overflow. */
    spec.type = WF_DTYPE_F32;
    spec.model.vocab = UINT32_MAX;
    spec.model.dim = spec.model.heads = spec.model.kv_heads = UINT32_MAX;
    spec.model.ffn = UINT32_MAX;
    assert_int_equal(wf_infer_new(&spec, &m, &err), WEFT_NOMEM);

    spec.model = r.model;
    assert_int_equal(wf_infer_new(&spec, &m, NULL), WEFT_OK);
    struct source random = {NULL};
    assert_int_equal(wf_infer_load(m, read_weight, &random, NULL), WEFT_OK);

    float *logits = malloc(r.model.vocab * sizeof *logits);
    const int32_t bad[][2] = {{0, -1}, {(int32_t)r.model.vocab, 0}, {INT32_MAX, INT32_MIN}};
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        assert_int_equal(wf_infer_feed(m, bad[i], 2, logits, &err), WEFT_USAGE);
    assert_int_equal(wf_infer_position(m), 0);

    assert_int_equal(wf_infer_feed(m, r.tokens, 9, logits, &err), WEFT_USAGE);
    assert_int_equal(wf_infer_feed(m, r.tokens, 0, logits, &err), WEFT_USAGE);
    feed(m, r.tokens, 8, logits);
    assert_int_equal(wf_infer_feed(m, r.tokens, 1, logits, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "the maximum of 8"));

    wf_infer_free(m);
    free(logits);
    rig_release(&r);
}

static enum weft_status read_nan(void *arg, const struct wf_param_desc *d, float *out,
                                 struct weft_error *err)
{
    WEFT_TRY(read_weight(arg, d, out, err));
    if (d->role == WF_ROLE_OUT_NORM)
        out[0] = NAN;
    return WEFT_OK;
}

static enum weft_status read_nothing(void *arg, const struct wf_param_desc *d, float *out,
                                     struct weft_error *err)
{
    (void)arg;
    (void)out;
    return WEFT_FAIL(err, WEFT_CKPT, "no %s", d->name);
}

static void check_broken_weights(void **state)
{
    struct rig r;
    struct weft_error err = {.msg = ""};
    (void)state;
    rig_init(&r, &cases[1]);
    struct wf_infer *m = make(&r, r.pool, WF_DTYPE_F32);
    float *logits = malloc(r.model.vocab * sizeof *logits);
    assert_int_equal(wf_infer_load(m, read_nothing, NULL, &err), WEFT_CKPT);
    assert_int_equal(wf_infer_load(m, read_nan, &r.source, &err), WEFT_OK);
    assert_int_equal(wf_infer_feed(m, r.tokens, 3, logits, &err), WEFT_NUMERIC);
    assert_non_null(strstr(err.msg, "after token 2"));
    free(logits);
    wf_infer_free(m);
    rig_release(&r);
}

/* A token reads all parameters once.  Of the positions and of an untied embedding, it reads
 * only one row. */
static void check_token_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rig r;
        rig_init(&r, &cases[i]);
        struct wf_infer *m = make(&r, r.pool, WF_DTYPE_F32);
        size_t params, table = i == 0 ? r.model.ctx : r.model.vocab;
        assert_int_equal(weft_model_count_params(&r.model, &params, NULL), WEFT_OK);
        assert_int_equal(wf_infer_token_bytes(m), 4 * (params - (table - 1) * r.model.dim));
        wf_infer_free(m);
        rig_release(&r);
    }
}

/* -- sampling ------------------------------------------------------------------------------ */

enum { N = 50 };

static float some_logits[N];

static int by_logit(const void *a, const void *b)
{
    int i = *(const int *)a, k = *(const int *)b;
    if (some_logits[i] != some_logits[k])
        return some_logits[i] > some_logits[k] ? -1 : 1;
    return i - k;
}

/* Computes probabilities by definition. */
static void expected(const struct wf_sampling *how, double p[N])
{
    int order[N];
    double total = 0, sum = 0, all = 0;
    int k = how->top_k == 0 || how->top_k > N ? N : (int)how->top_k, kept = 0;
    for (int i = 0; i < N; i++) {
        order[i] = i;
        p[i] = 0;
    }
    qsort(order, N, sizeof *order, by_logit);
    while (k < N && some_logits[order[k]] == some_logits[order[k - 1]])
        k++; /* as transformers: equally likely tokens are kept */
    for (int i = 0; i < k; i++)
        total += exp((some_logits[order[i]] - some_logits[order[0]]) / how->temperature);
    for (; kept < k && sum / total < how->top_p; kept++) {
        p[order[kept]] =
            exp((some_logits[order[kept]] - some_logits[order[0]]) / how->temperature);
        sum += p[order[kept]];
    }
    for (int i = 0; i < N; i++)
        if (p[i] < how->min_p) /* relative to the most likely token, which has 1 here */
            p[i] = 0;
    for (int i = 0; i < N; i++)
        all += p[i];
    for (int i = 0; i < N; i++)
        p[i] /= all;
}

static void check_frequencies(void **state)
{
    static const struct wf_sampling hows[] = {
        {1, 0, 1, 1, 0, 0},      {0.7, 0, 1, 2, 0, 0},     {2, 5, 1, 3, 0, 0},
        {1, 0, 0.5, 4, 0, 0},    {1, 10, 0.8, 5, 0, 0},    {3, 49, 0.99, 6, 0, 0},
        {0.01, 0, 1, 7, 0, 0},   {1e-30, 7, 0.9, 8, 0, 0}, {1, 1, 1, 9, 0, 0},
        {1, 0, 1e-9, 10, 0, 0},  {1000, 0, 1, 11, 0, 0},   {1, 99, 0.3, 12, 0, 0},
        {1e6, 3, 0.5, 13, 0, 0}, {1, 0, 1, 14, 0.3, 0},    {2, 20, 0.9, 15, 0.2, 0},
        {1, 0, 0.5, 16, 1, 0},
    };
    enum { DRAWS = 20000 };
    struct wf_candidate work[N];
    (void)state;

    for (int i = 0; i < N; i++) /* some of them equal */
        some_logits[i] = (float)wf_random_below(5, 5, (uint64_t)i, 20) / 4.0F - 2;

    for (size_t h = 0; h < WEFT_LEN(hows); h++) {
        double p[N];
        int count[N] = {0};
        expected(&hows[h], p);
        assert_int_equal(wf_sampling_check(&hows[h], NULL), WEFT_OK);

        for (int i = 0; i < DRAWS; i++) {
            int32_t token = wf_sample(some_logits, N, &hows[h], (uint64_t)i, work);
            assert_in_range(token, 0, N - 1);
            count[token]++;
        }

        for (int i = 0; i < N; i++) {
            double sigma = sqrt(DRAWS * p[i] * (1 - p[i]));
            if (p[i] == 0 ? count[i] != 0 : fabs(count[i] - DRAWS * p[i]) > 5 * sigma + 1)
                fail_msg("case %zu, token %d: %d times, want %g", h, i, count[i], DRAWS * p[i]);
        }

        /* The result depends on seed and position alone. */
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(wf_sample(some_logits, N, &hows[h], 19 - i, work),
                             wf_sample(some_logits, N, &hows[h], 19 - i, work));
    }
}

static void check_temperature_zero(void **state)
{
    static const float logits[] = {-1, 3, 2, 3, -INFINITY, 0};
    struct wf_candidate work[WEFT_LEN(logits)];
    static const struct wf_sampling hows[] = {
        {0, 0, 1, 1, 0, 0}, {0, 3, 0.5, 2, 0, 0}, {1, 0, 1e-9, 3, 0, 0}};
    (void)state;
    for (size_t h = 0; h < WEFT_LEN(hows); h++)
        for (uint64_t i = 0; i < 50; i++)
            assert_int_equal(wf_sample(logits, WEFT_LEN(logits), &hows[h], i, work), 1);
    assert_int_equal(wf_sample(logits, 1, &(struct wf_sampling){1, 0, 0.5, 1, 0, 0}, 0, work),
                     0);
}

/* The penalty of transformers: once per token, however often the token occurs. */
static void check_penalty(void **state)
{
    float logits[] = {3, -2, 0, 5, 0, 0};
    const int32_t tokens[] = {1, 0, 1, 0, 2, 0};
    unsigned char seen[4] = {0};
    (void)state;
    wf_sample_penalize(logits, tokens, 5, 2, seen);
    assert_true(logits[0] == 1.5F && logits[1] == -4 && logits[2] == 0 && logits[3] == 5);
    wf_sample_penalize(logits, tokens, 5, 0, seen);
    wf_sample_penalize(logits, tokens, 5, 1, seen);
    assert_true(logits[0] == 1.5F && logits[1] == -4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(seen[i], 0);
}

static void check_sampling_settings(void **state)
{
    static const struct wf_sampling bad[] = {
        {-1, 0, 1, 0, 0, 0},   {NAN, 0, 1, 0, 0, 0},  {INFINITY, 0, 1, 0, 0, 0},
        {1, 0, 0, 0, 0, 0},    {1, 0, 1.01, 0, 0, 0}, {1, 0, NAN, 0, 0, 0},
        {1, 0, 1, 0, -0.1, 0}, {1, 0, 1, 0, 1.1, 0},  {1, 0, 1, 0, NAN, 0},
        {1, 0, 1, 0, 0, -1},   {1, 0, 1, 0, 0, NAN},  {1, 0, 1, 0, 0, 1e-4}};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        assert_int_equal(wf_sampling_check(&bad[i], NULL), WEFT_USAGE);
}

int main(void)
{
    struct CMUnitTest tests[2 * WEFT_LEN(cases) + 7];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        tests[n++] = (struct CMUnitTest){cases[i].name, check_logits, NULL, NULL, &cases[i]};
        tests[n++] =
            (struct CMUnitTest){cases[i].name, check_token_batches, NULL, NULL, &cases[i]};
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_refusals);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_broken_weights);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_token_bytes);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_frequencies);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_temperature_zero);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_sampling_settings);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(check_penalty);
    return cmocka_run_group_tests_name("infer", tests, NULL, NULL) != 0;
}
