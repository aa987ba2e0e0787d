/* weft tokenize: parses the options, draws the progress and prints the statistics. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "terminal/bar.h"
#include "training/jobs/tokenize.h"

struct tokenize_settings {
    const char *out, *tokenizer, *val, *field, *format, *chat_template;
    uint32_t train_bpe, shard_tokens, threads;
    const char *document_end;
    bool special, skip_bad, json;
};

#define AT(field) offsetof(struct tokenize_settings, field)

static const struct wf_option options[] = {
    {"output", 'o', WF_OPTION_TEXT, "OUT", "directory for shards, or one file *.bin", NULL,
     AT(out)},
    {"tokenizer", 0, WF_OPTION_TEXT, "DIR",
     "directory or file with tokenizer.json, or vocab.json and merges.txt (default: tokens are "
     "bytes)",
     NULL, AT(tokenizer)},
    {"special", 0, WF_OPTION_SWITCH, NULL,
     "names of special tokens in the text become these tokens; an end-of-document token ends a "
     "document",
     NULL, AT(special)},
    {"document-end", 0, WF_OPTION_TEXT, "NAME",
     "the token that ends a document (default: that of tokenizer_config.json, config.json or "
     "generation_config.json beside the tokenizer)",
     NULL, AT(document_end)},
    {"train-bpe", 0, WF_OPTION_COUNT, "N",
     "first train a vocabulary of up to N tokens on the text", NULL, AT(train_bpe)},
    {"field", 0, WF_OPTION_TEXT, "NAME",
     "field of JSON records with the text (default: text, messages, or prompt and completion)",
     NULL, AT(field)},
    {"format", 0, WF_OPTION_CHOICE, "KIND",
     "what the files are; auto: the content of each file decides (default: auto)",
     "auto|text|json", AT(format)},
    {"skip-bad", 0, WF_OPTION_SWITCH, NULL,
     "count and skip bad JSON records instead of stopping at the first one", NULL,
     AT(skip_bad)},
    {"chat-template", 0, WF_OPTION_TEXT, "FILE",
     "template of conversations (default: that of the tokenizer)", NULL, AT(chat_template)},
    {"val", 0, WF_OPTION_TEXT, "FRACTION",
     "fraction of documents to reserve for validation, in shards val-* (default: 0)", NULL,
     AT(val)},
    {"shard-tokens", 0, WF_OPTION_COUNT, "N", "tokens per shard (default: 100000000)", NULL,
     AT(shard_tokens)},
    {"threads", 0, WF_OPTION_COUNT, "N", "number of threads (default: one per core)", NULL,
     AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print the statistics as JSON", NULL, AT(json)},
};

/* -- progress, on terminals only --------------------------------------------------------------- */

struct progress {
    enum wf_tokenize_phase phase;
    uint64_t total; /* size of the input in bytes; 0: unknown */
    int64_t start_ns;
    struct wf_bar bar;
};

static void draw_progress(void *ctx, enum wf_tokenize_phase phase, uint64_t bytes)
{
    struct progress *p = ctx;
    char rate_text[32], left_text[32];
    const char *const fields[] = {rate_text, left_text};
    if (phase != p->phase) {
        p->phase = phase;
        p->start_ns = wf_clock_ns();
    }
    if (!wf_bar_is_due(&p->bar))
        return;

    double seconds = (double)(wf_clock_ns() - p->start_ns) * 1e-9;
    double rate = seconds > 0 ? (double)bytes / seconds : 0;
    double left = (double)p->total - (double)bytes;
    snprintf(rate_text, sizeof rate_text, "%.1f MB/s", rate * 1e-6);
    snprintf(left_text, sizeof left_text, "%.0f s left",
             rate > 0 && left > 0 ? left / rate : 0.0);
    wf_bar_draw(&p->bar, p->total > 0 ? (double)bytes / (double)p->total : 0,
                phase == WF_TOKENIZE_PHASE_TRAIN ? "learning" : "tokens", fields,
                WEFT_LEN(fields));
}

/* -- the command ----------------------------------------------------------------------------- */

static enum weft_status parse_val(const char *text, double *out, struct weft_error *err)
{
    char *end = NULL;
    *out = text == NULL ? 0 : strtod(text, &end);
    if (text != NULL && (end == text || *end != '\0' || !(*out >= 0 && *out < 1)))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "--val: '%.40s' is not a number of at least 0 and less than 1", text);
    return WEFT_OK;
}

/* Returns the format with a name, which the option table has checked. */
static enum wf_text_format format_of(const char *name)
{
    if (name == NULL || strcmp(name, "auto") == 0)
        return WF_TEXT_FORMAT_AUTO;
    return strcmp(name, "text") == 0 ? WF_TEXT_FORMAT_TEXT : WF_TEXT_FORMAT_JSON;
}

