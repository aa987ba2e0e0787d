/* What weft tokenize wrote down about shards, in the meta.json beside them. */
#ifndef TRAINING_TRAINER_META_H
#define TRAINING_TRAINER_META_H

#include <stdint.h>

#include "training/data/shard.h"
#include "training/settings/settings.h"

struct wf_meta {
    uint32_t vocab;     /* tokens of the tokenizer; 0: not said */
    double token_bytes; /* bytes of text that a token stands for on average; 0: not said */
};

/* The path of a file of that name in the folder of the shards, there or not; the caller frees it.
 * NULL: they are in several folders, or there is no memory.  Local. */
char *wf_meta_sibling_path(const struct wf_shards *shards, const char *name);

/* All zero when the shards are not in one folder, or it has no such file.  Local. */
struct wf_meta wf_meta_read(const struct wf_shards *shards);

/* Sets model.vocab, where it is auto and no directory says the model: to the tokens of
 * data.tokenizer, or else of the tokenizer that data.train was made with, as meta.json or
 * tokenizer.json beside it say.  Nothing is set where nobody says it.  Local. */
enum weft_status wf_train_settings_infer_vocab(struct wf_train_settings *s,
                                               struct weft_error *err);

/* Refuses a vocabulary that is smaller than the one that the shards were made with.  Local. */
enum weft_status wf_meta_check_vocab(const struct wf_shards *shards,
                                     const struct wf_train_settings *s, uint32_t vocab,
                                     struct weft_error *err);

#endif
