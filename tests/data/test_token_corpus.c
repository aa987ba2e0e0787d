/* Tests the conversion of texts to shards (documents, order, any number of threads) and learned
 * vocabularies against a slow reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/input.h"
#include "base/random.h"
#include "folder.h"
#include "training/data/bpe_train.h"
#include "training/data/shard.h"
#include "training/data/token_corpus.h"

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
}

static void write_string(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

static struct weft_tokenizer *bytes(void)
{
    struct weft_tokenizer *t = NULL;
    assert_int_equal(weft_tokenizer_new_bytes(&t, NULL), WEFT_OK);
    return t;
}

struct asked {
    const char *out;
    double val;
    uint32_t shard_tokens, n_threads;
};

static enum weft_status tokenize(const char *input, const struct weft_tokenizer *t,
                                 struct asked asked, struct wf_corpus_result *r,
                                 struct weft_error *err)
{
    struct wf_text_list list;
    struct wf_corpus_options o = {
        .tokenizer = t,
        .out = asked.out,
        .val = asked.val,
        .shard_tokens = asked.shard_tokens == 0 ? 1000000 : asked.shard_tokens,
        .n_threads = asked.n_threads == 0 ? 2 : asked.n_threads,
    };
    enum weft_status st = wf_text_list_init(&list, &input, 1, NULL, err);
    if (st == WEFT_OK)
        st = wf_corpus_write(&list, &o, r, err);
    wf_text_list_release(&list);
    return st;
}

/* Returns the tokens of shards as text, with '#' for the end of a document. */
static char *text_of(const char *shards, const struct weft_tokenizer *t)
{
    struct wf_shards *s = NULL;
    struct wf_text text = {0};
    assert_int_equal(wf_shards_open(shards, &s, NULL), WEFT_OK);
    size_t n = (size_t)wf_shards_n_tokens(s);
    int32_t *tokens = malloc(n * sizeof *tokens);
    assert_int_equal(wf_shards_read(s, 0, n, weft_tokenizer_n_vocab(t), tokens, NULL), WEFT_OK);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = weft_tokenizer_token(t, tokens[i], &len);
        assert_non_null(bytes);
        if (tokens[i] == weft_tokenizer_eot(t))
            wf_text_addc(&text, '#');
        else
            wf_text_add(&text, bytes, len);
    }
    free(tokens);
    wf_shards_free(s);
    return text.at;
}

static void assert_text(const char *shards, const struct weft_tokenizer *t, const char *want)
{
    char *have = text_of(shards, t);
    assert_string_equal(have, want);
    free(have);
}

static void remove_folder(const struct folder *f, const char *inner)
{
    struct folder g;
    snprintf(g.path, sizeof g.path, "%.30s/%.30s", f->path, inner);
    folder_remove(&g);
}

/* -- documents ----------------------------------------------------------------------------- */

/* Folders are read in the order of names.  Files and JSON lines are documents.  Empty and
 * hidden files are skipped. */
static void check_documents(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct weft_tokenizer *t = bytes();
    struct wf_corpus_result r;

    mkdir(folder_in(&f, "in"), 0777);
    mkdir(folder_in(&f, "in/b"), 0777);
    write_string(folder_in(&f, "in/c.txt"), "last\n");
    write_string(folder_in(&f, "in/B"), "first");
    write_string(folder_in(&f, "in/b/x"), "inner");
    write_string(folder_in(&f, "in/b/empty"), "");
    write_string(folder_in(&f, "in/.hidden"), "hidden");
    write_string(folder_in(&f, "in/a.jsonl"),
                 "{\"id\": 1, \"text\": \"\\u00e9\\n\"}\r\n\n  \n{\"text\":\"\"}\n"
                 "{\"text\":\"z\\u0000z\"}");

    struct asked asked = {.out = folder_in(&f, "out.bin")};
    assert_int_equal(tokenize(folder_in(&f, "in"), t, asked, &r, NULL), WEFT_OK);
    assert_int_equal(r.train.documents, 6);
    assert_int_equal(r.train.tokens, 5 + 1 + 3 + 1 + 0 + 1 + 3 + 1 + 5 + 1 + 5 + 1);
    assert_int_equal(r.bytes, 5 + 3 + 0 + 3 + 5 + 5);

    struct wf_shards *s = NULL;
    static const char want[] = "first#\xC3\xA9\n##z\0z#inner#last\n#";
    int32_t have[sizeof want];
    assert_int_equal(wf_shards_open(folder_in(&f, "out.bin"), &s, NULL), WEFT_OK);
    assert_int_equal(wf_shards_n_tokens(s), sizeof want - 1);
    assert_int_equal(wf_shards_read(s, 0, sizeof want - 1, 257, have, NULL), WEFT_OK);
    for (size_t i = 0; i + 1 < sizeof want; i++)
        assert_int_equal(have[i], want[i] == '#' ? 256 : (unsigned char)want[i]);

    wf_shards_free(s);
    weft_tokenizer_free(t);
    remove_folder(&f, "in/b");
    remove_folder(&f, "in");
    folder_remove(&f);
}

