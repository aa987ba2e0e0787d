#include "cli/train_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "training/trainer/load.h"

/* -- the tokenizer -------------------------------------------------------------------------- */

static enum weft_status open_tokenizer(const struct wf_train_settings *s, uint32_t vocab,
                                       struct wf_tokenizer **out, struct weft_error *err)
{
    char *path = NULL;
    WEFT_TRY(wf_load_find_run_tokenizer(s, vocab, &path, err));
    enum weft_status st = path == NULL ? WEFT_OK : wf_tokenizer_open(path, out, err);
    free(path);
    if (st == WEFT_OK && *out == NULL && vocab >= 257)
        st = wf_tokenizer_new_bytes(out, err);
    return st;
}

/* -- the prompt ----------------------------------------------------------------------------- */

static enum weft_status encode_prompt(struct wf_train_sampler *p, uint32_t vocab,
                                      struct weft_error *err)
{
    if (p->tokenizer == NULL && p->prompt_text != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.sample_prompt: the model has %u tokens and no tokenizer (give "
                         "data.tokenizer): leave it out",
                         vocab);
    if (p->prompt_text != NULL)
        WEFT_TRY(wf_tokenizer_encode(p->tokenizer, p->prompt_text, strlen(p->prompt_text),
                                     &p->prompt, err));
    if (p->prompt.len == 0) {
        WEFT_TRY(wf_tokens_reserve(&p->prompt, 1, err));
        p->prompt.at[p->prompt.len++] = p->spec.end >= 0 ? (int32_t)p->spec.end : 0;
    }
    return WEFT_OK;
}

static enum weft_status check_prompt(const struct wf_train_sampler *p,
                                     const struct weft_model *model, struct weft_error *err)
{
    if (p->prompt.len >= model->ctx)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "log.sample_prompt has %zu tokens, and the model takes %u: give fewer",
                         p->prompt.len, model->ctx);
    for (size_t i = 0; i < p->prompt.len; i++)
        if ((uint32_t)p->prompt.at[i] >= model->vocab)
            return WEFT_FAIL(err, WEFT_DATA,
                             "log.sample: the tokenizer gives token %d, and the model has %u",
                             p->prompt.at[i], model->vocab);
    return WEFT_OK;
}

enum weft_status wf_train_sampler_init(struct wf_train_sampler *p,
                                       const struct wf_train_settings *s,
                                       const struct weft_model *model, struct weft_error *err)
{
    *p = (struct wf_train_sampler){
        .prompt_text = s->log.sample_prompt,
        /* As weft generate has them without being told. */
        .spec = {.end = -1, .how = {.temperature = 0.8, .top_k = 50, .top_p = 1, .seed = 42}}};
    WEFT_TRY(open_tokenizer(s, model->vocab, &p->tokenizer, err));
    if (p->tokenizer != NULL)
        p->spec.end = wf_tokenizer_eot(p->tokenizer);
    WEFT_TRY(encode_prompt(p, model->vocab, err));
    WEFT_TRY(check_prompt(p, model, err));
    p->spec.prompt = p->prompt.at;
    p->spec.n_prompt = p->prompt.len;
    p->spec.n_tokens = s->log.sample_tokens < model->ctx ? s->log.sample_tokens : model->ctx;
    p->tokens = malloc(p->spec.n_tokens * sizeof *p->tokens);
    if (p->tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u tokens of a text",
                         p->spec.n_tokens);
    return WEFT_OK;
}

void wf_train_sampler_release(struct wf_train_sampler *p)
{
    wf_tokenizer_free(p->tokenizer);
    wf_tokens_release(&p->prompt);
    free(p->tokens);
    *p = (struct wf_train_sampler){0};
}

/* -- the text ------------------------------------------------------------------------------- */

static void add_token(const struct wf_train_sampler *p, int32_t token, struct wf_text *out)
{
    size_t len = 0;
    const char *bytes =
        p->tokenizer == NULL ? NULL : wf_tokenizer_token(p->tokenizer, token, &len);
    if (p->tokenizer == NULL)
        wf_text_addf(out, "%s%d", out->len == 0 ? "" : " ", token);
    else if (bytes == NULL)
        wf_text_adds(out, "\xef\xbf\xbd"); /* U+FFFD: no character */
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] == '\0')
            wf_text_adds(out, "\xef\xbf\xbd");
        else
            wf_text_addc(out, bytes[i]);
    }
}

/* The prompt and what came after it, up to the last whole character. */
static void make_text(const struct wf_train_sampler *p, const struct wf_sample_result *r,
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

/* What moves the cursor, or could, is written as a number. */
static void add_shown(struct wf_text *out, const char *text)
{
    wf_text_adds(out, "         ");
    while (*text != '\0') {
        int n = wf_utf8_length(text);
        unsigned char c = (unsigned char)text[0];
        bool c1 = n == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0;
        if (c == '\n')
            wf_text_adds(out, "\n         ");
        else if (c == '\t')
            wf_text_adds(out, "    ");
        else if (n == 0 || c < 0x20 || c == 0x7f)
            wf_text_addf(out, "\\x%02x", c);
        else if (c1)
            wf_text_addf(out, "\\u00%02x", (unsigned char)text[1]);
        else
            wf_text_add(out, text, (size_t)n);
        text += n == 0 ? 1 : n;
    }
}

static void warn(struct wf_train_sampler *p, struct wf_train_show *show, const char *why)
{
    if (!p->warned)
        wf_train_show_warning(show, "no sample: %s; the run goes on", why);
    p->warned = true;
}

static void tell(struct wf_train_sampler *p, struct wf_train_show *show,
                 const struct wf_rundir *dir, uint64_t step, const struct wf_sample_result *r)
{
    struct wf_text text = {0}, shown = {0};
    struct weft_error err = {0};
    make_text(p, r, &text);
    add_shown(&shown, text.at == NULL ? "" : text.at);
    if (text.at == NULL || text.failed || shown.failed)
        warn(p, show, "no memory for a text");
    else
        wf_train_show_line(show, "sample %llu/%llu\n%s", (unsigned long long)step,
                           (unsigned long long)show->settings->train.steps, shown.at);
    if (text.at != NULL && !text.failed && dir->samples != NULL &&
        wf_rundir_append_sample(dir, step, text.at, &err) != WEFT_OK)
        warn(p, show, err.msg);
    wf_text_release(&text);
    wf_text_release(&shown);
}

enum weft_status wf_train_sampler_run(struct wf_train_sampler *p, struct wf_trainer *trainer,
                                      struct wf_train_show *show, const struct wf_rundir *dir,
                                      uint64_t step, struct weft_error *err)
{
    struct wf_sample_result r = {.tokens = p->tokens};
    WEFT_TRY(wf_trainer_sample(trainer, &p->spec, &r, err));
    if (wf_trainer_info(trainer).rank != 0)
        return WEFT_OK;
    if (r.failure.status != WEFT_OK)
        warn(p, show, r.failure.msg);
    else
        tell(p, show, dir, step, &r);
    return WEFT_OK;
}
