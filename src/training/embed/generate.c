/* Implements weft/generate.h with training/jobs. */
#include "weft/generate.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "training/jobs/generate.h"
#include "training/trainer/load.h"

struct weft_generate_options weft_generate_defaults(void)
{
    struct wf_sampling how = wf_sampling_defaults();
    return (struct weft_generate_options){.max_tokens = 100,
                                          .temperature = how.temperature,
                                          .top_k = how.top_k,
                                          .top_p = how.top_p,
                                          .seed = how.seed};
}

struct sink {
    const struct weft_generate_options *options;
    const struct wf_codec *codec;
    struct wf_text text;
    bool stopped; /* the callback stopped the generation */
};

static enum weft_status add_token(void *ctx, int32_t token, struct weft_error *err)
{
    struct sink *s = ctx;
    size_t len = 0;
    const char *bytes = wf_codec_text(s->codec, token, &len);
    wf_text_add(&s->text, bytes, len);
    if (s->options->on_token != NULL && !s->options->on_token(bytes, len, s->options->user)) {
        s->stopped = true;
        return WEFT_FAIL(err, WEFT_USAGE, "stopped by the caller");
    }
    return WEFT_OK;
}

static enum weft_status generate(const struct wf_weights *w, struct wf_codec *codec,
                                 struct sink *sink, struct weft_error *err)
{
    const struct weft_generate_options *o = sink->options;
    int32_t *prompt = NULL;
    size_t n_prompt = 0;
    if (codec->bytes == NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the model has no tokenizer, so it cannot generate text");
    WEFT_TRY(wf_generate_encode(codec, o->prompt, &prompt, &n_prompt, err));

    struct wf_generate_options how = {
        .prompt = prompt,
        .n_prompt = n_prompt,
        .max_tokens = o->max_tokens,
        .end = codec->end,
        .sampling = {o->temperature, o->top_k, o->top_p, o->seed},
        .type = o->bf16 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .threads = o->threads,
        .on_token = add_token,
        .ctx = sink,
    };
    struct wf_generation g = {0};
    enum weft_status st = wf_sampling_check(&how.sampling, err);
    if (st == WEFT_OK)
        st = wf_generate(w, &how, &g, err);
    wf_generation_release(&g);
    free(prompt);
    return sink->stopped ? WEFT_OK : st;
}

enum weft_status weft_generate(const char *model, const struct weft_generate_options *options,
                               char **out, size_t *len, struct weft_error *err)
{
    struct wf_weights *w = NULL;
    struct wf_codec codec = {0};
    struct sink sink = {.options = options, .codec = &codec};
    WEFT_TRY(wf_load_open(model, &w, err));
    enum weft_status st = wf_generate_open_codec(w, &codec, err);
    if (st == WEFT_OK)
        st = generate(w, &codec, &sink, err);
    wf_codec_release(&codec);
    wf_weights_free(w);

    wf_text_add(&sink.text, "", 0); /* terminates the text with NUL, even an empty text */
    if (st == WEFT_OK && (sink.text.failed || sink.text.at == NULL))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the generated text");
    if (st != WEFT_OK) {
        wf_text_release(&sink.text);
        return st;
    }
    *out = sink.text.at;
    if (len != NULL)
        *len = sink.text.len;
    return WEFT_OK;
}
