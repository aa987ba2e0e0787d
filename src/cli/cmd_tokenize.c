#define _GNU_SOURCE /* the cores that this process may use */

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/bar.h"
#include "cli/cli.h"
#include "training/data/bpe_train.h"
#include "training/data/token_corpus.h"

struct tokenize_settings {
    const char *out, *tokenizer, *val;
    uint32_t train_bpe, shard_tokens, threads;
    bool json;
};

#define AT(field) offsetof(struct tokenize_settings, field)

static const struct wf_option options[] = {
    {"output", 'o', WF_OPTION_TEXT, "OUT", "folder for shards, or one file .bin", NULL,
     AT(out)},
    {"tokenizer", 0, WF_OPTION_TEXT, "DIR",
     "folder or file with tokenizer.json, or vocab.json and merges.txt (bytes)", NULL,
     AT(tokenizer)},
    {"train-bpe", 0, WF_OPTION_COUNT, "N",
     "learn a vocabulary of N tokens from the text first, fewer from a short one", NULL,
     AT(train_bpe)},
    {"val", 0, WF_OPTION_TEXT, "FRACTION", "of the documents, held back in shards val-* (0)",
     NULL, AT(val)},
    {"shard-tokens", 0, WF_OPTION_COUNT, "N", "tokens of a shard (100000000)", NULL,
     AT(shard_tokens)},
    {"threads", 0, WF_OPTION_COUNT, "N", "that encode (one for each core)", NULL, AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "the figures, for programs", NULL, AT(json)},
};

/* -- progress, on terminals only --------------------------------------------------------------- */

struct progress {
    const char *what;
    uint64_t total; /* bytes; 0: unknown */
    int64_t start_ns;
    struct wf_bar bar;
};

static void draw_progress(void *ctx, uint64_t bytes)
{
    struct progress *p = ctx;
    char rate_text[32], left_text[32];
    const char *const fields[] = {rate_text, left_text};
    if (!wf_bar_is_due(&p->bar))
        return;
    double seconds = (double)(wf_clock_ns() - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)bytes / seconds : 0;
    double left = (double)p->total - (double)bytes;
    snprintf(rate_text, sizeof rate_text, "%.1f MB/s", rate * 1e-6);
    snprintf(left_text, sizeof left_text, "%.0f s left",
             rate > 0 && left > 0 ? left / rate : 0.0);
    wf_bar_draw(&p->bar, p->total > 0 ? (double)bytes / (double)p->total : 0, p->what, fields,
                WEFT_LEN(fields));
}

static struct progress begin_progress(const char *what, const struct wf_text_list *list)
{
    return (struct progress){
        .what = what,
        .total = list->bytes,
        .start_ns = wf_clock_ns(),
        .bar = wf_bar_make(stderr),
    };
}

static void end_progress(struct progress *p)
{
    wf_bar_clear(&p->bar);
}

/* -- the command ----------------------------------------------------------------------------- */

static uint32_t n_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
}

static enum weft_status parse_val(const char *text, double *out, struct weft_error *err)
{
    char *end = NULL;
    *out = text == NULL ? 0 : strtod(text, &end);
    if (text != NULL && (end == text || *end != '\0' || !(*out >= 0 && *out < 1)))
        return WEFT_FAIL(err, WEFT_USAGE, "--val: '%.40s' is no number from 0 to below 1",
                         text);
    return WEFT_OK;
}