/* Returns a large text of words and numbers with a long piece that cannot be cut. */
static char *large_text(size_t *len)
{
    enum { N = 3 << 20 };
    char *text = malloc(N + 8);
    size_t n = 0;
    for (uint64_t i = 0; n < N; i++) {
        uint32_t k = wf_random_below(1, 2, i, 100);
        n += (size_t)snprintf(text + n, 8, k < 60 ? "w%u " : k < 90 ? "%u" : "\n\xC3\xA9%u", k);
        if (i == 100000) {
            memset(text + n, '7', 1500000);
            n += 1500000;
        }
    }
    *len = n;
    return text;
}

static void assert_same_file(const char *a, const char *b)
{
    char *x = NULL, *y = NULL;
    size_t n, m;
    assert_int_equal(wf_input_read(a, &x, &n, NULL), WEFT_OK);
    assert_int_equal(wf_input_read(b, &y, &m, NULL), WEFT_OK);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Reading in segments yields the tokens of the whole text with any number of threads. */
static void check_segments(void **state)
{
    (void)state;
    struct folder f = folder_new();
    size_t len;
    char *text = large_text(&len);
    write_file(folder_in(&f, "in"), text, len);
    struct wf_text_list list;
    struct weft_tokenizer *t = NULL;
    const char *input = folder_in(&f, "in");
    assert_int_equal(wf_text_list_init(&list, &input, 1, NULL, NULL), WEFT_OK);
    assert_int_equal(wf_bpe_train(&list, 400, 3, NULL, NULL, &t, NULL), WEFT_OK);
    wf_text_list_release(&list);

    struct weft_tokens want = {0};
    assert_int_equal(weft_tokenizer_encode(t, text, len, &want, NULL), WEFT_OK);
    struct wf_corpus_result r;
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        char name[32];
        snprintf(name, sizeof name, "out%u.bin", threads);
        struct asked asked = {.out = folder_in(&f, name), .n_threads = threads};
        assert_int_equal(tokenize(folder_in(&f, "in"), t, asked, &r, NULL), WEFT_OK);
        assert_int_equal(r.train.tokens, want.len + 1);
    }
    assert_same_file(folder_in(&f, "out1.bin"), folder_in(&f, "out4.bin"));
    struct wf_shards *s = NULL;
    int32_t *have = malloc((want.len + 1) * sizeof *have);
    assert_int_equal(wf_shards_open(folder_in(&f, "out1.bin"), &s, NULL), WEFT_OK);
    assert_int_equal(wf_shards_read(s, 0, want.len + 1, 400, have, NULL), WEFT_OK);
    assert_memory_equal(have, want.at, want.len * sizeof *have);
    assert_int_equal(have[want.len], 399);
    wf_shards_free(s);
    free(have);
    free(text);
    weft_tokens_release(&want);
    weft_tokenizer_free(t);
    folder_remove(&f);
}

/* All shards but the last have the requested size. */
static void check_shards(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct weft_tokenizer *t = bytes();
    struct wf_corpus_result r;
    write_string(folder_in(&f, "in.jsonl"), "{\"text\":\"abcdefg\"}\n{\"text\":\"hijklm\"}\n");
    struct asked asked = {.out = folder_in(&f, "out"), .shard_tokens = 5};
    assert_int_equal(tokenize(folder_in(&f, "in.jsonl"), t, asked, &r, NULL), WEFT_OK);
    assert_int_equal(r.train.shards, 3);
    assert_text(folder_in(&f, "out/train-000000.bin"), t, "abcde");
    assert_text(folder_in(&f, "out/train-000002.bin"), t, "jklm#");
    assert_text(folder_in(&f, "out"), t, "abcdefg#hijklm#");
    /* A folder with shards is refused. */
    struct weft_error err;
    assert_int_equal(tokenize(folder_in(&f, "in.jsonl"), t, asked, &r, &err), WEFT_USAGE);
    assert_non_null(strstr(err.msg, "already has token shards"));
    weft_tokenizer_free(t);
    remove_folder(&f, "out");
    folder_remove(&f);
}

