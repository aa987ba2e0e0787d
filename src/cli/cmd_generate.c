/* weft generate: parses a prompt and prints its continuation. */
#define _DEFAULT_SOURCE /* isatty */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/jobs/generate.h"
#include "weft/generate.h"

struct generate_settings {
    const char *model, *prompt, *tokens, *temperature, *top_k, *top_p, *seed, *type;
    uint32_t max_tokens, threads;
    bool json;
};

#define AT(field) offsetof(struct generate_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"prompt", 'p', WF_OPTION_TEXT, "TEXT", "the text to continue (default: a new document)",
     NULL, AT(prompt)},
    {"tokens", 0, WF_OPTION_TEXT, "1,2,3", "the prompt as token ids", NULL, AT(tokens)},
    {"max-tokens", 'n', WF_OPTION_COUNT, "N", "maximum number of new tokens (default: 100)",
     NULL, AT(max_tokens)},
    {"temperature", 0, WF_OPTION_TEXT, "T",
     "sampling temperature: the logits are divided by it (default: 0.8); 0: always the most "
     "likely token",
     NULL, AT(temperature)},
    {"top-k", 0, WF_OPTION_TEXT, "K",
     "sample only from the K most likely tokens (default: 50); 0: from all", NULL, AT(top_k)},
    {"top-p", 0, WF_OPTION_TEXT, "P",
     "sample only from the smallest set of most likely tokens whose total probability reaches P "
     "(default: 1)",
     NULL, AT(top_p)},
    {"seed", 0, WF_OPTION_TEXT, "N", "seed of the random numbers (default: 42)", NULL,
     AT(seed)},
    {"type", 0, WF_OPTION_CHOICE, "TYPE",
     "type of weights in memory: f32 (default), or bf16 (faster)", "f32|bf16", AT(type)},
    {"threads", 0, WF_OPTION_COUNT, "N", "number of threads (default: one per core)", NULL,
     AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print one JSON object at the end", NULL, AT(json)},
};

/* -- numbers -------------------------------------------------------------------------------- */

/* Parses a number.  If `text` is NULL, *out stays unchanged. */
static enum weft_status parse_real(const char *text, const char *name, double *out,
                                   struct weft_error *err)
{
    char *end = NULL;
    if (text == NULL)
        return WEFT_OK;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out))
        return WEFT_FAIL(err, WEFT_USAGE, "--%s: '%.40s' is not a number", name, text);
    return WEFT_OK;
}

/* Parses a number from 0 to `max` that consists of digits only.  If `text` is NULL, *out stays
 * unchanged. */
static enum weft_status parse_whole(const char *text, const char *name, uint64_t max,
                                    uint64_t *out, struct weft_error *err)
{
    if (text == NULL)
        return WEFT_OK;
    errno = 0;
    unsigned long long n = strtoull(text, NULL, 10);
    if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text) || errno != 0 || n > max)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s: '%.40s' is not a number from 0 to %llu", name,
                         text, (unsigned long long)max);
    *out = n;
    return WEFT_OK;
}

static enum weft_status parse_sampling(const struct generate_settings *s,
                                       struct wf_sampling *out, struct weft_error *err)
{
    const struct weft_generate_options defaults = weft_generate_defaults();
    uint64_t top_k = defaults.top_k;
    *out = (struct wf_sampling){
        .temperature = defaults.temperature, .top_p = defaults.top_p, .seed = defaults.seed};
    WEFT_TRY(parse_real(s->temperature, "temperature", &out->temperature, err));
    WEFT_TRY(parse_real(s->top_p, "top-p", &out->top_p, err));
    WEFT_TRY(parse_whole(s->top_k, "top-k", INT32_MAX, &top_k, err));
    WEFT_TRY(parse_whole(s->seed, "seed", UINT64_MAX, &out->seed, err));
    out->top_k = (uint32_t)top_k;
    return wf_sampling_check(out, err);
}

/* Parses token ids such as "1,2,3".  Each id must be less than `vocab`. */
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
                             "--tokens at '%.20s': expected numbers from 0 to %u, separated "
                             "by commas",
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

/* -- running -------------------------------------------------------------------------------- */

struct generate {
    const struct generate_settings *s;
    struct weft_checkpoint *model; /* owned */
    struct wf_codec codec;
    int32_t *prompt; /* owned */
    size_t n_prompt, n_printed;
    struct wf_generate_options options;
    struct wf_generation result;
    bool in_line; /* the last printed character is not a line break */
};

static enum weft_status read_prompt(struct generate *g, uint32_t vocab, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    if (s->prompt != NULL && s->tokens != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "give --prompt or --tokens, not both");
    if (s->tokens != NULL)
        return parse_tokens(s->tokens, vocab, &g->prompt, &g->n_prompt, err);
    if (s->prompt != NULL && g->codec.encode == NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the model has %u tokens and no tokenizer; give the prompt as numbers, "
            "--tokens 1,2,3",
            vocab);
    if ((s->prompt == NULL || s->prompt[0] == '\0') && g->codec.end < 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no token for the start of a document; give --tokens%s",
                         g->codec.encode == NULL ? "" : " or --prompt");
    return wf_generate_encode(&g->codec, s->prompt, &g->prompt, &g->n_prompt, err);
}

