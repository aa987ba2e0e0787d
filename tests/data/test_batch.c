/* Tests which tokens a step uses, in file order and shuffled, for steps in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/data/batch.h"

enum { VOCAB = 100000 };

/* Opens data in two shards whose token i is i, so that a token is its own position. */
static struct wf_shards *open_counting(struct folder *f, int32_t total)
{
    int32_t *tokens = malloc(sizeof *tokens * (size_t)total);
    assert_non_null(tokens);
    for (int32_t i = 0; i < total; i++)
        tokens[i] = i;
    *f = folder_new();
    int32_t half = total / 2;
    struct wf_shards *s = NULL;
    if (half > 0)
        assert_int_equal(
            wf_shard_write(folder_in(f, "a.bin"), VOCAB, tokens, (size_t)half, NULL), WEFT_OK);
    assert_int_equal(wf_shard_write(folder_in(f, "b.bin"), VOCAB, tokens + half,
                                    (size_t)(total - half), NULL),
                     WEFT_OK);
    assert_int_equal(wf_shards_open(f->path, &s, NULL), WEFT_OK);
    free(tokens);
    return s;
}

static struct order_case {
    const char *name;
    int32_t total;
    uint32_t rows, seq;
    uint64_t steps; /* per epoch: (total - 1) / (rows * seq) */
} orders[] = {
    {"one step, exactly", 8 * 24 + 1, 8, 24, 1},
    {"eight steps, as in the reference runs", 8 * 8 * 24 + 1, 8, 24, 8},
    {"one token too few for the second", 2 * 3 * 5, 3, 5, 1},
    {"unused tokens at the end", 1000, 7, 9, 15},
    {"single tokens", 6, 1, 1, 5},
};

static void check_file_order(void **state)
{
    const struct order_case *c = *state;
    struct folder f;
    struct wf_shards *s = open_counting(&f, c->total);
    struct wf_batch b;
    assert_int_equal(wf_batch_init(&b, s, c->rows, c->seq, VOCAB, false, 1, NULL), WEFT_OK);
    assert_int_equal(b.epoch_len, c->steps);
    int32_t in[200], target[200];
    for (uint64_t step = 0; step < 3 * c->steps + 1; step++) {
        assert_int_equal(wf_batch_read(&b, step, 0, c->rows, in, target, NULL), WEFT_OK);
        int32_t first = (int32_t)(step % c->steps * c->rows * c->seq);
        for (int32_t i = 0; i < (int32_t)(c->rows * c->seq); i++) {
            assert_int_equal(in[i], first + i);
            assert_int_equal(target[i], first + i + 1);
        }
    }
    wf_shards_free(s);
    folder_remove(&f);
}

/* Every epoch uses each window once, in an order that differs between epochs and does not
 * depend on the rows per step. */
static void check_shuffled(void **state)
{
    (void)state;
    enum { TOTAL = 1000, SEQ = 9, WINDOWS = (TOTAL - 1) / SEQ };
    struct folder f;
    struct wf_shards *s = open_counting(&f, TOTAL);
    int32_t order[3 * WINDOWS], in[4 * SEQ], target[4 * SEQ];

    for (uint32_t rows = 1; rows <= 4; rows += 3) {
        struct wf_batch b;
        assert_int_equal(wf_batch_init(&b, s, rows, SEQ, VOCAB, true, 7, NULL), WEFT_OK);
        assert_int_equal(b.epoch_len, WINDOWS);

        /* Backwards: a step does not depend on the previous one. */
        for (uint32_t n = 3 * WINDOWS / rows; n-- > 0;) {
            assert_int_equal(wf_batch_read(&b, n, 0, rows, in, target, NULL), WEFT_OK);
            for (uint32_t r = 0; r < rows; r++) {
                int32_t first = in[r * SEQ];
                assert_int_equal(first % SEQ, 0);
                for (int32_t i = 0; i < SEQ; i++) {
                    assert_int_equal(in[r * SEQ + (uint32_t)i], first + i);
                    assert_int_equal(target[r * SEQ + (uint32_t)i], first + i + 1);
                }

                if (rows == 1)
                    order[n] = first / SEQ;
                else
                    assert_int_equal(order[n * rows + r], first / SEQ);
            }
        }
    }

    /* Every epoch has each window once, in another order. */
    uint32_t moved = 0;
    for (size_t epoch = 0; epoch < 3; epoch++) {
        bool seen[WINDOWS] = {false};
        for (size_t i = 0; i < WINDOWS; i++) {
            int32_t w = order[epoch * WINDOWS + i];
            assert_true(w >= 0 && w < WINDOWS && !seen[w]);
            seen[w] = true;
            moved += epoch > 0 && w != order[(epoch - 1) * WINDOWS + i];
        }
    }

    assert_true(moved >
                2 * WINDOWS * 9 / 10); /* two random orders agree in one place on average */

    wf_shards_free(s);
    folder_remove(&f);
}

