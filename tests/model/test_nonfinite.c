/* Checks that the stage that produces a non-finite value finds it and reports its position. */
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
#include "compute/model/stage.h"

enum { ROWS = 2, SEQ = 5, TOKENS = ROWS * SEQ, DIM = 16, MAX_BLOCKS = 4, BAD_TOKEN = 3 };

static const struct weft_model plain = {.arch = WEFT_ARCH_GPT2,
                                        .layers = 4,
                                        .dim = DIM,
                                        .heads = 2,
                                        .kv_heads = 2,
                                        .ffn = 24,
                                        .vocab = 20,
                                        .ctx = 8,
                                        .norm_eps = 1e-5F};
/* The blocks of this model are the embedding, layers 0 to 2, and layer 3. */
static const struct weft_model blocks = {.arch = WEFT_ARCH_LLAMA,
                                         .layers = 4,
                                         .dim = DIM,
                                         .heads = 2,
                                         .kv_heads = 2,
                                         .ffn = 24,
                                         .vocab = 20,
                                         .ctx = 8,
                                         .norm_eps = 1e-5F,
                                         .residual_block_layers = 3,
                                         .rope = {.theta = 500}};

enum damage { NOTHING, WEIGHTS, ONE_WEIGHT, INPUT, BLOCK, NO_BLOCKS, NO_BLOCK };

static const struct bad_case {
    const char *name;
    const struct weft_model *model;
    uint32_t item0, item1;
    enum damage damage;
    uint32_t item; /* whose weight of this role is changed, or the block */
    enum wf_role role;
    enum weft_status want;
    const char *contains[3];
} cases[] = {
    {"plain: all finite", &plain, 1, 3, NOTHING, 0, 0, WEFT_OK, {NULL}},
    {"plain: a layer overflows",
     &plain,
     1,
     4,
     WEIGHTS,
     2,
     WF_ROLE_UP,
     WEFT_NUMERIC,
     {"non-finite activation", "in layer 1 the MLP's"}},
    {"plain: the last product of the last layer overflows",
     &plain,
     2,
     4,
     WEIGHTS,
     3,
     WF_ROLE_DOWN,
     WEFT_NUMERIC,
     {"non-finite activation", "the output of layer 2"}},
    {"plain: a weight is NaN",
     &plain,
     1,
     4,
     ONE_WEIGHT,
     2,
     WF_ROLE_PROJECT,
     WEFT_NUMERIC,
     {"non-finite activation", "transformer.h.1.attn.c_proj.weight", "element 7"}},
    {"plain: non-finite input",
     &plain,
     3,
     5,
     INPUT,
     0,
     0,
     WEFT_NUMERIC,
     {"non-finite activation", "the input of layer 2 from the previous stage", "token 3"}},
    {"plain: non-finite input of the head",
     &plain,
     5,
     6,
     INPUT,
     0,
     0,
     WEFT_NUMERIC,
     {"non-finite loss", "the input of the head from the previous stage", "token 3"}},
    {"plain: the embedding has a NaN",
     &plain,
     0,
     1,
     ONE_WEIGHT,
     0,
     WF_ROLE_TOKEN_EMBEDDING,
     WEFT_NUMERIC,
     {"non-finite activation", "transformer.wte.weight", "element 7"}},
    {"plain: the embedding overflows",
     &plain,
     0,
     2,
     WEIGHTS,
     0,
     WF_ROLE_TOKEN_EMBEDDING,
     WEFT_NUMERIC,
     {"non-finite activation", "the output of the embedding", "token 0"}},
    {"blocks: all finite", &blocks, 2, 4, NOTHING, 0, 0, WEFT_OK, {NULL}},
    {"blocks: a layer of the open sum overflows",
     &blocks,
     1,
     3,
     WEIGHTS,
     2,
     WF_ROLE_UP,
     WEFT_NUMERIC,
     {"non-finite activation", "in layer 1 the MLP's"}},
    {"blocks: the produced block overflows",
     &blocks,
     3,
     4,
     WEIGHTS,
     3,
     WF_ROLE_DOWN,
     WEFT_NUMERIC,
     {"non-finite activation", "the output of layer 2"}},
    {"blocks: non-finite input block",
     &blocks,
     4,
     5,
     BLOCK,
     1,
     0,
     WEFT_NUMERIC,
     {"non-finite activation", "block 1, an input of layer 3", "token 3"}},
    {"blocks: non-finite input block of the head",
     &blocks,
     5,
     6,
     BLOCK,
     0,
     0,
     WEFT_NUMERIC,
     {"non-finite loss", "block 0, an input of the head", "token 3"}},
    {"blocks: non-finite open sum",
     &blocks,
     5,
     6,
     INPUT,
     0,
     0,
     WEFT_NUMERIC,
     {"non-finite loss", "the input of the head from the previous stage", "token 3"}},
    {"blocks: an empty sum is not read", &blocks, 1, 2, INPUT, 0, 0, WEFT_OK, {NULL}},
    {"blocks: the call has none",
     &blocks,
     2,
     4,
     NO_BLOCKS,
     0,
     0,
     WEFT_INTERNAL,
     {"needs them"}},
    {"blocks: the call lacks one",
     &blocks,
     3,
     4,
     NO_BLOCK,
     1,
     0,
     WEFT_INTERNAL,
     {"lacks block 1"}},
};

