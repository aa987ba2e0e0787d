/* Converts conversations to tokens and marks the tokens that the assistant generates. */
#include "training/data/chat_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Returns true if the bytes of the tokens are the text. */
static bool spell(const struct weft_tokenizer *t, const int32_t *tokens, size_t n,
                  const struct wf_text *text)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *bytes = weft_tokenizer_token(t, tokens[i], &len);
        if (bytes == NULL || len > text->len - at || memcmp(bytes, text->at + at, len) != 0)
            return false;
        at += len;
    }
    return at == text->len;
}

/* Finds the tokens [*first, *last) of a part of the text by their bytes.  A token that is only
 * partly in the part belongs to it. */
static void find_by_bytes(const struct weft_tokenizer *t, const int32_t *tokens, size_t n,
                          struct wf_chat_span part, size_t *first, size_t *last)
{
    size_t at = 0;
    *first = *last = n;
    for (size_t i = 0; i < n && at < part.end; i++) {
        size_t len = 0;
        weft_tokenizer_token(t, tokens[i], &len);
        if (*first == n && at + len > part.begin)
            *first = i;
        *last = i + 1;
        at += len;
    }
    if (*first > *last)
        *first = *last;
}

/* Returns how many tokens at the start of `tokens` are those of a prefix of the text.  Used for
 * tokenizers that change the text, so that their tokens do not spell it. */
static enum weft_status count_prefix(struct wf_encoder *e, const struct wf_text *text,
                                     size_t len, const int32_t *tokens, size_t n, size_t *out,
                                     struct weft_error *err)
{
    struct weft_tokens prefix = {0};
    enum weft_status st = wf_encoder_encode_special(e, text->at, len, &prefix, err);
    size_t same = 0;
    while (same < prefix.len && same < n && prefix.at[same] == tokens[same])
        same++;
    weft_tokens_release(&prefix);
    *out = same;
    return st;
}

static enum weft_status mark(const struct weft_tokenizer *t, struct wf_encoder *e,
                             const struct wf_chat_text *chat, int32_t *tokens, size_t n,
                             bool *counted, struct weft_error *err)
{
    bool spelled = spell(t, tokens, n, &chat->text);
    for (size_t a = 0; a < chat->n_answers; a++) {
        struct wf_chat_span part = chat->answers[a];
        size_t first = 0, last = 0;
        if (spelled) {
            find_by_bytes(t, tokens, n, part, &first, &last);
        } else {
            WEFT_TRY(count_prefix(e, &chat->text, part.begin, tokens, n, &first, err));
            WEFT_TRY(count_prefix(e, &chat->text, part.end, tokens, n, &last, err));
        }
        for (size_t i = first; i < last; i++)
            counted[i] = true;
    }
    for (size_t i = 0; i < n; i++)
        tokens[i] = counted[i] ? tokens[i] : ~tokens[i];
    return WEFT_OK;
}

enum weft_status wf_chat_tokens_add(const struct wf_chat *chat, const struct weft_tokenizer *t,
                                    struct wf_encoder *encoder, json_t *record,
                                    struct weft_tokens *out, uint64_t *text_bytes,
                                    struct weft_error *err)
{
    struct wf_chat_text text = {0};
    size_t before = out->len;
    bool *counted = NULL;
    enum weft_status st = wf_chat_write(chat, record, &text, err);
    if (st == WEFT_OK && text.text.len > 0)
        st = wf_encoder_encode_special(encoder, text.text.at, text.text.len, out, err);
    if (st == WEFT_OK) {
        counted = calloc(out->len - before + 1, sizeof *counted);
        st = counted == NULL
                 ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a conversation")
                 : mark(t, encoder, &text, out->at + before, out->len - before, counted, err);
    }
    if (st == WEFT_OK)
        *text_bytes += text.text.len;
    free(counted);
    wf_chat_text_release(&text);
    return st;
}
