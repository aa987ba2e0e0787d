/* Encodes the prompt of a run and generates its samples. */
#include "training/session/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/trainer/load.h"

/* -- the prompt ---------------------------------------------------------------------------- */

static enum weft_status open_tokenizer(const struct wf_train_settings *s, uint32_t vocab,
                                       struct weft_tokenizer **out, struct weft_error *err)
{
    enum { BYTE_TOKENS = 257 };
    char *path = NULL;
    WEFT_TRY(wf_load_find_run_tokenizer(s, vocab, &path, err));
    enum weft_status st = path == NULL ? WEFT_OK : weft_tokenizer_open(path, out, err);
    free(path);
    if (st == WEFT_OK && *out == NULL && vocab >= BYTE_TOKENS)
        st = weft_tokenizer_new_bytes(out, err);
    return st;
}

static enum weft_status encode_prompt(struct wf_sampler *p, uint32_t vocab,
                                      struct weft_error *err)
{
    if (p->tokenizer == NULL && p->prompt_text != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.sample_prompt: there is no tokenizer for the model's %u tokens; "
                         "set data.tokenizer or remove the prompt",
                         vocab);
    if (p->prompt_text != NULL)
        WEFT_TRY(weft_tokenizer_encode(p->tokenizer, p->prompt_text, strlen(p->prompt_text),
                                       &p->prompt, err));
    if (p->prompt.len == 0) {
        WEFT_TRY(wf_tokens_reserve(&p->prompt, 1, err));
        p->prompt.at[p->prompt.len++] = p->spec.end >= 0 ? (int32_t)p->spec.end : 0;
    }
    return WEFT_OK;
}

static enum weft_status check_prompt(const struct wf_sampler *p, const struct weft_model *model,
                                     struct weft_error *err)
{
    if (p->prompt.len >= model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.sample_prompt: too long (%zu tokens; expected fewer than the "
                         "model's context of %u)",
                         p->prompt.len, model->ctx);
    for (size_t i = 0; i < p->prompt.len; i++)
        if ((uint32_t)p->prompt.at[i] >= model->vocab)
            return WEFT_FAIL(err, WEFT_DATA,
                             "log.sample: the tokenizer returns token %d, the model has %u "
                             "tokens",
                             p->prompt.at[i], model->vocab);
    return WEFT_OK;
}

enum weft_status wf_sampler_init(struct wf_sampler *p, const struct wf_train_settings *s,
                                 const struct weft_model *model, struct weft_error *err)
{
    *p = (struct wf_sampler){.prompt_text = s->log.sample_prompt,
                             .spec = {.end = -1, .how = wf_sampling_defaults()}};

    WEFT_TRY(open_tokenizer(s, model->vocab, &p->tokenizer, err));
    if (p->tokenizer != NULL)
        p->spec.end = weft_tokenizer_eot(p->tokenizer);
    WEFT_TRY(encode_prompt(p, model->vocab, err));
    WEFT_TRY(check_prompt(p, model, err));

    p->spec.prompt = p->prompt.at;
    p->spec.n_prompt = p->prompt.len;
    p->spec.n_tokens = s->log.sample_tokens < model->ctx ? s->log.sample_tokens : model->ctx;
    p->tokens = malloc(p->spec.n_tokens * sizeof *p->tokens);
    if (p->tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a sample of %u tokens",
                         p->spec.n_tokens);
    return WEFT_OK;
}

void wf_sampler_release(struct wf_sampler *p)
{
    weft_tokenizer_free(p->tokenizer);
    weft_tokens_release(&p->prompt);
    free(p->tokens);
    *p = (struct wf_sampler){0};
}

/* -- the text ------------------------------------------------------------------------------ */

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD in UTF-8 */

static void add_token(const struct wf_sampler *p, int32_t token, struct wf_text *out)
{
    if (p->tokenizer == NULL) {
        wf_text_addf(out, "%s%d", out->len == 0 ? "" : " ", token);
        return;
    }
    size_t len = 0;
    const char *bytes = weft_tokenizer_token(p->tokenizer, token, &len);
    if (bytes == NULL)
        wf_text_adds(out, REPLACEMENT);
    for (size_t i = 0; bytes != NULL && i < len; i++) {
        if (bytes[i] == '\0')
            wf_text_adds(out, REPLACEMENT);
        else
            wf_text_addc(out, bytes[i]);
    }
}

/* Adds the generated text up to its last complete UTF-8 character. */
static void add_sample(const struct wf_sampler *p, const struct wf_sample_result *r,
                       struct wf_text *out)
{
    wf_text_adds(out, p->prompt_text == NULL ? "" : p->prompt_text);
    for (size_t i = 0; i < r->n; i++)
        add_token(p, r->tokens[i], out);
    if (out->at != NULL && !out->failed && p->tokenizer != NULL) {
        out->len = wf_utf8_complete(out->at, out->len);
        out->at[out->len] = '\0';
    }
}

enum weft_status wf_sampler_run(struct wf_sampler *p, struct wf_trainer *trainer,
                                struct wf_text *out, struct weft_error *failure,
                                struct weft_error *err)
{
    struct wf_sample_result r = {.tokens = p->tokens};
    WEFT_TRY(wf_trainer_sample(trainer, &p->spec, &r, err));
    *failure = r.failure;
    if (wf_trainer_info(trainer).rank != 0 || failure->status != WEFT_OK)
        return WEFT_OK;

    add_sample(p, &r, out);
    if (out->at == NULL || out->failed)
        (void)WEFT_FAIL(failure, WEFT_NOMEM, "no memory for a sample");
    return WEFT_OK;
}
