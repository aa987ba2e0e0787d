/* Sets model.vocab from the tokenizer of the training data. */
#include "training/data/meta.h"
#include "training/settings/settings.h"

enum weft_status wf_train_settings_infer_vocab(struct wf_train_settings *s,
                                               struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    if (s->model.vocab != 0 || s->model.dir != NULL || s->data.train == NULL)
        return WEFT_OK;
    if (s->data.tokenizer != NULL)
        return wf_meta_count_tokens(s->data.tokenizer, &s->model.vocab, err);

    /* The trainer opens the same data later and reports why it cannot be read. */
    if (wf_shards_open_split(s->data.train, "train", &shards, NULL) != WEFT_OK)
        return WEFT_OK;
    enum weft_status st = wf_meta_find_vocab(shards, &s->model.vocab, err);
    wf_shards_free(shards);
    return st;
}
