/* Implements weft/generate.h with training/jobs. */
#include "weft/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "training/jobs/generate.h"
#include "training/jobs/generate_config.h"
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
    struct wf_text text;
    bool stopped; /* the callback stopped the generation */
};

static enum weft_status add_text(void *ctx, const char *bytes, size_t len,
                                 struct weft_error *err)
{
    struct sink *s = ctx;
    wf_text_add(&s->text, bytes, len);
    if (s->options->on_token != NULL && !s->options->on_token(bytes, len, s->options->user)) {
        s->stopped = true;
        return WEFT_FAIL(err, WEFT_USAGE, "stopped by the caller");
    }
    return WEFT_OK;
}

static enum weft_status generate(const struct wf_weights *w, const struct wf_codec *codec,
                                 const struct wf_generate_config *config, struct sink *sink,
                                 struct weft_error *err)
{
    const struct weft_generate_options *o = sink->options;
    int32_t *prompt = NULL;
    size_t n_prompt = 0;
    WEFT_TRY(wf_generate_encode(codec, o->prompt, o->prompt == NULL ? 0 : strlen(o->prompt),
                                true, config->start, &prompt, &n_prompt, err));

    struct wf_generate_options how = {
        .prompt = prompt,
        .n_prompt = n_prompt,
        .max_tokens = o->max_tokens,
        .ends = config->ends,
        .n_ends = config->n_ends,
        .sampling = {o->temperature, o->top_k, o->top_p, o->seed, 0, 0},
        .n_logprobs = WF_GENERATE_NO_LOGPROBS,
        .type = o->bf16 ? WF_DTYPE_BF16 : WF_DTYPE_F32,
        .threads = o->threads,
        .codec = codec,
        .on_text = add_text,
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
    struct wf_generate_config config = {0};
    struct sink sink = {.options = options};
    WEFT_TRY(wf_load_open(model, &w, err));
    enum weft_status st = wf_generate_open_codec(w, &codec, err);
    if (st == WEFT_OK && codec.bytes == NULL)
        st = WEFT_FAIL(err, WEFT_USAGE,
                       "the model has no tokenizer, so it cannot generate text");
    if (st == WEFT_OK)
        st = wf_generate_config_init(&config, w, &codec, err);
    if (st == WEFT_OK)
        st = generate(w, &codec, &config, &sink, err);
    wf_generate_config_release(&config);
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
