/* Continues a text, token by token. */
#define _DEFAULT_SOURCE /* isatty */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "compute/model/infer_sample.h"
#include "training/data/codec.h"

struct generate_settings {
    const char *model, *prompt, *tokens, *temperature, *top_k, *top_p, *seed, *type;
    uint32_t max_tokens, threads;
    bool json;
};

#define AT(field) offsetof(struct generate_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"prompt", 'p', WF_OPTION_TEXT, "TEXT", "what to go on from (a new document)", NULL,
     AT(prompt)},
    {"tokens", 0, WF_OPTION_TEXT, "1,2,3", "the same as numbers of tokens", NULL, AT(tokens)},
    {"max-tokens", 'n', WF_OPTION_COUNT, "N", "end after so many tokens (100)", NULL,
     AT(max_tokens)},
    {"temperature", 0, WF_OPTION_TEXT, "T",
     "divides the logits (0.8); 0: always the most likely token", NULL, AT(temperature)},
    {"top-k", 0, WF_OPTION_TEXT, "K", "draw from the K most likely tokens (50); 0: from all",
     NULL, AT(top_k)},
    {"top-p", 0, WF_OPTION_TEXT, "P",
     "... of these from the most likely that have this share (1)", NULL, AT(top_p)},
    {"seed", 0, WF_OPTION_TEXT, "N", "of the random numbers (42)", NULL, AT(seed)},
    {"type", 0, WF_OPTION_CHOICE, "TYPE",
     "how weights lie in memory: f32 (default), or bf16, faster", "f32|bf16", AT(type)},
    {"threads", 0, WF_OPTION_COUNT, "N", "threads (one for each core)", NULL, AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "all at the end, for programs", NULL, AT(json)},
};

/* -- numbers -------------------------------------------------------------------------------- */

static enum weft_status parse_real(const char *text, const char *name, double fallback,
                                   double *out, struct weft_error *err)
{
    char *end = NULL;
    *out = fallback;
    if (text == NULL)
        return WEFT_OK;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out))
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is '%.40s': give a number", name, text);
    return WEFT_OK;
}

/* Digits alone, up to `most`. */
static enum weft_status parse_whole(const char *text, const char *name, uint64_t fallback,
                                    uint64_t most, uint64_t *out, struct weft_error *err)
{
    *out = fallback;
    if (text == NULL)
        return WEFT_OK;
    errno = 0;
    unsigned long long n = strtoull(text, NULL, 10);
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || errno != 0 || n > most)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is '%.40s': give a number from 0 to %llu", name,
                         text, (unsigned long long)most);
    *out = n;
    return WEFT_OK;
}

static enum weft_status parse_sampling(const struct generate_settings *s,
                                       struct wf_sampling *out, struct weft_error *err)
{
    uint64_t top_k;
    WEFT_TRY(parse_real(s->temperature, "temperature", 0.8, &out->temperature, err));
    WEFT_TRY(parse_real(s->top_p, "top-p", 1, &out->top_p, err));
    WEFT_TRY(parse_whole(s->top_k, "top-k", 50, INT32_MAX, &top_k, err));
    WEFT_TRY(parse_whole(s->seed, "seed", 42, UINT64_MAX, &out->seed, err));
    out->top_k = (uint32_t)top_k;
    return wf_sampling_check(out, err);
}

