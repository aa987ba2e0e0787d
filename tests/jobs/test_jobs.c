/* Checks tokenizing, converting and generating without the command line. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "folder.h"
#include "training/ckpt/hf.h"
#include "training/data/shard.h"
#include "training/jobs/convert.h"
#include "training/jobs/evaluate.h"
#include "training/jobs/generate.h"
#include "training/jobs/generate_text.h"
#include "training/jobs/tokenize.h"
#include "training/trainer/load.h"

#define TINY WEFT_TEST_DATA "/train/gpt2-tiny" /* 128 tokens, context 64, no tokenizer */

/* -- tokenize ------------------------------------------------------------------------------ */

struct seen {
    uint64_t bytes[2];
};

static void note_progress(void *ctx, enum wf_tokenize_phase phase, uint64_t bytes)
{
    struct seen *seen = ctx;
    seen->bytes[phase] = bytes;
}

static enum weft_status tokenize(const char *text, const struct wf_tokenize_options *o,
                                 struct wf_tokenize_result *r)
{
    struct wf_text_list list = {0};
    assert_int_equal(wf_text_list_init(&list, &text, 1, NULL, NULL), WEFT_OK);
    enum weft_status st = wf_tokenize(&list, o, r, NULL);
    wf_text_list_release(&list);
    return st;
}

static void check_tokenize(void **state)
{
    struct folder dir = folder_new();
    const char *text = folder_in(&dir, "text.txt");
    FILE *out = fopen(text, "w");
    for (int i = 0; i < 100; i++)
        fputs("abc abc ", out);
    fclose(out);

    struct seen seen = {0};
    struct wf_tokenize_options o = {
        .out = folder_in(&dir, "a.bin"), .progress = note_progress, .ctx = &seen};
    struct wf_tokenize_result r;
    assert_int_equal(tokenize(text, &o, &r), WEFT_OK);
    assert_true(r.n_vocab == 257 && !r.vocabulary_only);
    assert_true(r.corpus.bytes == 800 &&
                r.corpus.train.tokens == 801); /* and the end of the document */
    assert_true(seen.bytes[WF_TOKENIZE_PHASE_TRAIN] == 0);

    o.out = folder_in(&dir, "v.json");
    assert_int_equal(tokenize(text, &o, &r), WEFT_USAGE); /* no vocabulary is trained */
    o.train_bpe = 1000;
    assert_int_equal(tokenize(text, &o, &r), WEFT_OK);
    assert_true(r.vocabulary_only && r.n_vocab > 257 && r.n_vocab < 1000);
    o.tokenizer = o.out;
    assert_int_equal(tokenize(text, &o, &r), WEFT_USAGE); /* given and trained */
    o.train_bpe = 0;
    o.out = folder_in(&dir, "b.bin");
    assert_int_equal(tokenize(text, &o, &r), WEFT_OK);
    assert_true(r.corpus.train.tokens < 801);
    folder_remove(&dir);
    (void)state;
}

/* -- JSON ----------------------------------------------------------------------------------- */

/* Returns what was written to `j->out`, which is closed.  Valid until the next call. */
static const char *text_of(const struct wf_json *j)
{
    static char text[1024];
    rewind(j->out);
    text[fread(text, 1, sizeof text - 1, j->out)] = '\0';
    fclose(j->out);
    return text;
}