/* Damages the weights of a case.  A sum of two weights of 3e38 overflows. */
static void damage_weights(struct wf_tstage *t, const struct bad_case *c)
{
    size_t n;
    struct wf_param *params = wf_tstage_params(t, &n);
    for (size_t p = 0; p < n; p++) {
        struct wf_param *w = &params[p];
        bool selected = w->desc.item == c->item && w->desc.role == c->role;
        /* The vectors of tokens and positions are added, so both change. */
        selected |=
            c->role == WF_ROLE_TOKEN_EMBEDDING && w->desc.role == WF_ROLE_POSITION_EMBEDDING;
        bool inside = w->desc.role == WF_ROLE_UP || w->desc.role == WF_ROLE_GATE;
        for (size_t i = 0; c->damage == WEIGHTS && i < w->n; i++)
            if (selected)
                w->value[i] = 3e38F;
            else if (inside && c->role == WF_ROLE_DOWN) /* makes its input large enough */
                w->value[i] *= 500;
        if (c->damage == ONE_WEIGHT && selected)
            w->value[7] = NAN;
    }
    wf_tstage_pack(t);
}

static void fill(float *at, bool bad)
{
    for (int i = 0; i < TOKENS * DIM; i++)
        at[i] = (float)(1 + i % 7) * 0.5F;
    if (bad)
        at[BAD_TOKEN * DIM + 1] = INFINITY;
}

static void run_case(const struct bad_case *c, enum weft_recompute recompute,
                     struct wf_pool *pool)
{
    float in[TOKENS * DIM], out[TOKENS * DIM], block[MAX_BLOCKS][TOKENS * DIM];
    float *value[MAX_BLOCKS];
    int32_t tokens[TOKENS] = {0};
    double loss;
    struct weft_error err = {0};
    struct wf_tstage *t = NULL;
    struct wf_tstage_spec spec = {.model = *c->model,
                                  .item0 = c->item0,
                                  .item1 = c->item1,
                                  .seq = SEQ,
                                  .row_counts = {ROWS},
                                  .n_row_counts = 1,
                                  .slots = 1,
                                  .recompute = recompute,
                                  .pool = pool};

    assert_int_equal(wf_tstage_new(&spec, &t, NULL), WEFT_OK);
    wf_tstage_init_weights(t, 3);
    damage_weights(t, c);

    fill(in, c->damage == INPUT);
    for (uint32_t b = 0; b < MAX_BLOCKS; b++) {
        fill(block[b], c->damage == BLOCK && b == c->item);
        value[b] = c->damage == NO_BLOCK && b == c->item ? NULL : block[b];
    }

    struct weft_stage_blocks given = {.value = value};
    struct weft_stage stage = wf_tstage_stage(t);
    struct weft_stage_call call = {.rows = ROWS,
                                   .in = c->item0 == 0 ? (void *)tokens : in,
                                   .out = out,
                                   .targets = tokens,
                                   .scale = 1,
                                   .loss = &loss,
                                   .blocks = c->damage == NO_BLOCKS ? NULL : &given};

    enum weft_status st = stage.ops->forward(stage.self, &call, &err);
    if (st != c->want)
        fail_msg("recompute %d: status %d, %s", (int)recompute, (int)st, err.msg);
    for (size_t i = 0; i < WEFT_LEN(c->contains) && c->contains[i] != NULL; i++)
        if (strstr(err.msg, c->contains[i]) == NULL)
            fail_msg("recompute %d: %s", (int)recompute, err.msg);

    wf_tstage_free(t);
}

static void check_case(void **state)
{
    struct wf_pool *pool = NULL;
    assert_int_equal(wf_pool_new(2, &pool, NULL), WEFT_OK);
    for (int recompute = WEFT_RECOMPUTE_NONE; recompute <= WEFT_RECOMPUTE_FULL; recompute++)
        run_case(*state, (enum weft_recompute)recompute, pool);
    wf_pool_free(pool);
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(cases)];
    for (size_t i = 0; i < WEFT_LEN(cases); i++)
        tests[i] =
            (struct CMUnitTest){cases[i].name, check_case, NULL, NULL, (void *)&cases[i]};
    return cmocka_run_group_tests_name("nonfinite", tests, NULL, NULL) != 0;
}