/* "1,2,3", each below `vocab`. */
static enum weft_status parse_tokens(const char *text, uint32_t vocab, int32_t **out, size_t *n,
                                     struct weft_error *err)
{
    int32_t *tokens = malloc((strlen(text) / 2 + 1) * sizeof *tokens);
    if (tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the tokens of a prompt");
    *n = 0;
    for (const char *at = text;; at++) {
        size_t digits = strspn(at, "0123456789");
        unsigned long long token = digits == 0 || digits > 10 ? vocab : strtoull(at, NULL, 10);
        if (token >= vocab || (at[digits] != ',' && at[digits] != '\0')) {
            free(tokens);
            return WEFT_FAIL(err, WEFT_USAGE,
                             "--tokens at '%.20s': give numbers from 0 to %u with commas "
                             "between them",
                             at, vocab - 1);
        }
        tokens[(*n)++] = (int32_t)token;
        at += digits;
        if (*at == '\0')
            break;
    }
    *out = tokens;
    return WEFT_OK;
}

/* -- the prompt ----------------------------------------------------------------------------- */

struct generate {
    const struct generate_settings *s;
    struct wf_sampling sampling;
    struct wf_weights *weights; /* owned, as is all below */
    struct wf_codec codec;
    struct wf_pool *pool;
    struct wf_infer *model;
    int32_t *tokens; /* the prompt, then what came after it */
    size_t n_prompt, n_tokens;
    float *logits;
    struct wf_candidate *work;
    int64_t end; /* the token that ends a document; negative: none */
    const char *stopped;
    bool in_line; /* what was printed last did not end its line */
    double prompt_seconds, seconds;
};

static enum weft_status read_prompt(struct generate *g, uint32_t vocab, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    if (s->prompt != NULL && s->tokens != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --prompt or --tokens, not both");
    if (s->tokens != NULL)
        return parse_tokens(s->tokens, vocab, &g->tokens, &g->n_prompt, err);
    if (s->prompt != NULL && g->codec.encode == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has %u tokens and no tokenizer: give the prompt as "
                         "numbers, --tokens 1,2,3",
                         vocab);
    if (s->prompt != NULL && s->prompt[0] != '\0')
        return g->codec.encode(g->codec.self, s->prompt, strlen(s->prompt), &g->tokens,
                               &g->n_prompt, err);
    if (g->end < 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model does not say how a document begins: give --tokens%s",
                         g->codec.encode == NULL ? "" : " or --prompt");
    g->tokens = malloc(sizeof *g->tokens);
    if (g->tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a prompt");
    g->tokens[0] = (int32_t)g->end;
    g->n_prompt = 1;
    return WEFT_OK;
}

static enum weft_status make_room(struct generate *g, const struct weft_model *model,
                                  struct weft_error *err)
{
    if (g->n_prompt >= model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the prompt has %zu tokens, and the model takes %u: give fewer than "
                         "that",
                         g->n_prompt, model->ctx);
    uint64_t room = (uint64_t)g->n_prompt + g->s->max_tokens;
    room = room < model->ctx ? room : model->ctx;
    int32_t *tokens = realloc(g->tokens, room * sizeof *tokens);
    g->tokens = tokens != NULL ? tokens : g->tokens;
    g->logits = malloc(model->vocab * sizeof *g->logits);
    g->work = malloc(model->vocab * sizeof *g->work);
    if (tokens == NULL || g->logits == NULL || g->work == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %llu tokens",
                         (unsigned long long)room);
    struct wf_infer_spec spec = {
        .model = *model,
        .max_tokens = (uint32_t)room,
        .type = g->s->type != NULL && strcmp(g->s->type, "bf16") == 0 ? WF_DTYPE_BF16
                                                                      : WF_DTYPE_F32,
        .pool = g->pool,
    };
    WEFT_TRY(wf_infer_new(&spec, &g->model, err));
    return wf_load_infer(g->weights, g->model, err);
}

static enum weft_status open_codec(struct generate *g, uint32_t vocab, struct weft_error *err)
{
    char *path = NULL;
    WEFT_TRY(wf_load_find_tokenizer(g->weights, &path, err));
    enum weft_status st = wf_codec_open(&g->codec, path, vocab, err);
    free(path);
    return st;
}

static enum weft_status prepare(struct generate *g, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    if (s->model == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "generate needs --model: see weft generate --help");
    WEFT_TRY(parse_sampling(s, &g->sampling, err));
    WEFT_TRY(wf_model_open(s->model, &g->weights, err));
    const struct wf_weights_info *info = wf_weights_info(g->weights);
    WEFT_TRY(open_codec(g, info->model.vocab, err));
    g->end = info->eos >= 0 ? info->eos : g->codec.end;
    WEFT_TRY(read_prompt(g, info->model.vocab, err));
    WEFT_TRY(wf_pool_new(s->threads, &g->pool, err));
    return make_room(g, &info->model, err);
}

/* -- tokens --------------------------------------------------------------------------------- */

static enum weft_status put_token(struct generate *g, int32_t token, struct weft_error *err)
{
    if (g->s->json)
        return WEFT_OK;
    if (g->codec.bytes == NULL) {
        printf("%s%d", g->n_tokens == g->n_prompt + 1 ? "" : " ", token);
    } else {
        size_t len = 0;
        const char *bytes = g->codec.bytes(g->codec.self, token, &len);
        if (bytes != NULL)
            fwrite(bytes, 1, len, stdout);
        else
            fputs("\xef\xbf\xbd", stdout); /* U+FFFD: no character */
        if (bytes == NULL || len > 0)
            g->in_line = bytes == NULL || bytes[len - 1] != '\n';
    }
    if (fflush(stdout) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cannot write standard output: %s", strerror(errno));
    return WEFT_OK;
}

static enum weft_status all_tokens(struct generate *g, uint32_t ctx, struct weft_error *err)
{
    uint32_t vocab = wf_weights_info(g->weights)->model.vocab;
    int64_t begin = wf_clock_ns();
    WEFT_TRY(wf_infer_feed(g->model, g->tokens, g->n_prompt, g->logits, err));
    int64_t fed = wf_clock_ns();
    g->n_tokens = g->n_prompt;
    for (g->stopped = NULL; g->stopped == NULL;) {
        int32_t token = wf_sample(g->logits, vocab, &g->sampling, g->n_tokens, g->work);
        g->tokens[g->n_tokens++] = token;
        if (token == g->end) {
            g->stopped = "end of document";
            break;
        }
        WEFT_TRY(put_token(g, token, err));
        if (g->n_tokens - g->n_prompt == g->s->max_tokens)
            g->stopped = "max-tokens";
        else if (g->n_tokens == ctx)
            g->stopped = "context";
        else
            WEFT_TRY(wf_infer_feed(g->model, &token, 1, g->logits, err));
    }
    g->prompt_seconds = (double)(fed - begin) * 1e-9;
    g->seconds = (double)(wf_clock_ns() - fed) * 1e-9;
    return WEFT_OK;
}

/* -- what is said of it --------------------------------------------------------------------- */

/* A rate means nothing for the first token, which comes with the prompt. */
static double rate(const struct generate *g)
{
    size_t n = g->n_tokens - g->n_prompt;
    return n > 1 && g->seconds > 0 ? (double)(n - 1) / g->seconds : 0;
}

static void put_tokens(struct wf_json *j, const char *key, const int32_t *tokens, size_t n)
{
    wf_json_begin(j, key, '[');
    for (size_t i = 0; i < n; i++)
        wf_json_uint(j, NULL, (uint64_t)tokens[i]);
    wf_json_end(j, ']');
}

static enum weft_status print_json(const struct generate *g, struct weft_error *err)
{
    struct wf_json j = {.out = stdout};
    struct wf_text text = {0};
    for (size_t i = g->n_prompt; g->codec.bytes != NULL && i < g->n_tokens; i++) {
        size_t len = 0;
        const char *bytes = g->codec.bytes(g->codec.self, g->tokens[i], &len);
        for (size_t k = 0; bytes != NULL && k < len; k++) /* JSON has no NUL in strings */
            wf_text_add(&text, bytes[k] == '\0' ? "\xef\xbf\xbd" : bytes + k,
                        bytes[k] == '\0' ? 3 : 1);
    }
    if (text.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a text");
    wf_json_begin(&j, NULL, '{');
    put_tokens(&j, "prompt", g->tokens, g->n_prompt);
    put_tokens(&j, "tokens", g->tokens + g->n_prompt, g->n_tokens - g->n_prompt);
    if (g->codec.bytes != NULL)
        wf_json_string(&j, "text", text.at != NULL ? text.at : "");
    wf_json_string(&j, "stopped", g->stopped);
    wf_json_uint(&j, "seed", g->sampling.seed);
    wf_json_number(&j, "prompt_ms", g->prompt_seconds * 1e3);
    wf_json_number(&j, "tok_s", rate(g));
    wf_json_end(&j, '}');
    putchar('\n');
    wf_text_release(&text);
    return WEFT_OK;
}

/* Whether somebody sees the text and what is said of it as one. */
static bool shown_together(void)
{
    struct stat out, err;
    return isatty(STDERR_FILENO) ||
           (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
            out.st_dev == err.st_dev && out.st_ino == err.st_ino);
}

static void print_end(const struct generate *g)
{
    size_t n = g->n_tokens - g->n_prompt;
    /* Bytes go out as they are; numbers, and what a person reads, end with a line. */
    bool ended = g->codec.bytes == NULL || isatty(STDOUT_FILENO);
    if (ended)
        putchar('\n');
    fflush(stdout);
    if (!ended && g->in_line && shown_together())
        fputc('\n', stderr);
    fprintf(stderr, "weft: %zu token%s after %zu, %.1f tokens/s, stopped by: %s\n", n,
            n == 1 ? "" : "s", g->n_prompt, rate(g), g->stopped);
}

static enum weft_status run_generate(int argc, char **argv, struct weft_error *err)
{
    struct generate_settings s = {0};
    const char *operand = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_generate, argc, argv, &s, &operand, err));
    s.max_tokens = s.max_tokens == 0 ? 100 : s.max_tokens;
    struct generate g = {.s = &s};
    enum weft_status st = prepare(&g, err);
    if (st == WEFT_OK)
        st = all_tokens(&g, wf_weights_info(g.weights)->model.ctx, err);
    if (st == WEFT_OK && s.json)
        st = print_json(&g, err);
    else if (st == WEFT_OK)
        print_end(&g);
    wf_infer_free(g.model);
    wf_pool_free(g.pool);
    wf_codec_release(&g.codec);
    wf_weights_free(g.weights);
    free(g.tokens);
    free(g.logits);
    free(g.work);
    return st;
}

const struct wf_command wf_command_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .text =
        "Prints what a model goes on with, as it comes: the text after the prompt, without the\n"
        "prompt. It ends with the document, after --max-tokens, or where the model's context\n"
        "is full; a line on standard error says which, and how fast it was.\n\n"
        "The same model, prompt, settings and seed give the same tokens, with any number of\n"
        "threads. Models of fewer than 257 tokens, which can have no text, take and print\n"
        "numbers. The tokenizer is found beside the weights; that of a run in its directory.\n\n"
        "PATH is\n\n" WF_MODEL_TEXT,
    .examples =
        "  weft generate --model runs/a --prompt 'Once upon a time'\n"
        "  weft generate --model gpt2_124M.bin --tokens 464,3280 --temperature 0\n"
        "  weft generate --model gpt2 -p Hello --top-k 40 --top-p 0.9 --seed 7 -n 200\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_generate,
};
