/* What a tokenizer is made of; for the files that build and use it. */
#ifndef TRAINING_DATA_TOKEN_PRIV_H
#define TRAINING_DATA_TOKEN_PRIV_H

#include <stdbool.h>

#include "training/data/tokenizer.h"

struct weft_token_text {
    uint32_t begin, len; /* in the pool; len 0: there is no such token */
};

struct weft_token_pair {
    int32_t left, right;
};

/* A slot of the hash of pairs.  Lower ranks are merged first. */
struct weft_merge {
    uint64_t key; /* left << 32 | right; NO_PAIR: free */
    uint32_t rank;
    int32_t result;
};

#define WEFT_NO_PAIR UINT64_MAX

struct weft_special {
    char *name; /* owned */
    int32_t id;
};

struct weft_tokenizer {
    bool is_bytes; /* one token a byte: nothing below but the special token is used */
    enum weft_split split;
    bool ignore_merges; /* a piece that is itself a token is taken whole */
    uint32_t n_vocab;
    struct weft_token_text *tokens; /* owned: n_vocab */
    struct weft_text pool;
    int32_t of_byte[256];
    int32_t *by_bytes; /* owned: hash of token texts; WEFT_NO_TOKEN: free */
    size_t by_bytes_mask;
    struct weft_token_pair *pairs; /* owned: by rank */
    uint32_t n_pairs;
    struct weft_merge *merges; /* owned: hash */
    size_t merges_mask;
    struct weft_special *special; /* owned */
    size_t n_special;
    int32_t document_end;
    char *source; /* owned: the tokenizer.json it was read from, or NULL */
    size_t source_len;
};

/* -- building: vocabulary, then index, then merges, then special tokens ---------------------- */

/* A tokenizer for n_vocab tokens, which are none yet. */
enum weft_status weft_token_new(uint32_t n_vocab, struct weft_tokenizer **out,
                                struct weft_error *err);

/* Sets the bytes of a token; id < n_vocab. */
enum weft_status weft_token_set(struct weft_tokenizer *t, int32_t id, const char *bytes,
                                size_t len, struct weft_error *err);

/* Makes tokens findable by their bytes, and finds those of the 256 bytes: all must be there. */
enum weft_status weft_token_index(struct weft_tokenizer *t, const char *name,
                                  struct weft_error *err);

/* Makes one more token findable, after weft_token_index(). */
void weft_token_insert(struct weft_tokenizer *t, int32_t id);

/* The token with these bytes, or WEFT_NO_TOKEN. */
int32_t weft_token_by_bytes(const struct weft_tokenizer *t, const char *bytes, size_t len);

/* Room for n merges; then each, in the order of ranks.  False: there is that pair already. */
enum weft_status weft_token_reserve_merges(struct weft_tokenizer *t, size_t n,
                                           struct weft_error *err);
bool weft_token_add_merge(struct weft_tokenizer *t, struct weft_token_pair pair,
                          int32_t result);

/* The name of a special token. */
enum weft_status weft_token_add_special(struct weft_tokenizer *t, const char *name, int32_t id,
                                        struct weft_error *err);

/* Finds the document's end among the special tokens. */
void weft_token_find_end(struct weft_tokenizer *t);

/* -- bytes as characters --------------------------------------------------------------------- */

/* The files write a byte as a character: most printable ones as themselves, the other 68 as those
 * from U+0100 on.  All are below WEFT_BYTE_CHARS. */
enum { WEFT_BYTE_CHARS = 256 + 68 };

uint32_t weft_byte_to_char(unsigned char byte);
void weft_char_bytes(int16_t out[WEFT_BYTE_CHARS]); /* -1: no byte's character */

/* The tokenizer as a tokenizer.json. */
enum weft_status weft_token_print(const struct weft_tokenizer *t, struct weft_text *out,
                                  struct weft_error *err);

#endif
