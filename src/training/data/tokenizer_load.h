/* Shared by the files that read tokenizers: the state of loading, and helpers for JSON. */
#ifndef TRAINING_DATA_TOKENIZER_LOAD_H
#define TRAINING_DATA_TOKENIZER_LOAD_H

#include <jansson.h>

#include "training/data/tokenizer_priv.h"

/* The state of loading: the tokenizer that is being built and its source. */
struct wf_loader {
    const char *name; /* borrowed: file name for error messages */
    struct weft_tokenizer *t;
    struct wf_pipeline pipe; /* owned until the tokenizer exists */
    int16_t byte_of[WF_BYTE_CHARS];
    struct wf_text scratch; /* buffer for the bytes of a token */
    struct weft_error *err;
};

#define WF_LOAD_FAIL(l, ...) wf_loader_fail(l, __FILE__, __LINE__, __VA_ARGS__)

/* Fills the error with the name of the file and a message.  Returns WEFT_DATA. */
__attribute__((format(printf, 4, 5))) enum weft_status
wf_loader_fail(const struct wf_loader *l, const char *file, int line, const char *format, ...);

/* Parses a JSON object.  The caller releases *out with json_decref(). */
enum weft_status wf_loader_parse(const struct wf_loader *l, const char *text, size_t len,
                                 json_t **out);

/* Returns true if a JSON field is missing or null. */
static inline bool wf_is_absent(const json_t *value)
{
    return value == NULL || json_is_null(value);
}

/* Returns the field "type" of an object, or "". */
const char *wf_loader_type(const json_t *object);

/* Reads a boolean field, or returns `fallback` if the field is absent. */
enum weft_status wf_loader_bool(const struct wf_loader *l, const json_t *object,
                                const char *key, bool fallback, bool *out);

/* Reads normalizer, pre_tokenizer, decoder and the settings of the model into l->pipe. */
enum weft_status wf_loader_read_pipeline(struct wf_loader *l, const json_t *root);

/* Reads the tokens that post_processor puts before a text. */
enum weft_status wf_loader_read_prefix(struct wf_loader *l, const json_t *post);

/* Creates the tokenizer from a vocabulary, an array of added tokens (NULL: none), and the name
 * of the unknown token (NULL: none). */
enum weft_status wf_loader_read_vocab(struct wf_loader *l, json_t *vocab, const json_t *added,
                                      const char *unknown);

/* Adds the merges of a list, or of the lines of merges.txt. */
enum weft_status wf_loader_read_merges(struct wf_loader *l, const json_t *merges);
enum weft_status wf_loader_read_merge_lines(struct wf_loader *l, const char *text, size_t len);

/* -- files beside the tokenizer ------------------------------------------------------------ */

/* The files beside a tokenizer that say more about it.  All fields may be NULL. */
struct wf_beside {
    json_t *config;             /* owned: tokenizer_config.json */
    json_t *added;              /* owned: added_tokens.json */
    json_t *model, *generation; /* owned: config.json, generation_config.json */
    char *text;                 /* owned: the text of tokenizer_config.json */
    size_t len;
};

/* Reads the files in the directory of `path`. */
enum weft_status wf_beside_read(struct wf_beside *b, const char *path, struct weft_error *err);
void wf_beside_release(struct wf_beside *b);

/* Appends the added tokens of the files to a list in the format of tokenizer.json, unless it
 * has their names.  Sets *changed if it appends a token. */
enum weft_status wf_beside_add_tokens(const struct wf_beside *b, struct wf_loader *l,
                                      json_t *list, bool *changed);

/* Sets the end-of-document token, and whether a prompt starts with a token. */
enum weft_status wf_beside_apply(struct wf_beside *b, struct wf_loader *l);

#endif
