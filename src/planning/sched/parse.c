/* Reading the text form.  Every byte is checked; what is accepted is well-formed, not yet
 * proven.  No size in the file is believed before the file has that many cells. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "planning/sched/action_parse.h"
#include "planning/sched/placement_infer.h"
#include "planning/sched/text_priv.h"

struct text_pos {
    size_t line, column; /* from 1; line 0: nowhere */
};

struct header {
    struct text_pos at; /* of the sizes */
    uint32_t ranks, stages, micros;
    char name[WF_NAME_MAX];
    const char *placement; /* borrowed: the first placement line */
    size_t placement_line, n_placements;
    unsigned seen; /* a bit a header word */
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
        struct text_pos at;
    } max_stage, max_micro;
    bool any_micro;
    struct weft_error *err;
};

static struct text_pos here(const struct parser *p)
{
    return (struct text_pos){p->line, (size_t)(p->at - p->line_start) + 1};
}

__attribute__((format(printf, 3, 4))) static enum weft_status
fail_at(struct parser *p, struct text_pos at, const char *format, ...)
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

/* A number that parse_number() stopped in: too large, not missing. */
static bool stopped_in_number(const struct parser *p)
{
    return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

/* The longest kind name that stands here; a digit or the cell's end must follow. */
static bool parse_kind(struct parser *p, unsigned *kind)
{
    const char *begin = p->at;
    while (p->at < p->end && ((*p->at >= 'A' && *p->at <= 'Z') || *p->at == '_'))
        p->at++;
    size_t n = (size_t)(p->at - begin);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        const char *name = weft_act_name(k);
        if (n > 0 && strlen(name) == n && memcmp(name, begin, n) == 0) {
            *kind = k;
            return true;
        }
    }
    p->at = begin;
    return false;
}

