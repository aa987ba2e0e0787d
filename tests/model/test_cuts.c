/* Checks that a model gives the same bits for every partition into stages: block residuals with
 * every partition, all kinds of recomputation, whole and split backwards, several micro-batches
 * in flight, and slots in memory full of NaNs. */
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
#include "compute/model/stage.h"
#include "planning/spec/params.h"
#include "weft/part.h"
#include "weft/traffic.h"

enum { MICROS = 2, SEQ = 5, MAX_ROWS = 2, MAX_STAGES = 4, MAX_BLOCKS = 8 };

/* Of different sizes, so that a longer micro-batch used a slot before. */
static const uint32_t rows_of[MICROS] = {2, 1};

struct how {
    enum wf_dtype precision;
    enum weft_recompute recompute;
    bool split;     /* may differ between steps */
    bool own_slots; /* the stage's, instead of the test's full of NaNs */
};

struct rig {
    const struct weft_model *model;
    struct how how;
    struct wf_pool *pool;
    struct weft_partition partition;
    uint32_t *finished_by, n_blocks;
    struct wf_tstage *stage[MAX_STAGES];
    char *slots[MAX_STAGES][MICROS];
    size_t slot_bytes[MAX_STAGES];
    size_t max_floats; /* per activation */
    int32_t tokens[MICROS][MAX_ROWS * SEQ], targets[MICROS][MAX_ROWS * SEQ];
    float *act[MICROS][MAX_STAGES], *dact[MICROS][MAX_STAGES]; /* after each stage */
    float *value[MICROS][MAX_BLOCKS];
    int64_t *grad[MICROS][MAX_BLOCKS];
    bool fresh[MICROS][MAX_BLOCKS];
    double loss[MICROS];
};

static void *nans(size_t bytes)
{
    void *at = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(at);
    memset(at, 0xff, bytes);
    return at;
}

static bool all_nans(const void *at, size_t bytes)
{
    const unsigned char *b = at;
    for (size_t i = 0; i < bytes; i++)
        if (b[i] != 0xff)
            return false;
    return true;
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
            params[p].value[i] = (float)wf_random_below(9, stream, i, 2001) / 4000.0F - 0.25F;
    }
    wf_tstage_pack(t);
}

static void add_stage(struct rig *r, uint32_t s)
{
    const struct weft_stage_range *range = &r->partition.at[s];
    struct weft_error err = {0};
    struct wf_tstage_spec spec = {.model = *r->model,
                                  .item0 = range->embedding ? 0 : range->first_layer + 1,
                                  .item1 = range->end_layer + (range->head ? 2 : 1),
                                  .seq = SEQ,
                                  .row_counts = {rows_of[0], rows_of[1]},
                                  .n_row_counts = 2,
                                  .slots = MICROS,
                                  .split_slots = MICROS,
                                  .precision = r->how.precision,
                                  .recompute = r->how.recompute};

    assert_int_equal(wf_tstage_slot_bytes(&spec, &r->slot_bytes[s], &err), WEFT_OK);
    assert_int_equal(r->slot_bytes[s] % 64, 0);
    for (int m = 0; m < MICROS; m++)
        r->slots[s][m] = nans(r->slot_bytes[s]);

    spec.pool = r->pool;
    spec.slot_at = r->how.own_slots ? NULL : r->slots[s];
    if (wf_tstage_new(&spec, &r->stage[s], &err) != WEFT_OK)
        fail_msg("%s", err.msg);

    if (r->how.recompute == WEFT_RECOMPUTE_NONE)
        assert_int_equal(wf_tstage_memory(r->stage[s]).activations,
                         r->how.own_slots ? MICROS * r->slot_bytes[s] : 0);

    disturb(r->stage[s]);
}