static enum weft_status put_token(void *ctx, int32_t token, struct weft_error *err)
{
    struct generate *g = ctx;
    if (g->codec.bytes == NULL) {
        printf("%s%d", g->n_printed++ == 0 ? "" : " ", token);
    } else {
        size_t len = 0;
        const char *text = wf_codec_text(&g->codec, token, &len);
        fwrite(text, 1, len, stdout);
        if (len > 0)
            g->in_line = text[len - 1] != '\n';
    }
    if (fflush(stdout) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cannot write standard output: %s", strerror(errno));
    return WEFT_OK;
}

static enum weft_status generate(struct generate *g, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    if (s->model == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "generate needs --model; see weft generate --help");
    g->options = (struct wf_generate_options){
        .max_tokens = s->max_tokens != 0 ? s->max_tokens : weft_generate_defaults().max_tokens,
        .type = s->type != NULL && strcmp(s->type, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .threads = s->threads,
        .on_token = s->json ? NULL : put_token,
        .ctx = g,
    };
    WEFT_TRY(parse_sampling(s, &g->options.sampling, err));
    WEFT_TRY(wf_model_open(s->model, &g->model, err));
    const struct wf_weights *weights = wf_checkpoint_weights(g->model);
    WEFT_TRY(wf_generate_open_codec(weights, &g->codec, err));
    WEFT_TRY(read_prompt(g, weft_checkpoint_model(g->model)->vocab, err));

    g->options.prompt = g->prompt;
    g->options.n_prompt = g->n_prompt;
    g->options.end = g->codec.end;
    return wf_generate(weights, &g->options, &g->result, err);
}

/* -- printing ------------------------------------------------------------------------------- */

/* Returns true if standard output and standard error appear in the same place. */
static bool shown_together(void)
{
    struct stat out, err;
    return isatty(STDERR_FILENO) ||
           (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
            out.st_dev == err.st_dev && out.st_ino == err.st_ino);
}

static void print_end(const struct generate *g)
{
    const struct wf_generation *r = &g->result;
    size_t n = r->n_tokens - r->n_prompt;
    /* Text is printed unchanged.  A line break follows token numbers, and text on a
     * terminal. */
    bool ended = g->codec.bytes == NULL || isatty(STDOUT_FILENO);
    if (ended)
        putchar('\n');
    fflush(stdout);
    if (!ended && g->in_line && shown_together())
        fputc('\n', stderr);
    fprintf(stderr, "weft: %zu token%s after %zu, %.1f tokens/s, stopped by: %s\n", n,
            n == 1 ? "" : "s", r->n_prompt, wf_generation_rate(r),
            wf_generate_stop_name(r->stop));
}

static enum weft_status run_generate(int argc, char **argv, struct weft_error *err)
{
    struct generate_settings s = {0};
    const char *operand = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_generate, argc, argv, &s, &operand, err));
    struct generate g = {.s = &s};
    enum weft_status st = generate(&g, err);
    if (st == WEFT_OK && s.json) {
        st = wf_generation_write_json(&(struct wf_json){.out = stdout}, &g.result, &g.codec,
                                      g.options.sampling.seed, err);
        if (st == WEFT_OK)
            putchar('\n');
    } else if (st == WEFT_OK) {
        print_end(&g);
    }
    wf_generation_release(&g.result);
    free(g.prompt);
    wf_codec_release(&g.codec);
    weft_checkpoint_free(g.model);
    return st;
}

const struct wf_command wf_command_generate = {
    .name = "generate",
    .summary = "continue a text with a model",
    .text =
        "Prints the continuation of a prompt, without the prompt, token by token. The text ends\n"
        "at the end of the document, after --max-tokens tokens, or when the model's context is\n"
        "full. A line on standard error reports the reason and the speed.\n\n"
        "The same model, prompt, settings and seed give the same tokens with any number of\n"
        "threads. The tokenizer is read from the directory of the weights or of the run. Without\n"
        "a tokenizer, tokens are bytes; if the vocabulary has fewer than 257 tokens, the prompt\n"
        "and the output are token ids.\n"
        "\n"
        "PATH is\n\n" WF_MODEL_TEXT,
    .examples =
        "  weft generate --model runs/a --prompt 'Once upon a time'\n"
        "  weft generate --model gpt2_124M.bin --tokens 464,3280 --temperature 0\n"
        "  weft generate --model gpt2 -p Hello --top-k 40 --top-p 0.9 --seed 7 -n 200\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_generate,
};