static void update_maxima(struct parser *p, struct weft_action a, struct text_pos at)
{
    if (p->max_stage.at.line == 0 || a.stage > p->max_stage.value) {
        p->max_stage.value = a.stage;
        p->max_stage.at = at;
    }
    if (weft_act_has_micro(a.kind) && (!p->any_micro || a.micro > p->max_micro.value)) {
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
    struct text_pos at = here(p);
    const char *begin = p->at;
    char cell[32];
    uint32_t stage = 0, micro = 0;
    unsigned kind = 0;
    if (!parse_number(p, WEFT_MAX_STAGES - 1, &stage) && stopped_in_number(p))
        return fail_at(p, at, "'%s' has too large a stage: there are at most %d",
                       cell_text(p, begin, cell), WEFT_MAX_STAGES);
    if (p->at == begin || !parse_kind(p, &kind))
        return fail_at(p, at,
                       "'%s' is no action: write the stage, then F B I W or another kind, then "
                       "the micro, as in 2F0",
                       cell_text(p, begin, cell));
    struct text_pos at_micro = here(p);
    if (weft_act_has_micro(kind) && !parse_number(p, UINT32_MAX - 1, &micro)) {
        if (stopped_in_number(p))
            return fail_at(p, at_micro, "'%s' has too large a micro",
                           cell_text(p, begin, cell));
        return fail_at(p, at_micro, "'%s' lacks its micro: write %u%s0",
                       cell_text(p, begin, cell), stage, weft_act_name(kind));
    }
    *out = (struct weft_action){
        .micro = micro, .stage = stage & (WEFT_MAX_STAGES - 1), .kind = kind & 0x7f};
    update_maxima(p, *out, at);
    return WEFT_OK;
}

static bool accept(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* "(" F ";" B ")OVERLAP_F_B", the two in either order; B may be I. */
static enum weft_status parse_pair(struct parser *p, struct weft_action out[2])
{
    struct text_pos at = here(p);
    struct weft_action a, b;
    p->at++;
    WEFT_TRY(parse_action(p, &a));
    if (!accept(p, ";"))
        return fail_at(p, here(p), "an overlapped pair is written (0F7;7B3)" WF_OVERLAP_SUFFIX);
    WEFT_TRY(parse_action(p, &b));
    if (!accept(p, ")" WF_OVERLAP_SUFFIX))
        return fail_at(p, here(p), "an overlapped pair ends in )" WF_OVERLAP_SUFFIX);
    unsigned f = a.kind == WEFT_ACT_F ? a.kind : b.kind;
    unsigned g = a.kind == WEFT_ACT_F ? b.kind : a.kind;
    if (f != WEFT_ACT_F || (g != WEFT_ACT_B && g != WEFT_ACT_I))
        return fail_at(p, at, "an overlapped pair is one F and one B or I");
    a.paired = 1;
    out[0] = a;
    out[1] = b;
    return WEFT_OK;
}

enum weft_status wf_action_parse(struct wf_cursor *c, struct weft_action out[2],
                                 struct weft_error *err)
{
    struct parser p = {.source = c->source,
                       .at = c->at,
                       .end = c->end,
                       .line_start = c->line_start,
                       .line = c->line,
                       .err = err};
    out[1] = (struct weft_action){0};
    if (c->at < c->end && *c->at == '(')
        WEFT_TRY(parse_pair(&p, out));
    else
        WEFT_TRY(parse_action(&p, &out[0]));
    c->at = p.at;
    return WEFT_OK;
}

static bool blank_between(const char *from, const char *to)
{
    while (from < to && is_blank(*from))
        from++;
    return from == to;
}

static enum weft_status parse_cell(struct parser *p)
{
    skip_blanks(p);
    if (at_line_end(p) || *p->at == ',') {
        if (p->keep_idle)
            WEFT_TRY(push(p, (struct weft_action){.kind = WEFT_ACT_IDLE}));
        return WEFT_OK;
    }
    struct weft_action a[2];
    bool pair = *p->at == '(';
    WEFT_TRY(pair ? parse_pair(p, a) : parse_action(p, &a[0]));
    for (int i = 0; i <= pair; i++)
        WEFT_TRY(push(p, a[i]));
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
        return fail_at(p, (struct text_pos){p->blank_line, 1},
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
    bool empty = true;
    WEFT_TRY(begin_row(p));
    for (;;) {
        const char *begin = p->at;
        WEFT_TRY(parse_cell(p));
        empty = empty && blank_between(begin, p->at);
        if (at_line_end(p))
            break;
        p->at++; /* the comma */
    }
    if (empty)
        return fail_at(p, (struct text_pos){p->line, 1},
                       "a row without actions: every rank needs some");
    p->first[p->n_rows] = p->n_actions;
    return WEFT_OK;
}

/* -- header --------------------------------------------------------------------------------- */

static enum weft_status parse_size(struct parser *p, const char *what, uint32_t *out)
{
    skip_blanks(p);
    struct text_pos at = here(p);
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
    if (!accept(p, "stages"))
        return fail_at(p, here(p), "expected: # weft ranks P stages S micros M");
    WEFT_TRY(parse_size(p, "stages", &h->stages));
    skip_blanks(p);
    if (!accept(p, "micros"))
        return fail_at(p, here(p), "expected: # weft ranks P stages S micros M");
    return parse_size(p, "micros", &h->micros);
}

static enum weft_status parse_name(struct parser *p)
{
    skip_blanks(p);
    size_t n = 0;
    while (!at_line_end(p) && !is_blank(*p->at)) {
        if (*p->at <= ' ' || *p->at > '~' || n + 1 >= sizeof p->header.name)
            break;
        p->header.name[n++] = *p->at++;
    }
    if (n == 0 || (!at_line_end(p) && !is_blank(*p->at)))
        return fail_at(p, here(p), "a name has 1 to %d printable characters, no blanks",
                       WF_NAME_MAX - 1);
    p->header.name[n] = '\0';
    return WEFT_OK;
}

static enum weft_status parse_version(struct parser *p)
{
    uint32_t version = 0;
    skip_blanks(p);
    struct text_pos at = here(p);
    if (!parse_number(p, INT_MAX, &version) || version != WF_TEXT_VERSION)
        return fail_at(p, at, "this weft reads version %d of the schedule format only",
                       WF_TEXT_VERSION);
    return WEFT_OK;
}

/* The ranks in it are checked once the rows are known. */
static enum weft_status skip_placement(struct parser *p)
{
    struct header *h = &p->header;
    if (h->n_placements == 0) {
        h->placement = p->line_start;
        h->placement_line = p->line;
    } else if (p->line != h->placement_line + h->n_placements) {
        return fail_at(p, (struct text_pos){p->line, 1}, "placement lines stand together");
    }
    h->n_placements++;
    while (!at_line_end(p))
        p->at++;
    return WEFT_OK;
}

static const struct {
    const char *word;
    enum weft_status (*parse)(struct parser *p);
    bool once;
} header_words[] = {
    {"schedule", parse_version, true},
    {"name", parse_name, true},
    {"ranks", parse_sizes, true},
    {"placement", skip_placement, false},
};

/* A line that starts with '#': weft's header, or a comment. */
static enum weft_status parse_hash_line(struct parser *p)
{
    p->at++;
    skip_blanks(p);
    if (!accept(p, "weft") || at_line_end(p) || !is_blank(*p->at))
        return WEFT_OK;
    skip_blanks(p);
    struct text_pos at = here(p);
    const char *word = p->at;
    while (!at_line_end(p) && !is_blank(*p->at))
        p->at++;
    size_t n = (size_t)(p->at - word), k = 0;
    while (k < WEFT_LEN(header_words) &&
           (strlen(header_words[k].word) != n || memcmp(header_words[k].word, word, n) != 0))
        k++;
    char text[32];
    if (k == WEFT_LEN(header_words))
        return fail_at(p, at,
                       "'%s' is no header of version %d: schedule, name, ranks, placement",
                       cell_text(p, word, text), WF_TEXT_VERSION);
    if (p->n_rows > 0)
        return fail_at(p, at, "header lines stand before the rows");
    if (k != 0 && p->header.seen == 0)
        return fail_at(p, at, "the first header line is '# weft schedule %d'", WF_TEXT_VERSION);
    if (header_words[k].once && p->header.seen >> k & 1)
        return fail_at(p, at, "'%s' is there twice", header_words[k].word);
    p->header.seen |= 1u << k;
    WEFT_TRY(header_words[k].parse(p));
    skip_blanks(p);
    if (!at_line_end(p))
        return fail_at(p, here(p), "nothing may follow in a header line");
    return WEFT_OK;
}

static enum weft_status parse_lines(struct parser *p)
{
    if (accept(p, "\xef\xbb\xbf"))
        return fail_at(p, (struct text_pos){1, 1},
                       "a byte order mark: save the file as plain text without it");
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
static enum weft_status resolve_sizes(struct parser *p, uint32_t *stages, uint32_t *micros)
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
        return fail_at(p, h->at, "the header says %u rank%s, the file has %zu row%s", h->ranks,
                       wf_plural(h->ranks), p->n_rows, wf_plural(p->n_rows));
    if (p->max_stage.value >= *stages)
        return fail_at(p, p->max_stage.at, "stage %u, but the header says %u stage%s",
                       p->max_stage.value, *stages, wf_plural(*stages));
    if (p->any_micro && p->max_micro.value >= *micros)
        return fail_at(p, p->max_micro.at, "micro %u, but the header says %u micro%s",
                       p->max_micro.value, *micros, wf_plural(*micros));
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

/* One placement line: a rank for each stage, the one that the rows have when they know. */
static enum weft_status parse_placement(struct parser *p, const struct weft_placement *place,
                                        const uint32_t *rows, uint32_t *ranks)
{
    skip_blanks(p);
    accept(p, "#");
    skip_blanks(p);
    accept(p, "weft");
    skip_blanks(p);
    accept(p, "placement");
    for (uint32_t stage = 0; stage < place->n_stages; stage++) {
        skip_blanks(p);
        struct text_pos at = here(p);
        if (!parse_number(p, UINT32_MAX - 1, &ranks[stage]) || ranks[stage] >= place->n_ranks)
            return fail_at(p, at, "stage %u needs a rank, 0 to %u", stage, place->n_ranks - 1);
        if (rows != NULL && ranks[stage] != rows[stage])
            return fail_at(p, at, "the rows have stage %u on rank %u", stage, rows[stage]);
    }
    skip_blanks(p);
    if (!at_line_end(p))
        return fail_at(p, here(p), "one rank for each of the %u stages, no more",
                       place->n_stages);
    next_line(p);
    return WEFT_OK;
}

/* Reads the placement lines into *out, which grows with them: (lines, stages). */
static enum weft_status parse_placements(struct parser *p, const struct weft_placement *place,
                                         uint32_t **out)
{
    const struct header *h = &p->header;
    p->at = p->line_start = h->placement;
    p->line = h->placement_line;
    for (size_t i = 0; i < h->n_placements; i++) {
        size_t n = i * place->n_stages;
        const uint32_t *rows = h->n_placements == place->n_pipes ? place->rank_of + n : NULL;
        uint32_t *more = realloc(*out, sizeof *more * (n + place->n_stages));
        if (more == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu placements", i + 1);
        *out = more;
        WEFT_TRY(parse_placement(p, place, rows, more + n));
    }
    return WEFT_OK;
}

/* The placement lines, when there are any, must say what the rows do.  With fewer micros than
 * pipes only the header knows of those that carry nothing. */
static enum weft_status check_placement(struct parser *p, struct weft_schedule **s)
{
    const struct header *h = &p->header;
    uint32_t *ranks = NULL;
    if (h->n_placements == 0)
        return WEFT_OK;
    enum weft_status st = parse_placements(p, &(*s)->place, &ranks);
    if (st == WEFT_OK && h->n_placements > (*s)->place.n_micros &&
        h->n_placements <= UINT16_MAX)
        st = wf_schedule_add_pipes(s, (uint32_t)h->n_placements, ranks, p->err);
    free(ranks);
    uint32_t n_pipes = (*s)->place.n_pipes;
    if (st == WEFT_OK && h->n_placements != n_pipes)
        st = fail_at(p, (struct text_pos){h->placement_line, 1},
                     "the rows have %u pipe%s: one placement line each", n_pipes,
                     n_pipes == 1 ? "" : "s");
    return st;
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
        st = resolve_sizes(&p, &stages, &micros);
    if (st == WEFT_OK && p.n_rows > UINT32_MAX - 1)
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "%.80s: too many rows", source);
    if (st == WEFT_OK) {
        st = wf_schedule_from_rows(p.header.name, (uint32_t)p.n_rows, stages, micros, p.actions,
                                   p.first, &s, err);
        p.actions = NULL;
        p.first = NULL;
    }
    if (st == WEFT_OK)
        st = check_placement(&p, &s);
    if (st == WEFT_OK) {
        *out = s;
        s = NULL;
    }
    weft_schedule_free(s);
    free(p.actions);
    free(p.first);
    return st;
}
