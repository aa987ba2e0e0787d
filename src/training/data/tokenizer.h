/* Internal functions of tokenizers.  The public functions are in weft/tokenizer.h. */
#ifndef TRAINING_DATA_TOKENIZER_H
#define TRAINING_DATA_TOKENIZER_H

#include <stdbool.h>

#include "base/text.h"
#include "training/data/tokenizer_split.h"
#include "weft/tokenizer.h"

enum {
    /* Limit of token ids; a file with a higher id is invalid. */
    WF_TOKENIZER_MAX_VOCAB = 1 << 21,
    /* Maximum bytes of text without a position to split it. */
    WF_TOKENIZER_MAX_PIECE = 1 << 28,
};

/* Reserves memory for n more tokens. */
enum weft_status wf_tokens_reserve(struct weft_tokens *t, size_t n, struct weft_error *err);

/* -- creation ------------------------------------------------------------------------------ */

/* Parses the text of tokenizer.json.  `name` is the file name for error messages.  The caller
 * owns *out. */
enum weft_status wf_tokenizer_parse(const char *json, size_t len, const char *name,
                                    struct weft_tokenizer **out, struct weft_error *err);
/* Parses the texts of vocab.json and merges.txt.  `name` and `merges_name` are the file names
 * for error messages.  The caller owns *out. */
enum weft_status wf_tokenizer_parse_gpt2(const char *vocab, size_t vocab_len, const char *name,
                                         const char *merges, size_t merges_len,
                                         const char *merges_name, struct weft_tokenizer **out,
                                         struct weft_error *err);

/* Appends the content of tokenizer.json: of the file that was loaded, or a new one. */
enum weft_status wf_tokenizer_print_file(const struct weft_tokenizer *t, struct wf_text *out,
                                         struct weft_error *err);

/* Writes the tokenizer to the file `path` atomically. */
enum weft_status wf_tokenizer_save_as(const struct weft_tokenizer *t, const char *path,
                                      struct weft_error *err);

/* Returns a hash that identifies the tokenizer: equal for two tokenizers that map the same
 * texts to the same tokens, whatever files they were read from.  The result is never 0, which
 * stands for an unknown tokenizer.  docs/formats/tokenizer.md defines it.  Local. */
uint64_t wf_tokenizer_hash(const struct weft_tokenizer *t);

enum { WF_TOKENIZER_HASH_SIZE = 17 }; /* 16 hexadecimal digits and a NUL */

/* Prints a hash as 16 lower-case hexadecimal digits, or as an empty string if it is 0. */
void wf_tokenizer_hash_print(uint64_t hash, char out[WF_TOKENIZER_HASH_SIZE]);
/* Parses the output of wf_tokenizer_hash_print().  Returns false for any other text. */
bool wf_tokenizer_hash_parse(const char *text, uint64_t *out);

/* -- text to tokens ------------------------------------------------------------------------ */

/* An encoder for large texts, used by one thread.  It caches the tokens of words, which makes
 * encoding several times faster and does not change the tokens. */
struct wf_encoder;

/* Creates an encoder.  The caller owns *out. */
enum weft_status wf_encoder_new(const struct weft_tokenizer *t, struct wf_encoder **out,
                                struct weft_error *err); /* t is borrowed */
/* How to encode a part of a text. */
enum wf_encode_flags {
    WF_ENCODE_SPECIAL = 1,   /* names of special tokens become these tokens */
    WF_ENCODE_CONTINUES = 2, /* the text continues a document: no blank is put before it */
};

/* Appends the tokens of a whole text.  Names of special tokens are encoded as text; other added
 * tokens are found. */
enum weft_status wf_encoder_encode(struct wf_encoder *e, const char *text, size_t len,
                                   struct weft_tokens *out, struct weft_error *err);
/* Appends the tokens of a whole text, in which names of special tokens become these tokens. */
enum weft_status wf_encoder_encode_special(struct wf_encoder *e, const char *text, size_t len,
                                           struct weft_tokens *out, struct weft_error *err);
/* Appends the tokens of a part of a text.  `flags` is a sum of enum wf_encode_flags. */
enum weft_status wf_encoder_encode_part(struct wf_encoder *e, const char *text, size_t len,
                                        unsigned flags, struct weft_tokens *out,
                                        struct weft_error *err);
void wf_encoder_free(struct wf_encoder *e); /* NULL is allowed */

/* Returns a length at which a text can be cut without changing its tokens if more text follows,
 * or 0 if there is no such length. */
size_t wf_tokenizer_boundary(const struct weft_tokenizer *t, const char *text, size_t len);

/* Returns the tokens that belong before a prompt, such as the start of a text, and stores their
 * number in *n.  Borrowed. */
const int32_t *wf_tokenizer_prompt_prefix(const struct weft_tokenizer *t, size_t *n);

/* Sets the end-of-document token by its name.  Returns WEFT_USAGE if there is no such token. */
enum weft_status wf_tokenizer_set_eot(struct weft_tokenizer *t, const char *name,
                                      struct weft_error *err);

/* -- tokens to text ------------------------------------------------------------------------ */

/* Returns true if the first blank of a decoded text is not part of the text. */
bool wf_tokenizer_strips_space(const struct weft_tokenizer *t);

/* Returns the number of bytes without an incomplete UTF-8 character at the end.  Used for
 * streaming output. */
size_t wf_utf8_complete(const char *bytes, size_t len);

#endif
