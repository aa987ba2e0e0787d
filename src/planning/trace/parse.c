/* Parser of the text form of traces.  The parser checks every byte.  The memory grows only with
 * the number of events, never with the sizes in the header, because each rank, stage and micro
 * must have an event. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "planning/sched/action_parse.h"
#include "weft/trace.h"

enum { TRACE_VERSION = 1 };

struct trace_reader {
    struct wf_cursor c;
    struct weft_trace trace; /* owned */
    size_t sizes_line;
    unsigned seen; /* header words read so far, one bit per word */
    struct weft_error *err;
};

__attribute__((format(printf, 3, 4))) static enum weft_status
fail_at(struct trace_reader *r, const char *at, const char *format, ...)
{
    char what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return WEFT_FAIL(r->err, WEFT_DATA, "%.80s:%zu:%zu: %s", r->c.source, r->c.line,
                     (size_t)(at - r->c.line_start) + 1, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool at_line_end(const struct trace_reader *r)
{
    const char *at = r->c.at;
    return at == r->c.end || *at == '\n' ||
           (*at == '\r' && (at + 1 == r->c.end || at[1] == '\n'));
}

static void skip_blanks(struct trace_reader *r)
{
    while (r->c.at < r->c.end && is_blank(*r->c.at))
        r->c.at++;
}

static void next_line(struct trace_reader *r)
{
    while (r->c.at < r->c.end && *r->c.at != '\n')
        r->c.at++;
    if (r->c.at < r->c.end)
        r->c.at++;
    r->c.line++;
    r->c.line_start = r->c.at;
}

/* -- words and numbers ---------------------------------------------------------------------- */

struct word {
    const char *at; /* borrowed */
    size_t len;
};

static struct word next_word(struct trace_reader *r)
{
    skip_blanks(r);
    struct word w = {r->c.at, 0};
    while (!at_line_end(r) && !is_blank(*r->c.at))
        r->c.at++;
    w.len = (size_t)(r->c.at - w.at);
    return w;
}

static bool is_word(struct word w, const char *text)
{
    return strlen(text) == w.len && memcmp(text, w.at, w.len) == 0;
}

/* Prints a word for a message, truncated and with unprintable bytes replaced by '?'. */
static const char *show(struct word w, char out[32])
{
    wf_printable_copy(out, 25, w.at, w.len);
    return out;
}

static enum weft_status read_count(struct trace_reader *r, const char *what, uint64_t max_value,
                                   uint64_t *out)
{
    char text[32];
    struct word w = next_word(r);
    uint64_t value = 0;
    if (w.len == 0)
        return fail_at(r, w.at, "%s is missing", what);
    for (size_t i = 0; i < w.len; i++) {
        unsigned digit = (unsigned char)w.at[i] - (unsigned)'0';
        if (digit > 9)
            return fail_at(r, w.at, "%s: '%s' is not a whole number", what, show(w, text));
        if (value > (max_value - digit) / 10)
            return fail_at(r, w.at, "%s: %s is too large", what, show(w, text));
        value = value * 10 + digit;
    }
    *out = value;
    return WEFT_OK;
}

static enum weft_status read_number(struct trace_reader *r, const char *what, double min_value,
                                    double *out)
{
    char text[64], shown[32], *end = NULL;
    struct word w = next_word(r);
    if (w.len == 0)
        return fail_at(r, w.at, "%s is missing", what);

    size_t n = w.len < sizeof text ? w.len : 0;
    memcpy(text, w.at, n);
    text[n] = '\0';
    double value = strtod(text, &end);
    if (n == 0 || end != text + n || strspn(text, "0123456789.eE+-") < n) /* no hex, no inf */
        return fail_at(r, w.at, "%s: '%s' is not a number", what, show(w, shown));
    if (!isfinite(value) || value < min_value)
        return fail_at(r, w.at, "%s: %s is out of range", what, show(w, shown));
    *out = value + 0.0; /* -0 becomes 0 */
    return WEFT_OK;
}

static enum weft_status end_of_line(struct trace_reader *r)
{
    char text[32];
    struct word w = next_word(r);
    if (w.len > 0)
        return fail_at(r, w.at, "unexpected '%s' at the end of the line", show(w, text));
    return WEFT_OK;
}

/* -- header --------------------------------------------------------------------------------- */

static enum weft_status read_version(struct trace_reader *r)
{
    struct word w = next_word(r);
    if (!is_word(w, "1"))
        return fail_at(r, w.at, "unsupported version of the trace format (expected %d)",
                       TRACE_VERSION);
    return WEFT_OK;
}

/* Reads the name from the rest of the line, because names may contain blanks. */
static enum weft_status read_name(struct trace_reader *r)
{
    skip_blanks(r);
    const char *begin = r->c.at;
    while (!at_line_end(r)) {
        if (!wf_is_printable_char(*r->c.at))
            return fail_at(r, r->c.at, "the name is not printable ASCII");
        r->c.at++;
    }
    size_t n = (size_t)(r->c.at - begin);
    while (n > 0 && is_blank(begin[n - 1]))
        n--;
    if (n == 0 || n >= sizeof r->trace.name)
        return fail_at(r, begin, "the name must have 1 to %d characters", WEFT_TRACE_NAME - 1);
    memcpy(r->trace.name, begin, n);
    return WEFT_OK;
}

static enum weft_status read_size(struct trace_reader *r, const char *what, uint64_t max_value,
                                  uint32_t *out)
{
    uint64_t value = 0;
    skip_blanks(r);
    const char *at = r->c.at;
    WEFT_TRY(read_count(r, what, max_value, &value));
    if (value == 0)
        return fail_at(r, at, "%s: 0 is out of range; give at least 1", what);
    *out = (uint32_t)value;
    return WEFT_OK;
}

static enum weft_status read_sizes(struct trace_reader *r)
{
    struct weft_trace *t = &r->trace;
    r->sizes_line = r->c.line;
    WEFT_TRY(read_size(r, "ranks", UINT32_MAX - 1, &t->n_ranks));
    struct word w = next_word(r);
    if (!is_word(w, "stages"))
        return fail_at(r, w.at, "expected: # weft ranks P stages S micros M");
    WEFT_TRY(read_size(r, "stages", WEFT_MAX_STAGES, &t->n_stages));
    w = next_word(r);
    if (!is_word(w, "micros"))
        return fail_at(r, w.at, "expected: # weft ranks P stages S micros M");
    return read_size(r, "micros", UINT32_MAX - 1, &t->n_micros);
}

static enum weft_status read_unit(struct trace_reader *r)
{
    return read_number(r, "unit", 0, &r->trace.unit_seconds);
}

static const struct {
    const char *word;
    enum weft_status (*read)(struct trace_reader *r);
} header_words[] = {
    {"trace", read_version}, {"name", read_name}, {"ranks", read_sizes}, {"unit", read_unit}};

/* Reads a line that starts with '#': either a header of weft or a comment. */
static enum weft_status read_hash_line(struct trace_reader *r)
{
    char text[32];
    size_t k = 0;
    r->c.at++;
    if (!is_word(next_word(r), "weft"))
        return WEFT_OK;

    struct word w = next_word(r);
    while (k < WEFT_LEN(header_words) && !is_word(w, header_words[k].word))
        k++;
    if (k == WEFT_LEN(header_words))
        return fail_at(r, w.at, "unknown header '%s' (version %d has trace, name, ranks, unit)",
                       show(w, text), TRACE_VERSION);
    if (r->trace.n_events > 0 || r->trace.n_memory > 0)
        return fail_at(r, w.at, "header lines must precede the events");
    if (k != 0 && r->seen == 0)
        return fail_at(r, w.at, "the first header line must be '# weft trace %d'",
                       TRACE_VERSION);
    if (r->seen >> k & 1)
        return fail_at(r, w.at, "'%s' is given twice", header_words[k].word);

    r->seen |= 1u << k;
    WEFT_TRY(header_words[k].read(r));
    return end_of_line(r);
}

/* -- events --------------------------------------------------------------------------------- */

static enum weft_status read_action(struct trace_reader *r, struct weft_trace_event *e)
{
    struct weft_action cell[2];
    skip_blanks(r);
    enum weft_status st = wf_action_parse(&r->c, cell, r->err);
    if (st == WEFT_SCHEDULE) { /* keep the message, but return the status for invalid data */
        if (r->err != NULL)
            r->err->status = WEFT_DATA;
        return WEFT_DATA;
    }
    WEFT_TRY(st);
    if (!at_line_end(r) && !is_blank(*r->c.at))
        return fail_at(r, r->c.at, "a blank must follow the action");
    e->action = cell[0];
    e->partner = cell[1];
    return WEFT_OK;
}

/* Reads "start length [bytes [peer]]". */
static enum weft_status read_times(struct trace_reader *r, struct weft_trace_event *e)
{
    uint64_t peer = WEFT_NO_RANK;
    WEFT_TRY(read_number(r, "start", 0, &e->start));
    WEFT_TRY(read_number(r, "length", 0, &e->length));
    skip_blanks(r);
    if (!at_line_end(r))
        WEFT_TRY(read_count(r, "bytes", UINT64_MAX, &e->bytes));
    skip_blanks(r);
    if (!at_line_end(r))
        WEFT_TRY(read_count(r, "peer", UINT32_MAX - 1, &peer));
    e->peer = (uint32_t)peer;
    return end_of_line(r);
}

/* Adds line and column to an error message. */
static enum weft_status locate(struct trace_reader *r, const char *at, enum weft_status st,
                               const struct weft_error *why)
{
    if (st != WEFT_DATA)
        return st == WEFT_OK ? st : WEFT_FAIL(r->err, st, "%.300s", why->msg);
    return fail_at(r, at, "%.300s", why->msg);
}

static enum weft_status read_memory(struct trace_reader *r, const char *begin, uint32_t rank)
{
    struct weft_trace_memory sample = {.rank = rank};
    struct weft_error why = {0};
    WEFT_TRY(read_number(r, "time", 0, &sample.time));
    WEFT_TRY(read_number(r, "amount", -HUGE_VAL, &sample.amount));
    WEFT_TRY(end_of_line(r));
    return locate(r, begin, weft_trace_add_memory(&r->trace, &sample, &why), &why);
}

static enum weft_status read_event(struct trace_reader *r)
{
    struct weft_trace_event e = {0};
    struct weft_error why = {0};
    char text[32];
    uint64_t rank = 0;
    const char *begin = r->c.at;
    if (r->sizes_line == 0)
        return fail_at(r, begin,
                       "missing header before the events: # weft ranks P stages S micros M");

    WEFT_TRY(read_count(r, "rank", UINT32_MAX - 1, &rank));
    e.rank = (uint32_t)rank;
    struct word lane = next_word(r);
    if (is_word(lane, "memory"))
        return read_memory(r, begin, e.rank);

    int k = 0;
    while (k < WEFT_LANE_COUNT && !is_word(lane, weft_lane_name((enum weft_lane)k)))
        k++;
    if (k == WEFT_LANE_COUNT)
        return fail_at(r, lane.at,
                       "'%s' is not one of compute, send, receive, collective, wait, memory",
                       show(lane, text));

    e.lane = (enum weft_lane)k;
    WEFT_TRY(read_action(r, &e));
    WEFT_TRY(read_times(r, &e));
    return locate(r, begin, weft_trace_add_event(&r->trace, &e, &why), &why);
}

static enum weft_status read_lines(struct trace_reader *r)
{
    while (r->c.at < r->c.end) {
        skip_blanks(r);
        if (!at_line_end(r))
            WEFT_TRY(*r->c.at == '#' ? read_hash_line(r) : read_event(r));
        next_line(r);
    }
    return WEFT_OK;
}

static enum weft_status check_sizes(struct trace_reader *r)
{
    const struct weft_trace *t = &r->trace;
    const struct {
        const char *what;
        uint32_t n;
    } sizes[] = {{"ranks", t->n_ranks}, {"stages", t->n_stages}, {"micros", t->n_micros}};
    if (!(r->seen & 1))
        return WEFT_FAIL(r->err, WEFT_DATA,
                         "%.80s:1:1: a trace must begin with '# weft trace %d'", r->c.source,
                         TRACE_VERSION);
    if (t->n_events == 0)
        return WEFT_FAIL(r->err, WEFT_DATA,
                         "%.80s: no events (expected one per line, such as 0 compute 0F0 0 1)",
                         r->c.source);
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        if (sizes[i].n > t->n_events)
            return WEFT_FAIL(r->err, WEFT_DATA, "%.80s:%zu:1: %u %s, but only %zu events",
                             r->c.source, r->sizes_line, sizes[i].n, sizes[i].what,
                             t->n_events);
    return WEFT_OK;
}

bool weft_trace_detect(const char *text, size_t len)
{
    struct trace_reader r = {
        .c = {.at = text, .end = text + len, .line_start = text, .line = 1}};
    while (r.c.at < r.c.end) {
        skip_blanks(&r);
        if (!at_line_end(&r))
            break;
        next_line(&r);
    }
    if (r.c.at == r.c.end || *r.c.at != '#')
        return false;
    r.c.at++;
    return is_word(next_word(&r), "weft") && is_word(next_word(&r), "trace");
}

enum weft_status weft_trace_parse(const char *text, size_t len, const char *source,
                                  struct weft_trace *out, struct weft_error *err)
{
    struct trace_reader r = {
        .c = {.source = source, .at = text, .end = text + len, .line_start = text, .line = 1},
        .err = err};
    enum weft_status st = read_lines(&r);
    if (st == WEFT_OK)
        st = check_sizes(&r);
    if (st == WEFT_OK)
        st = weft_trace_finish(&r.trace, err);
    if (st == WEFT_OK)
        *out = r.trace;
    else
        weft_trace_release(&r.trace);
    return st;
}
