/* Continues a prompt with a model, token by token. */
#ifndef TRAINING_JOBS_GENERATE_H
#define TRAINING_JOBS_GENERATE_H

#include "base/json.h"
#include "compute/model/infer_sample.h"
#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"
#include "training/data/codec.h"

/* Opens the codec of a model: the tokenizer that is stored with its weights, or raw bytes.
 * codec->end is the token that ends a document: that of the model if it defines one, otherwise
 * that of the tokenizer.  The caller releases *codec with wf_codec_release().  Local. */
enum weft_status wf_generate_open_codec(const struct wf_weights *w, struct wf_codec *codec,
                                        struct weft_error *err);

/* Encodes a prompt.  An empty prompt or NULL is encoded as the start of a document.  The caller
 * frees *out.  Returns WEFT_USAGE if the codec has no tokenizer for the text, or no token for
 * the start of a document.  Local. */
enum weft_status wf_generate_encode(const struct wf_codec *codec, const char *text,
                                    int32_t **out, size_t *n, struct weft_error *err);

enum wf_generate_stop {
    WF_GENERATE_STOP_END, /* the document ended */
    WF_GENERATE_STOP_MAX_TOKENS,
    WF_GENERATE_STOP_CONTEXT, /* the model's context is full */
};

/* Returns the name of a reason: "end of document", "max-tokens" or "context". */
const char *wf_generate_stop_name(enum wf_generate_stop stop);

struct wf_generate_options {
    const int32_t *prompt; /* borrowed: (n_prompt), at least one token */
    size_t n_prompt;
    uint32_t max_tokens;
    int64_t end; /* the token that ends a document; negative: there is no such token */
    struct wf_sampling sampling;
    enum wf_dtype type; /* element type of the weights in memory */
    uint32_t threads;   /* number of threads; 0: one per core */
    /* Called with each new token except `end`; NULL: not called.  An error stops the
     * generation. */
    enum weft_status (*on_token)(void *ctx, int32_t token, struct weft_error *err);
    void *ctx;
};

struct wf_generation {
    int32_t *tokens;           /* owned: the prompt and the new tokens, including `end` */
    size_t n_prompt, n_tokens; /* n_tokens: the prompt and the new tokens */
    enum wf_generate_stop stop;
    double prompt_seconds, seconds;
};

/* Generates tokens.  The result depends on the options but not on the number of threads.
 * Returns WEFT_USAGE if the prompt fills the context.  The caller releases *out with
 * wf_generation_release().  Local. */
enum weft_status wf_generate(const struct wf_weights *w, const struct wf_generate_options *o,
                             struct wf_generation *out, struct weft_error *err);
void wf_generation_release(struct wf_generation *g); /* a zeroed struct is allowed */

/* Returns the generated tokens per second.  The first token is not counted, because it results
 * from processing the prompt. */
double wf_generation_rate(const struct wf_generation *g);

/* Writes the prompt, the new tokens, their text if the codec has one, and the speed as a JSON
 * object.  Returns WEFT_NOMEM without writing anything if there is no memory for the text. */
enum weft_status wf_generation_write_json(struct wf_json *j, const struct wf_generation *g,
                                          const struct wf_codec *codec, uint64_t seed,
                                          struct weft_error *err);

#endif