static void check_json(void **state)
{
    const struct wf_tokenize_result t = {
        .kind = "bpe",
        .n_vocab = 300,
        .seconds = 2,
        .bytes_per_token = 1.5,
        .corpus = {.bytes = 15, .train = {.tokens = 10, .documents = 2, .shards = 1}}};
    struct wf_tokenize_options o = {.out = "dir", .train_bpe = 400};
    struct wf_json j = {.out = tmpfile()};
    wf_tokenize_result_write_json(&j, &t, &o);
    assert_string_equal(text_of(&j),
                        "{\"output\":\"dir\",\"tokenizer\":\"bpe\",\"vocab\":300,"
                        "\"vocab_asked\":400,\"text_bytes\":15,\"bytes_per_token\":1.5,"
                        "\"seconds\":2,\"train\":{\"tokens\":10,\"documents\":2,\"shards\":1},"
                        "\"val\":{\"tokens\":0,\"documents\":0,\"shards\":0},"
                        "\"bad_records\":0,\"binary_files\":0}");

    const struct wf_tokenize_result v = {.n_vocab = 300, .vocabulary_only = true};
    j = (struct wf_json){.out = tmpfile()};
    wf_tokenize_result_write_json(&j, &v, &o);
    assert_string_equal(text_of(&j),
                        "{\"output\":\"tokenizer\",\"vocab\":300,\"vocab_asked\":400}");

    /* The tokens of a model with another vocabulary and without a tokenizer are unknown. */
    struct wf_codec none;
    assert_int_equal(wf_codec_open(&none, NULL, 50257, NULL), WEFT_OK);
    assert_null(none.encode);
    wf_codec_release(&none);

    /* Tokens are bytes.  A NUL is replaced. */
    struct wf_codec codec;
    int32_t tokens[] = {256, 'a', 0, 300, 'b'};
    char text[] = "a\0b";
    const struct wf_generation g = {.tokens = tokens,
                                    .n_prompt = 1,
                                    .n_tokens = 5,
                                    .text = text,
                                    .text_len = sizeof text - 1,
                                    .seed = 7,
                                    .stop = WF_GENERATE_STOP_CONTEXT,
                                    .prompt_seconds = 0.25,
                                    .seconds = 2};
    assert_int_equal(wf_codec_open(&codec, NULL, 257, NULL), WEFT_OK);
    j = (struct wf_json){.out = tmpfile()};
    assert_int_equal(wf_generation_write_json(&j, &g, &codec, NULL), WEFT_OK);
    assert_string_equal(text_of(&j),
                        "{\"prompt\":[256],\"tokens\":[97,0,300,98],\"text\":\"a\xef\xbf\xbd"
                        "b\",\"stopped\":\"context\",\"seed\":7,\"prompt_ms\":250,"
                        "\"tok_s\":1.5}");
    size_t len = 0;
    assert_memory_equal(wf_codec_text(&codec, 300, &len), "\xef\xbf\xbd", 3);
    assert_int_equal(len, 3);
    assert_memory_equal(wf_codec_text(&codec, 'a', &len), "a", 1);
    wf_codec_release(&codec);
    (void)state;
}

/* -- evaluate ------------------------------------------------------------------------------- */

static void check_evaluate(void **state)
{
    struct wf_weights *w = NULL;
    struct wf_model_evaluation e, f;
    struct wf_evaluate_options o = {.data = TINY "/tokens.bin", .batches = 3, .threads = 1};
    assert_int_equal(wf_load_open(TINY, &w, NULL), WEFT_OK);
    assert_int_equal(wf_evaluate_model(w, &o, &e, NULL), WEFT_OK);
    assert_int_equal(e.seq, 64); /* the context of the model */
    assert_int_equal(e.result.tokens, 3 * WF_EVALUATE_ROWS * 64);
    assert_true(fabs(log(e.perplexity) - e.result.loss) < 1e-12);
    assert_true(fabs(exp2(e.bits_per_token) / e.perplexity - 1) < 1e-12);
    assert_true(e.token_bytes == 0 && isnan(e.bits_per_byte) && e.tok_s > 0);
    o.rows = WF_EVALUATE_ROWS;
    assert_int_equal(wf_evaluate_model(w, &o, &f, NULL), WEFT_OK);
    assert_true(f.result.loss == e.result.loss);
    wf_weights_free(w);

    struct wf_json j = {.out = tmpfile()};
    e = (struct wf_model_evaluation){
        .result = {.tokens = 10, .loss = 0.5}, .seq = 8, .perplexity = 2, .bits_per_token = 1};
    e.bits_per_byte = NAN;
    wf_model_evaluation_write_json(&j, &e, "m", "d");
    assert_string_equal(
        text_of(&j),
        "{\"model\":\"m\",\"data\":\"d\",\"seq\":8,\"tokens\":10,\"loss\":0.5,"
        "\"perplexity\":2,\"bits_per_token\":1,\"bits_per_byte\":null,\"tok_s\":0}");
    (void)state;
}

/* -- convert -------------------------------------------------------------------------------- */

static void hash_of(const char *path, char out[WF_HASH_HEX_SIZE])
{
    struct wf_weights *w = NULL;
    assert_int_equal(wf_load_open(path, &w, NULL), WEFT_OK);
    assert_int_equal(wf_load_hash(w, out, NULL), WEFT_OK);
    wf_weights_free(w);
}

static void remove_in(const char *dir)
{
    struct folder f;
    snprintf(f.path, sizeof f.path, "%s", dir);
    folder_remove(&f);
}