static enum weft_status check_settings(const struct tokenize_settings *s, size_t n_inputs,
                                       struct weft_error *err)
{
    if (n_inputs == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "tokenize needs INPUT...; see weft tokenize --help");
    if (s->out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "tokenize needs --output OUT");
    if (s->document_end != NULL && s->tokenizer == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "--document-end needs --tokenizer");
    if (s->train_bpe > 0 && s->tokenizer != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --tokenizer or --train-bpe, not both");
    if (wf_path_ends_in(s->out, ".json") && s->train_bpe == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--output: a file .json needs --train-bpe");
    if (s->threads > 1024)
        return WEFT_FAIL(err, WEFT_USAGE, "--threads: %u is too many (maximum 1024)",
                         s->threads);
    if (s->shard_tokens > INT32_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "--shard-tokens: too many (maximum %d)", INT32_MAX);
    return WEFT_OK;
}

static void print_vocabulary(const struct tokenize_settings *s,
                             const struct wf_tokenize_result *r)
{
    printf("vocabulary of %u", r->n_vocab);
    if (r->n_vocab < s->train_bpe)
        printf("  (fewer than %u: no more pairs of the text repeat)", s->train_bpe);
    printf("\n");
}

static void print_part(const char *name, const struct wf_corpus_split *p)
{
    if (p->documents > 0)
        printf("%-8s %llu tokens of %llu document%s in %u shard%s\n", name,
               (unsigned long long)p->tokens, (unsigned long long)p->documents,
               p->documents == 1 ? "" : "s", p->shards, p->shards == 1 ? "" : "s");
    if (p->documents > 0 && p->counted < p->tokens)
        printf("%-8s %llu of them count in the loss\n", "", (unsigned long long)p->counted);
}

static void print_skipped(const struct wf_corpus_result *r)
{
    if (r->bad.n > 0)
        printf("%-8s %llu bad record%s, the first: %s\n", "skipped",
               (unsigned long long)r->bad.n, r->bad.n == 1 ? "" : "s",
               wf_shown(r->bad.first.msg).at);
    if (r->n_binary > 0)
        printf("%-8s %llu binary file%s\n", "skipped", (unsigned long long)r->n_binary,
               r->n_binary == 1 ? "" : "s");
}

static void print_result(const struct tokenize_settings *s, const struct wf_tokenize_result *t)
{
    const struct wf_corpus_result *r = &t->corpus;
    printf("%-8s ", "tokens");
    if (!t->vocabulary_only)
        printf("%s, ", t->kind);
    print_vocabulary(s, t);
    if (!t->vocabulary_only) {
        printf("%-8s %llu bytes, %.2f per token, %.1f MB/s\n", "text",
               (unsigned long long)r->bytes, t->bytes_per_token,
               t->seconds > 0 ? (double)r->bytes * 1e-6 / t->seconds : 0);
        print_part("train", &r->train);
        print_part("val", &r->val);
        print_skipped(r);
    }
    printf("%-8s %s\n", "output", wf_shown(s->out).at);
}

static enum weft_status tokenize(const struct tokenize_settings *s, struct wf_text_list *list,
                                 double val, struct weft_error *err)
{
    struct progress p = {
        .total = list->bytes, .start_ns = wf_clock_ns(), .bar = wf_bar_make(stderr)};
    struct wf_tokenize_options o = {
        .out = s->out,
        .tokenizer = s->tokenizer,
        .chat_template = s->chat_template,
        .document_end = s->document_end,
        .special = s->special,
        .train_bpe = s->train_bpe,
        .val = val,
        .shard_tokens = s->shard_tokens,
        .n_threads = s->threads,
        .progress = draw_progress,
        .ctx = &p,
    };
    struct wf_tokenize_result r;
    enum weft_status st = wf_tokenize(list, &o, &r, err);
    wf_bar_clear(&p.bar);
    if (st == WEFT_OK && s->json) {
        wf_tokenize_result_write_json(&(struct wf_json){.out = stdout}, &r, &o);
        putchar('\n');
    } else if (st == WEFT_OK) {
        print_result(s, &r);
    }
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
    const struct wf_text_options text = {
        .format = format_of(s.format), .field = s.field, .skip_bad = s.skip_bad};
    if (st == WEFT_OK)
        st = wf_text_list_init(&list, inputs, n, &text, err);
    if (st == WEFT_OK)
        st = tokenize(&s, &list, val, err);
    wf_text_list_release(&list);
    free(inputs);
    return st;
}

const struct wf_command wf_command_tokenize = {
    .name = "tokenize",
    .summary = "convert text to token shards",
    .operands = "INPUT...",
    .text =
        "Converts text files (one document each), JSON records (lines or an array, one\n"
        "document each) and directories of them to token shards for training. INPUT - is\n"
        "standard input. The content of a file decides what it is. Files may be compressed\n"
        "with gzip, zstd, xz or bzip2. Binary files of directories are skipped.\n\n"
        "The text of a record is its field \"text\", or the field that --field names. A record\n"
        "with \"messages\" is a conversation, which the chat template of the tokenizer writes as\n"
        "text; only the assistant's tokens count in the loss. Of a record with \"prompt\" and\n"
        "\"completion\" only the completion counts. The tokenizer's end-of-document token\n"
        "follows every document except conversations.\n\n"
        "Tokens are bytes, unless --tokenizer names byte-level BPE files such as those of\n"
        "GPT-2 or Llama 3, or --train-bpe trains a vocabulary on the text. The vocabulary is\n"
        "written beside the shards as tokenizer.json, which other programs can read; if the\n"
        "output is a file *.json, only the vocabulary is written.\n\n"
        "The output directory contains train-000000.bin and so on, val-000000.bin and so on\n"
        "with the text that --val reserves for validation, and meta.json with statistics. If\n"
        "a single text file is the only document, --val reserves its end. The same text gives\n"
        "the same shards with any number of threads.\n",
    .examples = "  weft tokenize book.txt -o data --val 0.1\n"
                "  weft tokenize corpus/ more.jsonl -o data --tokenizer gpt2/\n"
                "  weft tokenize corpus/ -o data --train-bpe 8192 --val 0.01\n"
                "  weft tokenize chats.jsonl.zst -o data --tokenizer qwen2/ --skip-bad\n"
                "  weft tokenize corpus/ -o tokenizer.json --train-bpe 8192\n"
                "  weft tokenize book.txt -o tokens.bin\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_tokenize,
};