/* -- validation documents ------------------------------------------------------------------ */

static void write_lines(const char *path, uint32_t n)
{
    FILE *out = fopen(path, "wb");
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "{\"text\":\"%u\"}\n", i);
    assert_int_equal(fclose(out), 0);
}

static void check_val(void **state)
{
    (void)state;
    static const struct {
        uint32_t n;
        double val, least, most;
    } cases[] = {{2, 1e-6, 1, 1},      {2, 0.99, 1, 1},       {10, 0.001, 1, 1},
                 {1000, 0.1, 60, 140}, {1000, 0.5, 430, 570}, {3, 0.999999, 2, 2}};

    struct weft_tokenizer *t = bytes();
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct folder f = folder_new();
        struct wf_corpus_result r;
        write_lines(folder_in(&f, "in.jsonl"), cases[i].n);
        struct asked asked = {.out = folder_in(&f, "out"), .val = cases[i].val};
        assert_int_equal(tokenize(folder_in(&f, "in.jsonl"), t, asked, &r, NULL), WEFT_OK);

        assert_int_equal(r.train.documents + r.val.documents, cases[i].n);
        assert_in_range(r.val.documents, (uintmax_t)cases[i].least, (uintmax_t)cases[i].most);

        /* Each document is in one of the splits, complete and in order. */
        char *train = text_of(folder_in(&f, "out/train-000000.bin"), t);
        char *val = text_of(folder_in(&f, "out/val-000000.bin"), t);
        const char *a = train, *b = val;
        for (uint32_t k = 0; k < cases[i].n; k++) {
            char want[16];
            size_t n = (size_t)snprintf(want, sizeof want, "%u#", k);
            if (strncmp(a, want, n) == 0)
                a += n;
            else if (k > 0 && strncmp(b, want, n) == 0)
                b += n;
            else
                fail_msg("document %u is in neither", k);
        }

        assert_true(*a == '\0' && *b == '\0');
        free(train);
        free(val);
        remove_folder(&f, "out");
        folder_remove(&f);
    }

    weft_tokenizer_free(t);
}

/* A single text is cut at a line. */
static void check_single_text(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct weft_tokenizer *t = bytes();
    struct wf_corpus_result r;
    struct weft_error err;
    write_string(folder_in(&f, "in.txt"), "one\ntwo\nthree\nfour\nfive\n");
    struct asked asked = {.out = folder_in(&f, "out"), .val = 0.5};
    assert_int_equal(tokenize(folder_in(&f, "in.txt"), t, asked, &r, NULL), WEFT_OK);
    assert_text(folder_in(&f, "out/train-000000.bin"), t, "one\ntwo\nthree\n#");
    assert_text(folder_in(&f, "out/val-000000.bin"), t, "four\nfive\n#");
    remove_folder(&f, "out");
    write_string(folder_in(&f, "in.txt"), "one line without an end");
    assert_int_equal(tokenize(folder_in(&f, "in.txt"), t, asked, &r, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "needs two documents"));
    write_lines(folder_in(&f, "in.jsonl"), 1);
    assert_int_equal(tokenize(folder_in(&f, "in.jsonl"), t, asked, &r, &err), WEFT_DATA);
    assert_non_null(strstr(err.msg, "only one document"));
    weft_tokenizer_free(t);
    folder_remove(&f);
}

/* -- refused texts ------------------------------------------------------------------------- */

