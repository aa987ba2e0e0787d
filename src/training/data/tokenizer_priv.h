/* The data structure of a tokenizer, for the files that build and use it. */
#ifndef TRAINING_DATA_TOKENIZER_PRIV_H
#define TRAINING_DATA_TOKENIZER_PRIV_H

#include <stdbool.h>

#include "training/data/added.h"
#include "training/data/pieces.h"
#include "training/data/tokenizer.h"
#include "training/data/unicode.h"

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

/* When a blank is put before a text. */
enum wf_prefix {
    WF_PREFIX_NEVER,
    WF_PREFIX_FIRST,  /* before the first piece of text */
    WF_PREFIX_ALWAYS, /* also after an added token */
};

/* What happens to a text before byte-pair merges.
 *
 * SentencePiece-like tokenizers write a blank as U+2581.  Here their tokens and texts contain
 * blanks, and U+2581 in a text becomes a blank, because both mean the same. */
struct wf_pipeline {
    /* -- normalizer */
    enum wf_unicode_form form;
    bool prepends; /* a blank before each part of the text between added tokens */
    bool replaces; /* blanks become U+2581 */

    /* -- pre-tokenizer */
    bool metaspace; /* blanks become U+2581 after added tokens were found */
    /* A blank is put before a text that does not start with one. */
    enum wf_prefix prefix;
    struct wf_steps steps;

    /* -- model */
    bool by_chars;      /* merges start from characters; false: from bytes */
    bool byte_fallback; /* a character without a token becomes its bytes */
    bool fuse_unknown;  /* adjacent unknown characters become one token */
    bool ignore_merges; /* a piece that equals a token is encoded as this token */

    /* -- decoder */
    bool strips_space; /* the first blank of a decoded text is removed */
};

enum { WF_MAX_PREFIX_TOKENS = 8 };

struct weft_tokenizer {
    /* True: tokens are bytes, and only the added tokens of the fields below are used. */
    bool is_bytes;
    struct wf_pipeline pipe;
    uint32_t n_vocab;
    struct wf_token_span *tokens; /* owned: n_vocab elements, indexed by token id */
    struct wf_text pool;
    /* Tokens of single bytes; WEFT_NO_TOKEN: none.  With pipe.by_chars, the tokens that stand
     * for the bytes of other characters. */
    int32_t byte_ids[256];
    int32_t ascii_ids[128]; /* with pipe.by_chars: the tokens of ASCII characters */
    int32_t unknown;        /* token of what has no token; WEFT_NO_TOKEN: it is left out */
    bool has_gaps;          /* a byte has no token */
    /* Owned: hash table from token bytes to ids; WEFT_NO_TOKEN: free slot. */
    int32_t *id_table;
    size_t id_table_mask;
    struct wf_token_pair *pairs; /* owned: pairs in the order of their ranks */
    uint32_t n_pairs;
    struct wf_merge *merges; /* owned: hash table of pairs */
    size_t merges_mask;
    /* With pipe.by_chars: bit 256 a + b is set if a merge joins a token that ends in byte a and
     * a token that starts with byte b.  Elsewhere a text can be cut without changing its
     * tokens.  Owned; NULL: a text cannot be cut. */
    uint64_t *joins;
    struct wf_added *added; /* owned */
    size_t n_added;
    struct wf_added_set original, normalized; /* the names to search for in a text */
    /* White space belongs to an added token, or words matter to it: a text may be cut only
     * before white space after a letter.  If also this may change a token: not at all. */
    bool cuts_after_letters, never_cuts;
    int32_t eot;
    int32_t prompt_prefix[WF_MAX_PREFIX_TOKENS];
    size_t n_prompt_prefix;
    char *source; /* owned: content of the tokenizer.json that was loaded, or NULL */
    size_t source_len;
    char *config; /* owned: content of the tokenizer_config.json that was loaded, or NULL */
    size_t config_len;
};

/* -- building: vocabulary, then index, then merges, then special tokens -------------------- */

/* Creates a tokenizer for n_vocab tokens.  All token ids are unused at first. */
enum weft_status wf_tokenizer_new(uint32_t n_vocab, struct weft_tokenizer **out,
                                  struct weft_error *err);

/* Sets the bytes of the token `id`, which must be less than n_vocab. */
enum weft_status wf_tokenizer_set(struct weft_tokenizer *t, int32_t id, const char *bytes,
                                  size_t len, struct weft_error *err);

/* Builds the hash table from token bytes to ids and finds the tokens of the 256 bytes. */
void wf_tokenizer_index(struct weft_tokenizer *t);

/* Finds the tokens of single bytes, or of ASCII characters with pipe.by_chars, in the hash
 * table. */
void wf_tokenizer_index_bytes(struct weft_tokenizer *t);

/* Adds a token to the hash table. */
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

/* Adds an added token, whose name is copied. */
enum weft_status wf_tokenizer_add_added(struct weft_tokenizer *t, struct wf_added token,
                                        struct weft_error *err);

/* Returns the id of the added token with this name, or WEFT_NO_TOKEN. */
int32_t wf_tokenizer_find_added(const struct weft_tokenizer *t, const char *name);

/* Finds the end-of-document token by well-known names of special tokens. */
void wf_tokenizer_guess_eot(struct weft_tokenizer *t);

/* Prepares the search for added tokens and finds where texts can be cut.  The last step of
 * building. */
enum weft_status wf_tokenizer_finish(struct weft_tokenizer *t, struct weft_error *err);

/* Appends a text as the normalizer changes it.  `prepends`: a blank may be put before it. */
void wf_tokenizer_normalize(const struct weft_tokenizer *t, struct wf_text *out,
                            const char *text, size_t len, bool prepends);

/* Appends a text, with a blank for each U+2581. */
void wf_tokenizer_add_blanks(struct wf_text *out, const char *text, size_t len);

/* Returns true if no merge can join the bytes before and after position `at`, which is between
 * two characters. */
static inline bool wf_tokenizer_separates(const struct weft_tokenizer *t, unsigned char before,
                                          unsigned char after)
{
    unsigned bit = 256u * before + after;
    return (t->joins[bit / 64] >> bit % 64 & 1) == 0;
}

/* -- bytes as characters ------------------------------------------------------------------- */

/* Tokenizer files represent each byte by a character. 188 printable bytes are represented by
 * the character with the same number, and the other 68 bytes by the characters from U+0100 on.
 * All these characters are below WF_BYTE_CHARS. */
enum { WF_BYTE_CHARS = 256 + 68 };

/* Returns the character that represents a byte. */
uint32_t wf_byte_to_char(unsigned char byte);
/* Fills a table with the byte that each character represents; -1: none. */
void wf_char_to_byte(int16_t out[WF_BYTE_CHARS]);

/* Appends a tokenizer that was trained, or read from vocab.json and merges.txt, to `out` in the
 * format of tokenizer.json. */
enum weft_status wf_tokenizer_print(const struct weft_tokenizer *t, struct wf_text *out,
                                    struct weft_error *err);

#endif