static void check_convert(void **state)
{
    struct folder dir = folder_new();
    char want[WF_HASH_HEX_SIZE], got[WF_HASH_HEX_SIZE];
    struct wf_weights *w = NULL;
    struct wf_convert_options o = wf_convert_defaults();
    o.step = 3;
    struct wf_convert_result r;
    hash_of(TINY, want);
    assert_int_equal(wf_load_open(TINY, &w, NULL), WEFT_OK);

    assert_int_equal(wf_convert_to_hf(w, folder_in(&dir, "hf"), &o, &r, NULL), WEFT_OK);
    assert_int_equal(r.n_tensors, 52);
    hash_of(folder_in(&dir, "hf"), got);
    assert_string_equal(got, want);
    assert_int_not_equal(wf_convert_to_hf(w, folder_in(&dir, "hf"), &o, &r, NULL), WEFT_OK);

    assert_int_equal(wf_convert_to_checkpoint(w, folder_in(&dir, "ck"), &o, &r, NULL), WEFT_OK);
    assert_true(r.n_tensors == 52 && r.note[0] == '\0');
    hash_of(folder_in(&dir, "ck"), got);
    assert_string_equal(got, want);
    wf_weights_free(w);
    remove_in(folder_in(&dir, "hf"));
    remove_in(folder_in(&dir, "ck"));
    folder_remove(&dir);
    (void)state;
}

/* -- generate ------------------------------------------------------------------------------ */

static enum weft_status count_token(void *ctx, const char *bytes, size_t len,
                                    struct weft_error *err)
{
    size_t *n = ctx;
    (void)err;
    (void)bytes;
    (void)len;
    return ++*n == 1000 ? WEFT_IO : WEFT_OK;
}

static void check_generate(void **state)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct wf_weights *w = NULL;
    struct wf_codec codec = {0};
    struct wf_generation a, b;
    size_t n_seen = 0;
    int32_t *tokens = NULL;
    size_t n = 0;
    assert_int_equal(wf_load_open(TINY, &w, NULL), WEFT_OK);
    assert_int_equal(wf_generate_open_codec(w, &codec, NULL), WEFT_OK);
    assert_int_equal(wf_generate_encode(&codec, "text", 4, true, -1, &tokens, &n, NULL),
                     WEFT_USAGE);

    /* The number of threads does not change the tokens. */
    struct wf_generate_options o = {.prompt = prompt,
                                    .n_prompt = 3,
                                    .max_tokens = 5,
                                    .n_logprobs = WF_GENERATE_NO_LOGPROBS,
                                    .sampling = wf_sampling_defaults(),
                                    .type = WF_DTYPE_F32,
                                    .threads = 1,
                                    .on_text = count_token,
                                    .ctx = &n_seen};
    assert_int_equal(wf_generate(w, &o, &a, NULL), WEFT_OK);
    assert_true(a.n_prompt == 3 && a.n_tokens == 8 && n_seen == 5);
    assert_int_equal(a.stop, WF_GENERATE_STOP_MAX_TOKENS);
    o.threads = 2;
    assert_int_equal(wf_generate(w, &o, &b, NULL), WEFT_OK);
    assert_memory_equal(a.tokens, b.tokens, 8 * sizeof *a.tokens);
    wf_generation_release(&b);

    /* The third and second new token: it stops at the second, or an equal one before it. */
    const int32_t ends[] = {a.tokens[5], a.tokens[4]};
    o.ends = ends;
    o.n_ends = 2;
    assert_int_equal(wf_generate(w, &o, &b, NULL), WEFT_OK);
    assert_true(b.stop == WF_GENERATE_STOP_END && b.n_tokens <= 5);
    wf_generation_release(&b);
    wf_generation_release(&a);

    o.n_ends = 0;
    o.max_tokens = 1000;
    assert_int_equal(wf_generate(w, &o, &b, NULL), WEFT_OK);
    assert_true(b.stop == WF_GENERATE_STOP_CONTEXT && b.n_tokens == 64);
    wf_generation_release(&b);
    n_seen = 999; /* the callback fails at once */
    assert_int_equal(wf_generate(w, &o, &b, NULL), WEFT_IO);
    o.n_prompt = 64;
    assert_int_equal(wf_generate(w, &o, &b, NULL), WEFT_USAGE);
    wf_codec_release(&codec);
    wf_weights_free(w);
    (void)state;
}

/* -- stop strings -------------------------------------------------------------------------- */

