/* The generation loop: opens the tokenizer, feeds the prompt, samples until a limit is
 * reached. */
#include "training/jobs/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "training/jobs/generate_text.h"
#include "training/trainer/load.h"

enum weft_status wf_generate_open_codec(const struct wf_weights *w, struct wf_codec *codec,
                                        struct weft_error *err)
{
    char *path = NULL;
    WEFT_TRY(wf_load_find_tokenizer(w, &path, err));
    enum weft_status st = wf_codec_open(codec, path, wf_weights_info(w)->model.vocab, err);
    free(path);
    return st;
}

/* Puts the tokens of the codec's prefix before a prompt, unless it starts with them. */
static enum weft_status add_prefix(const struct wf_codec *codec, int32_t **tokens, size_t *n,
                                   struct weft_error *err)
{
    size_t n_prefix = codec->n_prefix, size = n_prefix * sizeof **tokens;
    if (n_prefix == 0 || (*n >= n_prefix && memcmp(*tokens, codec->prefix, size) == 0))
        return WEFT_OK;
    int32_t *all = malloc(size + *n * sizeof *all);
    if (all == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a prompt");
    memcpy(all, codec->prefix, size);
    memcpy(all + n_prefix, *tokens, *n * sizeof *all);
    free(*tokens);
    *tokens = all;
    *n += n_prefix;
    return WEFT_OK;
}

static enum weft_status encode_text(const struct wf_codec *codec, const char *text, size_t len,
                                    bool special, int32_t **out, size_t *n,
                                    struct weft_error *err)
{
    int32_t *tokens = NULL;
    size_t n_tokens = 0;
    if (!special)
        return codec->encode(codec->self, text, len, out, n, err);
    WEFT_TRY(codec->encode_special(codec->self, text, len, &tokens, &n_tokens, err));
    enum weft_status st = add_prefix(codec, &tokens, &n_tokens, err);
    if (st != WEFT_OK) {
        free(tokens);
        return st;
    }
    *out = tokens;
    *n = n_tokens;
    return WEFT_OK;
}

enum weft_status wf_generate_encode(const struct wf_codec *codec, const char *text, size_t len,
                                    bool special, int64_t start, int32_t **out, size_t *n,
                                    struct weft_error *err)
{
    if (text != NULL && codec->encode == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no tokenizer: the prompt must be token numbers");
    if (text != NULL && len > 0)
        return encode_text(codec, text, len, special, out, n, err);
    if (start < 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no token for the start of a document; give a prompt");
    int32_t *tokens = malloc(sizeof *tokens);
    if (tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a prompt");
    tokens[0] = (int32_t)start;
    *out = tokens;
    *n = 1;
    return WEFT_OK;
}

const char *wf_generate_stop_name(enum wf_generate_stop stop)
{
    switch (stop) {
    case WF_GENERATE_STOP_END:
        return "end of document";
    case WF_GENERATE_STOP_MAX_TOKENS:
        return "max-tokens";
    case WF_GENERATE_STOP_CONTEXT:
        return "context";
    case WF_GENERATE_STOP_TEXT:
        return "stop string";
    }
    return "";
}

/* -- the model ----------------------------------------------------------------------------- */

struct wf_generator {
    const struct wf_generate_options *o; /* borrowed */
    struct weft_model model;
    size_t capacity;           /* maximum number of tokens of the prompt and the text */
    struct wf_pool *pool;      /* owned */
    struct wf_infer *infer;    /* owned */
    float *first;              /* owned: (vocab), the logits after the prompt */
    float *logits;             /* owned: (vocab), of the model */
    float *adjusted;           /* owned: (vocab), after the repetition penalty */
    struct wf_candidate *work; /* owned: (vocab) */
    unsigned char *seen;       /* owned: (vocab), zero */
    double prompt_seconds;
};

void wf_generator_free(struct wf_generator *g)
{
    if (g == NULL)
        return;
    wf_infer_free(g->infer);
    wf_pool_free(g->pool);
    free(g->first);
    free(g->logits);
    free(g->adjusted);
    free(g->work);
    free(g->seen);
    free(g);
}

static enum weft_status prepare(struct wf_generator *g, const struct wf_weights *w,
                                struct weft_error *err)
{
    const struct wf_generate_options *o = g->o;
    const struct weft_model *model = &g->model;
    WEFT_TRY(wf_pool_new(o->threads, &g->pool, err));
    if (o->n_prompt >= model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the prompt has %zu tokens, but the model's context has only %u",
                         o->n_prompt, model->ctx);

    uint64_t capacity = (uint64_t)o->n_prompt + o->max_tokens;
    g->capacity = capacity < model->ctx ? capacity : model->ctx;
    g->first = malloc(model->vocab * sizeof *g->first);
    g->logits = malloc(model->vocab * sizeof *g->logits);
    g->adjusted = malloc(model->vocab * sizeof *g->adjusted);
    g->work = malloc(model->vocab * sizeof *g->work);
    g->seen = calloc(model->vocab, 1);
    if (g->first == NULL || g->logits == NULL || g->adjusted == NULL || g->work == NULL ||
        g->seen == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the logits of %u tokens",
                         model->vocab);

    struct wf_infer_spec spec = {
        .model = *model, .max_tokens = (uint32_t)g->capacity, .type = o->type, .pool = g->pool};
    WEFT_TRY(wf_infer_new(&spec, &g->infer, err));
    WEFT_TRY(wf_load_infer(w, g->infer, err));

    int64_t start = wf_clock_ns();
    WEFT_TRY(wf_infer_feed(g->infer, o->prompt, o->n_prompt, g->first, err));
    g->prompt_seconds = (double)(wf_clock_ns() - start) * 1e-9;
    return WEFT_OK;
}

enum weft_status wf_generator_new(const struct wf_weights *w,
                                  const struct wf_generate_options *o,
                                  struct wf_generator **out, struct weft_error *err)
{
    struct wf_generator *g = calloc(1, sizeof *g);
    if (g == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to generate text");
    g->o = o;
    g->model = wf_weights_info(w)->model;
    enum weft_status st = prepare(g, w, err);
    if (st == WEFT_OK)
        *out = g;
    else
        wf_generator_free(g);
    return st;
}

/* -- log-probabilities --------------------------------------------------------------------- */

/* Stores the n most likely tokens in out[1 .. n], by insertion. */
static void find_top(const float *logits, size_t vocab, double log_total,
                     struct wf_logprob *out, size_t n)
{
    size_t have = 0;
    for (size_t i = 0; i < vocab; i++) {
        double p = (double)logits[i] - log_total;
        if (have == n && (n == 0 || p <= out[n].logprob))
            continue;
        have += have < n;
        size_t at = have;
        for (; at > 1 && out[at - 1].logprob < p; at--)
            out[at] = out[at - 1];
        out[at] = (struct wf_logprob){(int32_t)i, p};
    }
}

static double log_total(const float *logits, size_t vocab)
{
    double max = logits[0], sum = 0;
    for (size_t i = 1; i < vocab; i++)
        max = logits[i] > max ? logits[i] : max;
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

/* -- one sample ---------------------------------------------------------------------------- */

struct generated_sample {
    struct wf_generator *g;
    struct wf_generation *out;
    struct wf_stop_text text;
    size_t n_emitted;
};

/* Chooses the next token and records its log-probability. */
static int32_t choose(struct generated_sample *s)
{
    struct wf_generator *g = s->g;
    struct wf_generation *out = s->out;
    struct wf_sampling how = g->o->sampling;
    size_t vocab = g->model.vocab;
    how.seed = out->seed;

    memcpy(g->adjusted, g->logits, vocab * sizeof *g->logits);
    wf_sample_penalize(g->adjusted, out->tokens, out->n_tokens, how.repetition_penalty,
                       g->seen);
    int32_t token = wf_sample(g->adjusted, vocab, &how, out->n_tokens, g->work);

    if (out->logprobs != NULL) {
        size_t n = (size_t)out->n_logprobs;
        struct wf_logprob *row = out->logprobs + (out->n_tokens - out->n_prompt) * (n + 1);
        double total = log_total(g->logits, vocab);
        row[0] = (struct wf_logprob){token, (double)g->logits[token] - total};
        find_top(g->logits, vocab, total, row, n);
    }
    return token;
}

static bool is_end(const struct wf_generate_options *o, int32_t token)
{
    for (size_t i = 0; i < o->n_ends; i++)
        if (o->ends[i] == token)
            return true;
    return false;
}

/* Passes the text that is ready to the caller. */
static enum weft_status emit(struct generated_sample *s, struct weft_error *err)
{
    const struct wf_generate_options *o = s->g->o;
    size_t begin = s->n_emitted, n = s->text.n_ready - begin;
    s->n_emitted = s->text.n_ready;
    if (s->text.text.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the generated text");
    return n == 0 || o->on_text == NULL ? WEFT_OK
                                        : o->on_text(o->ctx, s->text.text.at + begin, n, err);
}

/* Adds the text of a token: its bytes, or its number if there is no tokenizer. */
static enum weft_status add_token(struct generated_sample *s, int32_t token,
                                  struct weft_error *err)
{
    const struct wf_codec *codec = s->g->o->codec;
    char number[16];
    size_t len = 0;
    const char *bytes = number;
    if (codec != NULL && codec->bytes != NULL) {
        bytes = wf_codec_text(codec, token, &len);
        /* The prompt of a new document is one token, after which its text starts. */
        bool first = s->text.text.len == 0 && s->g->o->n_prompt == 1;
        if (first && codec->strips_space && len > 0 && bytes[0] == ' ') {
            bytes++;
            len--;
        }
    } else {
        snprintf(number, sizeof number, s->text.text.len == 0 ? "%d" : " %d", (int)token);
        len = strlen(number);
    }
    wf_stop_text_add(&s->text, bytes, len);
    return emit(s, err);
}

/* Adds a token.  Sets *stop to true, and out->stop, if it is the last one. */
static enum weft_status advance(struct generated_sample *s, int32_t token, bool *stop,
                                struct weft_error *err)
{
    const struct wf_generate_options *o = s->g->o;
    struct wf_generation *out = s->out;
    *stop = true;
    out->tokens[out->n_tokens++] = token;
    out->stop = WF_GENERATE_STOP_END;
    if (is_end(o, token))
        return WEFT_OK;
    WEFT_TRY(add_token(s, token, err));

    if (s->text.stopped)
        out->stop = WF_GENERATE_STOP_TEXT;
    else if (out->n_tokens - out->n_prompt == o->max_tokens)
        out->stop = WF_GENERATE_STOP_MAX_TOKENS;
    else if (out->n_tokens == s->g->model.ctx)
        out->stop = WF_GENERATE_STOP_CONTEXT;
    else
        *stop = false;
    return WEFT_OK;
}

static enum weft_status run(struct generated_sample *s, struct weft_error *err)
{
    struct wf_generator *g = s->g;
    int64_t start = wf_clock_ns();
    wf_infer_rewind(g->infer, (uint32_t)g->o->n_prompt);
    memcpy(g->logits, g->first, g->model.vocab * sizeof *g->logits);
    for (bool stop = false; !stop;) {
        int32_t token = choose(s);
        WEFT_TRY(advance(s, token, &stop, err));
        if (!stop)
            WEFT_TRY(wf_infer_feed(g->infer, &token, 1, g->logits, err));
    }

    wf_stop_text_finish(&s->text);
    WEFT_TRY(emit(s, err));
    s->out->prompt_seconds = g->prompt_seconds;
    s->out->seconds = (double)(wf_clock_ns() - start) * 1e-9;
    return WEFT_OK;
}

static enum weft_status init_result(const struct wf_generator *g, uint32_t sample,
                                    struct wf_generation *out, struct weft_error *err)
{
    const struct wf_generate_options *o = g->o;
    size_t n_new = g->capacity - o->n_prompt;
    *out = (struct wf_generation){.n_prompt = o->n_prompt,
                                  .n_tokens = o->n_prompt,
                                  .n_logprobs = o->n_logprobs,
                                  .seed = o->sampling.seed + sample};
    out->tokens = malloc(g->capacity * sizeof *out->tokens);
    if (o->n_logprobs >= 0)
        out->logprobs = calloc(n_new * (size_t)(o->n_logprobs + 1), sizeof *out->logprobs);
    if (out->tokens == NULL || (o->n_logprobs >= 0 && out->logprobs == NULL))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", g->capacity);
    memcpy(out->tokens, o->prompt, o->n_prompt * sizeof *out->tokens);
    return WEFT_OK;
}

enum weft_status wf_generator_run(struct wf_generator *g, uint32_t sample,
                                  struct wf_generation *out, struct weft_error *err)
{
    struct wf_generation result;
    struct generated_sample s = {
        .g = g, .out = &result, .text = {.stops = g->o->stops, .n_stops = g->o->n_stops}};
    enum weft_status st = init_result(g, sample, &result, err);
    if (st == WEFT_OK)
        st = run(&s, err);

    wf_text_add(&s.text.text, "", 0); /* terminates the text with NUL, even an empty text */
    if (st == WEFT_OK && s.text.text.at == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the generated text");
    if (st != WEFT_OK) {
        wf_text_release(&s.text.text);
        wf_generation_release(&result);
        return st;
    }
    result.text = s.text.text.at;
    result.text_len = s.text.text.len;
    *out = result;
    return WEFT_OK;
}

enum weft_status wf_generate(const struct wf_weights *w, const struct wf_generate_options *o,
                             struct wf_generation *out, struct weft_error *err)
{
    struct wf_generator *g = NULL;
    WEFT_TRY(wf_generator_new(w, o, &g, err));
    enum weft_status st = wf_generator_run(g, 0, out, err);
    wf_generator_free(g);
    return st;
}

void wf_generation_release(struct wf_generation *g)
{
    free(g->tokens);
    free(g->text);
    free(g->logprobs);
    *g = (struct wf_generation){0};
}

double wf_generation_rate(const struct wf_generation *g)
{
    size_t n = g->n_tokens - g->n_prompt;
    return n > 1 && g->seconds > 0 ? (double)(n - 1) / g->seconds : 0;
}
