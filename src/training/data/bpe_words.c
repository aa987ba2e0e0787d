/* Counts words in a hash table.  Each thread counts the words of its segments in a table of its
 * own, and the tables are added at the end. */
#include "training/data/bpe_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "training/data/text_workers.h"
#include "training/data/tokenizer_split.h"

void wf_words_release(struct wf_words *w)
{
    wf_text_release(&w->pool);
    free(w->at);
    free(w->slots);
    *w = (struct wf_words){0};
}

static enum weft_status no_memory(const struct wf_words *w, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for more than %zu different words", w->n);
}

static uint32_t *slot_of(const struct wf_words *w, const char *bytes, size_t len)
{
    for (size_t i = wf_hash(0, bytes, len);; i++) {
        uint32_t *slot = &w->slots[i & w->mask];
        const struct wf_word *word = &w->at[*slot - 1];
        if (*slot == 0 ||
            (word->len == len && memcmp(w->pool.at + word->begin, bytes, len) == 0))
            return slot;
    }
}

static enum weft_status grow(struct wf_words *w, struct weft_error *err)
{
    size_t cap = w->cap == 0 ? 1 << 12 : 2 * w->cap;
    if (cap > UINT32_MAX / 2)
        return no_memory(w, err);
    struct wf_word *at = realloc(w->at, cap * sizeof *at);
    if (at == NULL)
        return no_memory(w, err);
    w->at = at;
    uint32_t *slots = calloc(2 * cap, sizeof *slots);
    if (slots == NULL)
        return no_memory(w, err);
    free(w->slots);
    w->slots = slots;
    w->cap = cap;
    w->mask = 2 * cap - 1;
    for (size_t i = 0; i < w->n; i++)
        *slot_of(w, w->pool.at + at[i].begin, at[i].len) = (uint32_t)i + 1;
    return WEFT_OK;
}

enum weft_status wf_words_add(struct wf_words *w, const char *bytes, size_t len, uint64_t count,
                              struct weft_error *err)
{
    if (w->n == w->cap)
        WEFT_TRY(grow(w, err));
    uint32_t *slot = slot_of(w, bytes, len);
    if (*slot == 0) {
        size_t begin = w->pool.len;
        wf_text_add(&w->pool, bytes, len);
        if (w->pool.failed)
            return no_memory(w, err);
        w->at[w->n++] = (struct wf_word){begin, (uint32_t)len, 0};
        *slot = (uint32_t)w->n;
    }
    w->at[*slot - 1].count += count;
    return WEFT_OK;
}

/* -- counting with threads ----------------------------------------------------------------- */

struct counting {
    const struct wf_text_options *options; /* borrowed: of the list */
    struct wf_words *words;                /* owned: one word list per worker */
    size_t max_len;
    void (*progress)(void *ctx, uint64_t bytes);
    void *progress_ctx;
};

struct count_ctx {
    struct wf_words *words;
    size_t max_len;
};

static enum weft_status count_text(void *ctx, const char *text, size_t len,
                                   struct weft_error *err)
{
    const struct count_ctx *t = ctx;
    for (size_t at = 0; at < len;) {
        size_t end = wf_split_piece_end(WF_SPLIT_GPT2, text, len, at);
        if (end - at <= t->max_len)
            WEFT_TRY(wf_words_add(t->words, text + at, end - at, 1, err));
        at = end;
    }
    return WEFT_OK;
}

static enum weft_status count_span(void *ctx, struct wf_text_span text, struct weft_error *err)
{
    return count_text(ctx, text.at, text.len, err);
}

static enum weft_status count_document(void *ctx, const struct wf_document *document,
                                       struct weft_error *err)
{
    return wf_document_visit(document, count_span, ctx, err);
}

static enum weft_status count_segment(void *ctx, uint32_t worker, struct wf_text_job *job,
                                      struct weft_error *err)
{
    const struct counting *c = ctx;
    struct count_ctx count_ctx = {&c->words[worker], c->max_len};
    if (job->segment.kind != WF_TEXT_PLAIN)
        return wf_text_parse_records(&job->segment, c->options, count_document, &count_ctx,
                                     &job->bad, err);
    return count_text(&count_ctx, job->segment.text, job->segment.len, err);
}

static void report_progress(void *ctx, uint64_t bytes)
{
    const struct counting *c = ctx;
    if (c->progress != NULL)
        c->progress(c->progress_ctx, bytes);
}

static size_t cut(const void *ctx, const char *text, size_t len)
{
    (void)ctx;
    return wf_split_boundary(WF_SPLIT_GPT2, text, len);
}

static enum weft_status add_words(struct wf_words *into, const struct wf_words *from,
                                  struct weft_error *err)
{
    for (size_t i = 0; i < from->n; i++)
        WEFT_TRY(wf_words_add(into, from->pool.at + from->at[i].begin, from->at[i].len,
                              from->at[i].count, err));
    return WEFT_OK;
}

enum weft_status wf_words_count(const struct wf_text_list *list, uint32_t n_threads,
                                size_t max_len, void (*progress)(void *ctx, uint64_t bytes),
                                void *progress_ctx, struct wf_words *out,
                                struct weft_error *err)
{
    struct counting c = {&list->options, calloc(n_threads, sizeof *c.words), max_len, progress,
                         progress_ctx};
    if (c.words == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u threads", n_threads);
    struct wf_text_workers workers = {
        .n_threads = n_threads, .work = count_segment, .progress = report_progress, .ctx = &c};

    struct wf_text_reader reader;
    wf_text_reader_init(&reader, list, cut, NULL);
    enum weft_status st = wf_text_workers_run(&workers, &reader, err);
    wf_text_reader_release(&reader);

    for (uint32_t i = 1; i < n_threads; i++) {
        if (st == WEFT_OK)
            st = add_words(&c.words[0], &c.words[i], err);
        wf_words_release(&c.words[i]);
    }
    if (st == WEFT_OK)
        *out = c.words[0];
    else
        wf_words_release(&c.words[0]);
    free(c.words);
    return st;
}
