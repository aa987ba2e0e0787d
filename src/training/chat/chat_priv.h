/* The data of a chat, for the files that render conversations. */
#ifndef TRAINING_CHAT_CHAT_PRIV_H
#define TRAINING_CHAT_CHAT_PRIV_H

#include "training/chat/chat.h"
#include "training/chat/template.h"

struct wf_chat {
    struct wf_template *template; /* owned */
    json_t *variables;            /* owned: an object, such as {"bos_token": "<s>"} */
};

/* Renders the first n_messages messages of a record. */
enum weft_status wf_chat_render_part(const struct wf_chat *c, json_t *record, size_t n_messages,
                                     bool add_prompt, struct wf_template_output *out,
                                     struct weft_error *err);

#endif
