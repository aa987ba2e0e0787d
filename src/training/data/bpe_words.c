#include "training/data/bpe_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "training/data/text_crew.h"
#include "training/data/token_split.h"

void weft_words_release(struct weft_words *w)
{
    weft_text_release(&w->pool);
    free(w->at);
    free(w->slots);
    *w = (struct weft_words){0};
}

static enum weft_status no_memory(const struct weft_words *w, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for more than %zu different words", w->n);
}

static uint32_t *slot_of(const struct weft_words *w, const char *bytes, size_t len)
{
    for (size_t i = weft_hash(0, bytes, len);; i++) {
        uint32_t *slot = &w->slots[i & w->mask];
        const struct weft_word *word = &w->at[*slot - 1];
        if (*slot == 0 ||
            (word->len == len && memcmp(w->pool.at + word->begin, bytes, len) == 0))
            return slot;
    }
}

static enum weft_status grow(struct weft_words *w, struct weft_error *err)
{
    size_t cap = w->cap == 0 ? 1 << 12 : 2 * w->cap;
    if (cap > UINT32_MAX / 2)
        return no_memory(w, err);
    struct weft_word *at = realloc(w->at, cap * sizeof *at);
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

enum weft_status weft_words_add(struct weft_words *w, const char *bytes, size_t len,
                                uint64_t count, struct weft_error *err)
{
    if (w->n == w->cap)
        WEFT_TRY(grow(w, err));
    uint32_t *slot = slot_of(w, bytes, len);
    if (*slot == 0) {
        size_t begin = w->pool.len;
        weft_text_add(&w->pool, bytes, len);
        if (w->pool.failed)
            return no_memory(w, err);
        w->at[w->n++] = (struct weft_word){begin, (uint32_t)len, 0};
        *slot = (uint32_t)w->n;
    }
    w->at[*slot - 1].count += count;
    return WEFT_OK;
}

/* -- counting by threads -------------------------------------------------------------------- */

struct counting {
    struct weft_words *of; /* owned: one for each worker */
    size_t max_len;
    void (*progress)(void *ctx, uint64_t bytes);
    void *progress_ctx;
};

struct turn {
    struct weft_words *words;
    size_t max_len;
};

static enum weft_status count_text(void *ctx, const char *text, size_t len,
                                   struct weft_error *err)
{
    const struct turn *t = ctx;
    for (size_t at = 0; at < len;) {
        size_t end = weft_split_next(WEFT_SPLIT_GPT2, text, len, at);
        if (end - at <= t->max_len)
            WEFT_TRY(weft_words_add(t->words, text + at, end - at, 1, err));
        at = end;
    }
    return WEFT_OK;
}

static enum weft_status count_block(void *ctx, uint32_t worker, struct weft_text_job *job,
                                    struct weft_error *err)
{
    const struct counting *c = ctx;
    struct turn turn = {&c->of[worker], c->max_len};
    if (job->block.file->json)
        return weft_text_json_lines(&job->block, count_text, &turn, err);
    return count_text(&turn, job->block.text, job->block.len, err);
}

static void pass_on(void *ctx, uint64_t bytes)
{
    const struct counting *c = ctx;
    if (c->progress != NULL)
        c->progress(c->progress_ctx, bytes);
}

static size_t cut(const void *ctx, const char *text, size_t len)
{
    (void)ctx;
    return weft_split_cut(WEFT_SPLIT_GPT2, text, len);
}

static enum weft_status gather(struct weft_words *into, const struct weft_words *from,
                               struct weft_error *err)
{
    for (size_t i = 0; i < from->n; i++)
        WEFT_TRY(weft_words_add(into, from->pool.at + from->at[i].begin, from->at[i].len,
                                from->at[i].count, err));
    return WEFT_OK;
}

enum weft_status weft_words_count(const struct weft_text_list *list, uint32_t n_threads,
                                  size_t max_len, void (*progress)(void *ctx, uint64_t bytes),
                                  void *progress_ctx, struct weft_words *out,
                                  struct weft_error *err)
{
    struct counting c = {calloc(n_threads, sizeof *c.of), max_len, progress, progress_ctx};
    if (c.of == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u threads", n_threads);
    struct weft_text_crew crew = {
        .n_threads = n_threads, .work = count_block, .progress = pass_on, .ctx = &c};
    struct weft_text_reader reader;
    weft_text_reader_init(&reader, list, cut, NULL);
    enum weft_status st = weft_text_crew_run(&crew, &reader, err);
    weft_text_reader_release(&reader);
    for (uint32_t i = 1; i < n_threads; i++) {
        if (st == WEFT_OK)
            st = gather(&c.of[0], &c.of[i], err);
        weft_words_release(&c.of[i]);
    }
    if (st == WEFT_OK)
        *out = c.of[0];
    else
        weft_words_release(&c.of[0]);
    free(c.of);
    return st;
}
