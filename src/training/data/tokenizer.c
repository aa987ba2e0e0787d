/* Stores the vocabulary, the merges and the special tokens of a tokenizer, and answers queries
 * about them.  Other files load and save tokenizers and encode text. */
#include "training/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "base/size.h"
#include "training/data/bpe.h"

/* -- lists of tokens ----------------------------------------------------------------------- */

enum weft_status wf_tokens_reserve(struct weft_tokens *t, size_t n, struct weft_error *err)
{
    size_t need, bytes;
    if (t->at != NULL && n <= t->cap - t->len)
        return WEFT_OK;
    if (!wf_size_add(t->len, n, &need) || !wf_size_add(need, need / 2 + 64, &need) ||
        !wf_size_mul(need, sizeof *t->at, &bytes))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu more tokens", n);
    int32_t *at = realloc(t->at, bytes);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", need);
    t->at = at;
    t->cap = need;
    return WEFT_OK;
}

void weft_tokens_release(struct weft_tokens *t)
{
    free(t->at);
    *t = (struct weft_tokens){0};
}

/* -- building ------------------------------------------------------------------------------ */

/* Returns the index mask of a hash table for n entries: the smallest power of two that is not
 * less than 2 n, minus one. */
static size_t mask_for(size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    return size - 1;
}

enum weft_status wf_tokenizer_new(uint32_t n_vocab, struct weft_tokenizer **out,
                                  struct weft_error *err)
{
    struct weft_tokenizer *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->n_vocab = n_vocab;
        t->eot = t->unknown = WEFT_NO_TOKEN;
        t->pipe.steps = (struct wf_steps){.at = {{.kind = WF_STEP_PATTERN}}, .n = 1};
        t->tokens = calloc((size_t)n_vocab + 1, sizeof *t->tokens);
        t->id_table_mask = mask_for(n_vocab);
        t->id_table = malloc((t->id_table_mask + 1) * sizeof *t->id_table);
    }
    if (t == NULL || t->tokens == NULL || t->id_table == NULL) {
        weft_tokenizer_free(t);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a vocabulary of %u", n_vocab);
    }
    for (size_t i = 0; i <= t->id_table_mask; i++)
        t->id_table[i] = WEFT_NO_TOKEN;
    *out = t;
    return WEFT_OK;
}