static struct rig *make_rig(const struct weft_model *model, const uint32_t *layers,
                            uint32_t n_stages, struct how how, struct wf_pool *pool)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);

    r->model = model;
    r->how = how;
    r->pool = pool;
    r->max_floats = (size_t)MAX_ROWS * SEQ * model->dim;

    assert_int_equal(weft_partition_init_counts(&r->partition, layers, n_stages, NULL),
                     WEFT_OK);
    if (model->residual_block_layers != 0)
        assert_int_equal(weft_residual_blocks(&r->partition, model->residual_block_layers,
                                              &r->finished_by, &r->n_blocks, NULL),
                         WEFT_OK);
    assert_int_equal(wf_model_n_blocks(model), r->n_blocks);
    assert_true(r->n_blocks <= MAX_BLOCKS);

    for (uint32_t s = 0; s < n_stages; s++)
        add_stage(r, s);

    for (int m = 0; m < MICROS; m++) {
        for (uint64_t i = 0; i < MAX_ROWS * SEQ; i++) {
            r->tokens[m][i] = (int32_t)wf_random_below(m, 0, i, model->vocab);
            r->targets[m][i] = (int32_t)wf_random_below(m, 1, i, model->vocab);
        }
        for (uint32_t s = 0; s < n_stages; s++) {
            r->act[m][s] = nans(r->max_floats * sizeof(float));
            r->dact[m][s] = nans(r->max_floats * sizeof(float));
        }
        for (uint32_t b = 0; b < r->n_blocks; b++) {
            r->value[m][b] = nans(r->max_floats * sizeof(float));
            r->grad[m][b] = nans(r->max_floats * sizeof(int64_t));
        }
    }

    return r;
}

static void free_rig(struct rig *r)
{
    for (uint32_t s = 0; s < r->partition.n_stages; s++) {
        wf_tstage_free(r->stage[s]);
        for (int m = 0; m < MICROS; m++) {
            free(r->slots[s][m]);
            free(r->act[m][s]);
            free(r->dact[m][s]);
        }
    }
    for (int m = 0; m < MICROS; m++)
        for (uint32_t b = 0; b < r->n_blocks; b++) {
            free(r->value[m][b]);
            free(r->grad[m][b]);
        }
    free(r->finished_by);
    weft_partition_release(&r->partition);
    free(r);
}

/* -- one action ---------------------------------------------------------------------------- */

/* A stage gets only the blocks that it and previous stages finish. */
struct sight {
    float *value[MAX_BLOCKS];
    int64_t *grad[MAX_BLOCKS];
    struct weft_stage_blocks blocks;
};

/* Returns true if the caller passes blocks.  A whole model works with and without them. */
static bool gives_blocks(const struct rig *r)
{
    return r->n_blocks != 0 && (r->partition.n_stages > 1 || r->how.split);
}

static const struct weft_stage_blocks *look(struct rig *r, uint32_t s, int m, bool back,
                                            struct sight *at)
{
    if (!gives_blocks(r))
        return NULL;
    *at = (struct sight){.blocks = {.value = at->value}};
    for (uint32_t b = 0; b < r->n_blocks; b++) {
        bool seen = r->finished_by[b] <= s;
        at->value[b] = seen ? r->value[m][b] : NULL;
        at->grad[b] = seen ? r->grad[m][b] : NULL;
    }
    if (back) {
        at->blocks.grad = at->grad;
        at->blocks.fresh = r->fresh[m];
    }
    return &at->blocks;
}

/* Returns true if a block ends where stage s does. */
static bool ends_block(const struct rig *r, uint32_t s)
{
    return r->n_blocks != 0 && s + 1 < r->partition.n_stages &&
           r->partition.at[s].end_layer % r->model->residual_block_layers == 0;
}

/* Checks that an empty sum is zeros, and replaces it by NaNs, since the next stage must not
 * read it. */
static void check_empty(const struct rig *r, int m, float *at)
{
    size_t n = (size_t)rows_of[m] * SEQ * r->model->dim;
    for (size_t i = 0; i < n; i++)
        assert_true(at[i] == 0.0F);
    memset(at, 0xff, n * sizeof *at);
}

