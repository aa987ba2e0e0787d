/* The data structure of a tokenizer, for the files that build and use it. */
#ifndef TRAINING_DATA_TOKENIZER_PRIV_H
#define TRAINING_DATA_TOKENIZER_PRIV_H

#include <stdbool.h>

#include "training/data/tokenizer.h"

struct wf_token_span {
    uint32_t begin, len; /* range of bytes in the pool; len 0: the id is unused */
};

struct wf_token_pair {
    int32_t left, right;
};

/* A slot of the hash table of pairs.  Pairs with a lower rank are merged first. */
struct wf_merge {
    uint64_t key; /* left << 32 | right; WF_NO_PAIR: the slot is free */
    uint32_t rank;
    int32_t result;
};

#define WF_NO_PAIR UINT64_MAX

struct wf_special {
    char *name; /* owned */
    int32_t id;
};

struct weft_tokenizer {
    /* True: tokens are bytes, and only the special token of the fields below is used. */
    bool is_bytes;
    enum wf_split split;
    /* True: a piece that equals a token is encoded as this token, without merges. */
    bool ignore_merges;
    uint32_t n_vocab;
    struct wf_token_span *tokens; /* owned: n_vocab elements, indexed by token id */
    struct wf_text pool;
    int32_t byte_ids[256];
    /* Owned: hash table from token bytes to ids; WEFT_NO_TOKEN: free slot. */
    int32_t *id_table;
    size_t id_table_mask;
    struct wf_token_pair *pairs; /* owned: pairs in the order of their ranks */
    uint32_t n_pairs;
    struct wf_merge *merges; /* owned: hash table of pairs */
    size_t merges_mask;
    struct wf_special *special; /* owned */
    size_t n_special;
    int32_t eot;
    char *source; /* owned: content of the tokenizer.json that was loaded, or NULL */
    size_t source_len;
};

/* -- building: vocabulary, then index, then merges, then special tokens -------------------- */

/* Creates a tokenizer for n_vocab tokens.  All token ids are unused at first. */
enum weft_status wf_tokenizer_new(uint32_t n_vocab, struct weft_tokenizer **out,
                                  struct weft_error *err);

/* Sets the bytes of the token `id`, which must be less than n_vocab. */
enum weft_status wf_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes,
                                  size_t len, struct weft_error *err);

/* Builds the hash table from token bytes to ids and finds the tokens of the 256 single bytes.
 * Returns WEFT_DATA if the token of a byte is missing. */
enum weft_status wf_tokenizer_index(struct weft_tokenizer *t, const char *name,
                                    struct weft_error *err);

/* Adds a token to the hash table that wf_tokenizer_index() built. */
void wf_tokenizer_insert(struct weft_tokenizer *t, int32_t id);

/* Returns the id of the token with these bytes, or WEFT_NO_TOKEN if there is none. */
int32_t wf_tokenizer_lookup(const struct weft_tokenizer *t, const char *bytes, size_t len);

/* Reserves memory for n merges. */
enum weft_status wf_tokenizer_reserve_merges(struct weft_tokenizer *t, size_t n,
                                             struct weft_error *err);
/* Adds a merge and assigns the next rank to it.  Returns false if the pair already has a
 * merge. */
bool wf_tokenizer_add_merge(struct weft_tokenizer *t, struct wf_token_pair pair,
                            int32_t result);

/* Adds a special token. */
enum weft_status wf_tokenizer_add_special(struct weft_tokenizer *t, const char *name,
                                          int32_t id, struct weft_error *err);

/* Finds the end-of-document token among the special tokens. */
void wf_tokenizer_find_eot(struct weft_tokenizer *t);

/* -- bytes as characters ------------------------------------------------------------------- */

/* Tokenizer files represent each byte by a character. 188 printable bytes are represented by
 * the character with the same number, and the other 68 bytes by the characters from U+0100 on.
 * All these characters are below WF_BYTE_CHARS. */
enum { WF_BYTE_CHARS = 256 + 68 };

/* Returns the character that represents a byte. */
uint32_t wf_byte_to_char(unsigned char byte);
/* Fills a table with the byte that each character represents; -1: none. */
void wf_char_to_byte(int16_t out[WF_BYTE_CHARS]);

/* Appends the tokenizer to `out` in the format of tokenizer.json. */
enum weft_status wf_tokenizer_print(const struct weft_tokenizer *t, struct wf_text *out,
                                    struct weft_error *err);

#endif
