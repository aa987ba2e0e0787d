/* Finds the part of a conversation's text that the assistant generates.
 *
 * Without {% generation %} blocks, prefixes of the conversation are rendered.  For answer i:
 *
 *     A   messages before the answer          <user>Hi<end>
 *     P   A with a prompt for the assistant   <user>Hi<end><assistant>
 *     F   messages up to the answer           <user>Hi<end><assistant>Hello<end>
 *     R   the whole conversation              <user>Hi<end><assistant>Hello<end><user>...
 *
 * A or P must be a prefix of R.  The answer begins where R stops to agree with P, and ends with
 * F.  Some templates write an answer differently once a question follows it, so that F is not a
 * prefix of R.  Then the answer ends after the content of the message and what follows it both
 * in F and in R.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/chat/chat_priv.h"

/* Returns the number of equal bytes at the start of two texts. */
static size_t common(const struct wf_text *a, const struct wf_text *b)
{
    size_t n = 0, max = wf_size_min(a->len, b->len);
    while (n < max && a->at[n] == b->at[n])
        n++;
    return n;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns a string without white space at both ends. */
static struct wf_chat_span trim(const char *text, size_t begin, size_t end)
{
    while (begin < end && is_space(text[begin]))
        begin++;
    while (end > begin && is_space(text[end - 1]))
        end--;
    return (struct wf_chat_span){begin, end};
}

/* Returns the last position in [from, len) at which `part` begins, or SIZE_MAX. */
static size_t find_last(const struct wf_text *t, size_t from, const char *part, size_t n)
{
    for (size_t i = t->len; i-- > from;)
        if (t->len - i >= n && memcmp(t->at + i, part, n) == 0)
            return i;
    return SIZE_MAX;
}

static size_t find_first(const struct wf_text *t, size_t from, const char *part, size_t n)
{
    for (size_t i = from; i + n <= t->len; i++)
        if (memcmp(t->at + i, part, n) == 0)
            return i;
    return SIZE_MAX;
}

/* Finds the end of an answer that R writes differently from F. */
static bool find_end(const struct wf_text *whole, const struct wf_text *upto, size_t begin,
                     const json_t *content, size_t *end)
{
    const char *text = json_string_value(content);
    if (text == NULL)
        return false;
    struct wf_chat_span part = trim(text, 0, json_string_length(content));
    size_t n = part.end - part.begin;
    size_t in_upto = find_last(upto, wf_size_min(begin, upto->len), text + part.begin, n);
    size_t at = find_first(whole, begin, text + part.begin, n);
    if (n == 0 || in_upto == SIZE_MAX || at == SIZE_MAX)
        return false;

    /* What follows the content must agree, at least up to a white space. */
    const char *tail = upto->at + in_upto + n, *next = whole->at + at + n;
    size_t n_tail = upto->len - in_upto - n, n_next = whole->len - at - n, same = 0;
    while (same < n_tail && same < n_next && tail[same] == next[same])
        same++;
    while (same < n_tail && same > 0 && !is_space(tail[same]))
        same--;
    *end = at + n + trim(tail, 0, same).end;
    return n_tail == 0 || *end > at + n;
}

/* Returns the end of an answer without the white space after its last mark.  The white space of
 * an answer that has no mark belongs to it. */
static size_t trim_end(const struct wf_text *whole, size_t begin, size_t end,
                       const json_t *content)
{
    size_t trimmed = trim(whole->at, begin, end).end;
    size_t n = json_string_length(content);
    bool has_mark = true;
    if (json_is_string(content) && n > 0) {
        struct wf_chat_span part = trim(json_string_value(content), 0, n);
        size_t len = part.end - part.begin;
        has_mark =
            trimmed - begin < len || memcmp(whole->at + trimmed - len,
                                            json_string_value(content) + part.begin, len) != 0;
    }
    return has_mark ? trimmed : end;
}

static enum weft_status add_answer(struct wf_chat_text *out, size_t begin, size_t end,
                                   struct weft_error *err)
{
    if (end <= begin)
        return WEFT_OK;
    struct wf_chat_span *more = realloc(out->answers, (out->n_answers + 1) * sizeof *more);
    if (more == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a conversation");
    out->answers = more;
    out->answers[out->n_answers++] = (struct wf_chat_span){begin, end};
    return WEFT_OK;
}

/* Adds the answer of message i. */
static enum weft_status find_answer(const struct wf_chat *c, json_t *record, size_t i,
                                    struct wf_chat_text *out, struct weft_error *err)
{
    const json_t *message = json_array_get(json_object_get(record, "messages"), i);
    const json_t *content = json_object_get(message, "content");
    struct wf_template_output before = {0}, prompt = {0}, upto = {0};
    enum weft_status st = WEFT_OK;
    if (i > 0)
        st = wf_chat_render_part(c, record, i, false, &before, err);
    if (st == WEFT_OK && i > 0)
        st = wf_chat_render_part(c, record, i, true, &prompt, err);
    if (st == WEFT_OK)
        st = wf_chat_render_part(c, record, i + 1, false, &upto, err);

    if (st == WEFT_OK) {
        size_t begin = common(&prompt.text, &out->text), end = upto.text.len;
        bool found =
            begin == prompt.text.len || common(&before.text, &out->text) == before.text.len;
        if (common(&upto.text, &out->text) < upto.text.len)
            found = found && find_end(&out->text, &upto.text, begin, content, &end);
        st = found ? add_answer(out, begin, trim_end(&out->text, begin, end, content), err)
                   : WEFT_FAIL(err, WEFT_DATA,
                               "the answer in message %zu cannot be found, because the "
                               "template changes earlier messages; use a template with "
                               "generation blocks",
                               i + 1);
    }
    wf_template_output_release(&before);
    wf_template_output_release(&prompt);
    wf_template_output_release(&upto);
    return st;
}

static enum weft_status check_messages(const json_t *messages, struct weft_error *err)
{
    size_t i;
    json_t *message;
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return WEFT_FAIL(err, WEFT_DATA, "\"messages\" is not a list with a message");
    json_array_foreach(messages, i, message)
    {
        if (!json_is_string(json_object_get(message, "role")))
            return WEFT_FAIL(err, WEFT_DATA, "message %zu has no string \"role\"", i + 1);
    }
    return WEFT_OK;
}

enum weft_status wf_chat_write(const struct wf_chat *c, json_t *record,
                               struct wf_chat_text *out, struct weft_error *err)
{
    const json_t *messages = json_object_get(record, "messages");
    struct wf_template_output whole = {0};
    WEFT_TRY(check_messages(messages, err));
    enum weft_status st = wf_chat_render_part(c, record, SIZE_MAX, false, &whole, err);
    out->text = whole.text;
    whole.text = (struct wf_text){0};

    if (wf_template_marks_generation(c->template)) {
        for (size_t i = 0; st == WEFT_OK && i < whole.n_generated; i++)
            st = add_answer(out, whole.generated[i].begin, whole.generated[i].end, err);
    } else {
        for (size_t i = 0; st == WEFT_OK && i < json_array_size(messages); i++) {
            const json_t *role = json_object_get(json_array_get(messages, i), "role");
            if (strcmp(json_string_value(role), "assistant") == 0)
                st = find_answer(c, record, i, out, err);
        }
    }
    wf_template_output_release(&whole);
    return st;
}

void wf_chat_text_release(struct wf_chat_text *t)
{
    wf_text_release(&t->text);
    free(t->answers);
    *t = (struct wf_chat_text){0};
}
