/* The tokenize job: chooses or trains the tokenizer and writes the corpus. */
#include "training/jobs/tokenize.h"

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/input.h"
#include "base/temporary.h"
#include "training/data/bpe_train.h"

struct phase {
    const struct wf_tokenize_options *o;
    enum wf_tokenize_phase phase;
};

static void report_progress(void *ctx, uint64_t bytes)
{
    const struct phase *p = ctx;
    if (p->o->progress != NULL)
        p->o->progress(p->o->ctx, p->phase, bytes);
}

static enum weft_status get_tokenizer(const struct wf_tokenize_options *o,
                                      const struct wf_text_list *list, uint32_t n_threads,
                                      struct weft_tokenizer **out, struct weft_error *err)
{
    struct phase p = {o, WF_TOKENIZE_PHASE_TRAIN};
    if (o->train_bpe > 0)
        return wf_bpe_train(list, o->train_bpe, n_threads, report_progress, &p, out, err);
    struct weft_tokenizer *t = NULL;
    WEFT_TRY(o->tokenizer != NULL ? weft_tokenizer_open(o->tokenizer, &t, err)
                                  : weft_tokenizer_new_bytes(&t, err));
    enum weft_status st =
        o->document_end == NULL ? WEFT_OK : wf_tokenizer_set_eot(t, o->document_end, err);
    if (st == WEFT_OK)
        *out = t;
    else
        weft_tokenizer_free(t);
    return st;
}

static enum weft_status write_corpus(const struct wf_tokenize_options *o,
                                     struct wf_text_list *list, const struct weft_tokenizer *t,
                                     const struct wf_chat *chat, uint32_t n_threads,
                                     struct wf_tokenize_result *out, struct weft_error *err)
{
    struct phase p = {o, WF_TOKENIZE_PHASE_ENCODE};
    struct wf_corpus_options corpus = {
        .tokenizer = t,
        .chat = chat,
        .special = o->special,
        .out = o->out,
        .val = o->val,
        .shard_tokens = o->shard_tokens > 0 ? o->shard_tokens : WF_CORPUS_SHARD_TOKENS,
        .n_threads = n_threads,
        .progress = report_progress,
        .ctx = &p,
    };
    int64_t start = wf_clock_ns();
    WEFT_TRY(wf_corpus_write(list, &corpus, &out->corpus, err));
    out->seconds = (double)(wf_clock_ns() - start) * 1e-9;
    uint64_t tokens = out->corpus.train.tokens + out->corpus.val.tokens;
    out->bytes_per_token = tokens > 0 ? (double)out->corpus.bytes / (double)tokens : 0;
    return WEFT_OK;
}

enum weft_status wf_tokenize(struct wf_text_list *list, const struct wf_tokenize_options *o,
                             struct wf_tokenize_result *out, struct weft_error *err)
{
    struct wf_tokenize_result r = {.vocabulary_only = wf_path_ends_in(o->out, ".json")};
    uint32_t n_threads = o->n_threads > 0 ? o->n_threads : wf_cores_available();
    struct weft_tokenizer *t = NULL;
    struct wf_chat *chat = NULL;
    if (o->train_bpe > 0 && o->tokenizer != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "a tokenizer is either given or trained, not both");
    if (r.vocabulary_only && o->train_bpe == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.160s: a vocabulary is written only if one is trained", o->out);

    if (o->train_bpe > 0 && !r.vocabulary_only && !wf_text_list_rereadable(list))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a pipe can be read only once, but training a tokenizer and encoding "
                         "read the text twice; store the text in a file");

    /* A killed process may have left unfinished shards. */
    wf_temporary_clean(o->out);
    wf_temporary_clean_dir(o->out);

    WEFT_TRY(get_tokenizer(o, list, n_threads, &t, err));
    r.kind = weft_tokenizer_kind(t);
    r.n_vocab = weft_tokenizer_n_vocab(t);
    enum weft_status st = WEFT_OK;
    if (r.vocabulary_only)
        st = wf_tokenizer_save_as(t, o->out, err);
    else
        st = wf_chat_open(o->tokenizer, o->chat_template, &chat, err);
    if (st == WEFT_OK && !r.vocabulary_only)
        st = write_corpus(o, list, t, chat, n_threads, &r, err);
    wf_chat_free(chat);
    weft_tokenizer_free(t);
    if (st == WEFT_OK)
        *out = r;
    return st;
}
