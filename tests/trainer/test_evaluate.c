/* Compares the mean loss of a model on shards with inference, one token at a time. */
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
#include "support/folder.h"
#include "training/trainer/evaluate.h"
#include "training/trainer/load.h"

enum { N = 103, SEQ = 16 };

struct rig {
    struct folder folder;
    struct wf_weights *weights;
    const struct weft_model *model;
    struct wf_pool *pool;
    int32_t tokens[N];
};

static void rig_init(struct rig *r, const char *model)
{
    char dir[512];
    struct weft_error err = {.msg = ""};
    snprintf(dir, sizeof dir, "%s/train/%s", WEFT_TEST_DATA, model);
    *r = (struct rig){.folder = folder_new()};
    if (wf_load_open(dir, &r->weights, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    r->model = &wf_weights_info(r->weights)->model;
    assert_int_equal(wf_pool_new(2, &r->pool, NULL), WEFT_OK);
    for (uint64_t i = 0; i < N; i++)
        r->tokens[i] = (int32_t)wf_random_below(4, 2, i, r->model->vocab);
}

static void rig_release(struct rig *r)
{
    wf_weights_free(r->weights);
    wf_pool_free(r->pool);
    folder_remove(&r->folder);
}

/* Computes the loss by its definition: windows of SEQ tokens, n_targets targets in all. */
static double expected(const struct rig *r, size_t n_targets)
{
    struct wf_infer_spec spec = {*r->model, SEQ, WF_DTYPE_F32, r->pool};
    struct wf_infer *m = NULL;
    struct weft_error err = {.msg = ""};
    size_t vocab = r->model->vocab;
    float *logits = malloc(vocab * sizeof *logits);
    double total = 0;
    if (wf_infer_new(&spec, &m, &err) != WEFT_OK ||
        wf_load_infer(r->weights, m, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    for (size_t i = 0; i < n_targets; i++) {
        double sum = 0;
        if (i % SEQ == 0)
            wf_infer_rewind(m, 0);
        assert_int_equal(wf_infer_feed(m, &r->tokens[i], 1, logits, NULL), WEFT_OK);
        for (size_t v = 0; v < vocab; v++)
            sum += exp(logits[v]);
        total += log(sum) - logits[r->tokens[i + 1]];
    }
    wf_infer_free(m);
    free(logits);
    return total / (double)n_targets;
}

static struct wf_tstage *make_stage(const struct rig *r, uint32_t rows)
{
    struct wf_tstage_spec spec = {.model = *r->model,
                                  .item1 = r->model->layers + 2,
                                  .seq = SEQ,
                                  .row_counts = {rows},
                                  .n_row_counts = 1,
                                  .slots = 1,
                                  .precision = WF_DTYPE_F32,
                                  .fast_sums = true,
                                  .recompute = WF_RECOMPUTE_FULL,
                                  .pool = r->pool};
    struct wf_tstage *t = NULL;
    struct weft_error err = {.msg = ""};
    if (wf_tstage_new(&spec, &t, &err) != WEFT_OK ||
        wf_load_stage(r->weights, t, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static struct wf_shards *write_shard(const struct rig *r, size_t n)
{
    const char *path = folder_in(&r->folder, "val-000000.bin");
    struct wf_shards *s = NULL;
    struct weft_error err = {.msg = ""};
    if (wf_shard_write(path, r->model->vocab, r->tokens, n, &err) != WEFT_OK ||
        wf_shards_open(path, &s, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return s;
}

static void losses_are_means_over_all_tokens(void **state)
{
    static const struct {
        size_t n;
        uint32_t rows;
        uint64_t batches;
        size_t want; /* targets */
    } cases[] = {
        {N, 1, 0, N - 1},         {N, 3, 0, N - 1},     {N, 8, 0, N - 1},
        {N, 2, 1, 2 * SEQ},       {N, 4, 99, N - 1},    {2, 2, 0, 1},
        {SEQ, 1, 0, SEQ - 1},     {SEQ + 1, 1, 0, SEQ}, {SEQ + 2, 1, 1, SEQ},
        {SEQ + 2, 2, 0, SEQ + 1},
    };
    struct rig r;
    rig_init(&r, *state);
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_shards *shards = write_shard(&r, cases[i].n);
        struct wf_tstage *t = make_stage(&r, cases[i].rows);
        struct wf_evaluate_data data = {shards, cases[i].rows, SEQ, r.model->vocab,
                                        cases[i].batches};
        struct wf_evaluation e;
        struct weft_error err = {.msg = ""};
        for (int again = 0; again < 2; again++) {
            if (wf_evaluate(t, &data, &e, &err) != WEFT_OK)
                fail_msg("%s", err.msg);
            assert_int_equal(e.tokens, cases[i].want);
            double want = expected(&r, cases[i].want);
            if (fabs(e.loss - want) > 1e-5 * want)
                fail_msg("case %zu: %g, want %g", i, e.loss, want);
        }
        wf_tstage_free(t);
        wf_shards_free(shards);
    }
    rig_release(&r);
}

static void invalid_data_is_rejected(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, "gpt2-tiny");
    struct wf_tstage *t = make_stage(&r, 1);
    struct wf_shards *shards = write_shard(&r, 1);
    struct wf_evaluation e;
    struct weft_error err = {.msg = ""};
    struct wf_evaluate_data data = {shards, 1, SEQ, r.model->vocab, 0};
    assert_int_equal(wf_evaluate(t, &data, &e, &err), WEFT_DATA);
    wf_shards_free(shards);
    shards = write_shard(&r, N);
    data.shards = shards;
    data.vocab = 3; /* the data has larger tokens */
    assert_int_equal(wf_evaluate(t, &data, &e, &err), WEFT_DATA);
    data.seq = 0;
    assert_int_equal(wf_evaluate(t, &data, &e, &err), WEFT_USAGE);
    wf_shards_free(shards);
    wf_tstage_free(t);
    rig_release(&r);
}

static void token_bytes_come_from_meta_json(void **state)
{
    static const struct {
        const char *meta;
        double want;
    } cases[] = {
        {"{\"text_bytes\":900,\"train\":{\"tokens\":200},\"val\":{\"tokens\":100}}", 3},
        {"{\"text_bytes\":900,\"train\":{\"tokens\":200}}", 4.5},
        {"{\"text_bytes\":900}", 0},
        {"{\"text_bytes\":-900,\"train\":{\"tokens\":200}}", 0},
        {"{\"text_bytes\":\"900\",\"train\":{\"tokens\":200}}", 0},
        {"{\"text_bytes\":9,\"text_bytes\":9,\"train\":{\"tokens\":2}}", 0},
        {"{\"text_bytes\":9,\"train\":7}", 0},
        {"[]", 0},
        {"{", 0},
        {"", 0},
    };
    struct rig r;
    (void)state;
    rig_init(&r, "gpt2-tiny");
    struct wf_shards *shards = write_shard(&r, N);
    assert_true(wf_evaluate_token_bytes(shards) == 0);
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        FILE *out = fopen(folder_in(&r.folder, "meta.json"), "w");
        fputs(cases[i].meta, out);
        fclose(out);
        if (wf_evaluate_token_bytes(shards) != cases[i].want)
            fail_msg("%s: %g", cases[i].meta, wf_evaluate_token_bytes(shards));
    }
    wf_shards_free(shards);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"gpt2", losses_are_means_over_all_tokens, NULL, NULL, "gpt2-tiny"},
        {"llama", losses_are_means_over_all_tokens, NULL, NULL, "llama-tiny"},
        {"residual", losses_are_means_over_all_tokens, NULL, NULL, "llama-tiny-tied-residual"},
        cmocka_unit_test(invalid_data_is_rejected),
        cmocka_unit_test(token_bytes_come_from_meta_json),
    };
    return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL) != 0;
}
