/* Conversations: how a model writes them as text, and which part of the text the assistant
 * generates.
 *
 *     struct wf_chat *chat = NULL;
 *     WEFT_TRY(wf_chat_open("model", NULL, &chat, err));
 *     if (chat != NULL)
 *         st = wf_chat_render(chat, record, true, &text, err);
 *     wf_chat_free(chat);
 */
#ifndef TRAINING_CHAT_CHAT_H
#define TRAINING_CHAT_CHAT_H

#include <jansson.h>

#include "base/text.h"
#include "weft/status.h"

struct wf_chat; /* opaque: read-only after creation, safe to use from any thread */

/* Opens the chat template of a model: `file` if it is not NULL, otherwise chat_template.jinja
 * in the directory of the tokenizer `path`, otherwise chat_template in its
 * tokenizer_config.json. The names of special tokens come from tokenizer_config.json.  *out is
 * NULL if there is no template.  The caller owns *out.  Local. */
enum weft_status wf_chat_open(const char *path, const char *file, struct wf_chat **out,
                              struct weft_error *err);

/* Creates a chat from the text of a template and an object of further variables, such as
 * bos_token; it may be NULL and is borrowed during the call.  The caller owns *out.  Local. */
enum weft_status wf_chat_new(const char *text, size_t len, const char *name, json_t *variables,
                             struct wf_chat **out, struct weft_error *err);
void wf_chat_free(struct wf_chat *c); /* NULL is allowed */

/* Writes a conversation as text.  `record` is an object with "messages" and perhaps "tools" and
 * "documents".  With `add_prompt` the text ends where the assistant's next answer begins.
 * Appends to *out.  Local. */
enum weft_status wf_chat_render(const struct wf_chat *c, json_t *record, bool add_prompt,
                                struct wf_text *out, struct weft_error *err);

/* A part of a text: [begin, end) in bytes. */
struct wf_chat_span {
    size_t begin, end;
};

/* A conversation as text and the parts that the assistant generates.  A zeroed struct is
 * empty. */
struct wf_chat_text {
    struct wf_text text;
    struct wf_chat_span *answers; /* owned: in the order of the text, not overlapping */
    size_t n_answers;
};

/* Writes a conversation and finds the answers of the assistant.
 *
 * If the template has {% generation %} blocks, their output is the answers.  Otherwise answer i
 * begins where the text of the messages before it, with a prompt for the assistant, ends; and
 * it ends where the text of the messages up to it ends, without white space after its last
 * mark. Returns WEFT_DATA if the conversation is not valid or if the answers cannot be found,
 * because the template changes earlier messages.  The caller releases *out on success and on
 * error. Local. */
enum weft_status wf_chat_write(const struct wf_chat *c, json_t *record,
                               struct wf_chat_text *out, struct weft_error *err);
void wf_chat_text_release(struct wf_chat_text *t);

#endif
