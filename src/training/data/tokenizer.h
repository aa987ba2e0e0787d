/* Tokenizers: text to token numbers and back.
 *
 *     struct wf_tokenizer *t = NULL;
 *     struct wf_tokens tokens = {0};
 *     if (wf_tokenizer_open("gpt2", &t, &err) != WEFT_OK)
 *         ...
 *     wf_tokenizer_encode(t, text, len, &tokens, &err);
 *     ...
 *     wf_tokens_release(&tokens);
 *     wf_tokenizer_free(t);
 *
 * Every byte string has tokens, well-formed UTF-8 or not, and they give back just these bytes.
 * The names of special tokens in a text are text; nothing is put before or behind it.
 */
#ifndef TRAINING_DATA_TOKENIZER_H
#define TRAINING_DATA_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "training/data/tokenizer_split.h"
#include "weft/status.h"

struct wf_tokenizer; /* opaque: built once, then read-only, safe to use from any thread */

enum {
    WF_NO_TOKEN = -1,
    WF_TOKENIZER_MAX_VOCAB = 1 << 21, /* an id above is a broken file */
    WF_TOKENIZER_MAX_PIECE = 1 << 28, /* bytes of text without a place to split it */
};

/* A growing row of tokens. */
struct wf_tokens {
    int32_t *at; /* owned */
    size_t len, cap;
};

/* Room for n more. */
enum weft_status wf_tokens_reserve(struct wf_tokens *t, size_t n, struct weft_error *err);
void wf_tokens_release(struct wf_tokens *t);

/* -- making them ---------------------------------------------------------------------------- */

/* A token for each byte, and 256 as the document's end.  The caller owns *out. */
enum weft_status wf_tokenizer_new_bytes(struct wf_tokenizer **out, struct weft_error *err);

/* A directory that has a tokenizer.json, or else a vocab.json and merges.txt; or the path of one
 * of these files.  Byte-level BPE with the patterns of token_split.h; anything else is WEFT_DATA,
 * in a line that names what is not supported.  The caller owns *out. */
enum weft_status wf_tokenizer_open(const char *path, struct wf_tokenizer **out,
                                   struct weft_error *err);

/* The texts of these files.  `name` and `merges_name` are for messages. */
enum weft_status wf_tokenizer_parse(const char *json, size_t len, const char *name,
                                    struct wf_tokenizer **out, struct weft_error *err);
enum weft_status wf_tokenizer_parse_gpt2(const char *vocab, size_t vocab_len, const char *name,
                                         const char *merges, size_t merges_len,
                                         const char *merges_name, struct wf_tokenizer **out,
                                         struct weft_error *err);

void wf_tokenizer_free(struct wf_tokenizer *t); /* NULL is allowed */

/* Writes `dir`/tokenizer.json, whole or not at all: the one it was read from, or one that says the
 * same.  Nothing for bytes, which need no file. */
enum weft_status wf_tokenizer_save(const struct wf_tokenizer *t, const char *dir,
                                   struct weft_error *err);

/* The same, under any name. */
enum weft_status wf_tokenizer_save_as(const struct wf_tokenizer *t, const char *path,
                                      struct weft_error *err);

/* -- what they are -------------------------------------------------------------------------- */

/* "bytes" or "bpe". */
const char *wf_tokenizer_kind(const struct wf_tokenizer *t);

/* All tokens are below. */
uint32_t wf_tokenizer_n_vocab(const struct wf_tokenizer *t);

/* The token between documents; WF_NO_TOKEN when it has none of the usual names. */
int32_t wf_tokenizer_eot(const struct wf_tokenizer *t);

/* Special tokens, in the order of the file. */
size_t wf_tokenizer_n_special(const struct wf_tokenizer *t);
const char *wf_tokenizer_special(const struct wf_tokenizer *t, size_t i,
                                 int32_t *id);                             /* borrowed */
int32_t wf_tokenizer_find(const struct wf_tokenizer *t, const char *name); /* or NO_TOKEN */

/* -- text to tokens ------------------------------------------------------------------------- */

/* Appends the tokens of a text. */
enum weft_status wf_tokenizer_encode(const struct wf_tokenizer *t, const char *text, size_t len,
                                     struct wf_tokens *out, struct weft_error *err);

/* For much text: one thread's memory of words, which makes it several times faster.  The tokens
 * are the same. */
struct wf_encoder;
enum weft_status wf_encoder_new(const struct wf_tokenizer *t, struct wf_encoder **out,
                                struct weft_error *err); /* borrows t */
enum weft_status wf_encoder_encode(struct wf_encoder *e, const char *text, size_t len,
                                   struct wf_tokens *out, struct weft_error *err);
void wf_encoder_free(struct wf_encoder *e); /* NULL is allowed */

/* Where to cut a text that goes on behind its end, without changing a token; 0: nowhere. */
size_t wf_tokenizer_boundary(const struct wf_tokenizer *t, const char *text, size_t len);

/* -- tokens to text ------------------------------------------------------------------------- */

/* The bytes of a token, which may be part of a character; NULL for an id that is none.
 * Borrowed. */
const char *wf_tokenizer_token(const struct wf_tokenizer *t, int32_t id, size_t *len);

/* Appends the text of tokens.  An id that is none is WEFT_DATA.  Decoding piece by piece gives the
 * same bytes. */
enum weft_status wf_tokenizer_decode(const struct wf_tokenizer *t, const int32_t *tokens,
                                     size_t n, struct wf_text *out, struct weft_error *err);

/* For who shows text as it comes: the bytes at the start that do not end within a character that
 * may yet be completed. */
size_t wf_utf8_complete(const char *bytes, size_t len);

#endif
