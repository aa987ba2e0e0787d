/* Reading the text form.  Every byte is checked; what is accepted is well-formed, not yet
 * proven.  No size in the file is believed before the file has that many cells. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "sched/infer.h"
#include "sched/text_priv.h"

struct place_in_text {
    size_t line, column; /* from 1; line 0: nowhere */
};

struct header {
    struct place_in_text at; /* of the sizes */
    uint32_t ranks, stages, micros;
    char name[WEFT_NAME_MAX];
    const char *placement; /* borrowed: the first placement line, after the word */
    size_t placement_line;
    bool seen;
};

struct parser {
    const char *source, *at, *end, *line_start;
    size_t line;
    bool keep_idle;
    struct header header;
    struct weft_action *actions; /* owned */
    size_t n_actions, cap_actions;
    size_t *first; /* owned */
    size_t n_rows, cap_rows;
    size_t blank_line; /* an empty line after the rows, or 0 */
    struct {
        uint32_t value;
        struct place_in_text at;
    } max_stage, max_micro;
    bool any_micro;
    struct weft_error *err;
};

static struct place_in_text here(const struct parser *p)
{
    return (struct place_in_text){p->line, (size_t)(p->at - p->line_start) + 1};
}

__attribute__((format(printf, 3, 4))) static enum weft_status
fail_at(struct parser *p, struct place_in_text at, const char *format, ...)
{
    char what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return WEFT_FAIL(p->err, WEFT_SCHEDULE, "%.80s:%zu:%zu: %s", p->source, at.line, at.column,
                     what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool at_line_end(const struct parser *p)
{
    return p->at == p->end || *p->at == '\n' ||
           (*p->at == '\r' && (p->at + 1 == p->end || p->at[1] == '\n'));
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && is_blank(*p->at))
        p->at++;
}

static void next_line(struct parser *p)
{
    while (p->at < p->end && *p->at != '\n')
        p->at++;
    if (p->at < p->end)
        p->at++;
    p->line++;
    p->line_start = p->at;
}

/* The offending cell for a message, cut and with anything unprintable as '?'. */
static const char *cell_text(const struct parser *p, const char *from, char out[32])
{
    size_t n = 0;
    while (from + n < p->end && n < 24 && from[n] != ',' && from[n] != '\n' &&
           from[n] != '\r') {
        out[n] = (from[n] >= ' ' && from[n] <= '~') ? from[n] : '?';
        n++;
    }
    out[n] = '\0';
    return out;
}

static bool parse_number(struct parser *p, uint32_t limit, uint32_t *out)
{
    uint64_t value = 0;
    const char *begin = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        value = value * 10 + (uint64_t)(*p->at - '0');
        if (value > limit)
            return false;
        p->at++;
    }
    *out = (uint32_t)value;
    return p->at > begin;
}

/* The longest kind name that stands here; a digit or the cell's end must follow. */
static bool parse_kind(struct parser *p, unsigned *kind)
{
    const char *begin = p->at;
    while (p->at < p->end && ((*p->at >= 'A' && *p->at <= 'Z') || *p->at == '_'))
        p->at++;
    size_t n = (size_t)(p->at - begin);
    for (unsigned k = 0; k < WEFT_N_KINDS; k++) {
        const char *name = weft_kind_name(k);
        if (n > 0 && strlen(name) == n && memcmp(name, begin, n) == 0) {
            *kind = k;
            return true;
        }
    }
    p->at = begin;
    return false;
}

static void note_maxima(struct parser *p, struct weft_action a, struct place_in_text at)
{
    if (p->max_stage.at.line == 0 || a.stage > p->max_stage.value) {
        p->max_stage.value = a.stage;
        p->max_stage.at = at;
    }
    if (weft_kind_has_micro(a.kind) && (!p->any_micro || a.micro > p->max_micro.value)) {
        p->max_micro.value = a.micro;
        p->max_micro.at = at;
        p->any_micro = true;
    }
}

