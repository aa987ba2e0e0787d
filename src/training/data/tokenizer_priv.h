/* The data structure of a tokenizer, for the files that build and use it. */
#ifndef TRAINING_DATA_TOKENIZER_PRIV_H
#define TRAINING_DATA_TOKENIZER_PRIV_H

#include <stdbool.h>

#include "training/data/tokenizer.h"

struct wf_token_span {
    uint32_t begin, len; /* in the pool; len 0: the id is unused */
};

struct wf_token_pair {
    int32_t left, right;
};

/* A slot of the hash table of pairs.  Lower ranks are merged first. */
struct wf_merge {
    uint64_t key; /* left << 32 | right; NO_PAIR: free */
    uint32_t rank;
    int32_t result;
};

#define WF_NO_PAIR UINT64_MAX

struct wf_special {
    char *name; /* owned */
    int32_t id;
};

struct weft_tokenizer {
    bool is_bytes; /* one token per byte: of the fields below only the special token is used */
    enum wf_split split;
    bool ignore_merges; /* a piece that is a token is encoded as this token */
    uint32_t n_vocab;
    struct wf_token_span *tokens; /* owned: n_vocab */
    struct wf_text pool;
    int32_t byte_ids[256];
    int32_t *id_table; /* owned: hash table of token texts; WEFT_NO_TOKEN: free */
    size_t id_table_mask;
    struct wf_token_pair *pairs; /* owned: by rank */
    uint32_t n_pairs;
    struct wf_merge *merges; /* owned: hash table */
    size_t merges_mask;
    struct wf_special *special; /* owned */
    size_t n_special;
    int32_t eot;
    char *source; /* owned: the tokenizer.json it was read from, or NULL */
    size_t source_len;
};

/* -- building: vocabulary, then index, then merges, then special tokens ---------------------- */

/* Creates a tokenizer for n_vocab tokens, all unused. */
enum weft_status wf_tokenizer_new(uint32_t n_vocab, struct weft_tokenizer **out,
                                  struct weft_error *err);

/* Sets the bytes of a token; id < n_vocab. */
enum weft_status wf_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes,
                                  size_t len, struct weft_error *err);

/* Builds the index of tokens by their bytes and finds the tokens of the 256 bytes.  Returns
 * WEFT_DATA if one is missing. */
enum weft_status wf_tokenizer_index(struct weft_tokenizer *t, const char *name,
                                    struct weft_error *err);

/* Adds a token to the index, after wf_tokenizer_index(). */
void wf_tokenizer_insert(struct weft_tokenizer *t, int32_t id);

/* Returns the token with these bytes, or WEFT_NO_TOKEN. */
int32_t wf_tokenizer_lookup(const struct weft_tokenizer *t, const char *bytes, size_t len);

/* Reserves memory for n merges. */
enum weft_status wf_tokenizer_reserve_merges(struct weft_tokenizer *t, size_t n,
                                             struct weft_error *err);
/* Adds the merge of the next rank.  Returns false if the pair exists already. */
bool wf_tokenizer_add_merge(struct weft_tokenizer *t, struct wf_token_pair pair,
                            int32_t result);

/* Adds a special token. */
enum weft_status wf_tokenizer_add_special(struct weft_tokenizer *t, const char *name,
                                          int32_t id, struct weft_error *err);

/* Finds the end-of-document token among the special tokens. */
void wf_tokenizer_find_eot(struct weft_tokenizer *t);

/* -- bytes as characters --------------------------------------------------------------------- */

/* The files write a byte as a character: most printable ones as themselves, the other 68 as the
 * characters from U+0100 on.  All are below WF_BYTE_CHARS. */
enum { WF_BYTE_CHARS = 256 + 68 };

uint32_t wf_byte_to_char(unsigned char byte);
void wf_char_to_byte(int16_t out[WF_BYTE_CHARS]); /* -1: not the character of a byte */

/* Prints the tokenizer as tokenizer.json. */
enum weft_status wf_tokenizer_print(const struct weft_tokenizer *t, struct wf_text *out,
                                    struct weft_error *err);

#endif
