/* weft generate: parses a prompt and prints its continuation. */
#define _DEFAULT_SOURCE /* isatty */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "training/jobs/generate.h"
#include "training/jobs/generate_config.h"
#include "weft/generate.h"

struct generate_settings {
    const char *model, *prompt, *prompt_file, *tokens;
    const char *temperature, *top_k, *top_p, *min_p, *repetition_penalty, *seed, *logprobs;
    const char *type;
    struct wf_option_texts stop;
    uint32_t max_tokens, samples, threads;
    bool no_special, ignore_eos, json;
};

#define AT(field) offsetof(struct generate_settings, field)

static const struct wf_option options[] = {
    {"model", 'm', WF_OPTION_TEXT, "PATH", WF_MODEL_HELP, NULL, AT(model)},
    {"prompt", 'p', WF_OPTION_TEXT, "TEXT", "the text to continue (default: a new document)",
     NULL, AT(prompt)},
    {"prompt-file", 'f', WF_OPTION_TEXT, "FILE",
     "read the prompt from a file; - is standard input; a final line break is removed", NULL,
     AT(prompt_file)},
    {"tokens", 0, WF_OPTION_TEXT, "1,2,3", "the prompt as token ids", NULL, AT(tokens)},
    {"no-special", 0, WF_OPTION_SWITCH, NULL,
     "names of special tokens in the prompt are ordinary text, and no token is put before it",
     NULL, AT(no_special)},
    {"max-tokens", 'n', WF_OPTION_COUNT, "N", "maximum number of new tokens (default: 100)",
     NULL, AT(max_tokens)},
    {"stop", 0, WF_OPTION_TEXTS, "TEXT",
     "end the text before this string; may be given several times", NULL, AT(stop)},
    {"ignore-eos", 0, WF_OPTION_SWITCH, NULL, "continue after the end of a document", NULL,
     AT(ignore_eos)},
    {"samples", 0, WF_OPTION_COUNT, "N",
     "number of texts (default: 1); the seed of each is one more than that of the previous",
     NULL, AT(samples)},
    {"repetition-penalty", 0, WF_OPTION_TEXT, "R",
     "divide positive logits of earlier tokens by R and multiply negative ones (default: 1)",
     NULL, AT(repetition_penalty)},
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
    {"min-p", 0, WF_OPTION_TEXT, "P",
     "sample only from tokens with at least P times the probability of the most likely token "
     "(default: 0)",
     NULL, AT(min_p)},
    {"seed", 0, WF_OPTION_TEXT, "N", "seed of the random numbers (default: 42)", NULL,
     AT(seed)},
    {"type", 0, WF_OPTION_CHOICE, "TYPE",
     "type of weights in memory: f32 (default), or bf16 (faster)", "f32|bf16", AT(type)},
    {"threads", 0, WF_OPTION_COUNT, "N", "number of threads (default: one per core)", NULL,
     AT(threads)},
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print one JSON object per text", NULL, AT(json)},
    {"logprobs", 0, WF_OPTION_TEXT, "N",
     "with --json: add the log-probabilities of the tokens and of the N most likely tokens",
     NULL, AT(logprobs)},
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

/* Applies the options to the settings of the model. */
static enum weft_status parse_sampling(const struct generate_settings *s,
                                       struct wf_sampling *out, struct weft_error *err)
{
    uint64_t top_k = out->top_k;
    WEFT_TRY(parse_real(s->temperature, "temperature", &out->temperature, err));
    WEFT_TRY(parse_real(s->top_p, "top-p", &out->top_p, err));
    WEFT_TRY(parse_real(s->min_p, "min-p", &out->min_p, err));
    WEFT_TRY(
        parse_real(s->repetition_penalty, "repetition-penalty", &out->repetition_penalty, err));
    WEFT_TRY(parse_whole(s->top_k, "top-k", INT32_MAX, &top_k, err));
    WEFT_TRY(parse_whole(s->seed, "seed", UINT64_MAX, &out->seed, err));
    out->top_k = (uint32_t)top_k;
    if (s->repetition_penalty != NULL && out->repetition_penalty == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--repetition-penalty is 0; give 1 for no penalty");
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
    struct wf_generate_config config;
    int32_t *prompt; /* owned */
    size_t n_prompt;
    struct wf_generate_options options;
    struct wf_generation result;
    bool in_line; /* the last printed character is not a line break */
};

/* Reads the prompt from a file.  The caller frees *out. */
static enum weft_status read_file(const char *path, char **out, size_t *len,
                                  struct weft_error *err)
{
    WEFT_TRY(wf_input_read(path, out, len, err));
    if (*len > 0 && (*out)[*len - 1] == '\n')
        --*len;
    if (*len > 0 && (*out)[*len - 1] == '\r')
        --*len;
    return WEFT_OK;
}

static enum weft_status encode_prompt(struct generate *g, const char *text, size_t len,
                                      uint32_t vocab, struct weft_error *err)
{
    if (text != NULL && g->codec.encode == NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "the model has %u tokens and no tokenizer; give the prompt as numbers, "
            "--tokens 1,2,3",
            vocab);
    if (len == 0 && g->config.start < 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no token for the start of a document; give --tokens%s",
                         g->codec.encode == NULL ? "" : " or --prompt");
    return wf_generate_encode(&g->codec, text, len, !g->s->no_special, g->config.start,
                              &g->prompt, &g->n_prompt, err);
}

static enum weft_status read_prompt(struct generate *g, uint32_t vocab, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    char *text = NULL;
    size_t len = 0;
    if ((s->prompt != NULL) + (s->tokens != NULL) + (s->prompt_file != NULL) > 1)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "give one of --prompt, --prompt-file and --tokens, not both");
    if (s->tokens != NULL)
        return parse_tokens(s->tokens, vocab, &g->prompt, &g->n_prompt, err);
    if (s->prompt_file == NULL)
        return encode_prompt(g, s->prompt, s->prompt == NULL ? 0 : strlen(s->prompt), vocab,
                             err);
    WEFT_TRY(read_file(s->prompt_file, &text, &len, err));
    enum weft_status st = encode_prompt(g, text, len, vocab, err);
    free(text);
    return st;
}

static enum weft_status put_text(void *ctx, const char *bytes, size_t len,
                                 struct weft_error *err)
{
    struct generate *g = ctx;
    fwrite(bytes, 1, len, stdout);
    g->in_line = bytes[len - 1] != '\n';
    if (fflush(stdout) != 0)
        return WEFT_FAIL(err, WEFT_IO, "cannot write standard output: %s", strerror(errno));
    return WEFT_OK;
}

/* Sets the limits of the text: options, then the settings of the model, then defaults. */
static void set_limits(struct generate *g)
{
    const struct generate_settings *s = g->s;
    const struct wf_generate_config *c = &g->config;
    struct wf_generate_options *o = &g->options;
    o->max_tokens = weft_generate_defaults().max_tokens;
    if (s->max_tokens != 0)
        o->max_tokens = s->max_tokens;
    else if (c->max_tokens != 0)
        o->max_tokens = c->max_tokens;
    else if (c->max_length > g->n_prompt)
        o->max_tokens = c->max_length - (uint32_t)g->n_prompt;

    o->ends = c->ends;
    o->n_ends = s->ignore_eos ? 0 : c->n_ends;
    o->stops = s->stop.n > 0 ? s->stop.at : (const char *const *)c->stops;
    o->n_stops = s->stop.n > 0 ? s->stop.n : c->n_stops;
}

static enum weft_status parse_logprobs(const struct generate_settings *s, int *out,
                                       struct weft_error *err)
{
    uint64_t n = 0;
    *out = WF_GENERATE_NO_LOGPROBS;
    if (s->logprobs == NULL)
        return WEFT_OK;
    if (!s->json)
        return WEFT_FAIL(err, WEFT_USAGE, "--logprobs needs --json");
    WEFT_TRY(parse_whole(s->logprobs, "logprobs", WF_GENERATE_MAX_LOGPROBS, &n, err));
    *out = (int)n;
    return WEFT_OK;
}

/* Opens the tokenizer.  Token ids need none: one that cannot be read is then ignored. */
static enum weft_status open_codec(struct generate *g, const struct wf_weights *weights,
                                   struct weft_error *err)
{
    struct weft_error why = {.msg = ""};
    enum weft_status st = wf_generate_open_codec(weights, &g->codec, &why);
    if (st == WEFT_OK)
        return st;
    if (st != WEFT_DATA || g->s->tokens == NULL) {
        if (err != NULL)
            *err = why;
        return st;
    }
    fprintf(stderr, "weft: warning: %s; tokens are printed as numbers\n", why.msg);
    return wf_codec_open(&g->codec, NULL, 0, err);
}

/* Opens the model and sets all options. */
static enum weft_status prepare(struct generate *g, struct weft_error *err)
{
    const struct generate_settings *s = g->s;
    struct wf_sampling check = wf_sampling_defaults();
    if (s->model == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "generate needs --model; see weft generate --help");
    g->options = (struct wf_generate_options){
        .type = s->type != NULL && strcmp(s->type, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .threads = s->threads,
        .codec = &g->codec,
        .on_text = s->json ? NULL : put_text,
        .ctx = g,
    };
    WEFT_TRY(parse_sampling(s, &check, err)); /* wrong options fail before the model is read */
    WEFT_TRY(parse_logprobs(s, &g->options.n_logprobs, err));

    WEFT_TRY(wf_model_open(s->model, &g->model, err));
    const struct wf_weights *weights = wf_checkpoint_weights(g->model);
    uint32_t vocab = weft_checkpoint_model(g->model)->vocab;
    WEFT_TRY(open_codec(g, weights, err));
    WEFT_TRY(wf_generate_config_init(&g->config, weights, &g->codec, err));
    if (g->config.note.len > 0)
        fprintf(stderr, "weft: warning: %s\n", g->config.note.at);

    g->options.sampling = g->config.sampling;
    WEFT_TRY(parse_sampling(s, &g->options.sampling, err));
    if (g->options.n_logprobs >= (int)vocab)
        g->options.n_logprobs = (int)vocab;
    WEFT_TRY(read_prompt(g, vocab, err));
    g->options.prompt = g->prompt;
    g->options.n_prompt = g->n_prompt;
    set_limits(g);
    return WEFT_OK;
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

static void print_end(struct generate *g)
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
    g->in_line = false;
    fprintf(stderr, "weft: %zu token%s after %zu, %.1f tokens/s, stopped by: %s\n", n,
            n == 1 ? "" : "s", r->n_prompt, wf_generation_rate(r),
            wf_generate_stop_name(r->stop));
}

/* Generates and prints one text. */
static enum weft_status one_sample(struct generate *g, struct wf_generator *generator,
                                   uint32_t sample, struct weft_error *err)
{
    uint32_t n_samples = g->s->samples;
    if (!g->s->json && n_samples > 1)
        printf("%s--- sample %u of %u ---\n", sample > 0 ? "\n" : "", sample + 1, n_samples);
    WEFT_TRY(wf_generator_run(generator, sample, &g->result, err));
    enum weft_status st = WEFT_OK;
    if (g->s->json) {
        st = wf_generation_write_json(&(struct wf_json){.out = stdout}, &g->result, &g->codec,
                                      err);
        if (st == WEFT_OK)
            putchar('\n');
    } else {
        print_end(g);
    }
    wf_generation_release(&g->result);
    return st;
}

static enum weft_status generate(struct generate *g, struct weft_error *err)
{
    struct wf_generator *generator = NULL;
    WEFT_TRY(prepare(g, err));
    WEFT_TRY(wf_generator_new(wf_checkpoint_weights(g->model), &g->options, &generator, err));
    uint32_t n = g->s->samples == 0 ? 1 : g->s->samples;
    enum weft_status st = WEFT_OK;
    for (uint32_t i = 0; st == WEFT_OK && i < n; i++)
        st = one_sample(g, generator, i, err);
    wf_generator_free(generator);
    return st;
}

static enum weft_status run_generate(int argc, char **argv, struct weft_error *err)
{
    struct generate_settings s = {0};
    const char *operand = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_generate, argc, argv, &s, &operand, err));
    struct generate g = {.s = &s};
    enum weft_status st = generate(&g, err);
    free(g.prompt);
    wf_generate_config_release(&g.config);
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
        "full, or before a stop string. A line on standard error reports the reason and the\n"
        "speed.\n\n"
        "The tokens that end a document are those of generation_config.json, of config.json, or\n"
        "of the tokenizer. If generation_config.json has do_sample, its sampling settings\n"
        "replace the defaults; its max_new_tokens, max_length, stop_strings and\n"
        "repetition_penalty always do. Options have priority. The steps of sampling have the\n"
        "order of transformers: repetition penalty, temperature, top-k, top-p, min-p.\n\n"
        "The same model, prompt, settings and seed give the same tokens with any number of\n"
        "threads. The tokenizer is read from the directory of the weights or of the run. Names of\n"
        "special tokens in the prompt, such as <|im_start|>, become these tokens, and a token\n"
        "that the tokenizer puts before a text is put before the prompt. Without a tokenizer,\n"
        "tokens are bytes if the vocabulary has 257 tokens; otherwise the prompt and the output\n"
        "are token ids.\n"
        "\n"
        "PATH is\n\n" WF_MODEL_TEXT,
    .examples =
        "  weft generate --model runs/a --prompt 'Once upon a time'\n"
        "  weft generate --model gpt2_124M.bin --tokens 464,3280 --temperature 0\n"
        "  weft generate --model runs/a -f prompt.txt --stop '.' --samples 3\n"
        "  weft generate --model gpt2 -p Hello --top-k 40 --top-p 0.9 --seed 7 -n 200\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_generate,
};
