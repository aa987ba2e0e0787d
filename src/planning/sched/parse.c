/* Parses the text form of schedules.  The parser checks every byte.  A parsed schedule is
 * well-formed but not yet verified.  The parser rejects sizes that exceed the number of cells
 * in the file, so a small file cannot cause a large allocation. */
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
    size_t line, column; /* both start at 1; line 0 means that there is no position */
};

struct header {
    struct text_pos at; /* position of the header line with the sizes */
    uint32_t ranks, stages, micros;
    char name[WF_NAME_MAX];
    const char *placement; /* borrowed: text of the first placement line */
    size_t placement_line, n_placements;
    unsigned seen; /* header words seen so far, one bit per entry of header_words */
};

struct parser {
    struct wf_cursor c;
    struct header header;
    struct weft_action *actions; /* owned */
    size_t n_actions, cap_actions;
    size_t *first; /* owned: index of each row's first action */
    size_t n_rows, cap_rows;
    size_t blank_line; /* number of the first empty line after a row, or 0 */
    struct {
        uint32_t value;
        struct text_pos at;
    } max_stage, max_micro; /* largest stage and micro so far, with positions */
    bool any_micro;
    struct weft_error *err;
};

static struct text_pos here(const struct parser *p)
{
    return (struct text_pos){p->c.line, (size_t)(p->c.at - p->c.line_start) + 1};
}