static struct bad_case {
    const char *name, *file, *text, *message;
} bad[] = {
    {"not JSON", "x.jsonl", "{\"text\":\"a\"}\n\n{\"text\":\"b\"\n",
     "x.jsonl:3: not valid JSON"},
    {"not an object", "x.jsonl", "[1]\n", "x.jsonl:1: is not a JSON object"},
    {"no text", "x.jsonl", "{\"txt\":\"a\"}\n", "x.jsonl:1: has no string \"text\""},
    {"a text that is a number", "x.jsonl", "{\"text\":1}\n",
     "x.jsonl:1: has no string \"text\""},
    {"bad UTF-8 in JSON", "x.jsonl", "{\"text\":\"\xFF\"}\n", "x.jsonl:1: not valid JSON"},
    {"blank lines only", "x.jsonl", "\n \n", "there is no text"},
    {"an empty file", "x.txt", "", "there is no text"},
    {"a binary file", "x.txt", "a\nb\n@c",
     "x.txt: is binary data (it has a zero byte), not text"},
};

static void check_bad(void **state)
{
    const struct bad_case *c = *state;
    struct folder f = folder_new();
    struct weft_tokenizer *t = bytes();
    struct wf_corpus_result r;
    struct weft_error err = {.msg = ""};
    char text[64];
    size_t len = strlen(c->text);
    memcpy(text, c->text, len);
    for (size_t i = 0; i < len; i++) /* no string can have it */
        text[i] = text[i] == '@' ? '\0' : text[i];
    write_file(folder_in(&f, c->file), text, len);
    struct asked asked = {.out = folder_in(&f, "out")};
    assert_int_equal(tokenize(folder_in(&f, c->file), t, asked, &r, &err), WEFT_DATA);
    if (strstr(err.msg, c->message) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->message);
    assert_int_equal(folder_count(&f), 1); /* no files remain */
    weft_tokenizer_free(t);
    folder_remove(&f);
}

/* -- learning ------------------------------------------------------------------------------ */

enum { MAX_WORDS = 400, MAX_LEN = 24, MAX_TOKENS = 400 };

/* Words as sequences of tokens.  The slow reference counts all pairs again for each merge. */
struct slow {
    int32_t words[MAX_WORDS][MAX_LEN];
    size_t len[MAX_WORDS], n;
    char tokens[MAX_TOKENS][MAX_LEN];
    int32_t n_tokens;
};

static int32_t slow_find(const struct slow *s, const char *bytes_of)
{
    for (int32_t i = 0; i < s->n_tokens; i++)
        if (strcmp(s->tokens[i], bytes_of) == 0)
            return i;
    return -1;
}

static bool slow_step(struct slow *s)
{
    static uint32_t counts[MAX_TOKENS][MAX_TOKENS];
    memset(counts, 0, sizeof counts);
    int32_t a = 0, b = 0;

    for (size_t w = 0; w < s->n; w++)
        for (size_t i = 0; i + 1 < s->len[w]; i++)
            counts[s->words[w][i]][s->words[w][i + 1]]++;

    for (int32_t i = 0; i < s->n_tokens; i++)
        for (int32_t k = 0; k < s->n_tokens; k++)
            if (counts[i][k] > counts[a][b]) {
                a = i;
                b = k;
            }

    if (counts[a][b] < 2)
        return false;
    char both[2 * MAX_LEN];
    snprintf(both, sizeof both, "%s%s", s->tokens[a], s->tokens[b]);
    int32_t result = slow_find(s, both);
    if (result < 0) {
        result = s->n_tokens++;
        memcpy(s->tokens[result], both, MAX_LEN);
    }

    for (size_t w = 0; w < s->n; w++) {
        size_t n = 0;
        for (size_t i = 0; i < s->len[w]; i++) {
            bool here = i + 1 < s->len[w] && s->words[w][i] == a && s->words[w][i + 1] == b;
            s->words[w][n++] = here ? result : s->words[w][i];
            i += here;
        }
        s->len[w] = n;
    }
    return true;
}

/* Initializes the reference.  Ids are in GPT-2's order, and words consist of letters and
 * spaces. */
static void slow_start(struct slow *s, const struct weft_tokenizer *t)
{
    s->n = 0;
    s->n_tokens = 256;
    for (int32_t id = 0; id < 256; id++) {
        size_t len;
        const char *at = weft_tokenizer_token(t, id, &len);
        assert_int_equal(len, 1);
        s->tokens[id][0] = *at == '\0' ? (char)1 : *at; /* C strings cannot contain NUL */
        s->tokens[id][1] = '\0';
    }
}

