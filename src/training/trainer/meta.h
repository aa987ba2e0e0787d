/* What weft tokenize wrote down about shards, in the meta.json beside them. */
#ifndef TRAINING_TRAINER_META_H
#define TRAINING_TRAINER_META_H

#include <stdint.h>

#include "training/data/shard.h"
#include "training/settings/settings.h"

struct weft_meta {
    uint32_t vocab;     /* tokens of the tokenizer; 0: not said */
    double token_bytes; /* bytes of text that a token stands for on average; 0: not said */
};

/* The path of a file of that name in the folder of the shards, there or not; the caller frees it.
 * NULL: they are in several folders, or there is no memory.  Local. */
char *weft_meta_path_beside(const struct weft_shards *shards, const char *name);

/* All zero when the shards are not in one folder, or it has no such file.  Local. */
struct weft_meta weft_meta_read(const struct weft_shards *shards);

/* Sets model.vocab, where it is auto and no directory says the model: to the tokens of
 * data.tokenizer, or else of the tokenizer that data.train was made with, as meta.json or
 * tokenizer.json beside it say.  Nothing is set where nobody says it.  Local. */
enum weft_status weft_train_settings_take_vocab(struct weft_train_settings *s,
                                                struct weft_error *err);

/* Refuses a vocabulary that is smaller than the one that the shards were made with.  Local. */
enum weft_status weft_meta_check_vocab(const struct weft_shards *shards,
                                       const struct weft_train_settings *s, uint32_t vocab,
                                       struct weft_error *err);

#endif