__attribute__((format(printf, 3, 4))) static enum weft_status
fail_at(struct parser *p, struct text_pos at, const char *format, ...)
{
    char what[320];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return WEFT_FAIL(p->err, WEFT_SCHEDULE, "%.80s:%zu:%zu: %s", p->c.source, at.line,
                     at.column, what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool at_line_end(const struct parser *p)
{
    return p->c.at == p->c.end || *p->c.at == '\n' ||
           (*p->c.at == '\r' && (p->c.at + 1 == p->c.end || p->c.at[1] == '\n'));
}

static void skip_blanks(struct parser *p)
{
    while (p->c.at < p->c.end && is_blank(*p->c.at))
        p->c.at++;
}

static void next_line(struct parser *p)
{
    while (p->c.at < p->c.end && *p->c.at != '\n')
        p->c.at++;
    if (p->c.at < p->c.end)
        p->c.at++;
    p->c.line++;
    p->c.line_start = p->c.at;
}

/* Copies the text of the cell at `from` for an error message.  Truncates long text and replaces
 * unprintable bytes by '?'. */
static const char *cell_text(const struct parser *p, const char *from, char out[32])
{
    size_t n = 0;
    while (from + n < p->c.end && n < 24 && from[n] != ',' && from[n] != '\n' &&
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
    const char *begin = p->c.at;
    while (p->c.at < p->c.end && *p->c.at >= '0' && *p->c.at <= '9') {
        value = value * 10 + (uint64_t)(*p->c.at - '0');
        if (value > limit)
            return false;
        p->c.at++;
    }
    *out = (uint32_t)value;
    return p->c.at > begin;
}

/* Returns true if parse_number() stopped before the last digit because the number is too
 * large. */
static bool stopped_in_number(const struct parser *p)
{
    return p->c.at < p->c.end && *p->c.at >= '0' && *p->c.at <= '9';
}

/* Parses the name of an action kind, which extends to the first character that is not a capital
 * letter or underscore. */
static bool parse_kind(struct parser *p, unsigned *kind)
{
    const char *begin = p->c.at;
    while (p->c.at < p->c.end && ((*p->c.at >= 'A' && *p->c.at <= 'Z') || *p->c.at == '_'))
        p->c.at++;
    size_t n = (size_t)(p->c.at - begin);
    for (unsigned k = 0; k < WEFT_N_ACT_KINDS; k++) {
        const char *name = weft_act_name(k);
        if (n > 0 && strlen(name) == n && memcmp(name, begin, n) == 0) {
            *kind = k;
            return true;
        }
    }
    p->c.at = begin;
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
        struct weft_action *grown = realloc(p->actions, cap * sizeof *grown);
        if (grown == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu actions", cap);
        p->actions = grown;
        p->cap_actions = cap;
    }
    p->actions[p->n_actions++] = a;
    return WEFT_OK;
}

static enum weft_status parse_action(struct parser *p, struct weft_action *out)
{
    struct text_pos at = here(p);
    const char *begin = p->c.at;
    char cell[32];
    uint32_t stage = 0, micro = 0;
    unsigned kind = 0;

    if (!parse_number(p, WEFT_MAX_STAGES - 1, &stage) && stopped_in_number(p))
        return fail_at(p, at, "the stage of '%s' is too large (maximum %d)",
                       cell_text(p, begin, cell), WEFT_MAX_STAGES - 1);
    if (p->c.at == begin || !parse_kind(p, &kind))
        return fail_at(p, at,
                       "'%s' is not an action; write the stage, then F, B, I, W or another "
                       "kind, then the micro, as in 2F0",
                       cell_text(p, begin, cell));

    struct text_pos at_micro = here(p);
    if (weft_act_has_micro(kind) && !parse_number(p, UINT32_MAX - 1, &micro)) {
        if (stopped_in_number(p))
            return fail_at(p, at_micro, "the micro of '%s' is too large",
                           cell_text(p, begin, cell));
        return fail_at(p, at_micro, "'%s' has no micro; write %u%s0", cell_text(p, begin, cell),
                       stage, weft_act_name(kind));
    }

    *out = (struct weft_action){
        .micro = micro, .stage = stage & (WEFT_MAX_STAGES - 1), .kind = kind & 0x7f};
    update_maxima(p, *out, at);
    return WEFT_OK;
}

static bool accept(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->c.end - p->c.at) < n || memcmp(p->c.at, word, n) != 0)
        return false;
    p->c.at += n;
    return true;
}

/* Parses "(" F ";" B ")OVERLAP_F_B".  The two actions may be in either order, and I may replace
 * B. */
static enum weft_status parse_pair(struct parser *p, struct weft_action out[2])
{
    struct text_pos at = here(p);
    struct weft_action a, b;
    p->c.at++;
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
    struct parser p = {.c = *c, .err = err};
    out[1] = (struct weft_action){0};
    if (c->at < c->end && *c->at == '(')
        WEFT_TRY(parse_pair(&p, out));
    else
        WEFT_TRY(parse_action(&p, &out[0]));
    c->at = p.c.at;
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
    if (at_line_end(p) || *p->c.at == ',')
        return WEFT_OK; /* an idle step */
    struct weft_action a[2];
    bool pair = *p->c.at == '(';
    WEFT_TRY(pair ? parse_pair(p, a) : parse_action(p, &a[0]));
    for (int i = 0; i <= pair; i++)
        WEFT_TRY(push(p, a[i]));
    skip_blanks(p);
    char cell[32];
    if (!at_line_end(p) && *p->c.at != ',')
        return fail_at(p, here(p), "'%s' after an action; separate cells by commas",
                       cell_text(p, p->c.at, cell));
    return WEFT_OK;
}

static enum weft_status begin_row(struct parser *p)
{
    if (p->blank_line != 0)
        return fail_at(p, (struct text_pos){p->blank_line, 1},
                       "empty line between rows; every rank needs actions");
    if (p->n_rows + 2 > p->cap_rows) {
        size_t cap = p->cap_rows ? 2 * p->cap_rows : 64;
        size_t *grown = realloc(p->first, cap * sizeof *grown);
        if (grown == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu rows", cap);
        p->first = grown;
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
        const char *begin = p->c.at;
        WEFT_TRY(parse_cell(p));
        empty = empty && blank_between(begin, p->c.at);
        if (at_line_end(p))
            break;
        p->c.at++; /* skip the comma */
    }
    if (empty)
        return fail_at(p, (struct text_pos){p->c.line, 1},
                       "row without actions; every rank needs actions");
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
    while (!at_line_end(p) && !is_blank(*p->c.at)) {
        if (*p->c.at <= ' ' || *p->c.at > '~' || n + 1 >= sizeof p->header.name)
            break;
        p->header.name[n++] = *p->c.at++;
    }
    if (n == 0 || (!at_line_end(p) && !is_blank(*p->c.at)))
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
        return fail_at(p, at, "unsupported version of the schedule format (expected %d)",
                       WF_TEXT_VERSION);
    return WEFT_OK;
}

/* Records the position of a placement line and skips the line.  check_placement() parses the
 * ranks in the line after all rows are known. */
static enum weft_status skip_placement(struct parser *p)
{
    struct header *h = &p->header;
    if (h->n_placements == 0) {
        h->placement = p->c.line_start;
        h->placement_line = p->c.line;
    } else if (p->c.line != h->placement_line + h->n_placements) {
        return fail_at(p, (struct text_pos){p->c.line, 1}, "placement lines must be adjacent");
    }
    h->n_placements++;
    while (!at_line_end(p))
        p->c.at++;
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

/* Parses a line that starts with '#': a header line or a comment. */
static enum weft_status parse_hash_line(struct parser *p)
{
    p->c.at++;
    skip_blanks(p);
    if (!accept(p, "weft") || at_line_end(p) || !is_blank(*p->c.at))
        return WEFT_OK;

    skip_blanks(p);
    struct text_pos at = here(p);
    const char *word = p->c.at;
    while (!at_line_end(p) && !is_blank(*p->c.at))
        p->c.at++;
    size_t n = (size_t)(p->c.at - word), k = 0;
    while (k < WEFT_LEN(header_words) &&
           (strlen(header_words[k].word) != n || memcmp(header_words[k].word, word, n) != 0))
        k++;

    char text[32];
    if (k == WEFT_LEN(header_words))
        return fail_at(p, at,
                       "unknown header '%s' (version %d has schedule, name, ranks, placement)",
                       cell_text(p, word, text), WF_TEXT_VERSION);
    if (p->n_rows > 0)
        return fail_at(p, at, "header lines must precede the rows");
    if (k != 0 && p->header.seen == 0)
        return fail_at(p, at, "the first header line must be '# weft schedule %d'",
                       WF_TEXT_VERSION);
    if (header_words[k].once && p->header.seen >> k & 1)
        return fail_at(p, at, "duplicate header '%s'", header_words[k].word);

    p->header.seen |= 1u << k;
    WEFT_TRY(header_words[k].parse(p));
    skip_blanks(p);
    if (!at_line_end(p))
        return fail_at(p, here(p), "unexpected text at the end of a header line");
    return WEFT_OK;
}

static enum weft_status parse_lines(struct parser *p)
{
    if (accept(p, "\xef\xbb\xbf"))
        return fail_at(p, (struct text_pos){1, 1},
                       "the file begins with a byte order mark; save it without one");
    while (p->c.at < p->c.end) {
        skip_blanks(p);
        if (at_line_end(p)) {
            if (p->n_rows > 0 && p->blank_line == 0)
                p->blank_line = p->c.line;
        } else if (*p->c.at == '#') {
            WEFT_TRY(parse_hash_line(p));
        } else {
            p->c.at = p->c.line_start;
            WEFT_TRY(parse_row(p));
        }
        next_line(p);
    }
    return WEFT_OK;
}

/* -- sizes and placement -------------------------------------------------------------------- */

/* Takes the sizes from the header or, if the header has no sizes, from the largest stage and
 * micro in the rows.  Rejects sizes that are too large for the number of cells, because a
 * complete schedule has at least two cells per stage and per micro. */
static enum weft_status resolve_sizes(struct parser *p, uint32_t *stages, uint32_t *micros)
{
    const struct header *h = &p->header;
    if (p->n_rows == 0 || p->max_stage.at.line == 0)
        return WEFT_FAIL(p->err, WEFT_SCHEDULE,
                         "%.80s: no actions; write one row per rank, cells separated by "
                         "commas, as in 0F0,0F1,0B0,0B1",
                         p->c.source);

    *stages = h->stages != 0 ? h->stages : p->max_stage.value + 1;
    *micros = h->micros != 0 ? h->micros : p->any_micro ? p->max_micro.value + 1 : 1;
    if (h->ranks != 0 && h->ranks != p->n_rows)
        return fail_at(p, h->at, "the header declares %u rank%s, but the file has %zu row%s",
                       h->ranks, wf_plural(h->ranks), p->n_rows, wf_plural(p->n_rows));
    if (p->max_stage.value >= *stages)
        return fail_at(p, p->max_stage.at, "stage %u, but the header declares %u stage%s",
                       p->max_stage.value, *stages, wf_plural(*stages));
    if (p->any_micro && p->max_micro.value >= *micros)
        return fail_at(p, p->max_micro.at, "micro %u, but the header declares %u micro%s",
                       p->max_micro.value, *micros, wf_plural(*micros));

    bool by_header = h->stages != 0;
    if (*stages > p->n_actions)
        return fail_at(p, by_header ? h->at : p->max_stage.at,
                       "%u stages in a file of %zu cells; a stage needs cells", *stages,
                       p->n_actions);
    if (*micros > p->n_actions)
        return fail_at(p, by_header ? h->at : p->max_micro.at,
                       "%u micros in a file of %zu cells; a micro needs cells", *micros,
                       p->n_actions);
    return WEFT_OK;
}

/* Parses one placement line, which has one rank per stage.  If `rows` is not NULL, it has the
 * ranks that the rows imply, and the ranks in the line must be equal to them. */
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
            return fail_at(p, at, "stage %u needs a rank from 0 to %u", stage,
                           place->n_ranks - 1);
        if (rows != NULL && ranks[stage] != rows[stage])
            return fail_at(p, at, "the rows have stage %u on rank %u", stage, rows[stage]);
    }

    skip_blanks(p);
    if (!at_line_end(p))
        return fail_at(p, here(p), "more ranks than stages (expected %u)", place->n_stages);
    next_line(p);
    return WEFT_OK;
}

/* Parses all placement lines into the array *out, (lines, stages).  Reallocates the array for
 * each line. */
static enum weft_status parse_placements(struct parser *p, const struct weft_placement *place,
                                         uint32_t **out)
{
    const struct header *h = &p->header;
    p->c.at = p->c.line_start = h->placement;
    p->c.line = h->placement_line;
    for (size_t i = 0; i < h->n_placements; i++) {
        size_t n = i * place->n_stages;
        const uint32_t *rows = h->n_placements == place->n_pipes ? place->rank_of + n : NULL;
        uint32_t *grown = realloc(*out, sizeof *grown * (n + place->n_stages));
        if (grown == NULL)
            return WEFT_FAIL(p->err, WEFT_NOMEM, "no memory for %zu placements", i + 1);
        *out = grown;
        WEFT_TRY(parse_placement(p, place, rows, grown + n));
    }
    return WEFT_OK;
}

/* Checks that the placement lines, if there are any, match the rows.  If there are fewer micros
 * than pipes, some pipes have no micro and appear only in the header; adds these pipes. */
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
                     "the rows have %u pipe%s; write one placement line per pipe", n_pipes,
                     wf_plural(n_pipes));
    return st;
}

enum weft_status weft_schedule_parse(const char *text, size_t len, const char *source,
                                     struct weft_schedule **out, struct weft_error *err)
{
    struct parser p = {.c = {source, text, text + len, text, 1}, .err = err};
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
        s->has_header = p.header.seen != 0;
        *out = s;
        s = NULL;
    }
    weft_schedule_free(s);
    free(p.actions);
    free(p.first);
    return st;
}