enum weft_status wf_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes,
                                  size_t len, struct weft_error *err)
{
    size_t begin = t->pool.len;
    if (len > UINT32_MAX - begin)
        return WEFT_FAIL(err, WEFT_DATA, "the tokens of the vocabulary are too long");
    wf_text_add(&t->pool, bytes, len);
    if (t->pool.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the tokens of the vocabulary");
    t->tokens[id] = (struct wf_token_span){(uint32_t)begin, (uint32_t)len};
    return WEFT_OK;
}

void wf_tokenizer_insert(struct weft_tokenizer *t, int32_t id)
{
    struct wf_token_span w = t->tokens[id];
    size_t i = wf_hash(0, t->pool.at + w.begin, w.len) & t->id_table_mask;
    while (t->id_table[i] != WEFT_NO_TOKEN)
        i = (i + 1) & t->id_table_mask;
    t->id_table[i] = id;
}

void wf_tokenizer_index_bytes(struct weft_tokenizer *t)
{
    int n = t->pipe.by_chars ? 128 : 256;
    int32_t *ids = t->pipe.by_chars ? t->ascii_ids : t->byte_ids;
    for (int b = 0; b < n; b++) {
        char byte = (char)b;
        ids[b] = wf_tokenizer_lookup(t, &byte, 1);
        t->has_gaps = t->has_gaps || ids[b] == WEFT_NO_TOKEN;
    }
}

void wf_tokenizer_index(struct weft_tokenizer *t)
{
    for (uint32_t id = 0; id < t->n_vocab; id++)
        if (t->tokens[id].len != 0)
            wf_tokenizer_insert(t, (int32_t)id);
    wf_tokenizer_index_bytes(t);
}

int32_t wf_tokenizer_lookup(const struct weft_tokenizer *t, const char *bytes, size_t len)
{
    for (size_t i = wf_hash(0, bytes, len);; i++) {
        int32_t id = t->id_table[i & t->id_table_mask];
        if (id == WEFT_NO_TOKEN)
            return id;
        if (t->tokens[id].len == len &&
            memcmp(t->pool.at + t->tokens[id].begin, bytes, len) == 0)
            return id;
    }
}

enum weft_status wf_tokenizer_reserve_merges(struct weft_tokenizer *t, size_t n,
                                             struct weft_error *err)
{
    if (n > 4 * (size_t)WF_TOKENIZER_MAX_VOCAB)
        return WEFT_FAIL(err, WEFT_DATA, "%zu merges are too many", n);
    t->merges_mask = mask_for(n);
    t->merges = malloc((t->merges_mask + 1) * sizeof *t->merges);
    t->pairs = malloc((n + 1) * sizeof *t->pairs);
    if (t->merges == NULL || t->pairs == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu merges", n);
    for (size_t i = 0; i <= t->merges_mask; i++)
        t->merges[i].key = WF_NO_PAIR;
    return WEFT_OK;
}

bool wf_tokenizer_add_merge(struct weft_tokenizer *t, struct wf_token_pair pair, int32_t result)
{
    struct wf_merge *m = wf_bpe_slot(t, pair);
    if (m->key != WF_NO_PAIR)
        return false;
    *m = (struct wf_merge){wf_bpe_key(pair), t->n_pairs, result};
    t->pairs[t->n_pairs++] = pair;
    return true;
}

enum weft_status wf_tokenizer_add_added(struct weft_tokenizer *t, struct wf_added token,
                                        struct weft_error *err)
{
    struct wf_added *larger = realloc(t->added, (t->n_added + 1) * sizeof *larger);
    if (larger != NULL)
        t->added = larger;
    token.name = strdup(token.name);
    if (larger == NULL || token.name == NULL) {
        free(token.name);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of added tokens");
    }
    t->added[t->n_added++] = token;
    return WEFT_OK;
}

int32_t wf_tokenizer_find_added(const struct weft_tokenizer *t, const char *name)
{
    for (size_t i = 0; i < t->n_added; i++)
        if (strcmp(t->added[i].name, name) == 0)
            return t->added[i].id;
    return WEFT_NO_TOKEN;
}

void wf_tokenizer_guess_eot(struct weft_tokenizer *t)
{
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>",
                                        "<|im_end|>"};
    for (size_t i = 0; i < WEFT_LEN(names) && t->eot == WEFT_NO_TOKEN; i++)
        t->eot = wf_tokenizer_find_added(t, names[i]);
}

enum weft_status wf_tokenizer_set_eot(struct weft_tokenizer *t, const char *name,
                                      struct weft_error *err)
{
    int32_t id = weft_tokenizer_find(t, name);
    if (id == WEFT_NO_TOKEN)
        return WEFT_FAIL(err, WEFT_USAGE, "the tokenizer has no token '%s' to end documents",
                         wf_printable(name).at);
    t->eot = id;
    return WEFT_OK;
}

enum weft_status weft_tokenizer_new_bytes(struct weft_tokenizer **out, struct weft_error *err)
{
    struct weft_tokenizer *t = NULL;
    WEFT_TRY(wf_tokenizer_new(257, &t, err));
    t->is_bytes = true;

    enum weft_status st = WEFT_OK;
    for (int b = 0; b < 256 && st == WEFT_OK; b++) {
        char byte = (char)b;
        st = wf_tokenizer_set(t, b, &byte, 1, err);
    }
    if (st == WEFT_OK)
        st = wf_tokenizer_set(t, 256, "<|endoftext|>", 13, err);
    if (st == WEFT_OK)
        st = wf_tokenizer_add_added(
            t, (struct wf_added){.name = "<|endoftext|>", .id = 256, .special = true}, err);
    if (st == WEFT_OK)
        st = wf_tokenizer_finish(t, err);
    if (st != WEFT_OK) {
        weft_tokenizer_free(t);
        return st;
    }
    wf_tokenizer_guess_eot(t);
    *out = t;
    return WEFT_OK;
}

void weft_tokenizer_free(struct weft_tokenizer *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->n_added; i++)
        free(t->added[i].name);
    free(t->added);
    wf_added_set_release(&t->original);
    wf_added_set_release(&t->normalized);
    wf_steps_release(&t->pipe.steps);
    free(t->tokens);
    wf_text_release(&t->pool);
    free(t->id_table);
    free(t->pairs);
    free(t->merges);
    free(t->joins);
    free(t->source);
    free(t->config);
    free(t);
}

/* -- queries ------------------------------------------------------------------------------- */

const char *weft_tokenizer_kind(const struct weft_tokenizer *t)
{
    return t->is_bytes ? "bytes" : "bpe";
}

uint32_t weft_tokenizer_n_vocab(const struct weft_tokenizer *t)
{
    return t->n_vocab;
}

int32_t weft_tokenizer_eot(const struct weft_tokenizer *t)
{
    return t->eot;
}

int32_t weft_tokenizer_find(const struct weft_tokenizer *t, const char *name)
{
    int32_t id = wf_tokenizer_find_added(t, name);
    return id != WEFT_NO_TOKEN ? id : wf_tokenizer_lookup(t, name, strlen(name));
}

const int32_t *wf_tokenizer_prompt_prefix(const struct weft_tokenizer *t, size_t *n)
{
    *n = t->n_prompt_prefix;
    return t->prompt_prefix;
}

/* -- tokens to text ------------------------------------------------------------------------ */

const char *weft_tokenizer_token(const struct weft_tokenizer *t, int32_t id, size_t *len)
{
    if (id < 0 || (uint32_t)id >= t->n_vocab || t->tokens[id].len == 0)
        return NULL;
    *len = t->tokens[id].len;
    return t->pool.at + t->tokens[id].begin;
}

bool wf_tokenizer_strips_space(const struct weft_tokenizer *t)
{
    return t->pipe.strips_space;
}

size_t wf_utf8_complete(const char *bytes, size_t len)
{
    /* An incomplete character starts in the last three bytes.  Its first byte determines its
     * length. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char)bytes[len - back];
        if ((c & 0xC0) == 0x80)
            continue;
        size_t char_len = c >= 0xF0 && c <= 0xF4   ? 4
                          : c >= 0xE0 && c <= 0xEF ? 3
                          : c >= 0xC2 && c <= 0xDF ? 2
                                                   : 1;
        return char_len > back ? len - back : len;
    }
    return len;
}