static enum weft_status check_settings(const struct tokenize_settings *s, size_t n_inputs,
                                       struct weft_error *err)
{
    if (n_inputs == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "tokenize needs INPUT...: see weft tokenize --help");
    if (s->out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "say where to: --output OUT");
    if (s->train_bpe > 0 && s->tokenizer != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --tokenizer or --train-bpe, not both");
    if (wf_path_ends_in(s->out, ".json") && s->train_bpe == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--output is a .json: that is for --train-bpe only");
    if (s->threads > 1024)
        return WEFT_FAIL(err, WEFT_USAGE, "--threads is %u: give at most 1024", s->threads);
    if (s->shard_tokens > INT32_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "--shard-tokens: give at most %d", INT32_MAX);
    return WEFT_OK;
}

static enum weft_status get_tokenizer(const struct tokenize_settings *s,
                                      const struct wf_text_list *list, uint32_t n_threads,
                                      struct wf_tokenizer **out, struct weft_error *err)
{
    if (s->train_bpe > 0) {
        struct progress p = begin_progress("learning", list);
        enum weft_status st =
            wf_bpe_train(list, s->train_bpe, n_threads, draw_progress, &p, out, err);
        end_progress(&p);
        return st;
    }
    return s->tokenizer != NULL ? wf_tokenizer_open(s->tokenizer, out, err)
                                : wf_tokenizer_new_bytes(out, err);
}

/* A text may not have as many pairs that come twice as were to be learnt. */
static bool learnt_fewer(const struct tokenize_settings *s, const struct wf_tokenizer *t)
{
    return wf_tokenizer_n_vocab(t) < s->train_bpe;
}

static void print_vocabulary(const struct tokenize_settings *s, const struct wf_tokenizer *t)
{
    printf("vocabulary of %u", wf_tokenizer_n_vocab(t));
    if (learnt_fewer(s, t))
        printf(" (not %u: the text has no more pairs that repeat)", s->train_bpe);
    printf("\n");
}

static void print_part(const char *name, const struct wf_corpus_split *p)
{
    if (p->documents > 0)
        printf("%-8s %llu tokens of %llu document%s in %u shard%s\n", name,
               (unsigned long long)p->tokens, (unsigned long long)p->documents,
               p->documents == 1 ? "" : "s", p->shards, p->shards == 1 ? "" : "s");
}

static void put_part(struct wf_json *j, const char *name, const struct wf_corpus_split *p)
{
    wf_json_begin(j, name, '{');
    wf_json_uint(j, "tokens", p->tokens);
    wf_json_uint(j, "documents", p->documents);
    wf_json_uint(j, "shards", p->shards);
    wf_json_end(j, '}');
}

static void print_result(const struct tokenize_settings *s, const struct wf_tokenizer *t,
                         const struct wf_corpus_result *r, double seconds)
{
    uint64_t tokens = r->train.tokens + r->val.tokens;
    double each = tokens > 0 ? (double)r->bytes / (double)tokens : 0;
    if (s->json) {
        struct wf_json j = {.out = stdout};
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "output", s->out);
        wf_json_string(&j, "tokenizer", wf_tokenizer_kind(t));
        wf_json_uint(&j, "vocab", wf_tokenizer_n_vocab(t));
        if (s->train_bpe > 0)
            wf_json_uint(&j, "vocab_asked", s->train_bpe);
        wf_json_uint(&j, "text_bytes", r->bytes);
        wf_json_number(&j, "bytes_per_token", each);
        wf_json_number(&j, "seconds", seconds);
        put_part(&j, "train", &r->train);
        put_part(&j, "val", &r->val);
        wf_json_end(&j, '}');
        printf("\n");
        return;
    }
    printf("%-8s %s, ", "tokens", wf_tokenizer_kind(t));
    print_vocabulary(s, t);
    printf("%-8s %llu bytes, %.2f a token, %.1f MB/s\n", "text", (unsigned long long)r->bytes,
           each, seconds > 0 ? (double)r->bytes * 1e-6 / seconds : 0);
    print_part("train", &r->train);
    print_part("val", &r->val);
    printf("%-8s %s\n", "output", s->out);
}

/* Only the vocabulary is wanted. */
static enum weft_status write_vocabulary(const struct tokenize_settings *s,
                                         const struct wf_tokenizer *t, struct weft_error *err)
{
    WEFT_TRY(wf_tokenizer_save_as(t, s->out, err));
    if (s->json) {
        printf("{\"output\":\"tokenizer\",\"vocab\":%u,\"vocab_asked\":%u}\n",
               wf_tokenizer_n_vocab(t), s->train_bpe);
        return WEFT_OK;
    }
    printf("%-8s ", "tokens");
    print_vocabulary(s, t);
    printf("%-8s %s\n", "output", s->out);
    return WEFT_OK;
}

static enum weft_status tokenize(const struct tokenize_settings *s, struct wf_text_list *list,
                                 double val, struct weft_error *err)
{
    uint32_t n_threads = s->threads > 0 ? s->threads : n_cores();
    struct wf_tokenizer *t = NULL;
    WEFT_TRY(get_tokenizer(s, list, n_threads, &t, err));
    enum weft_status st;
    if (wf_path_ends_in(s->out, ".json")) {
        st = write_vocabulary(s, t, err);
    } else {
        struct progress p = begin_progress("tokens", list);
        struct wf_corpus_result result;
        struct wf_corpus_options o = {
            .tokenizer = t,
            .out = s->out,
            .val = val,
            .shard_tokens = s->shard_tokens > 0 ? s->shard_tokens : WF_CORPUS_SHARD_TOKENS,
            .n_threads = n_threads,
            .progress = draw_progress,
            .ctx = &p,
        };
        st = wf_corpus_write(list, &o, &result, err);
        end_progress(&p);
        if (st == WEFT_OK)
            print_result(s, t, &result, (double)(wf_clock_ns() - p.start_ns) * 1e-9);
    }
    wf_tokenizer_free(t);
    return st;
}

static enum weft_status run_tokenize(int argc, char **argv, struct weft_error *err)
{
    struct tokenize_settings s = {0};
    struct wf_text_list list = {0};
    const char **inputs = malloc(sizeof *inputs * ((size_t)argc + 1));
    size_t n = 0;
    double val = 0;
    if (inputs == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    struct wf_option_list list_of_options = {options, WEFT_LEN(options)};
    enum weft_status st = wf_options_parse(list_of_options, argc, argv, &s, inputs, &n, err);
    if (st == WEFT_OK)
        st = check_settings(&s, n, err);
    if (st == WEFT_OK)
        st = parse_val(s.val, &val, err);
    if (st == WEFT_OK)
        st = wf_text_list_init(&list, inputs, n, err);
    if (st == WEFT_OK)
        st = tokenize(&s, &list, val, err);
    wf_text_list_release(&list);
    free(inputs);
    return st;
}

const struct wf_command wf_command_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token shards",
    .operands = "INPUT...",
    .text = "Turns text files (each is a document), JSON lines (files *.jsonl, a document a\n"
            "line in its field \"text\") and folders of them into token shards to train on.\n"
            "Every document ends with the tokenizer's token for that.\n\n"
            "Tokens are bytes, unless --tokenizer names byte-level BPE files such as GPT-2's\n"
            "or Llama 3's, or --train-bpe learns a vocabulary from the text. It is written\n"
            "beside the shards as tokenizer.json, which other programs can read; with an\n"
            "output *.json nothing else is written.\n\n"
            "The folder gets train-000000.bin and so on, val-000000.bin for what --val holds\n"
            "back, and meta.json with the figures. A text file that is the only document is\n"
            "cut for --val: its end is held back. The same text gives the same shards,\n"
            "whatever the number of threads.\n",
    .examples = "  weft tokenize book.txt -o data --val 0.1\n"
                "  weft tokenize corpus/ more.jsonl -o data --tokenizer gpt2/\n"
                "  weft tokenize corpus/ -o data --train-bpe 8192 --val 0.01\n"
                "  weft tokenize corpus/ -o tokenizer.json --train-bpe 8192\n"
                "  weft tokenize book.txt -o tokens.bin\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_tokenize,
};
