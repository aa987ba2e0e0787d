/* Parses JSON lines and JSON arrays, and finds the text of each record. */
#include "training/data/text_records.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "config/json_input.h"

static struct wf_text_span span_of(const json_t *string)
{
    return (struct wf_text_span){json_string_value(string), json_string_length(string)};
}

/* Lists the fields of a record for an error message. */
static void list_fields(json_t *root, struct wf_text *out)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach(root, key, value)
    {
        if (n++ == 8) {
            wf_text_adds(out, ", ...");
            break;
        }
        wf_text_addf(out, "%s%.40s", n == 1 ? "" : ", ", wf_printable(key).at);
    }
    if (n == 0)
        wf_text_adds(out, "none");
}

static enum weft_status fail_field(json_t *root, const char *wanted, struct weft_error *err)
{
    struct wf_text fields = {0};
    if (!json_is_object(root))
        return WEFT_FAIL(err, WEFT_DATA, "is not a JSON object (expected a record)");
    list_fields(root, &fields);
    enum weft_status st = WEFT_FAIL(err, WEFT_DATA, "has no string \"%.60s\" (its fields: %s)",
                                    wanted, fields.failed ? "?" : fields.at);
    wf_text_release(&fields);
    return st;
}

/* Finds the document of a record. */
static enum weft_status find_document(json_t *root, const char *field, struct wf_document *out,
                                      struct weft_error *err)
{
    json_t *text = json_object_get(root, field == NULL ? "text" : field);
    json_t *prompt = json_object_get(root, "prompt");
    json_t *completion = json_object_get(root, "completion");
    *out = (struct wf_document){.record = root};

    if (json_is_string(text)) {
        out->kind = WF_DOCUMENT_TEXT;
        out->text = span_of(text);
    } else if (field != NULL && json_is_array(text)) {
        return WEFT_FAIL(err, WEFT_DATA, "the field \"%.60s\" is a list (expected a string)",
                         field);
    } else if (field == NULL && json_is_array(json_object_get(root, "messages"))) {
        out->kind = WF_DOCUMENT_CHAT;
    } else if (field == NULL && json_is_string(prompt) && json_is_string(completion)) {
        out->kind = WF_DOCUMENT_PAIR;
        out->text = span_of(prompt);
        out->completion = span_of(completion);
    } else {
        return fail_field(root, field == NULL ? "text" : field, err);
    }
    return WEFT_OK;
}

enum weft_status wf_document_visit(const struct wf_document *d,
                                   enum weft_status (*on_text)(void *ctx,
                                                               struct wf_text_span text,
                                                               struct weft_error *err),
                                   void *ctx, struct weft_error *err)
{
    if (d->kind != WF_DOCUMENT_CHAT)
        WEFT_TRY(on_text(ctx, d->text, err));
    if (d->kind == WF_DOCUMENT_PAIR)
        WEFT_TRY(on_text(ctx, d->completion, err));
    if (d->kind == WF_DOCUMENT_CHAT) {
        size_t i;
        json_t *message;
        json_array_foreach(json_object_get(d->record, "messages"), i, message)
        {
            const json_t *content = json_object_get(message, "content");
            if (json_is_string(content))
                WEFT_TRY(on_text(ctx, span_of(content), err));
        }
    }
    return WEFT_OK;
}

/* -- records ------------------------------------------------------------------------------- */

struct record_parser {
    const struct wf_text_segment *segment;
    const struct wf_text_options *options;
    wf_document_fn *on_document;
    void *ctx;
    struct wf_bad_records *bad;
};

/* Loads a value; *out is NULL if the text is not JSON.  Whole numbers beyond 64 bits become
 * floating-point numbers. */
static enum weft_status load(const struct record_parser *p, const char *text, size_t len,
                             size_t flags, json_t **out, json_error_t *why,
                             struct weft_error *err)
{
    const char *name = wf_text_name(p->segment->file);
    flags |= JSON_ALLOW_NUL;
    WEFT_TRY(wf_json_load(text, len, flags, name, out, why, err));
    if (*out != NULL || json_error_code(why) != json_error_numeric_overflow)
        return WEFT_OK;
    return wf_json_load(text, len, flags | JSON_DECODE_INT_AS_REAL, name, out, why, err);
}