/* The rows of all micro-batches are the rows of the step. */
static void check_micros(void **state)
{
    (void)state;
    enum { ROWS = 7, SEQ = 5 };
    struct folder f;
    struct wf_shards *s = open_counting(&f, 500);

    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (uint32_t micros = 1; micros <= ROWS + 1; micros++) {
            struct wf_batch b;
            int32_t in[ROWS * SEQ], target[ROWS * SEQ];
            int32_t want_in[ROWS * SEQ], want_target[ROWS * SEQ];

            assert_int_equal(wf_batch_init(&b, s, ROWS, SEQ, VOCAB, shuffle != 0, 3, NULL),
                             WEFT_OK);
            assert_int_equal(wf_batch_read(&b, 11, 0, ROWS, want_in, want_target, NULL),
                             WEFT_OK);

            size_t end = 0;
            for (uint32_t m = 0; m < micros; m++) {
                struct wf_range r = wf_micro_range(ROWS, micros, m);
                assert_int_equal(r.begin, end);
                end = r.end;
                /* The first ones get the remainder. */
                assert_int_equal(r.end - r.begin, ROWS / micros + (m < ROWS % micros));
                assert_int_equal(wf_batch_read(&b, 11, (uint32_t)r.begin,
                                               (uint32_t)(r.end - r.begin), in + r.begin * SEQ,
                                               target + r.begin * SEQ, NULL),
                                 WEFT_OK);
            }

            assert_int_equal(end, ROWS);
            assert_memory_equal(in, want_in, sizeof in);
            assert_memory_equal(target, want_target, sizeof target);
        }

    wf_shards_free(s);
    folder_remove(&f);
}

static struct short_case {
    const char *name;
    int32_t total;
    bool shuffle;
    const char *error; /* NULL: enough */
} shorts[] = {
    {"just enough for a step", 13, false, NULL},
    {"one too few for a step", 12, false,
     "12 tokens are too few for one step (12 and one more"},
    {"just enough for a window", 5, true, NULL},
    {"one too few for a window", 4, true,
     "4 tokens are too few for one sequence (4 and one more"},
    {"a single token", 1, true, "b.bin: 1 tokens are too few"},
};

static void check_short(void **state)
{
    const struct short_case *c = *state;
    struct folder f;
    struct wf_shards *s = open_counting(&f, c->total);
    struct wf_batch b;
    struct weft_error err = {.msg = ""};
    enum weft_status st = wf_batch_init(&b, s, 3, 4, VOCAB, c->shuffle, 1, &err);
    assert_int_equal(st, c->error == NULL ? WEFT_OK : WEFT_DATA);
    if (c->error != NULL && strstr(err.msg, c->error) == NULL)
        fail_msg("want \"%s\", have \"%s\"", c->error, err.msg);
    int32_t in[12], target[12];
    if (st == WEFT_OK)
        assert_int_equal(wf_batch_read(&b, 1, 0, 3, in, target, NULL), WEFT_OK);
    wf_shards_free(s);
    folder_remove(&f);
}

static void check_vocabulary(void **state)
{
    (void)state;
    struct folder f;
    struct wf_shards *s = open_counting(&f, 50);
    struct wf_batch b;
    struct weft_error err;
    int32_t in[10], target[10];
    assert_int_equal(wf_batch_init(&b, s, 1, 10, 20, false, 1, NULL), WEFT_OK);
    assert_int_equal(wf_batch_read(&b, 0, 0, 1, in, target, NULL), WEFT_OK);
    /* The target of the last input is checked, too. */
    assert_int_equal(wf_batch_read(&b, 1, 0, 1, in, target, &err), WEFT_DATA);
    assert_non_null(
        strstr(err.msg, "a.bin: token 20 (at byte 1104) is 20: the vocabulary has"));
    wf_shards_free(s);
    folder_remove(&f);
}