/* The text in pieces, what is left of it, and how much is ready after each piece. */
static struct stop_case {
    const char *name, *stops[2], *pieces[4], *want;
    size_t ready[4];
    bool stopped;
} stop_cases[] = {
    {"no stop string", {NULL}, {"ab", "c"}, "abc", {2, 3}, false},
    {"in one piece", {"b"}, {"abc"}, "a", {1}, true},
    {"across pieces", {"xyz"}, {"ax", "y", "zb"}, "a", {1, 1, 1}, true},
    {"a false start", {"xyz"}, {"ax", "x", "yb"}, "axxyb", {1, 2, 5}, false},
    {"the first of two", {"cd", "bcde"}, {"a", "bcde"}, "a", {1, 1}, true},
    {"the longer one is held", {"d", "bcx"}, {"a", "b", "c", "e"}, "abce", {1, 1, 1, 4}, false},
    {"at the beginning", {"a"}, {"a"}, "", {0}, true},
};

static void check_stop(void **state)
{
    const struct stop_case *c = *state;
    struct wf_stop_text t = {.stops = c->stops};
    while (t.n_stops < 2 && c->stops[t.n_stops] != NULL)
        t.n_stops++;
    for (size_t i = 0; i < 4 && c->pieces[i] != NULL; i++) {
        wf_stop_text_add(&t, c->pieces[i], strlen(c->pieces[i]));
        assert_int_equal(t.n_ready, c->ready[i]);
    }
    assert_string_equal(t.text.at, c->want);
    assert_int_equal(t.stopped, c->stopped);
    wf_stop_text_finish(&t);
    assert_int_equal(t.n_ready, strlen(c->want));
    wf_text_release(&t.text);
}

/* -- several samples and log-probabilities ------------------------------------------------- */

static void check_samples(void **state)
{
    static const int32_t prompt[] = {1, 2, 3};
    struct wf_weights *w = NULL;
    struct wf_generator *g = NULL;
    struct wf_generation first, again, alone;
    struct wf_generate_options o = {.prompt = prompt,
                                    .n_prompt = 3,
                                    .max_tokens = 6,
                                    .n_logprobs = 128,
                                    .sampling = wf_sampling_defaults(),
                                    .threads = 1};
    assert_int_equal(wf_load_open(TINY, &w, NULL), WEFT_OK);
    assert_int_equal(wf_generator_new(w, &o, &g, NULL), WEFT_OK);
    assert_int_equal(wf_generator_run(g, 5, &first, NULL), WEFT_OK);
    assert_int_equal(wf_generator_run(g, 0, &again, NULL), WEFT_OK);
    wf_generator_free(g);
    o.sampling.seed += 5;
    assert_int_equal(wf_generate(w, &o, &alone, NULL), WEFT_OK);
    assert_memory_equal(first.tokens, alone.tokens, 9 * sizeof *alone.tokens);
    assert_int_not_equal(memcmp(first.tokens, again.tokens, 9 * sizeof *again.tokens), 0);

    /* All 128 tokens in descending order; their probabilities add up to 1. */
    for (size_t i = 0; i < 6; i++) {
        const struct wf_logprob *row = alone.logprobs + i * 129;
        double sum = 0, own = NAN;
        for (size_t k = 1; k <= 128; k++) {
            sum += exp(row[k].logprob);
            own = row[k].token == row[0].token ? row[k].logprob : own;
            assert_true(k == 1 || row[k].logprob <= row[k - 1].logprob);
        }
        assert_true(fabs(sum - 1) < 1e-9 && own == row[0].logprob);
        assert_int_equal(row[0].token, alone.tokens[3 + i]);
    }
    wf_generation_release(&first);
    wf_generation_release(&again);
    wf_generation_release(&alone);
    wf_weights_free(w);
    (void)state;
}

int main(void)
{
    struct CMUnitTest tests[6 + WEFT_LEN(stop_cases)] = {
        cmocka_unit_test(check_tokenize), cmocka_unit_test(check_json),
        cmocka_unit_test(check_evaluate), cmocka_unit_test(check_convert),
        cmocka_unit_test(check_generate), cmocka_unit_test(check_samples),
    };
    for (size_t i = 0; i < WEFT_LEN(stop_cases); i++)
        tests[6 + i] =
            (struct CMUnitTest){stop_cases[i].name, check_stop, NULL, NULL, &stop_cases[i]};
    return cmocka_run_group_tests_name("jobs", tests, NULL, NULL) != 0;
}
