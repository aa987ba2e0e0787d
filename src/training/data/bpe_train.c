/* Learns a vocabulary.  The counts of all pairs are updated incrementally: a merge visits only
 * the words that contain the merged pair.  A heap yields the most frequent pair.  Heap entries
 * may be stale: an entry with an old count is pushed again with the current count. */
#include "training/data/bpe_train.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/data/bpe.h"
#include "training/data/bpe_words.h"

struct pair_count {
    struct wf_token_pair pair;
    uint64_t count;
    /* Owned: words that contain or contained the pair; may have duplicates. */
    uint32_t *words;
    uint32_t n_words, cap;
    bool grown; /* true if the current merge has increased the count */
};

struct heap_entry {
    uint64_t count;
    uint32_t pair; /* index of the pair in `pairs` */
};

/* A word as a sequence of tokens. */
struct sequence {
    size_t begin; /* index of the first token in `symbols` */
    uint32_t len;
    uint64_t count;
};

struct trainer {
    struct weft_tokenizer *t; /* owned until it is returned to the caller */
    struct sequence *words;   /* owned */
    size_t n_words;
    int32_t *symbols;         /* owned */
    struct pair_count *pairs; /* owned */
    size_t n_pairs, pairs_cap;
    /* Owned: hash table of pairs; a slot contains index + 1, or 0 if it is free. */
    uint32_t *slots;
    size_t mask;
    struct heap_entry *heap; /* owned */
    size_t n_heap, heap_cap;
    uint32_t *grown; /* owned: pairs whose count the current merge increased */
    size_t n_grown, grown_cap;
};

static enum weft_status no_memory(struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory to learn a vocabulary");
}

/* Grows the array *at, if necessary, to have space for one more item of `size` bytes.  Returns
 * false if memory runs out. */
static bool reserve_one(void **at, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t new_cap = *cap == 0 ? 1024 : 2 * *cap;
    void *larger = realloc(*at, new_cap * size);
    if (larger == NULL)
        return false;
    *at = larger;
    *cap = new_cap;
    return true;
}

/* -- the heap ------------------------------------------------------------------------------ */

static bool comes_first(const struct trainer *x, struct heap_entry a, struct heap_entry b)
{
    struct wf_token_pair p = x->pairs[a.pair].pair, q = x->pairs[b.pair].pair;
    if (a.count != b.count)
        return a.count > b.count;
    return p.left != q.left ? p.left < q.left : p.right < q.right;
}

static enum weft_status push(struct trainer *x, uint32_t pair, struct weft_error *err)
{
    struct heap_entry e = {x->pairs[pair].count, pair};
    if (!reserve_one((void **)&x->heap, x->n_heap, &x->heap_cap, sizeof *x->heap))
        return no_memory(err);
    size_t i = x->n_heap++;
    for (; i > 0 && comes_first(x, e, x->heap[(i - 1) / 2]); i = (i - 1) / 2)
        x->heap[i] = x->heap[(i - 1) / 2];
    x->heap[i] = e;
    return WEFT_OK;
}

static struct heap_entry pop(struct trainer *x)
{
    struct heap_entry top = x->heap[0], moved = x->heap[--x->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < x->n_heap) {
        if (child + 1 < x->n_heap && comes_first(x, x->heap[child + 1], x->heap[child]))
            child++;
        if (!comes_first(x, x->heap[child], moved))
            break;
        x->heap[i] = x->heap[child];
        i = child;
    }
    x->heap[i] = moved;
    return top;
}

/* -- counts of pairs ----------------------------------------------------------------------- */

static uint32_t *pair_slot(const struct trainer *x, struct wf_token_pair pair)
{
    uint64_t h = wf_bpe_key(pair) * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = (size_t)(h >> 32);; i++) {
        uint32_t *slot = &x->slots[i & x->mask];
        if (*slot == 0 || wf_bpe_key(x->pairs[*slot - 1].pair) == wf_bpe_key(pair))
            return slot;
    }
}

static enum weft_status grow_pairs(struct trainer *x, struct weft_error *err)
{
    if (x->n_pairs >= UINT32_MAX / 4 ||
        !reserve_one((void **)&x->pairs, x->n_pairs, &x->pairs_cap, sizeof *x->pairs))
        return no_memory(err);
    uint32_t *slots = calloc(2 * x->pairs_cap, sizeof *slots);
    if (slots == NULL)
        return no_memory(err);
    free(x->slots);
    x->slots = slots;
    x->mask = 2 * x->pairs_cap - 1;
    for (size_t i = 0; i < x->n_pairs; i++)
        *pair_slot(x, x->pairs[i].pair) = (uint32_t)i + 1;
    return WEFT_OK;
}