static void forward(struct rig *r, uint32_t s, int m)
{
    struct weft_error err = {0};
    struct sight sight;
    bool last = s + 1 == r->partition.n_stages;
    struct weft_stage stage = wf_tstage_stage(r->stage[s]);
    size_t bytes = (size_t)rows_of[m] * SEQ * r->model->dim * sizeof(float);
    float *before[MAX_BLOCKS] = {NULL};

    for (uint32_t b = 0; b < r->n_blocks; b++) {
        before[b] = malloc(bytes);
        assert_non_null(before[b]);
        memcpy(before[b], r->value[m][b], bytes);
    }

    struct weft_stage_call call = {.micro = (uint32_t)m,
                                   .slot = (uint32_t)m,
                                   .rows = rows_of[m],
                                   .train = true,
                                   .loss = &r->loss[m],
                                   .targets = r->targets[m],
                                   .scale = 0.1F,
                                   .in = s == 0 ? (void *)r->tokens[m] : r->act[m][s - 1],
                                   .out = last ? NULL : r->act[m][s],
                                   .blocks = look(r, s, m, false, &sight)};

    memset(r->slots[s][m], 0xff, r->slot_bytes[s]);
    if (stage.ops->forward(stage.self, &call, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    if (r->how.own_slots)
        assert_true(all_nans(r->slots[s][m], r->slot_bytes[s]));

    for (uint32_t b = 0; b < r->n_blocks; b++) {
        bool made = gives_blocks(r) && r->finished_by[b] == s;
        if (made) /* the planner's result for who finishes what */
            for (size_t i = 0; i < bytes / sizeof(float); i++)
                assert_true(isfinite(r->value[m][b][i]));
        else
            assert_memory_equal(r->value[m][b], before[b], bytes);
        free(before[b]);
    }

    if (ends_block(r, s))
        check_empty(r, m, r->act[m][s]);
}

enum back { WHOLE, INPUT, WEIGHT };

static void backward(struct rig *r, uint32_t s, int m, enum back what)
{
    struct weft_error err = {0};
    struct sight sight;
    struct weft_stage stage = wf_tstage_stage(r->stage[s]);
    struct weft_stage_call call = {
        .micro = (uint32_t)m, .slot = (uint32_t)m, .rows = rows_of[m], .train = true};
    enum weft_status st;
    if (what == WEIGHT) {
        st = stage.ops->backward_weight(stage.self, &call, &err);
    } else {
        call.dout = s + 1 < r->partition.n_stages ? r->dact[m][s] : NULL;
        call.din = s > 0 ? r->dact[m][s - 1] : NULL;
        call.blocks = look(r, s, m, true, &sight);
        st = what == WHOLE ? stage.ops->backward(stage.self, &call, &err)
                           : stage.ops->backward_input(stage.self, &call, &err);
    }
    if (st != WEFT_OK)
        fail_msg("%s", err.msg);
    if (what != WEIGHT && s > 0 && ends_block(r, s - 1))
        check_empty(r, m, r->dact[m][s - 1]);
}

/* -- a step -------------------------------------------------------------------------------- */

/* Blocks are discarded once the last input gradient is done. */
static void forget_blocks(struct rig *r)
{
    for (int m = 0; m < MICROS; m++)
        for (uint32_t b = 0; b < r->n_blocks; b++) {
            assert_int_equal(r->fresh[m][b], !gives_blocks(r));
            memset(r->value[m][b], 0xff, r->max_floats * sizeof(float));
            memset(r->grad[m][b], 0xff, r->max_floats * sizeof(int64_t));
        }
}

static void run_step(struct rig *r)
{
    uint32_t n = r->partition.n_stages;
    memset(r->fresh, true, sizeof r->fresh);
    for (uint32_t s = 0; s < n; s++) {
        wf_tstage_begin_step(r->stage[s]);
        for (int m = 0; m < MICROS; m++)
            forward(r, s, m);
    }
    for (uint32_t s = n; s-- > 0;)
        for (int m = 0; m < MICROS; m++)
            backward(r, s, m, r->how.split ? INPUT : WHOLE);
    forget_blocks(r);
    for (uint32_t s = 0; s < n && r->how.split; s++)
        for (int m = MICROS; m-- > 0;)
            backward(r, s, m, WEIGHT);
}

/* Returns the gradient of a name over all stages: a tied weight may be in two. */
static void add_gradients(struct rig *r, const char *name, int64_t *sum, size_t n)
{
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t s = 0; s < r->partition.n_stages; s++) {
        size_t n_params;
        struct wf_param *params = wf_tstage_params(r->stage[s], &n_params);
        for (size_t p = 0; p < n_params; p++)
            if (strcmp(params[p].desc.name, name) == 0)
                for (size_t i = 0; i < n; i++)
                    sum[i] += params[p].exact[i];
    }
}

static void check_same(struct rig *r, struct rig *whole)
{
    size_t n;
    const struct wf_param *params = wf_tstage_params(whole->stage[0], &n);
    for (int m = 0; m < MICROS; m++)
        assert_true(r->loss[m] == whole->loss[m]);
    for (size_t p = 0; p < n; p++) {
        int64_t *sum = malloc(params[p].n * sizeof *sum);
        assert_non_null(sum);
        add_gradients(r, params[p].desc.name, sum, params[p].n);
        if (memcmp(sum, params[p].exact, params[p].n * sizeof *sum) != 0)
            fail_msg("%s has another gradient", params[p].desc.name);
        free(sum);
    }
}

/* -- cases --------------------------------------------------------------------------------- */

static const struct cut_case {
    const char *name;
    struct weft_model model;
} cases[] = {
    {"gpt2",
     {.arch = WEFT_ARCH_GPT2,
      .layers = 3,
      .dim = 24,
      .heads = 3,
      .kv_heads = 3,
      .ffn = 40,
      .vocab = 50,
      .ctx = 8,
      .tied = true,
      .norm_eps = 1e-5F}},
    {"llama",
     {.arch = WEFT_ARCH_LLAMA,
      .layers = 3,
      .dim = 16,
      .heads = 4,
      .kv_heads = 2,
      .ffn = 24,
      .vocab = 33,
      .ctx = 8,
      .norm_eps = 1e-5F,
      .rope = {.theta = 10000}}},
    {"gpt2, blocks of two in four layers",
     {.arch = WEFT_ARCH_GPT2,
      .layers = 4,
      .dim = 24,
      .heads = 3,
      .kv_heads = 3,
      .ffn = 41,
      .vocab = 50,
      .ctx = 8,
      .tied = true,
      .norm_eps = 1e-5F,
      .residual_block_layers = 2}},
    {"llama, blocks of two in five layers",
     {.arch = WEFT_ARCH_LLAMA,
      .layers = 5,
      .dim = 16,
      .heads = 2,
      .kv_heads = 1,
      .ffn = 27,
      .vocab = 33,
      .ctx = 8,
      .tied = true,
      .norm_eps = 1e-5F,
      .residual_block_layers = 2,
      .rope = {.theta = 500}}},
    {"gpt2, a block for each of three layers",
     {.arch = WEFT_ARCH_GPT2,
      .layers = 3,
      .dim = 8,
      .heads = 1,
      .kv_heads = 1,
      .ffn = 24,
      .vocab = 20,
      .ctx = 8,
      .norm_eps = 1e-5F,
      .residual_block_layers = 1}},
    {"llama, all three layers are one block",
     {.arch = WEFT_ARCH_LLAMA,
      .layers = 3,
      .dim = 16,
      .heads = 2,
      .kv_heads = 2,
      .ffn = 24,
      .vocab = 33,
      .ctx = 8,
      .norm_eps = 1e-5F,
      .residual_block_layers = 3,
      .rope = {.theta = 500}}},
};

typedef void cut_fn(const uint32_t *layers, uint32_t n_stages, void *arg);

/* Calls `check` with the layers of each stage, for every partition into 1 to MAX_STAGES
 * stages. */
static void each_cut(uint32_t layers_left, uint32_t *layers, uint32_t n, cut_fn *check,
                     void *arg)
{
    layers[n] = layers_left; /* the last stage has the rest */
    check(layers, n + 1, arg);
    if (n + 1 == MAX_STAGES)
        return;
    /* Only the first and last stage may have no layer. */
    for (layers[n] = n == 0 ? 0 : 1; layers[n] <= layers_left; layers[n]++) {
        uint32_t here = layers[n];
        each_cut(layers_left - here, layers, n + 1, check, arg);
        layers[n] = here;
    }
}

struct comparison {
    const struct weft_model *model;
    struct how how;
    struct wf_pool *pool;
    struct rig *whole;
    unsigned n_cuts;
};

static void compare_cut(const uint32_t *layers, uint32_t n_stages, void *arg)
{
    struct comparison *c = arg;
    struct rig *r = make_rig(c->model, layers, n_stages, c->how, c->pool);
    for (int split = 0; split < 2; split++) {
        r->how.split = split != 0;
        run_step(r);
        check_same(r, c->whole);
    }
    free_rig(r);
    c->n_cuts++;
}

/* Computes the expected result with one stage in its own memory, without recomputation,
 * on one thread. */
static struct rig *make_whole(const struct weft_model *model, enum wf_dtype precision,
                              struct wf_pool *pool)
{
    struct how plain = {.precision = precision, .own_slots = true};
    struct rig *r = make_rig(model, &model->layers, 1, plain, pool);
    run_step(r);
    return r;
}

/* There are n - 1 places between n = layers + 2 items; up to three are cut. */
static unsigned count_cuts(unsigned places)
{
    return 1 + places + places * (places - 1) / 2 + places * (places - 1) * (places - 2) / 6;
}

static void check_cuts(void **state)
{
    const struct weft_model *model = &((const struct cut_case *)*state)->model;
    struct wf_pool *pools[2];
    assert_int_equal(wf_pool_new(1, &pools[0], NULL), WEFT_OK);
    assert_int_equal(wf_pool_new(2, &pools[1], NULL), WEFT_OK);

    for (int precision = WF_DTYPE_F32; precision <= WF_DTYPE_BF16; precision++) {
        struct rig *whole = make_whole(model, (enum wf_dtype)precision, pools[0]);
        for (unsigned i = 0; i < 3 * 2; i++) {
            struct comparison c = {.model = model,
                                   .pool = pools[i % 2],
                                   .whole = whole,
                                   .how = {.precision = (enum wf_dtype)precision,
                                           .recompute = (enum weft_recompute)(i / 2)}};

            uint32_t layers[MAX_STAGES];
            each_cut(model->layers, layers, 0, compare_cut, &c);
            assert_int_equal(c.n_cuts, count_cuts(model->layers + 1));
        }
        free_rig(whole);
    }

    wf_pool_free(pools[0]);
    wf_pool_free(pools[1]);
}

/* Rows of 2 KiB are stored with a gap, which must not be read. */
static void check_gaps(void **state)
{
    (void)state;
    struct weft_model model = cases[3].model;
    struct wf_pool *pool;
    assert_int_equal(wf_pool_new(2, &pool, NULL), WEFT_OK);
    model.layers = model.residual_block_layers = 1;
    for (int precision = WF_DTYPE_F32; precision <= WF_DTYPE_BF16; precision++) {
        model.dim = model.ffn = precision == WF_DTYPE_F32 ? 512 : 1024;
        struct rig *whole = make_whole(&model, (enum wf_dtype)precision, pool);
        struct how how = {.precision = (enum wf_dtype)precision};
        struct comparison c = {.model = &model, .pool = pool, .whole = whole, .how = how};
        compare_cut((const uint32_t[]){1, 0}, 2, &c);
        free_rig(whole);
    }
    wf_pool_free(pool);
}

/* Checks which stage finishes which block, for all small models.  forward()
 * compares the results. */
static void forward_cut(const uint32_t *layers, uint32_t n_stages, void *arg)
{
    struct comparison *c = arg;
    struct rig *r = make_rig(c->model, layers, n_stages, c->how, c->pool);
    for (uint32_t s = 0; s < n_stages; s++)
        forward(r, s, 0);
    free_rig(r);
}

static void check_finishers(void **state)
{
    (void)state;
    struct weft_model model = cases[4].model;
    struct wf_pool *pool;
    assert_int_equal(wf_pool_new(1, &pool, NULL), WEFT_OK);
    for (model.layers = 1; model.layers <= 6; model.layers++)
        for (uint32_t k = 1; k <= model.layers; k++) {
            struct comparison c = {.model = &model, .pool = pool};
            uint32_t layers[MAX_STAGES];
            model.residual_block_layers = k;
            each_cut(model.layers, layers, 0, forward_cut, &c);
        }
    wf_pool_free(pool);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases) + 2];
    size_t n = 0;
    for (; n < WEFT_LEN(cases); n++)
        tests[n] =
            (struct CMUnitTest){cases[n].name, check_cuts, NULL, NULL, (void *)&cases[n]};
    tests[n++] = (struct CMUnitTest){"gaps between rows", check_gaps, NULL, NULL, NULL};
    tests[n++] =
        (struct CMUnitTest){"stages that finish blocks", check_finishers, NULL, NULL, NULL};
    return cmocka_run_group_tests_name("cuts", tests, NULL, NULL) != 0;
}
