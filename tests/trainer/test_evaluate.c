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
#include "support/wire.h"
#include "training/trainer/evaluate.h"
#include "training/trainer/load.h"

enum { N = 103, SEQ = 16, MAX_RANKS = 4 };

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

/* Computes the loss by its definition: windows of SEQ tokens, n_targets targets in all, of which
 * only those count that `counted` marks; NULL: all. */
static double expected(const struct rig *r, size_t n_targets, const bool *counted)
{
    struct wf_infer_spec spec = {*r->model, SEQ, WF_DTYPE_F32, r->pool};
    struct wf_infer *m = NULL;
    struct weft_error err = {.msg = ""};
    size_t vocab = r->model->vocab;
    float *logits = malloc(vocab * sizeof *logits);
    double total = 0;
    size_t n = 0;

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
        if (counted != NULL && !counted[i + 1])
            continue;
        total += log(sum) - logits[r->tokens[i + 1]];
        n++;
    }

    wf_infer_free(m);
    free(logits);
    return total / (double)n;
}

static struct wf_evaluator_spec spec_of(const struct rig *r, uint32_t rows)
{
    return (struct wf_evaluator_spec){.weights = r->weights,
                                      .rows = rows,
                                      .seq = SEQ,
                                      .precision = WF_DTYPE_F32,
                                      .pool = r->pool};
}

