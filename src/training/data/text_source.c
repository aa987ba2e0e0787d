/* Reads text in segments and parses JSON lines. */
#include "training/data/text_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/size.h"
#include "config/json_input.h"

enum {
    SEGMENT_BYTES = 1 << 20,
    /* Maximum size of a JSON line and of text without a boundary. */
    MAX_SEGMENT_BYTES = 1 << 28,
};

void wf_text_reader_init(struct wf_text_reader *r, const struct wf_text_list *list,
                         wf_text_boundary_fn *cut, const void *cut_ctx)
{
    *r = (struct wf_text_reader){
        .list = list, .cut = cut, .cut_ctx = cut_ctx, .segment_bytes = SEGMENT_BYTES};
}

void wf_text_reader_release(struct wf_text_reader *r)
{
    if (r->in != NULL)
        fclose(r->in);
    free(r->rest);
    *r = (struct wf_text_reader){0};
}

static enum weft_status reserve(char **at, size_t *cap, size_t need, struct weft_error *err)
{
    if (need <= *cap)
        return WEFT_OK;
    char *larger = realloc(*at, need);
    if (larger == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu bytes of text", need);
    *at = larger;
    *cap = need;
    return WEFT_OK;
}

static uint64_t count_newlines(const char *text, size_t len)
{
    uint64_t n = 0;
    const char *end = text + len;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
        n++;
    return n;
}

static const struct wf_text_file *current(const struct wf_text_reader *r)
{
    return &r->list->at[r->next_file];
}

static enum weft_status open_next(struct wf_text_reader *r, struct weft_error *err)
{
    const struct wf_text_file *file = current(r);
    r->in = fopen(file->path, "rb");
    if (r->in == NULL)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", file->path,
                         strerror(errno));
    if (file->begin > 0 && fseeko(r->in, (off_t)file->begin, SEEK_SET) != 0)
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", file->path,
                         strerror(errno));
    r->at = file->begin;
    /* In the second part of a split file, line numbers continue. */
    if (file->begin == 0)
        r->line = 1;
    r->n_rest = 0;
    return WEFT_OK;
}

/* Reads text until the segment has `target` bytes.  Sets *ended at the end of the file. */
static enum weft_status fill(struct wf_text_reader *r, struct wf_text_segment *b, size_t target,
                             bool *ended, struct weft_error *err)
{
    const struct wf_text_file *file = current(r);
    WEFT_TRY(reserve(&b->text, &b->cap, target, err));
    uint64_t rest = file->end - r->at;
    size_t n = target - b->len;
    if (rest < n)
        n = (size_t)rest;
    size_t got = fread(b->text + b->len, 1, n, r->in);
    if (ferror(r->in))
        return WEFT_FAIL(err, wf_errno_status(errno, WEFT_DATA), "%.240s: %s", file->path,
                         strerror(errno));
    *ended = got < n || r->at + got == file->end;
    r->at += got;
    b->len += got;
    return WEFT_OK;
}

static enum weft_status check_text(const struct wf_text_segment *b, struct weft_error *err)
{
    const char *nul = memchr(b->text, '\0', b->len);
    if (nul == NULL)
        return WEFT_OK;
    uint64_t line = b->line + count_newlines(b->text, (size_t)(nul - b->text));
    return WEFT_FAIL(err, WEFT_DATA, "%.240s:%" PRIu64 ": has a zero byte; it is not text",
                     b->file->path, line);
}

/* Returns the length at which a segment can be cut if the file continues, or 0 if there is no
 * such length yet. */
static size_t cut_at(const struct wf_text_reader *r, const struct wf_text_segment *b)
{
    if (!b->file->json)
        return r->cut(r->cut_ctx, b->text, b->len);
    for (size_t i = b->len; i > 0; i--)
        if (b->text[i - 1] == '\n')
            return i;
    return 0;
}