static enum weft_status note_word(struct pair_count *p, uint32_t word, struct weft_error *err)
{
    if (p->n_words > 0 && p->words[p->n_words - 1] == word)
        return WEFT_OK;
    if (p->n_words == p->cap) {
        uint32_t cap = p->cap == 0 ? 4 : 2 * p->cap;
        uint32_t *words = cap < p->cap ? NULL : realloc(p->words, cap * sizeof *words);
        if (words == NULL)
            return no_memory(err);
        p->words = words;
        p->cap = cap;
    }
    p->words[p->n_words++] = word;
    return WEFT_OK;
}

/* Counts a new occurrence of a pair in a word. */
static enum weft_status add_pair(struct trainer *x, struct wf_token_pair pair, uint32_t word,
                                 struct weft_error *err)
{
    if (x->n_pairs == x->pairs_cap)
        WEFT_TRY(grow_pairs(x, err));
    uint32_t *slot = pair_slot(x, pair);
    if (*slot == 0) {
        x->pairs[x->n_pairs++] = (struct pair_count){.pair = pair};
        *slot = (uint32_t)x->n_pairs;
    }
    struct pair_count *p = &x->pairs[*slot - 1];
    p->count += x->words[word].count;
    if (!p->grown) {
        if (!reserve_one((void **)&x->grown, x->n_grown, &x->grown_cap, sizeof *x->grown))
            return no_memory(err);
        p->grown = true;
        x->grown[x->n_grown++] = *slot - 1;
    }
    return note_word(p, word, err);
}

/* Pushes a heap entry with the new count for each pair whose count has increased. */
static enum weft_status push_grown(struct trainer *x, struct weft_error *err)
{
    for (size_t i = 0; i < x->n_grown; i++) {
        x->pairs[x->grown[i]].grown = false;
        WEFT_TRY(push(x, x->grown[i], err));
    }
    x->n_grown = 0;
    return WEFT_OK;
}

/* -- merging ------------------------------------------------------------------------------- */

static struct wf_token_pair pair_at(const int32_t *s, uint32_t i)
{
    return (struct wf_token_pair){s[i], s[i + 1]};
}

static bool is_pair(struct wf_token_pair a, struct wf_token_pair b)
{
    return a.left == b.left && a.right == b.right;
}

/* Merges all occurrences of a pair in one word.  Only the counts of neighbouring pairs
 * change. */
static enum weft_status merge_word(struct trainer *x, uint32_t index, struct wf_token_pair pair,
                                   int32_t result, struct weft_error *err)
{
    struct sequence *w = &x->words[index];
    int32_t *s = x->symbols + w->begin;
    bool found = false;
    for (uint32_t i = 0; i + 1 < w->len && !found; i++)
        found = is_pair(pair_at(s, i), pair);
    if (!found)
        return WEFT_OK;
    for (uint32_t i = 0; i + 1 < w->len; i++)
        x->pairs[*pair_slot(x, pair_at(s, i)) - 1].count -= w->count;

    uint32_t n = 0;
    for (uint32_t i = 0; i < w->len; i++) {
        bool match = i + 1 < w->len && is_pair(pair_at(s, i), pair);
        s[n++] = match ? result : s[i];
        i += match;
    }
    w->len = n;

    for (uint32_t i = 0; i + 1 < n; i++) {
        if (s[i] == result || s[i + 1] == result)
            WEFT_TRY(add_pair(x, pair_at(s, i), index, err));
        else
            x->pairs[*pair_slot(x, pair_at(s, i)) - 1].count += w->count;
    }
    return WEFT_OK;
}

static enum weft_status merge_pair(struct trainer *x, uint32_t index, int32_t result,
                                   struct weft_error *err)
{
    struct wf_token_pair pair = x->pairs[index].pair;
    uint32_t *words = x->pairs[index].words, n = x->pairs[index].n_words;
    /* Take the list of words: x->pairs may be reallocated, and after the merge no word
     * contains the pair. */
    x->pairs[index].words = NULL;
    x->pairs[index].n_words = x->pairs[index].cap = 0;
    enum weft_status st = WEFT_OK;
    for (uint32_t i = 0; i < n && st == WEFT_OK; i++)
        st = merge_word(x, words[i], pair, result, err);
    free(words);
    return st == WEFT_OK ? push_grown(x, err) : st;
}

/* Returns the token of a merged pair.  The token may already exist, because another pair may
 * have the same bytes. */
static enum weft_status make_token(struct trainer *x, struct wf_token_pair pair, int32_t *next,
                                   int32_t *out, struct weft_error *err)
{
    struct weft_tokenizer *t = x->t;
    struct wf_token_span a = t->tokens[pair.left], b = t->tokens[pair.right];
    char bytes[WF_BPE_MAX_WORD];
    memcpy(bytes, t->pool.at + a.begin, a.len);
    memcpy(bytes + a.len, t->pool.at + b.begin, b.len);
    *out = wf_tokenizer_lookup(t, bytes, a.len + b.len);
    if (*out != WEFT_NO_TOKEN)
        return WEFT_OK;
    *out = (*next)++;
    WEFT_TRY(wf_tokenizer_set(t, *out, bytes, a.len + b.len, err));
    wf_tokenizer_insert(t, *out);
    return WEFT_OK;
}

