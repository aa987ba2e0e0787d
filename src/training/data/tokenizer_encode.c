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
    struct word_slot *slots; /* from the first cache line of `memory` on; NULL: no cache */
    struct wf_bpe_scratch scratch;
    struct wf_text normal, shifted; /* buffers: normalized text, text after a blank */
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
static inline __attribute__((always_inline)) struct word_key key_of(const char *word,
                                                                    size_t len)
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

/* Appends the tokens of a word.  Inlined, because a text has a word every few bytes. */
static inline __attribute__((always_inline)) enum weft_status
encode_word(struct wf_encoder *e, const char *word, size_t len, struct weft_tokens *out,
            struct weft_error *err)
{
    if (len > WORD || e->slots == NULL)
        return wf_bpe_encode(e->tokenizer, &e->scratch, word, len, out, err);

    struct word_key key = key_of(word, len);
    struct word_slot *slot = &e->slots[slot_of(key)];
    if (!same_key(slot->key, key)) {
        size_t before = out->len;
        WEFT_TRY(wf_bpe_encode(e->tokenizer, &e->scratch, word, len, out, err));
        size_t n = out->len - before;
        if (n > 0 && n <= TOKENS)
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

/* Encodes a piece that starts from characters, word by word where no merge joins words. */
static enum weft_status encode_chars(struct wf_encoder *e, const char *piece, size_t len,
                                     struct weft_tokens *out, struct weft_error *err)
{
    const struct weft_tokenizer *t = e->tokenizer;
    size_t begin = 0;
    for (size_t i = 1; i < len && t->joins != NULL; i++) {
        unsigned char before = (unsigned char)piece[i - 1], after = (unsigned char)piece[i];
        if ((after & 0xC0) == 0x80 || !wf_tokenizer_separates(t, before, after))
            continue;
        WEFT_TRY(encode_word(e, piece + begin, i - begin, out, err));
        begin = i;
    }
    return encode_word(e, piece + begin, len - begin, out, err);
}

/* Splits a text by one known pattern and encodes its pieces. */
static enum weft_status encode_by_pattern(struct wf_encoder *e, enum wf_split pattern,
                                          const char *text, size_t len, struct weft_tokens *out,
                                          struct weft_error *err)
{
    for (size_t at = 0, end; at < len; at = end) {
        end = wf_split_piece_end(pattern, text, len, at);
        WEFT_TRY(encode_word(e, text + at, end - at, out, err));
    }
    return WEFT_OK;
}

/* Splits a text and encodes its pieces. */
static enum weft_status encode_pieces(struct wf_encoder *e, const char *text, size_t len,
                                      struct weft_tokens *out, struct weft_error *err)
{
    const struct weft_tokenizer *t = e->tokenizer;
    const struct wf_steps *steps = &t->pipe.steps;
    struct wf_pieces_cursor cursor = {.text = text, .len = len};
    if (wf_steps_is_pattern(steps) && !t->pipe.by_chars)
        return encode_by_pattern(e, steps->at[0].pattern, text, len, out, err);
    for (size_t at = 0, end; at < len; at = end) {
        end = wf_steps_piece_end(steps, &cursor, at);
        if (t->pipe.by_chars)
            WEFT_TRY(encode_chars(e, text + at, end - at, out, err));
        else
            WEFT_TRY(encode_word(e, text + at, end - at, out, err));
    }
    return WEFT_OK;
}

/* -- from the text to its pieces ----------------------------------------------------------- */

/* What is before a part of a text. */
enum place { AT_START, AFTER_TOKEN, CONTINUED };

struct text_part {
    const char *text; /* borrowed */
    size_t len;
    enum place place;
};

/* Encodes a part that contains no added token. */
static enum weft_status encode_plain(struct wf_encoder *e, struct text_part part, bool special,
                                     struct weft_tokens *out, struct weft_error *err)
{
    const struct wf_pipeline *p = &e->tokenizer->pipe;
    (void)special;
    if (e->tokenizer->is_bytes)
        return encode_bytes(part.text, part.len, out, err);
    bool prefixes = part.place == AT_START      ? p->prefix != WF_PREFIX_NEVER
                    : part.place == AFTER_TOKEN ? p->prefix == WF_PREFIX_ALWAYS
                                                : false;
    if (!prefixes && !p->metaspace)
        return encode_pieces(e, part.text, part.len, out, err);

    e->shifted.len = 0;
    wf_text_addc(&e->shifted, ' ');
    if (p->metaspace)
        wf_tokenizer_add_blanks(&e->shifted, part.text, part.len);
    else
        wf_text_add(&e->shifted, part.text, part.len);
    if (e->shifted.failed)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu bytes of text", part.len);
    size_t skip = prefixes && e->shifted.at[1] != ' ' ? 0 : 1;
    return encode_pieces(e, e->shifted.at + skip, e->shifted.len - skip, out, err);
}

typedef enum weft_status part_fn(struct wf_encoder *e, struct text_part part, bool special,
                                 struct weft_tokens *out, struct weft_error *err);

/* Finds the added tokens of a set in a part and encodes the text between them by `encode`. */
static enum weft_status encode_between(struct wf_encoder *e, const struct wf_added_set *set,
                                       struct text_part part, bool special, part_fn *encode,
                                       struct weft_tokens *out, struct weft_error *err)
{
    struct wf_added_search search = {.set = set,
                                     .tokens = e->tokenizer->added,
                                     .text = part.text,
                                     .len = part.len,
                                     .special = special};
    size_t done = 0, begin, end;
    int32_t id;
    while (wf_added_search_next(&search, &id, &begin, &end)) {
        struct text_part before = {part.text + done, begin - done,
                                   done == 0 ? part.place : AFTER_TOKEN};
        if (begin > done)
            WEFT_TRY(encode(e, before, special, out, err));
        WEFT_TRY(wf_tokens_reserve(out, 1, err));
        out->at[out->len++] = id;
        done = end;
    }

    struct text_part rest = {part.text + done, part.len - done,
                             done == 0 ? part.place : AFTER_TOKEN};
    return rest.len > 0 ? encode(e, rest, special, out, err) : WEFT_OK;
}

/* Encodes a part that contains no token of the set `original`. */
static enum weft_status encode_original(struct wf_encoder *e, struct text_part part,
                                        bool special, struct weft_tokens *out,
                                        struct weft_error *err)
{
    const struct weft_tokenizer *t = e->tokenizer;
    if (t->pipe.form != WF_UNICODE_AS_IS || t->pipe.prepends || t->pipe.replaces) {
        e->normal.len = 0;
        wf_tokenizer_normalize(t, &e->normal, part.text, part.len, part.place != CONTINUED);
        if (e->normal.failed)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu bytes of text", part.len);
        part.text = e->normal.at != NULL ? e->normal.at : "";
        part.len = e->normal.len;
    }
    return encode_between(e, &t->normalized, part, special, encode_plain, out, err);
}

enum weft_status wf_encoder_encode_part(struct wf_encoder *e, const char *text, size_t len,
                                        unsigned flags, struct weft_tokens *out,
                                        struct weft_error *err)
{
    struct text_part part = {text, len,
                             (flags & WF_ENCODE_CONTINUES) != 0 ? CONTINUED : AT_START};
    return encode_between(e, &e->tokenizer->original, part, (flags & WF_ENCODE_SPECIAL) != 0,
                          encode_original, out, err);
}

enum weft_status wf_encoder_encode(struct wf_encoder *e, const char *text, size_t len,
                                   struct weft_tokens *out, struct weft_error *err)
{
    return wf_encoder_encode_part(e, text, len, 0, out, err);
}

enum weft_status wf_encoder_encode_special(struct wf_encoder *e, const char *text, size_t len,
                                           struct weft_tokens *out, struct weft_error *err)
{
    return wf_encoder_encode_part(e, text, len, WF_ENCODE_SPECIAL, out, err);
}

/* -- encoders ------------------------------------------------------------------------------ */

static void encoder_release(struct wf_encoder *e)
{
    wf_bpe_scratch_release(&e->scratch);
    wf_text_release(&e->normal);
    wf_text_release(&e->shifted);
    free(e->memory);
}

static enum weft_status encode_once(const struct weft_tokenizer *t, const char *text,
                                    size_t len, unsigned flags, struct weft_tokens *out,
                                    struct weft_error *err)
{
    struct wf_encoder e = {.tokenizer = t};
    enum weft_status st = wf_encoder_encode_part(&e, text, len, flags, out, err);
    encoder_release(&e);
    return st;
}

enum weft_status weft_tokenizer_encode(const struct weft_tokenizer *t, const char *text,
                                       size_t len, struct weft_tokens *out,
                                       struct weft_error *err)
{
    return encode_once(t, text, len, 0, out, err);
}

enum weft_status weft_tokenizer_encode_special(const struct weft_tokenizer *t, const char *text,
                                               size_t len, struct weft_tokens *out,
                                               struct weft_error *err)
{
    return encode_once(t, text, len, WF_ENCODE_SPECIAL, out, err);
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
    encoder_release(e);
    free(e);
}
