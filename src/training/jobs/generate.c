/* The generation loop: opens the tokenizer, feeds the prompt, samples until a limit is
 * reached. */
#include "training/jobs/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "training/trainer/load.h"

enum weft_status wf_generate_open_codec(const struct wf_weights *w, struct wf_codec *codec,
                                        struct weft_error *err)
{
    const struct wf_weights_info *info = wf_weights_info(w);
    char *path = NULL;
    WEFT_TRY(wf_load_find_tokenizer(w, &path, err));
    enum weft_status st = wf_codec_open(codec, path, info->model.vocab, err);
    free(path);
    if (st == WEFT_OK && info->eos >= 0)
        codec->end = info->eos;
    return st;
}

enum weft_status wf_generate_encode(const struct wf_codec *codec, const char *text,
                                    int32_t **out, size_t *n, struct weft_error *err)
{
    if (text != NULL && codec->encode == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no tokenizer: the prompt must be token numbers");
    if (text != NULL && text[0] != '\0')
        return codec->encode(codec->self, text, strlen(text), out, n, err);
    if (codec->end < 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no token for the start of a document; give a prompt");
    int32_t *tokens = malloc(sizeof *tokens);
    if (tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a prompt");
    tokens[0] = (int32_t)codec->end;
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
    }
    return "";
}

struct generator {
    const struct wf_generate_options *o;
    struct weft_model model;
    struct wf_pool *pool;      /* owned */
    struct wf_infer *infer;    /* owned */
    float *logits;             /* owned: (vocab) */
    struct wf_candidate *work; /* owned: (vocab) */
};

static void generator_release(struct generator *g)
{
    wf_infer_free(g->infer);
    wf_pool_free(g->pool);
    free(g->logits);
    free(g->work);
}

static enum weft_status prepare(struct generator *g, const struct wf_weights *w,
                                struct wf_generation *out, struct weft_error *err)
{
    const struct wf_generate_options *o = g->o;
    const struct weft_model *model = &g->model;
    WEFT_TRY(wf_pool_new(o->threads, &g->pool, err));
    if (o->n_prompt >= model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the prompt has %zu tokens, but the model's context has only %u",
                         o->n_prompt, model->ctx);

    uint64_t capacity = (uint64_t)o->n_prompt + o->max_tokens;
    capacity = capacity < model->ctx ? capacity : model->ctx;
    out->tokens = malloc(capacity * sizeof *out->tokens);
    g->logits = malloc(model->vocab * sizeof *g->logits);
    g->work = malloc(model->vocab * sizeof *g->work);
    if (out->tokens == NULL || g->logits == NULL || g->work == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %llu tokens",
                         (unsigned long long)capacity);
    memcpy(out->tokens, o->prompt, o->n_prompt * sizeof *out->tokens);
    out->n_prompt = out->n_tokens = o->n_prompt;

    struct wf_infer_spec spec = {
        .model = *model, .max_tokens = (uint32_t)capacity, .type = o->type, .pool = g->pool};
    WEFT_TRY(wf_infer_new(&spec, &g->infer, err));
    return wf_load_infer(w, g->infer, err);
}

static enum weft_status run(struct generator *g, struct wf_generation *out,
                            struct weft_error *err)
{
    const struct wf_generate_options *o = g->o;
    int64_t start = wf_clock_ns();
    WEFT_TRY(wf_infer_feed(g->infer, out->tokens, out->n_prompt, g->logits, err));
    int64_t fed = wf_clock_ns();

    for (;;) {
        int32_t token =
            wf_sample(g->logits, g->model.vocab, &o->sampling, out->n_tokens, g->work);
        out->tokens[out->n_tokens++] = token;
        if (token == o->end) {
            out->stop = WF_GENERATE_STOP_END;
            break;
        }
        if (o->on_token != NULL)
            WEFT_TRY(o->on_token(o->ctx, token, err));
        if (out->n_tokens - out->n_prompt == o->max_tokens) {
            out->stop = WF_GENERATE_STOP_MAX_TOKENS;
            break;
        }
        if (out->n_tokens == g->model.ctx) {
            out->stop = WF_GENERATE_STOP_CONTEXT;
            break;
        }
        WEFT_TRY(wf_infer_feed(g->infer, &token, 1, g->logits, err));
    }

    out->prompt_seconds = (double)(fed - start) * 1e-9;
    out->seconds = (double)(wf_clock_ns() - fed) * 1e-9;
    return WEFT_OK;
}

enum weft_status wf_generate(const struct wf_weights *w, const struct wf_generate_options *o,
                             struct wf_generation *out, struct weft_error *err)
{
    struct generator g = {.o = o, .model = wf_weights_info(w)->model};
    struct wf_generation result = {0};
    enum weft_status st = prepare(&g, w, &result, err);
    if (st == WEFT_OK)
        st = run(&g, &result, err);
    generator_release(&g);
    if (st == WEFT_OK)
        *out = result;
    else
        wf_generation_release(&result);
    return st;
}

void wf_generation_release(struct wf_generation *g)
{
    free(g->tokens);
    *g = (struct wf_generation){0};
}

double wf_generation_rate(const struct wf_generation *g)
{
    size_t n = g->n_tokens - g->n_prompt;
    return n > 1 && g->seconds > 0 ? (double)(n - 1) / g->seconds : 0;
}