/* Handles a record that was loaded, or the reason why it was not.  Takes a reference. */
static enum weft_status handle(const struct record_parser *p, json_t *root,
                               const json_error_t *why, uint64_t line, struct weft_error *err)
{
    struct weft_error cause = {0};
    struct wf_document document;
    enum weft_status st;
    if (root == NULL)
        st = WEFT_FAIL(&cause, WEFT_DATA, "not valid JSON: %s", wf_printable(why->text).at);
    else
        st = find_document(root, p->options->field, &document, &cause);
    if (st == WEFT_OK)
        st = p->on_document(p->ctx, &document, &cause);
    json_decref(root);
    if (st == WEFT_OK)
        return st;

    if (st == WEFT_DATA) {
        char where[280];
        snprintf(where, sizeof where, "%.200s:%" PRIu64 ": ", wf_text_name(p->segment->file),
                 line);
        wf_error_wrap(&cause, where, "");
    }
    if (st == WEFT_DATA && p->options->skip_bad) {
        if (p->bad->n++ == 0)
            p->bad->first = cause;
        return WEFT_OK;
    }
    if (err != NULL)
        *err = cause;
    return st;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static enum weft_status parse_lines(const struct record_parser *p, struct weft_error *err)
{
    const struct wf_text_segment *b = p->segment;
    uint64_t number = b->line;
    for (size_t at = 0; at < b->len; number++) {
        const char *newline = memchr(b->text + at, '\n', b->len - at);
        size_t end = newline == NULL ? b->len : (size_t)(newline - b->text);
        const char *line = b->text + at;
        if (!is_blank(line, end - at)) {
            json_error_t why;
            json_t *root = NULL;
            WEFT_TRY(load(p, line, end - at, 0, &root, &why, err));
            WEFT_TRY(handle(p, root, &why, number, err));
        }
        at = end + 1;
    }
    return WEFT_OK;
}

/* Returns the position of the next value: after spaces, commas and brackets of the array. */
static size_t next_value(const struct wf_text_segment *b, size_t at, uint64_t *line)
{
    while (at < b->len && memchr(" \t\r\n,[]", b->text[at], 8) != NULL) {
        *line += b->text[at] == '\n';
        at++;
    }
    return at;
}

/* Returns the length of the value that starts a text, by its brackets and strings; `len` if it
 * does not end. */
static size_t value_length(const char *text, size_t len)
{
    size_t depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth <= 1)
                return depth == 1 ? i + 1 : i;
            depth--;
        } else if (depth == 0 && (c == ',' || c == '\n')) {
            return i;
        }
    }
    return len;
}

/* Parses values that may span lines.  A value ends where its brackets close, so that a bad
 * value does not affect the next one. */
static enum weft_status parse_values(const struct record_parser *p, struct weft_error *err)
{
    const struct wf_text_segment *b = p->segment;
    uint64_t line = b->line;
    for (size_t at = next_value(b, 0, &line); at < b->len; at = next_value(b, at, &line)) {
        json_error_t why;
        size_t len = value_length(b->text + at, b->len - at);
        json_t *root = NULL;
        WEFT_TRY(load(p, b->text + at, len, JSON_DECODE_ANY, &root, &why, err));
        WEFT_TRY(handle(p, root, &why, line, err));
        for (size_t i = 0; i < len; i++)
            line += b->text[at + i] == '\n';
        at += len > 0 ? len : 1;
    }
    return WEFT_OK;
}

size_t wf_text_cut_json(const char *text, size_t len)
{
    const struct wf_text_segment b = {.text = (char *)text, .len = len};
    uint64_t line = 0;
    size_t cut = 0;
    for (size_t at = next_value(&b, 0, &line); at < len; at = next_value(&b, cut, &line)) {
        size_t n = value_length(text + at, len - at);
        if (at + n >= len)
            break;
        cut = at + (n > 0 ? n : 1);
    }
    return cut;
}

enum weft_status wf_text_parse_records(const struct wf_text_segment *segment,
                                       const struct wf_text_options *options,
                                       wf_document_fn *on_document, void *ctx,
                                       struct wf_bad_records *bad, struct weft_error *err)
{
    const struct record_parser p = {segment, options, on_document, ctx, bad};
    return segment->kind == WF_TEXT_JSON ? parse_values(&p, err) : parse_lines(&p, err);
}