static enum weft_status learn(struct trainer *x, struct weft_error *err)
{
    int32_t next = 256, end = (int32_t)x->t->n_vocab - 1;
    uint32_t max_merges = 2 * x->t->n_vocab;
    WEFT_TRY(wf_tokenizer_reserve_merges(x->t, max_merges, err));
    while (next < end && x->t->n_pairs < max_merges && x->n_heap > 0) {
        struct heap_entry e = pop(x);
        const struct pair_count *p = &x->pairs[e.pair];
        if (p->count < 2)
            continue;
        if (p->count != e.count) {
            WEFT_TRY(push(x, e.pair, err));
            continue;
        }
        int32_t result;
        WEFT_TRY(make_token(x, p->pair, &next, &result, err));
        wf_tokenizer_add_merge(x->t, p->pair, result);
        WEFT_TRY(merge_pair(x, e.pair, result, err));
    }

    WEFT_TRY(wf_tokenizer_set(x->t, next, "<|endoftext|>", 13, err));
    WEFT_TRY(wf_tokenizer_add_added(
        x->t, (struct wf_added){.name = "<|endoftext|>", .id = next, .special = true}, err));
    wf_tokenizer_guess_eot(x->t);
    x->t->n_vocab = (uint32_t)next + 1;
    return wf_tokenizer_finish(x->t, err);
}

/* -- setup --------------------------------------------------------------------------------- */

/* Assigns ids 0 .. 255 to the bytes in the order of their characters, as in GPT-2. */
static enum weft_status start_vocab(struct trainer *x, uint32_t n_vocab, struct weft_error *err)
{
    int16_t byte_of[WF_BYTE_CHARS];
    int32_t id = 0;
    wf_char_to_byte(byte_of);
    WEFT_TRY(wf_tokenizer_new(n_vocab, &x->t, err));
    for (size_t c = 0; c < WF_BYTE_CHARS; c++) {
        char byte = (char)byte_of[c];
        if (byte_of[c] >= 0)
            WEFT_TRY(wf_tokenizer_set(x->t, id++, &byte, 1, err));
    }
    wf_tokenizer_index(x->t);
    return WEFT_OK;
}

static enum weft_status load_words(struct trainer *x, const struct wf_words *words,
                                   struct weft_error *err)
{
    x->words = malloc((words->n + 1) * sizeof *x->words);
    x->symbols = malloc((words->pool.len + 1) * sizeof *x->symbols);
    if (x->words == NULL || x->symbols == NULL)
        return no_memory(err);
    for (size_t i = 0; i < words->n; i++) {
        const struct wf_word *w = &words->at[i];
        x->words[i] = (struct sequence){w->begin, w->len, w->count};
        for (size_t k = w->begin; k < w->begin + w->len; k++)
            x->symbols[k] = x->t->byte_ids[(unsigned char)words->pool.at[k]];
    }

    x->n_words = words->n;
    for (size_t i = 0; i < x->n_words; i++)
        for (uint32_t k = 0; k + 1 < x->words[i].len; k++)
            WEFT_TRY(add_pair(x, pair_at(x->symbols + x->words[i].begin, k), (uint32_t)i, err));
    return push_grown(x, err);
}

static void release(struct trainer *x)
{
    for (size_t i = 0; i < x->n_pairs; i++)
        free(x->pairs[i].words);
    free(x->pairs);
    free(x->words);
    free(x->symbols);
    free(x->slots);
    free(x->heap);
    free(x->grown);
    weft_tokenizer_free(x->t);
}

enum weft_status wf_bpe_train(const struct wf_text_list *list, uint32_t n_vocab,
                              uint32_t n_threads, void (*progress)(void *ctx, uint64_t bytes),
                              void *ctx, struct weft_tokenizer **out, struct weft_error *err)
{
    struct trainer x = {0};
    struct wf_words words = {0};
    if (n_vocab < WF_BPE_MIN_VOCAB || n_vocab > WF_TOKENIZER_MAX_VOCAB)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a vocabulary of %u tokens is out of range (expected %d to %d)",
                         n_vocab, WF_BPE_MIN_VOCAB, WF_TOKENIZER_MAX_VOCAB);
    WEFT_TRY(wf_words_count(list, n_threads, WF_BPE_MAX_WORD, progress, ctx, &words, err));

    enum weft_status st = start_vocab(&x, n_vocab, err);
    if (st == WEFT_OK)
        st = load_words(&x, &words, err);
    wf_words_release(&words);
    if (st == WEFT_OK)
        st = learn(&x, err);
    if (st == WEFT_OK) {
        *out = x.t;
        x.t = NULL;
    }
    release(&x);
    return st;
}
