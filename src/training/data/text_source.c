/* Reads text in segments.  Removes byte order marks and makes LF of CR LF. */
#include "training/data/text_source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "training/data/text_records.h"

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
    wf_stream_free(r->in);
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
    WEFT_TRY(wf_stream_open(file->path, &r->in, err));
    r->kind = file->kind;
    if (r->kind == WF_TEXT_UNKNOWN) {
        struct wf_text_found found;
        WEFT_TRY(wf_text_find_kind(file->path, r->in, r->list->options.format, &found, err));
        if (found.kind == WF_TEXT_BINARY)
            return WEFT_FAIL(err, WEFT_DATA, "%.240s: is %s, not text", wf_text_name(file),
                             found.what);
        r->kind = found.kind;
    }
    if (file->begin > 0)
        WEFT_TRY(wf_stream_seek(r->in, file->begin, err));

    r->at = file->begin;
    /* In the second part of a split file, line numbers continue. */
    if (file->begin == 0)
        r->line = 1;
    r->n_rest = 0;
    return WEFT_OK;
}

/* Reads n bytes to the end of a segment.  Sets *ended at the end of the file. */
static enum weft_status append(struct wf_text_reader *r, struct wf_text_segment *b, size_t n,
                               bool *ended, struct weft_error *err)
{
    uint64_t left = current(r)->end - r->at;
    size_t got = 0;
    if (left < n)
        n = (size_t)left;
    WEFT_TRY(reserve(&b->text, &b->cap, b->len + n, err));
    WEFT_TRY(wf_stream_read(r->in, b->text + b->len, n, &got, err));
    *ended = got < n || r->at + got == current(r)->end;
    r->at += got;
    b->len += got;
    return WEFT_OK;
}

/* Replaces CR LF by LF from position `from` on. */
static void join_lines(struct wf_text_segment *b, size_t from)
{
    char *cr = memchr(b->text + from, '\r', b->len - from);
    if (cr == NULL)
        return;
    size_t to = (size_t)(cr - b->text);
    for (size_t i = to; i < b->len; i++)
        if (b->text[i] != '\r' || i + 1 == b->len || b->text[i + 1] != '\n')
            b->text[to++] = b->text[i];
    b->len = to;
}

/* Reads text until the segment has about `target` bytes.  Sets *ended at the end of the file.
 * */
static enum weft_status fill(struct wf_text_reader *r, struct wf_text_segment *b, size_t target,
                             bool *ended, struct weft_error *err)
{
    static const char bom[] = "\xEF\xBB\xBF";
    size_t from = b->len;
    bool first = r->at == 0;
    WEFT_TRY(append(r, b, target - b->len, ended, err));
    if (first && b->len >= 3 && memcmp(b->text, bom, 3) == 0) {
        b->len -= 3;
        memmove(b->text, b->text + 3, b->len);
    }
    if (r->kind != WF_TEXT_PLAIN)
        return WEFT_OK;

    /* A CR at the end may be the first half of CR LF. */
    while (!*ended && b->len > from && b->text[b->len - 1] == '\r')
        WEFT_TRY(append(r, b, 1, ended, err));
    if (b->len > from)
        join_lines(b, from);
    return WEFT_OK;
}

static enum weft_status check_text(const struct wf_text_segment *b, struct weft_error *err)
{
    const char *nul = memchr(b->text, '\0', b->len);
    if (nul == NULL)
        return WEFT_OK;
    uint64_t line = b->line + count_newlines(b->text, (size_t)(nul - b->text));
    return WEFT_FAIL(err, WEFT_DATA, "%.240s:%" PRIu64 ": has a zero byte; it is not text",
                     wf_text_name(b->file), line);
}

/* Returns the length at which a segment can be cut if the file continues, or 0 if there is no
 * such length yet. */
static size_t cut_at(const struct wf_text_reader *r, const struct wf_text_segment *b)
{
    if (b->kind == WF_TEXT_PLAIN)
        return r->cut(r->cut_ctx, b->text, b->len);
    if (b->kind == WF_TEXT_JSON)
        return wf_text_cut_json(b->text, b->len);
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
    b->kind = r->kind;
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
    b->begins_document = r->in == NULL;
    if (r->in == NULL)
        WEFT_TRY(open_next(r, err));
    WEFT_TRY(start_segment(r, b, err));

    size_t target = b->len + r->segment_bytes, cut = 0;
    bool ended = false;
    while (!ended && cut == 0) {
        if (target > MAX_SEGMENT_BYTES)
            return WEFT_FAIL(err, WEFT_DATA,
                             "%.240s:%" PRIu64 ": %d bytes without a place to split the text",
                             wf_text_name(b->file), b->line, MAX_SEGMENT_BYTES);
        WEFT_TRY(fill(r, b, target, &ended, err));
        cut = ended ? b->len : cut_at(r, b);
        target *= 2;
    }

    WEFT_TRY(end_segment(r, b, cut, err));
    if (b->kind == WF_TEXT_PLAIN)
        WEFT_TRY(check_text(b, err));

    r->line += count_newlines(b->text, b->len);
    b->ends_document = ended && b->kind == WF_TEXT_PLAIN;
    if (ended) {
        wf_stream_free(r->in);
        r->in = NULL;
        r->next_file++;
    }
    return WEFT_OK;
}