static enum weft_status push(struct parser *p, struct weft_action a)
{
    if (p->n_actions == p->cap_actions) {
        size_t cap = p->cap_actions ? p->cap_actions + p->cap_actions / 2 : 256;
        struct weft_action *more = realloc(p->actions, cap * sizeof *more);
        if (more == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu actions", cap);
        p->actions = more;
        p->cap_actions = cap;
    }
    p->actions[p->n_actions++] = a;
    return WEFT_OK;
}

static enum weft_status parse_action(struct parser *p, struct weft_action *out)
{
    struct place_in_text at = here(p);
    const char *begin = p->at;
    char cell[32];
    uint32_t stage = 0, micro = 0;
    unsigned kind = 0;
    if (!parse_number(p, WEFT_MAX_STAGES - 1, &stage) || !parse_kind(p, &kind))
        return fail_at(p, at,
                       "'%s' is no action: write the stage, then F B I W or another kind, then "
                       "the micro, as in 2F0",
                       cell_text(p, begin, cell));
    if (weft_kind_has_micro(kind) && !parse_number(p, UINT32_MAX - 1, &micro))
        return fail_at(p, here(p), "'%s' lacks its micro: write %u%s0",
                       cell_text(p, begin, cell), stage, weft_kind_name(kind));
    *out = (struct weft_action){
        .micro = micro, .stage = stage & (WEFT_MAX_STAGES - 1), .kind = kind & 0x7f};
    note_maxima(p, *out, at);
    return WEFT_OK;
}

static bool take(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* "(" F ";" B ")OVERLAP_F_B", the two in either order; B may be I. */
static enum weft_status parse_pair(struct parser *p)
{
    struct place_in_text at = here(p);
    struct weft_action a, b;
    p->at++;
    WEFT_TRY(parse_action(p, &a));
    if (!take(p, ";"))
        return fail_at(p, here(p), "an overlapped pair is written (0F7;7B3)" WEFT_OVERLAP_WORD);
    WEFT_TRY(parse_action(p, &b));
    if (!take(p, ")" WEFT_OVERLAP_WORD))
        return fail_at(p, here(p), "an overlapped pair ends in )" WEFT_OVERLAP_WORD);
    unsigned f = a.kind == WEFT_ACT_F ? a.kind : b.kind;
    unsigned g = a.kind == WEFT_ACT_F ? b.kind : a.kind;
    if (f != WEFT_ACT_F || (g != WEFT_ACT_B && g != WEFT_ACT_I))
        return fail_at(p, at, "an overlapped pair is one F and one B or I");
    a.paired = 1;
    WEFT_TRY(push(p, a));
    return push(p, b);
}

static enum weft_status parse_cell(struct parser *p)
{
    skip_blanks(p);
    if (at_line_end(p) || *p->at == ',') {
        if (p->keep_idle)
            WEFT_TRY(push(p, (struct weft_action){.kind = WEFT_ACT_IDLE}));
        return WEFT_OK;
    }
    if (*p->at == '(') {
        WEFT_TRY(parse_pair(p));
    } else {
        struct weft_action a;
        WEFT_TRY(parse_action(p, &a));
        WEFT_TRY(push(p, a));
    }
    skip_blanks(p);
    char cell[32];
    if (!at_line_end(p) && *p->at != ',')
        return fail_at(p, here(p), "'%s' after an action: cells are parted by commas",
                       cell_text(p, p->at, cell));
    return WEFT_OK;
}

static enum weft_status begin_row(struct parser *p)
{
    if (p->blank_line != 0)
        return fail_at(p, (struct place_in_text){p->blank_line, 1},
                       "an empty line between rows: a rank needs actions");
    if (p->n_rows + 2 > p->cap_rows) {
        size_t cap = p->cap_rows ? 2 * p->cap_rows : 64;
        size_t *more = realloc(p->first, cap * sizeof *more);
        if (more == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu rows", cap);
        p->first = more;
        p->cap_rows = cap;
    }
    p->first[p->n_rows++] = p->n_actions;
    return WEFT_OK;
}

static enum weft_status parse_row(struct parser *p)
{
    WEFT_TRY(begin_row(p));
    for (;;) {
        WEFT_TRY(parse_cell(p));
        if (at_line_end(p))
            break;
        p->at++; /* the comma */
    }
    p->first[p->n_rows] = p->n_actions;
    return WEFT_OK;
}

/* -- header --------------------------------------------------------------------------------- */

static enum weft_status parse_size(struct parser *p, const char *what, uint32_t *out)
{
    skip_blanks(p);
    struct place_in_text at = here(p);
    if (!parse_number(p, UINT32_MAX - 1, out) || *out == 0)
        return fail_at(p, at, "the number of %s is missing, 0 or too large", what);
    return WEFT_OK;
}

static enum weft_status parse_sizes(struct parser *p)
{
    struct header *h = &p->header;
    h->at = here(p);
    WEFT_TRY(parse_size(p, "ranks", &h->ranks));
    skip_blanks(p);
    if (!take(p, "stages"))
        return fail_at(p, here(p), "expected: # weft ranks P stages S micros M");
    WEFT_TRY(parse_size(p, "stages", &h->stages));
    skip_blanks(p);
    if (!take(p, "micros"))
        return fail_at(p, here(p), "expected: # weft ranks P stages S micros M");
    return parse_size(p, "micros", &h->micros);
}

static enum weft_status parse_name(struct parser *p)
{
    skip_blanks(p);
    size_t n = 0;
    while (!at_line_end(p) && !is_blank(*p->at)) {
        if (*p->at <= ' ' || *p->at > '~' || n + 1 >= sizeof p->header.name)
            return fail_at(p, here(p), "a name has at most %d printable characters, no blanks",
                           WEFT_NAME_MAX - 1);
        p->header.name[n++] = *p->at++;
    }
    p->header.name[n] = '\0';
    return WEFT_OK;
}

static enum weft_status parse_version(struct parser *p)
{
    struct place_in_text at = here(p);
    uint32_t version = 0;
    skip_blanks(p);
    if (!parse_number(p, INT_MAX, &version) || version != WEFT_TEXT_VERSION)
        return fail_at(p, at, "this weft reads version %d of the schedule format only",
                       WEFT_TEXT_VERSION);
    p->header.seen = true;
    return WEFT_OK;
}

/* A line that starts with '#': weft's header, or a comment. */
static enum weft_status parse_hash_line(struct parser *p)
{
    p->at++;
    skip_blanks(p);
    if (!take(p, "weft") || at_line_end(p) || !is_blank(*p->at))
        return WEFT_OK;
    skip_blanks(p);
    struct place_in_text at = here(p);
    if (p->n_rows > 0)
        return fail_at(p, at, "header lines stand before the rows");
    if (take(p, "schedule")) {
        WEFT_TRY(parse_version(p));
    } else if (take(p, "name")) {
        WEFT_TRY(parse_name(p));
    } else if (take(p, "ranks")) {
        WEFT_TRY(parse_sizes(p));
    } else if (take(p, "placement")) {
        if (p->header.placement == NULL) { /* checked once the rows are known */
            p->header.placement = p->line_start;
            p->header.placement_line = p->line;
        }
        return WEFT_OK;
    } else {
        char word[32];
        return fail_at(p, at,
                       "'%s' is no header of version %d: schedule, name, ranks, placement",
                       cell_text(p, p->at, word), WEFT_TEXT_VERSION);
    }
    skip_blanks(p);
    if (!at_line_end(p))
        return fail_at(p, here(p), "nothing may follow in a header line");
    return WEFT_OK;
}

static enum weft_status parse_lines(struct parser *p)
{
    while (p->at < p->end) {
        skip_blanks(p);
        if (at_line_end(p)) {
            if (p->n_rows > 0 && p->blank_line == 0)
                p->blank_line = p->line;
        } else if (*p->at == '#') {
            WEFT_TRY(parse_hash_line(p));
        } else {
            p->at = p->line_start;
            WEFT_TRY(parse_row(p));
        }
        next_line(p);
    }
    return WEFT_OK;
}

/* -- sizes and placement -------------------------------------------------------------------- */

/* Sizes come from the header, else from the largest numbers.  Neither may exceed the number of
 * cells: a complete schedule has at least two for every stage and every micro. */
static enum weft_status settle_sizes(struct parser *p, uint32_t *stages, uint32_t *micros)
{
    const struct header *h = &p->header;
    if (p->n_rows == 0 || p->max_stage.at.line == 0)
        return WEFT_FAIL(p->err, WEFT_SCHEDULE,
                         "%.80s: no actions in it: one row a rank, cells "
                         "by comma, as in 0F0,0F1,0B0,0B1",
                         p->source);
    *stages = h->stages != 0 ? h->stages : p->max_stage.value + 1;
    *micros = h->micros != 0 ? h->micros : p->any_micro ? p->max_micro.value + 1 : 1;
    if (h->ranks != 0 && h->ranks != p->n_rows)
        return fail_at(p, h->at, "the header says %u ranks, the file has %zu rows", h->ranks,
                       p->n_rows);
    if (p->max_stage.value >= *stages)
        return fail_at(p, p->max_stage.at, "stage %u, but the header says %u stages",
                       p->max_stage.value, *stages);
    if (p->any_micro && p->max_micro.value >= *micros)
        return fail_at(p, p->max_micro.at, "micro %u, but the header says %u micros",
                       p->max_micro.value, *micros);
    bool by_header = h->stages != 0;
    if (*stages > p->n_actions)
        return fail_at(p, by_header ? h->at : p->max_stage.at,
                       "%u stages in a file of %zu cells: too few for that many", *stages,
                       p->n_actions);
    if (*micros > p->n_actions)
        return fail_at(p, by_header ? h->at : p->max_micro.at,
                       "%u micros in a file of %zu cells: too few for that many", *micros,
                       p->n_actions);
    return WEFT_OK;
}

/* The placement lines, when there are any, must say what the rows do. */
static enum weft_status check_placement(struct parser *p, const struct weft_schedule *s)
{
    const struct weft_placement *place = &s->place;
    if (p->header.placement == NULL)
        return WEFT_OK;
    p->at = p->line_start = p->header.placement;
    p->line = p->header.placement_line;
    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++) {
        take(p, "#");
        skip_blanks(p);
        take(p, "weft");
        skip_blanks(p);
        if (!take(p, "placement"))
            return fail_at(p, here(p), "the rows have %u pipes: one placement line each",
                           place->n_pipes);
        for (uint32_t stage = 0; stage < place->n_stages; stage++) {
            uint32_t rank = 0, is = place->rank_of[(size_t)pipe * place->n_stages + stage];
            skip_blanks(p);
            struct place_in_text at = here(p);
            if (!parse_number(p, UINT32_MAX - 1, &rank) || rank != is)
                return fail_at(p, at, "the rows have stage %u on rank %u", stage, is);
        }
        skip_blanks(p);
        if (!at_line_end(p))
            return fail_at(p, here(p), "one rank for each of the %u stages, no more",
                           place->n_stages);
        next_line(p);
    }
    return WEFT_OK;
}

enum weft_status weft_schedule_parse(const char *text, size_t len, const char *source,
                                     bool keep_idle, struct weft_schedule **out,
                                     struct weft_error *err)
{
    struct parser p = {.source = source,
                       .at = text,
                       .end = text + len,
                       .line_start = text,
                       .line = 1,
                       .keep_idle = keep_idle,
                       .err = err};
    struct weft_schedule *s = NULL;
    uint32_t stages = 0, micros = 0;
    enum weft_status st = parse_lines(&p);
    if (st == WEFT_OK)
        st = settle_sizes(&p, &stages, &micros);
    if (st == WEFT_OK && p.n_rows > UINT32_MAX - 1)
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "%.80s: too many rows", source);
    if (st == WEFT_OK) {
        st = weft_schedule_infer(p.header.name, (uint32_t)p.n_rows, stages, micros, p.actions,
                                 p.first, &s, err);
        p.actions = NULL;
        p.first = NULL;
    }
    if (st == WEFT_OK)
        st = check_placement(&p, s);
    if (st == WEFT_OK) {
        *out = s;
        s = NULL;
    }
    weft_schedule_free(s);
    free(p.actions);
    free(p.first);
    return st;
}
