/* Counts how often each word occurs in a text. */
#ifndef TRAINING_DATA_BPE_WORDS_H
#define TRAINING_DATA_BPE_WORDS_H

#include "base/text.h"
#include "training/data/text_source.h"

struct wf_word {
    size_t begin; /* offset of the first byte in the pool */
    uint32_t len;
    uint64_t count;
};

struct wf_words {
    struct wf_text pool;
    struct wf_word *at; /* owned */
    size_t n, cap;
    /* Owned: hash table of words; a slot contains index + 1, or 0 if it is free. */
    uint32_t *slots;
    size_t mask;
};

/* Adds `count` occurrences of a word. */
enum weft_status wf_words_add(struct wf_words *w, const char *bytes, size_t len, uint64_t count,
                              struct weft_error *err);
void wf_words_release(struct wf_words *w);

/* Counts the words in all documents with n_threads threads.  Words of more than max_len bytes
 * are ignored.  The caller releases *out. */
enum weft_status wf_words_count(const struct wf_text_list *list, uint32_t n_threads,
                                size_t max_len, void (*progress)(void *ctx, uint64_t bytes),
                                void *progress_ctx, struct wf_words *out,
                                struct weft_error *err);

#endif