/* -- the permutation itself ---------------------------------------------------------------- */

static void check_bijection(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    static uint8_t seen[MOST];
    for (uint64_t n = 1; n <= MOST; n += n < 300 ? 1 : 157)
        for (uint64_t epoch = 0; epoch < 2; epoch++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t to = wf_permute(n * 31, epoch, n, i);
                assert_true(to < n && !seen[to]);
                seen[to] = 1;
            }
        }
    /* Sizes too large for a table: results are in range, and neighbours are separated. */
    for (unsigned bits = 20; bits < 64; bits++) {
        uint64_t n = (UINT64_C(1) << bits) + 1;
        assert_true(wf_permute(1, 0, n, n - 1) < n);
        assert_true(wf_permute(1, 0, n, 0) != wf_permute(1, 0, n, 1));
    }
    assert_true(wf_permute(1, 0, UINT64_MAX, 5) < UINT64_MAX);
}

/* Every index goes to every position equally often: chi-squared over many seeds with 63 degrees
 * of freedom exceeds 120 once in 50,000. */
static void check_uniform(void **state)
{
    (void)state;
    enum { N = 64, SEEDS = 6400 };
    for (uint64_t i = 0; i < N; i += 21) {
        double counts[N] = {0}, chi = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++)
            counts[wf_permute(seed, 3, N, i)]++;
        for (size_t k = 0; k < N; k++)
            chi += (counts[k] - 100) * (counts[k] - 100) / 100;
        assert_true(chi > 25 && chi < 120);
    }
}

/* Masked tokens are inputs, but not targets. */
static void check_mask(void **state)
{
    (void)state;
    enum { N = 31, T = 5, R = 2 };
    struct folder f = folder_new();
    struct wf_shard_writer *w = NULL;
    struct wf_shards *s = NULL;
    struct wf_batch b;
    int32_t tokens[N], in[R * T], target[R * T];
    bool counted[N];
    for (int i = 0; i < N; i++) {
        tokens[i] = i;
        counted[i] = i % 3 == 1 || i > 25;
    }
    assert_int_equal(wf_shard_writer_new(folder_in(&f, "m.bin"), N, &w, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_add_masked(w, tokens, counted, N, NULL), WEFT_OK);
    assert_int_equal(wf_shard_writer_finish(w, NULL), WEFT_OK);
    wf_shard_writer_free(w);
    assert_int_equal(wf_shards_open(f.path, &s, NULL), WEFT_OK);
    assert_int_equal(wf_batch_init(&b, s, R, T, N, false, 1, NULL), WEFT_OK);
    for (int step = 0; step < 3; step++) {
        assert_int_equal(wf_batch_read(&b, (uint64_t)step, 0, R, in, target, NULL), WEFT_OK);
        for (int i = 0; i < R * T; i++) {
            int at = step * R * T + i;
            assert_int_equal(in[i], at);
            assert_int_equal(target[i], counted[at + 1] ? at + 1 : -1);
        }
    }
    wf_shards_free(s);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest single[] = {
        cmocka_unit_test(check_shuffled),   cmocka_unit_test(check_micros),
        cmocka_unit_test(check_bijection),  cmocka_unit_test(check_uniform),
        cmocka_unit_test(check_vocabulary), cmocka_unit_test(check_mask),
    };
    struct CMUnitTest tests[WEFT_LEN(single) + WEFT_LEN(orders) + WEFT_LEN(shorts)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(single); i++)
        tests[n++] = single[i];
    for (size_t i = 0; i < WEFT_LEN(orders); i++)
        tests[n++] =
            (struct CMUnitTest){orders[i].name, check_file_order, NULL, NULL, &orders[i]};
    for (size_t i = 0; i < WEFT_LEN(shorts); i++)
        tests[n++] = (struct CMUnitTest){shorts[i].name, check_short, NULL, NULL, &shorts[i]};
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL) != 0;
}
