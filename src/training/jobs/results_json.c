/* Writes the results of jobs as JSON. */
#include "base/error.h"
#include "base/text.h"
#include "training/jobs/evaluate.h"
#include "training/jobs/generate.h"
#include "training/jobs/tokenize.h"

/* -- tokenize ------------------------------------------------------------------------------ */

static void put_split(struct wf_json *j, const char *name, const struct wf_corpus_split *p)
{
    wf_json_begin(j, name, '{');
    wf_json_uint(j, "tokens", p->tokens);
    wf_json_uint(j, "documents", p->documents);
    wf_json_uint(j, "shards", p->shards);
    wf_json_end(j, '}');
}

void wf_tokenize_result_write_json(struct wf_json *j, const struct wf_tokenize_result *r,
                                   const struct wf_tokenize_options *o)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "output", r->vocabulary_only ? "tokenizer" : o->out);
    if (!r->vocabulary_only)
        wf_json_string(j, "tokenizer", r->kind);
    wf_json_uint(j, "vocab", r->n_vocab);
    if (o->train_bpe > 0)
        wf_json_uint(j, "vocab_asked", o->train_bpe);
    if (!r->vocabulary_only) {
        wf_json_uint(j, "text_bytes", r->corpus.bytes);
        wf_json_number(j, "bytes_per_token", r->bytes_per_token);
        wf_json_number(j, "seconds", r->seconds);
        put_split(j, "train", &r->corpus.train);
        put_split(j, "val", &r->corpus.val);
        wf_json_uint(j, "bad_records", r->corpus.bad.n);
        wf_json_uint(j, "binary_files", r->corpus.n_binary);
    }
    wf_json_end(j, '}');
}

/* -- evaluate ------------------------------------------------------------------------------ */

void wf_model_evaluation_write_json(struct wf_json *j, const struct wf_model_evaluation *e,
                                    const char *model, const char *data)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "model", model);
    wf_json_string(j, "data", data);
    wf_json_uint(j, "seq", e->seq);
    wf_json_uint(j, "tokens", e->result.tokens);
    wf_json_number(j, "loss", e->result.loss);
    wf_json_number(j, "perplexity", e->perplexity);
    wf_json_number(j, "bits_per_token", e->bits_per_token);
    wf_json_number(j, "bits_per_byte", e->bits_per_byte);
    wf_json_number(j, "tok_s", e->tok_s);
    wf_json_end(j, '}');
}

/* -- generate ------------------------------------------------------------------------------ */

/* Appends the generated text.  wf_json_string() takes no NUL, so U+FFFD replaces it. */
static void add_text(struct wf_text *text, const struct wf_generation *g)
{
    for (size_t i = 0; i < g->text_len; i++)
        wf_text_add(text, g->text[i] == '\0' ? "\xef\xbf\xbd" : g->text + i,
                    g->text[i] == '\0' ? 3 : 1);
}

static void put_tokens(struct wf_json *j, const char *key, const int32_t *tokens, size_t n)
{
    wf_json_begin(j, key, '[');
    for (size_t i = 0; i < n; i++)
        wf_json_uint(j, NULL, (uint64_t)tokens[i]);
    wf_json_end(j, ']');
}

static void put_logprobs(struct wf_json *j, const struct wf_generation *g)
{
    size_t row = (size_t)g->n_logprobs + 1, n = g->n_tokens - g->n_prompt;
    wf_json_begin(j, "logprobs", '[');
    for (size_t i = 0; i < n; i++)
        wf_json_number(j, NULL, g->logprobs[i * row].logprob);
    wf_json_end(j, ']');
    if (row == 1)
        return;

    wf_json_begin(j, "top_logprobs", '[');
    for (size_t i = 0; i < n; i++) {
        wf_json_begin(j, NULL, '[');
        for (size_t k = 1; k < row; k++) {
            const struct wf_logprob *p = &g->logprobs[i * row + k];
            wf_json_begin(j, NULL, '{');
            wf_json_uint(j, "token", (uint64_t)p->token);
            wf_json_number(j, "logprob", p->logprob);
            wf_json_end(j, '}');
        }
        wf_json_end(j, ']');
    }
    wf_json_end(j, ']');
}

enum weft_status wf_generation_write_json(struct wf_json *j, const struct wf_generation *g,
                                          const struct wf_codec *codec, struct weft_error *err)
{
    struct wf_text text = {0};
    if (codec->bytes != NULL)
        add_text(&text, g);
    if (text.failed) {
        wf_text_release(&text);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a text");
    }

    wf_json_begin(j, NULL, '{');
    put_tokens(j, "prompt", g->tokens, g->n_prompt);
    put_tokens(j, "tokens", g->tokens + g->n_prompt, g->n_tokens - g->n_prompt);
    if (codec->bytes != NULL)
        wf_json_string(j, "text", text.at != NULL ? text.at : "");
    if (g->logprobs != NULL)
        put_logprobs(j, g);
    wf_json_string(j, "stopped", wf_generate_stop_name(g->stop));
    wf_json_uint(j, "seed", g->seed);
    wf_json_number(j, "prompt_ms", g->prompt_seconds * 1e3);
    wf_json_number(j, "tok_s", wf_generation_rate(g));
    wf_json_end(j, '}');
    wf_text_release(&text);
    return WEFT_OK;
}