/* Starts a segment with the remaining bytes of the previous segment. */
static enum weft_status start_segment(struct wf_text_reader *r, struct wf_text_segment *b,
                                      struct weft_error *err)
{
    b->file = current(r);
    b->line = r->line;
    b->len = 0;
    b->ends_document = false;
    WEFT_TRY(reserve(&b->text, &b->cap, r->n_rest + r->segment_bytes, err));
    if (r->n_rest > 0)
        memcpy(b->text, r->rest, r->n_rest);
    b->len = r->n_rest;
    r->n_rest = 0;
    return WEFT_OK;
}

/* Shortens a segment and keeps the bytes after the cut for the next segment. */
static enum weft_status end_segment(struct wf_text_reader *r, struct wf_text_segment *b,
                                    size_t cut, struct weft_error *err)
{
    size_t n = b->len - cut;
    WEFT_TRY(reserve(&r->rest, &r->rest_cap, n, err));
    if (n > 0)
        memcpy(r->rest, b->text + cut, n);
    r->n_rest = n;
    b->len = cut;
    return WEFT_OK;
}

enum weft_status wf_text_reader_next(struct wf_text_reader *r, struct wf_text_segment *b,
                                     bool *more, struct weft_error *err)
{
    *more = r->next_file < r->list->n;
    if (!*more)
        return WEFT_OK;
    if (r->in == NULL)
        WEFT_TRY(open_next(r, err));
    WEFT_TRY(start_segment(r, b, err));

    size_t target = b->len + r->segment_bytes, cut = 0;
    bool ended = false;
    while (!ended && cut == 0) {
        if (target > MAX_SEGMENT_BYTES)
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.240s:%" PRIu64 ": %d bytes without a place to split the text",
                             b->file->path, b->line, MAX_SEGMENT_BYTES);
        WEFT_TRY(fill(r, b, target, &ended, err));
        cut = ended ? b->len : cut_at(r, b);
        target *= 2;
    }

    WEFT_TRY(end_segment(r, b, cut, err));
    if (!b->file->json)
        WEFT_TRY(check_text(b, err));

    r->line += count_newlines(b->text, b->len);
    b->ends_document = ended && !b->file->json;
    if (ended) {
        fclose(r->in);
        r->in = NULL;
        r->next_file++;
    }
    return WEFT_OK;
}

/* -- JSON lines ---------------------------------------------------------------------------- */

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static enum weft_status parse_line(const struct wf_text_segment *b, uint64_t number,
                                   const char *line, size_t len,
                                   wf_text_document_fn *on_document, void *ctx,
                                   struct weft_error *err)
{
    json_error_t why;
    json_t *root = NULL;
    WEFT_TRY(wf_json_load(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, b->file->path,
                          &root, &why, err));
    const json_t *text = json_object_get(root, "text");
    enum weft_status st;
    if (root == NULL)
        st = WEFT_FAIL(err, WEFT_DATA, "%.200s:%" PRIu64 ": not valid JSON: %s", b->file->path,
                       number, wf_printable(why.text).at);
    else if (!json_is_string(text))
        st = WEFT_FAIL(err, WEFT_DATA, "%.200s:%" PRIu64 ": has no string \"text\"",
                       b->file->path, number);
    else
        st = on_document(ctx, json_string_value(text), json_string_length(text), err);
    json_decref(root);
    return st;
}

enum weft_status wf_text_parse_jsonl(const struct wf_text_segment *b,
                                     wf_text_document_fn *on_document, void *ctx,
                                     struct weft_error *err)
{
    uint64_t number = b->line;
    for (size_t at = 0; at < b->len; number++) {
        const char *newline = memchr(b->text + at, '\n', b->len - at);
        size_t end = newline == NULL ? b->len : (size_t)(newline - b->text);
        const char *line = b->text + at;
        if (!is_blank(line, end - at))
            WEFT_TRY(parse_line(b, number, line, end - at, on_document, ctx, err));
        at = end + 1;
    }
    return WEFT_OK;
}
