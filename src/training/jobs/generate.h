/* Continues a prompt with a model, token by token. */
#ifndef TRAINING_JOBS_GENERATE_H
#define TRAINING_JOBS_GENERATE_H

#include <stdbool.h>

#include "base/json.h"
#include "compute/model/infer_sample.h"
#include "compute/tensor/tensor.h"
#include "training/ckpt/weights.h"
#include "training/data/codec.h"

/* Opens the codec of a model: the tokenizer that is stored with its weights, or raw bytes.  The
 * caller releases *codec with wf_codec_release().  Local. */
enum weft_status wf_generate_open_codec(const struct wf_weights *w, struct wf_codec *codec,
                                        struct weft_error *err);

/* Encodes a prompt of `len` bytes.  An empty prompt is encoded as the token `start`, which
 * starts a document.  `special`: names of special tokens in the text become these tokens, and
 * the tokens that the tokenizer puts before a text are put before it, unless it starts with
 * them.  The caller frees *out.  Returns WEFT_USAGE if the codec has no tokenizer for the text,
 * or `start` is negative.  Local. */
enum weft_status wf_generate_encode(const struct wf_codec *codec, const char *text, size_t len,
                                    bool special, int64_t start, int32_t **out, size_t *n,
                                    struct weft_error *err);

enum wf_generate_stop {
    WF_GENERATE_STOP_END, /* the document ended */
    WF_GENERATE_STOP_MAX_TOKENS,
    WF_GENERATE_STOP_CONTEXT, /* the model's context is full */
    WF_GENERATE_STOP_TEXT,    /* a stop string was generated */
};

/* Returns the name of a reason: "end of document", "max-tokens", "context" or "stop string". */
const char *wf_generate_stop_name(enum wf_generate_stop stop);

enum { WF_GENERATE_NO_LOGPROBS = -1, WF_GENERATE_MAX_LOGPROBS = 1000 };

struct wf_generate_options {
    const int32_t *prompt; /* borrowed: (n_prompt), at least one token */
    size_t n_prompt;
    uint32_t max_tokens;
    const int32_t *ends; /* borrowed: (n_ends), the tokens that end a document */
    size_t n_ends;
    /* Borrowed: the text ends before the first of these strings, which are not empty. */
    const char *const *stops;
    size_t n_stops;
    struct wf_sampling sampling;
    /* Number of most likely tokens to record at each position, with the log-probabilities of
     * the model before any sampling step; WF_GENERATE_NO_LOGPROBS: record nothing. */
    int n_logprobs;
    enum wf_dtype type; /* element type of the weights in memory */
    uint32_t threads;   /* number of threads; 0: one per core */
    const struct wf_codec
        *codec; /* borrowed; without a tokenizer, the text has token numbers */
    /* Called with new text; NULL: not called.  An error stops the generation. */
    enum weft_status (*on_text)(void *ctx, const char *bytes, size_t len,
                                struct weft_error *err);
    void *ctx;
};

struct wf_logprob {
    int32_t token;
    double logprob;
};

struct wf_generation {
    int32_t *tokens;           /* owned: the prompt and the new tokens, including the end */
    size_t n_prompt, n_tokens; /* n_tokens: the prompt and the new tokens */
    char *text;                /* owned: the new text, without the end or the stop string */
    size_t text_len;
    /* Owned: for each new token, the token itself and the n_logprobs most likely ones. */
    struct wf_logprob *logprobs;
    int n_logprobs; /* WF_GENERATE_NO_LOGPROBS: `logprobs` is NULL */
    uint64_t seed;
    enum wf_generate_stop stop;
    double prompt_seconds, seconds;
};

/* A model in memory that has read a prompt. */
struct wf_generator;

/* Loads the model and reads the prompt.  `o` is borrowed.  Returns WEFT_USAGE if the prompt
 * fills the context.  The caller frees *out with wf_generator_free().  Local. */
enum weft_status wf_generator_new(const struct wf_weights *w,
                                  const struct wf_generate_options *o,
                                  struct wf_generator **out, struct weft_error *err);
void wf_generator_free(struct wf_generator *g); /* NULL is allowed */

/* Generates sample number `sample` with the seed sampling.seed + sample.  The result depends on
 * the options but not on the number of threads or on other samples.  The caller releases *out
 * with wf_generation_release().  Local. */
enum weft_status wf_generator_run(struct wf_generator *g, uint32_t sample,
                                  struct wf_generation *out, struct weft_error *err);
void wf_generation_release(struct wf_generation *g); /* a zeroed struct is allowed */

/* Generates one sample.  Local. */
enum weft_status wf_generate(const struct wf_weights *w, const struct wf_generate_options *o,
                             struct wf_generation *out, struct weft_error *err);

/* Returns the generated tokens per second.  The first token is not counted, because it results
 * from processing the prompt. */
double wf_generation_rate(const struct wf_generation *g);

/* Writes the prompt, the new tokens, their text if the codec has one, log-probabilities if
 * they were recorded, and the speed as a JSON object.  Returns WEFT_NOMEM without writing
 * anything if there is no memory for the text. */
enum weft_status wf_generation_write_json(struct wf_json *j, const struct wf_generation *g,
                                          const struct wf_codec *codec, struct weft_error *err);

#endif
