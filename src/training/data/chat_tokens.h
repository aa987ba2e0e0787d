/* Converts conversations to tokens. */
#ifndef TRAINING_DATA_CHAT_TOKENS_H
#define TRAINING_DATA_CHAT_TOKENS_H

#include "training/chat/chat.h"
#include "training/data/tokenizer.h"

/* Appends the tokens of a conversation.  A token that does not overlap an answer of the
 * assistant is stored as its bitwise complement, which is negative.  Adds the bytes of the text
 * to *text_bytes.  `encoder` is one of the tokenizer.  Local. */
enum weft_status wf_chat_tokens_add(const struct wf_chat *chat, const struct weft_tokenizer *t,
                                    struct wf_encoder *encoder, json_t *record,
                                    struct weft_tokens *out, uint64_t *text_bytes,
                                    struct weft_error *err);

#endif
