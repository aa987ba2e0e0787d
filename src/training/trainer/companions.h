/* The files of a Hugging Face directory beside its weights: the tokenizer, the tokens that
 * begin and end a document, and all files of the directory from which the model was read.
 *
 *     struct wf_companions c;
 *     wf_companions_init(&c, "gpt2", "run/tokenizer.json", &model, &err);
 *     wf_companions_describe(&c, &about);           for config.json
 *     wf_companions_write(&c, &model, writer, &err);
 *     wf_companions_release(&c);
 */
#ifndef TRAINING_TRAINER_COMPANIONS_H
#define TRAINING_TRAINER_COMPANIONS_H

#include <stdbool.h>

#include "planning/spec/hf_config.h"
#include "training/ckpt/hf.h"
#include "weft/spec.h"
#include "weft/status.h"
#include "weft/tokenizer.h"

/* The roles of tokens in config.json. */
enum wf_token_role { WF_TOKEN_BOS, WF_TOKEN_EOS, WF_TOKEN_PAD, WF_N_TOKEN_ROLES };

struct wf_companions {
    char *source;                     /* owned; NULL: the model is new */
    char *config;                     /* owned: text of config.json of the source, or NULL */
    struct weft_tokenizer *tokenizer; /* owned; NULL: none that weft can read */
    /* The tokenizer files of the source belong to the model.  False: the data has another
     * tokenizer. */
    bool keeps_tokenizer;
    /* Owned: the tokens as JSON, a number or a list; NULL: none. */
    char *ids[WF_N_TOKEN_ROLES];
    bool has_own_end; /* the end of a document is not from the source */
    /* What a user should know about the tokenizer; "": nothing. */
    char note[400];
};

/* Reads the tokenizer and the token ids.  `source` is the directory from which the model was
 * read, or NULL.  `tokenizer` is the path of the model's tokenizer, or NULL: the tokenizer of
 * the source or, for a new model with 257 tokens, bytes.  A tokenizer of the source that weft
 * cannot read is not an error; c->note names the reason.  The caller releases *c.  Local. */
enum weft_status wf_companions_init(struct wf_companions *c, const char *source,
                                    const char *tokenizer, const struct weft_model *model,
                                    struct weft_error *err);
void wf_companions_release(struct wf_companions *c); /* a zeroed struct is allowed */

/* Sets the fields of *out, except for dtype.  They are borrowed from *c. */
void wf_companions_describe(const struct wf_companions *c, struct wf_hf_metadata *out);

/* Writes all files except config.json and the weights.  Copies the files of the source
 * unchanged, and writes those that it does not have: tokenizer.json, tokenizer_config.json,
 * special_tokens_map.json and generation_config.json.  Local. */
enum weft_status wf_companions_write(const struct wf_companions *c,
                                     const struct weft_model *model, struct wf_hf_writer *w,
                                     struct weft_error *err);

/* Copies config.json and all companion files of the directory `source` to the directory `dir`,
 * which is created if necessary.  Removes other files from `dir`.  Local. */
enum weft_status wf_companions_copy(const char *source, const char *dir,
                                    struct weft_error *err);

#endif