static void check_learning(void **state)
{
    (void)state;
    static struct slow s;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct folder f = folder_new();
        struct wf_text text = {0};
        struct weft_tokenizer *t = NULL, *other = NULL;
        struct wf_text_list list;
        memset(&s, 0, sizeof s);
        /* Words begin with a space, so the split of the text is known. */
        for (uint64_t w = 0; w < MAX_WORDS; w++) {
            uint32_t len = 1 + wf_random_below(seed, 1, w, 8);
            wf_text_addc(&text, ' ');
            for (uint32_t i = 0; i < len; i++)
                wf_text_addc(&text, "abc"[wf_random_below(seed, 2 + i, w % 90, 3)]);
        }
        write_file(folder_in(&f, "in"), text.at, text.len);
        const char *input = folder_in(&f, "in");
        assert_int_equal(wf_text_list_init(&list, &input, 1, NULL, NULL), WEFT_OK);
        assert_int_equal(wf_bpe_train(&list, 330, 1, NULL, NULL, &t, NULL), WEFT_OK);
        assert_int_equal(wf_bpe_train(&list, 330, 4, NULL, NULL, &other, NULL), WEFT_OK);

        slow_start(&s, t);
        for (size_t at = 0; at < text.len; at++) {
            char one[2] = {text.at[at], '\0'};
            s.n += one[0] == ' ';
            s.words[s.n - 1][s.len[s.n - 1]++] = slow_find(&s, one);
        }
        while (s.n_tokens < 329 && slow_step(&s))
            ;
        assert_int_equal(weft_tokenizer_n_vocab(t), s.n_tokens + 1);
        assert_int_equal(weft_tokenizer_n_vocab(other), s.n_tokens + 1);
        for (int32_t id = 256; id < s.n_tokens; id++) {
            size_t len, len2;
            const char *a = weft_tokenizer_token(t, id, &len);
            const char *b = weft_tokenizer_token(other, id, &len2);
            assert_int_equal(len, strlen(s.tokens[id]));
            assert_memory_equal(a, s.tokens[id], len);
            assert_int_equal(len, len2);
            assert_memory_equal(a, b, len);
        }
        /* Encoding with the learned vocabulary yields the tokens of the words. */
        struct weft_tokens have = {0};
        assert_int_equal(weft_tokenizer_encode(t, text.at, text.len, &have, NULL), WEFT_OK);
        size_t n = 0;
        for (size_t w = 0; w < s.n; w++)
            for (size_t i = 0; i < s.len[w]; i++)
                assert_int_equal(have.at[n++], s.words[w][i]);
        assert_int_equal(n, have.len);
        weft_tokens_release(&have);
        wf_text_list_release(&list);
        weft_tokenizer_free(t);
        weft_tokenizer_free(other);
        wf_text_release(&text);
        folder_remove(&f);
    }
}

/* The minimum is the bytes and the end token; a text without repeated pairs adds none. */
static void check_minimum(void **state)
{
    (void)state;
    struct folder f = folder_new();
    struct weft_tokenizer *t = NULL;
    struct wf_text_list list;
    write_string(folder_in(&f, "in"), "abcdefg");
    const char *input = folder_in(&f, "in");
    assert_int_equal(wf_text_list_init(&list, &input, 1, NULL, NULL), WEFT_OK);
    assert_int_equal(wf_bpe_train(&list, 256, 1, NULL, NULL, &t, NULL), WEFT_USAGE);
    assert_int_equal(wf_bpe_train(&list, 300, 1, NULL, NULL, &t, NULL), WEFT_OK);
    assert_int_equal(weft_tokenizer_n_vocab(t), 257);
    assert_int_equal(weft_tokenizer_eot(t), 256);
    wf_text_list_release(&list);
    weft_tokenizer_free(t);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest plain[] = {
        cmocka_unit_test(check_documents),   cmocka_unit_test(check_segments),
        cmocka_unit_test(check_shards),      cmocka_unit_test(check_val),
        cmocka_unit_test(check_single_text), cmocka_unit_test(check_learning),
        cmocka_unit_test(check_minimum),
    };
    struct CMUnitTest tests[WEFT_LEN(plain) + WEFT_LEN(bad)];
    size_t n = 0;
    for (size_t i = 0; i < WEFT_LEN(plain); i++)
        tests[n++] = plain[i];
    for (size_t i = 0; i < WEFT_LEN(bad); i++)
        tests[n++] = (struct CMUnitTest){bad[i].name, check_bad, NULL, NULL, &bad[i]};
    return cmocka_run_group_tests_name("token corpus", tests, NULL, NULL) != 0;
}