static struct wf_evaluator *make_evaluator(const struct rig *r, uint32_t rows)
{
    struct wf_evaluator_spec spec = spec_of(r, rows);
    struct wf_evaluator *x = NULL;
    struct weft_error err = {.msg = ""};
    if (wf_evaluator_new(&spec, NULL, &x, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    return x;
}

static struct wf_shards *write_shard(const struct rig *r, size_t n, uint32_t vocab)
{
    const char *path = folder_in(&r->folder, "val-000000.bin");
    struct wf_shards *s = NULL;
    struct weft_error err = {.msg = ""};
    if (wf_shard_write(path, vocab, r->tokens, n, &err) != WEFT_OK ||
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
        struct wf_shards *shards = write_shard(&r, cases[i].n, r.model->vocab);
        struct wf_evaluator *t = make_evaluator(&r, cases[i].rows);
        struct wf_evaluate_data data = {shards, cases[i].batches};
        struct wf_evaluation e;
        struct weft_error err = {.msg = ""};

        for (int again = 0; again < 2; again++) {
            if (wf_evaluate(t, &data, &e, &err) != WEFT_OK)
                fail_msg("%s", err.msg);
            assert_int_equal(e.tokens, cases[i].want);
            double want = expected(&r, cases[i].want, NULL);
            if (fabs(e.loss - want) > 1e-5 * want)
                fail_msg("case %zu: %g, want %g", i, e.loss, want);
        }

        wf_evaluator_free(t);
        wf_shards_free(shards);
    }
    rig_release(&r);
}

/* Only tokens that count are in the mean.  The mask covers a whole batch, and parts of others. */
static void masked_tokens_do_not_count(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    bool counted[N];
    size_t want = 0;
    for (size_t i = 0; i < N; i++) {
        counted[i] = i > 2 * SEQ && i % 3 != 0;
        want += i > 0 && counted[i];
    }
    const char *path = folder_in(&r.folder, "m.bin");
    struct wf_shard_writer *w = NULL;
    struct wf_shards *shards = NULL;
    assert_int_equal(wf_shard_writer_new(path, r.model->vocab, &w, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_add_masked(w, r.tokens, counted, N, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_finish(w, NULL), WEFT_OK);
    wf_shard_writer_free(w);
    assert_int_equal(wf_shards_open(path, &shards, NULL), WEFT_OK);

    for (uint32_t rows = 1; rows <= 3; rows++) {
        struct wf_evaluator *x = make_evaluator(&r, rows);
        struct wf_evaluate_data data = {shards, 0};
        struct wf_evaluation e;
        assert_int_equal(wf_evaluate(x, &data, &e, NULL), WEFT_OK);
        assert_int_equal(e.tokens, want);
        double loss = expected(&r, N - 1, counted);
        assert_true(fabs(e.loss - loss) <= 1e-5 * loss);

        /* The first batch of one row has no token that counts. */
        struct weft_error err = {.msg = ""};
        data.batches = 1;
        if (rows == 1) {
            assert_int_equal(wf_evaluate(x, &data, &e, &err), WEFT_DATA);
            assert_non_null(strstr(err.msg, "m.bin: the loss mask excludes all tokens"));
        }
        wf_evaluator_free(x);
    }
    wf_shards_free(shards);
    rig_release(&r);
}

/* One evaluation on several ranks. */
struct ranks_case {
    struct rig *r;
    const struct wf_shards *shards;
    uint32_t rows;
    double loss;                  /* of one rank */
    struct wire wires[MAX_RANKS]; /* bytes that each rank sends */
};

static enum weft_status evaluate_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct ranks_case *c = arg;
    struct wf_evaluator_spec spec = spec_of(c->r, c->rows);
    const struct wf_evaluate_data data = {c->shards, 0};
    struct wf_evaluator *x = NULL;
    struct wf_evaluation e = {0};
    struct wf_pool *pool = NULL;
    WEFT_TRY(wf_pool_new(1, &pool, err));
    spec.pool = pool;
    wire_count(comm, &c->wires[weft_comm_rank(comm)]);
    enum weft_status st = wf_evaluator_new(&spec, comm, &x, err);
    if (st == WEFT_OK)
        st = wf_evaluate(x, &data, &e, err);
    wf_evaluator_free(x);
    wf_pool_free(pool);
    if (st == WEFT_OK && (e.loss != c->loss || e.tokens != N - 1))
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: loss %.17g of %llu tokens, want %.17g",
                         weft_comm_rank(comm), e.loss, (unsigned long long)e.tokens, c->loss);
    return st;
}

static void ranks_do_not_change_a_bit(void **state)
{
    struct rig r;
    rig_init(&r, *state);
    struct wf_shards *shards = write_shard(&r, N, r.model->vocab);
    for (uint32_t rows = 1; rows <= 3; rows += 2) {
        struct wf_evaluator *x = make_evaluator(&r, rows);
        struct wf_evaluation one;
        const struct wf_evaluate_data data = {shards, 0};
        assert_int_equal(wf_evaluate(x, &data, &one, NULL), WEFT_OK);
        wf_evaluator_free(x);
        for (uint32_t n = 2; n <= MAX_RANKS && n <= r.model->layers; n++) {
            struct weft_error err = {.msg = ""};
            struct ranks_case c = {.r = &r, .shards = shards, .rows = rows, .loss = one.loss};
            if (weft_comm_run_threads(n, evaluate_rank, &c, &err) != WEFT_OK)
                fail_msg("%u ranks: %s", n, err.msg);
            /* Every rank but the last sends one activation per batch, and blocks with it. */
            uint64_t batches = (N - 1 + rows * SEQ - 1) / (rows * SEQ);
            uint64_t activation = (uint64_t)rows * SEQ * r.model->dim * sizeof(float);
            for (uint32_t rank = 0; rank < n; rank++) {
                uint64_t got = c.wires[rank].bytes[WF_COMM_CHANNEL_FORWARD];
                assert_int_equal(c.wires[rank].bytes[WF_COMM_CHANNEL_BACKWARD], 0);
                if (r.model->residual_block_layers == 0)
                    assert_int_equal(got, rank + 1 < n ? batches * activation : 0);
                else
                    assert_true(rank + 1 < n ? got > batches * activation : got == 0);
            }
        }
    }
    wf_shards_free(shards);
    rig_release(&r);
}

static void invalid_data_is_rejected(void **state)
{
    struct rig r;
    (void)state;
    rig_init(&r, "gpt2-tiny");
    struct wf_evaluator *t = make_evaluator(&r, 1);
    struct wf_shards *shards = write_shard(&r, 1, r.model->vocab);
    struct wf_evaluation e;
    struct weft_error err = {.msg = ""};
    struct wf_evaluate_data data = {shards, 0};
    assert_int_equal(wf_evaluate(t, &data, &e, &err), WEFT_DATA);
    wf_shards_free(shards);
    r.tokens[N / 2] = (int32_t)r.model->vocab; /* not in the vocabulary */
    shards = write_shard(&r, N, r.model->vocab + 1);
    data.shards = shards;
    assert_int_equal(wf_evaluate(t, &data, &e, &err), WEFT_DATA);
    wf_shards_free(shards);
    wf_evaluator_free(t);
    t = NULL;
    struct wf_evaluator_spec spec = spec_of(&r, 1);
    spec.seq = 0;
    assert_int_equal(wf_evaluator_new(&spec, NULL, &t, &err), WEFT_USAGE);
    assert_null(t);
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
    struct wf_shards *shards = write_shard(&r, N, r.model->vocab);
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
        {"ranks of gpt2", ranks_do_not_change_a_bit, NULL, NULL, "gpt2-tiny"},
        {"ranks of llama", ranks_do_not_change_a_bit, NULL, NULL, "llama-tiny"},
        {"ranks of residual", ranks_do_not_change_a_bit, NULL, NULL,
         "llama-tiny-tied-residual"},
        {"masked gpt2", masked_tokens_do_not_count, NULL, NULL, "gpt2-tiny"},
        {"masked llama", masked_tokens_do_not_count, NULL, NULL, "llama-tiny"},
        cmocka_unit_test(invalid_data_is_rejected),
        cmocka_unit_test(token_bytes_come_from_meta_json),
    };
    return cmocka_run_group_tests_name("evaluate", tests, NULL, NULL) != 0;
}
