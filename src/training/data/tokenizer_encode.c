/* Encodes text.  Most words of a text repeat, so the tokens of words are cached in a table of
 * fixed size.  Each slot of the table has the size of one cache line. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/data/bpe.h"

enum {
    SLOTS = 1 << 15,
    WORD = 32,  /* maximum bytes of a cached word */
    TOKENS = 6, /* maximum number of tokens of a cached word */
    COUNT_SHIFT = 24,
};

_Static_assert(WF_TOKENIZER_MAX_VOCAB <= 1 << COUNT_SHIFT,
               "a token and a count fit into 32 bits");

/* The bytes of a word and its length. */
struct word_key {
    uint64_t part[5];
};

struct word_slot {
    struct word_key key; /* all zeros: the slot is free (no word is empty) */
    /* The upper bits of tokens[0], from COUNT_SHIFT on, are the number of tokens. */
    uint32_t tokens[TOKENS];
};

_Static_assert(sizeof(struct word_slot) == 64, "a slot is a cache line");

struct wf_encoder {
    const struct weft_tokenizer *tokenizer; /* borrowed */
    void *memory;                           /* owned: the memory of `slots` */
    struct word_slot
        *slots; /* SLOTS slots from the first cache line of `memory` on; NULL: words
                              * are not cached */
    struct wf_bpe_scratch scratch;
};

static uint64_t load(const char *at, size_t n)
{
    uint32_t four;
    uint64_t eight;
    if (n == 4) {
        memcpy(&four, at, 4);
        return four;
    }
    memcpy(&eight, at, 8);
    return eight;
}

/* Returns the key of a word.  Copies blocks of fixed size from the start and the end of the
 * word; the blocks may overlap.  This is much faster than a copy of variable length.  The key
 * also contains the length, so different words have different keys. */
static struct word_key key_of(const char *word, size_t len)
{
    struct word_key key = {{0, 0, 0, 0, len}};
    if (len > 16) {
        key.part[2] = load(word + 8, 8);
        key.part[3] = load(word + len - 16, 8);
    }
    if (len >= 8) {
        key.part[0] = load(word, 8);
        key.part[1] = load(word + len - 8, 8);
    } else if (len >= 4) {
        key.part[0] = load(word, 4) << 32 | load(word + len - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            key.part[0] = key.part[0] << 8 | (unsigned char)word[i];
    }
    return key;
}

static size_t slot_of(struct word_key key)
{
    const uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b = UINT64_C(0xD6E8FEB86659FD93);
    uint64_t h = (key.part[0] + key.part[4]) * a;
    h = (h ^ h >> 32 ^ key.part[1]) * b;
    if (key.part[4] > 16) {
        h = (h ^ h >> 32 ^ key.part[2]) * a;
        h = (h ^ h >> 32 ^ key.part[3]) * b;
    }
    return (size_t)(h >> 40) % SLOTS;
}

static bool same_key(struct word_key a, struct word_key b)
{
    return ((a.part[0] ^ b.part[0]) | (a.part[1] ^ b.part[1]) | (a.part[2] ^ b.part[2]) |
            (a.part[3] ^ b.part[3]) | (a.part[4] ^ b.part[4])) == 0;
}

static void cache_word(struct word_slot *slot, struct word_key key, const int32_t *tokens,
                       size_t n)
{
    slot->key = key;
    for (size_t i = 0; i < n; i++)
        slot->tokens[i] = (uint32_t)tokens[i];
    slot->tokens[0] |= (uint32_t)n << COUNT_SHIFT;
}

static enum weft_status encode_word(struct wf_encoder *e, const char *word, size_t len,
                                    struct weft_tokens *out, struct weft_error *err)
{
    if (len > WORD || e->slots == NULL)
        return wf_bpe_encode(e->tokenizer, &e->scratch, word, len, out, err);

    struct word_key key = key_of(word, len);
    struct word_slot *slot = &e->slots[slot_of(key)];
    if (!same_key(slot->key, key)) {
        size_t before = out->len;
        WEFT_TRY(wf_bpe_encode(e->tokenizer, &e->scratch, word, len, out, err));
        size_t n = out->len - before;
        if (n <= TOKENS)
            cache_word(slot, key, out->at + before, n);
        return WEFT_OK;
    }

    WEFT_TRY(wf_tokens_reserve(out, TOKENS, err));
    int32_t *to = out->at + out->len;
    memcpy(to, slot->tokens, sizeof slot->tokens);
    to[0] &= (1 << COUNT_SHIFT) - 1;
    out->len += slot->tokens[0] >> COUNT_SHIFT;
    return WEFT_OK;
}

static enum weft_status encode_bytes(const char *text, size_t len, struct weft_tokens *out,
                                     struct weft_error *err)
{
    WEFT_TRY(wf_tokens_reserve(out, len, err));
    int32_t *to = out->at + out->len;
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)text[i];
    out->len += len;
    return WEFT_OK;
}

enum weft_status wf_encoder_encode(struct wf_encoder *e, const char *text, size_t len,
                                   struct weft_tokens *out, struct weft_error *err)
{
    const struct weft_tokenizer *t = e->tokenizer;
    if (t->is_bytes)
        return encode_bytes(text, len, out, err);
    for (size_t at = 0; at < len;) {
        size_t end = wf_split_piece_end(t->split, text, len, at);
        WEFT_TRY(encode_word(e, text + at, end - at, out, err));
        at = end;
    }
    return WEFT_OK;
}

enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t, const char *text,
                                       size_t len, struct weft_tokens *out,
                                       struct weft_error *err)
{
    struct wf_encoder e = {.tokenizer = t};
    enum weft_status st = wf_encoder_encode(&e, text, len, out, err);
    wf_bpe_scratch_release(&e.scratch);
    return st;
}

enum weft_status wf_encoder_new(const struct weft_tokenizer *t, struct wf_encoder **out,
                                struct weft_error *err)
{
    /* calloc() gets so many bytes as zero pages from the system: an encoder of a short text
     * uses only the pages of its words.  aligned_alloc() and memset() would use all of them. */
    const size_t line = sizeof(struct word_slot);
    struct wf_encoder *e = calloc(1, sizeof *e);
    if (e != NULL) {
        e->tokenizer = t;
        e->memory = calloc(SLOTS + 1, line);
    }
    if (e == NULL || e->memory == NULL) {
        wf_encoder_free(e);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the table of words");
    }
    e->slots =
        (struct word_slot *)((char *)e->memory + (line - (uintptr_t)e->memory % line) % line);
    *out = e;
    return WEFT_OK;
}

void wf_encoder_free(struct wf_encoder *e)
{
    if (e == NULL)
        return;
    wf_bpe_scratch_release(&e->scratch);
    free(e->memory);
    free(e);
}
