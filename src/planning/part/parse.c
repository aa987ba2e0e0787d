/* The two text forms of a partition: "4,3,3,2" and Megatron's "Et*4|(ttt|)*2ttL".
 *
 * Both parsers accept any bytes.  Repetitions are expanded immediately.  The size of an
 * expansion is checked first, so that a short text cannot allocate much memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"
#include "planning/part/partition_priv.h"
#include "weft/part.h"

enum { MAX_DEPTH = 32 };

/* A position in the text.  Columns count from 1. */
struct pattern_reader {
    const char *text; /* borrowed until the parser returns */
    size_t len, pos;
    const char *what; /* name of the text in errors */
};

enum { QUOTED = 8 };

/* Prints a character for an error message: 'x', or byte 0x07 if the character is not
 * printable. */
static const char *quote(char c, char out[static QUOTED + 4])
{
    unsigned char byte = (unsigned char)c;
    if (byte > 0x20 && byte < 0x7f)
        snprintf(out, QUOTED, "'%c'", c);
    else
        snprintf(out, QUOTED + 4, "byte 0x%02x", byte);
    return out;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct pattern_reader *r)
{
    while (r->pos < r->len && is_blank(r->text[r->pos]))
        r->pos++;
}

/* Reads a number of at least one digit, up to WEFT_MAX_PATTERN. */
static enum weft_status read_number(struct pattern_reader *r, uint32_t *out,
                                    struct weft_error *err)
{
    size_t start = r->pos;
    uint32_t n = 0;
    char shown[QUOTED + 4];
    if (start == r->len)
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: a number is missing at the end",
                         r->what, start + 1);
    if (!is_digit(r->text[start]))
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: %s is not a number", r->what,
                         start + 1, quote(r->text[start], shown));
    for (; r->pos < r->len && is_digit(r->text[r->pos]); r->pos++) {
        n = n * 10 + (uint32_t)(r->text[r->pos] - '0');
        if (n > WEFT_MAX_PATTERN)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s, column %zu: the number is too large (maximum %d)", r->what,
                             start + 1, WEFT_MAX_PATTERN);
    }
    *out = n;
    return WEFT_OK;
}

/* -- counts -------------------------------------------------------------------------------- */

/* Compares the numbers of stages and layers with the required numbers; 0 accepts any number. */
static enum weft_status check_counts(const struct pattern_reader *r, uint32_t n_stages,
                                     uint32_t n_layers, uint32_t want_stages,
                                     uint32_t want_layers, size_t exceeded_at,
                                     struct weft_error *err)
{
    if (want_stages != 0 && n_stages != want_stages)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: %u number%s for %u stage%s (ranks x chunks); give one per stage",
                         r->what, n_stages, wf_plural(n_stages), want_stages,
                         wf_plural(want_stages));
    if (want_layers != 0 && n_layers > want_layers)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%s, column %zu: the sum exceeds the model's %u layer%s here; the total is %u",
            r->what, exceeded_at + 1, want_layers, wf_plural(want_layers), n_layers);
    if (want_layers != 0 && n_layers < want_layers)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "%s, column %zu: the sum is %u, but the model has %u layers: %u are missing",
            r->what, r->len + 1, n_layers, want_layers, want_layers - n_layers);
    return WEFT_OK;
}

/* Reads the list into `ends`, which has one element per two characters of the text. */
static enum weft_status read_counts(struct pattern_reader *r, uint32_t want_stages,
                                    uint32_t want_layers, uint32_t *ends, uint32_t *out,
                                    struct weft_error *err)
{
    uint32_t n = 0, sum = 0;
    size_t exceeded_at = 0;
    for (;;) {
        uint32_t count;
        skip_blanks(r);
        size_t start = r->pos;
        WEFT_TRY(read_number(r, &count, err));
        if (n == WEFT_MAX_PATTERN || count > WEFT_MAX_PATTERN - sum)
            return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: more than %d stages or layers",
                             r->what, start + 1, WEFT_MAX_PATTERN);
        if (sum <= want_layers && sum + count > want_layers)
            exceeded_at = start;
        sum += count;
        ends[n++] = sum;

        skip_blanks(r);
        if (r->pos == r->len)
            break;
        char shown[QUOTED + 4];
        if (r->text[r->pos] != ',')
            return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: expected a comma, not %s",
                             r->what, r->pos + 1, quote(r->text[r->pos], shown));
        r->pos++;
    }
    *out = n;
    return check_counts(r, n, sum, want_stages, want_layers, exceeded_at, err);
}

enum weft_status weft_partition_parse_counts(struct weft_partition *p, const char *text,
                                             size_t len, uint32_t n_stages, uint32_t n_layers,
                                             struct weft_error *err)
{
    struct pattern_reader r = {text, len, 0, "layers per stage"};
    uint32_t n = 0, *ends = calloc(len / 2 + 1, sizeof *ends);
    if (ends == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %zu characters", len);
    enum weft_status st = read_counts(&r, n_stages, n_layers, ends, &n, err);
    if (st == WEFT_OK)
        st = wf_partition_init_ends(p, ends, n, err);
    free(ends);
    return st;
}

/* -- Megatron's layout --------------------------------------------------------------------- */

struct symbol {
    char kind; /* E, t, m, L or | */
    uint32_t column;
};

struct symbols {
    struct symbol *at; /* owned */
    size_t n, cap;
};

static enum weft_status fail_too_many(const struct pattern_reader *r, size_t column,
                                      struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: more than %d stages and layers", r->what,
                     column, WEFT_MAX_PATTERN);
}

static enum weft_status reserve(const struct pattern_reader *r, struct symbols *p, size_t more,
                                size_t column, struct weft_error *err)
{
    if (more > WEFT_MAX_PATTERN - p->n)
        return fail_too_many(r, column, err);
    if (p->n + more <= p->cap)
        return WEFT_OK;
    size_t cap = wf_size_max(p->n + more, wf_size_max(64, 2 * p->cap));
    struct symbol *at = realloc(p->at, cap * sizeof *at);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a layout of %zu stages and layers",
                         cap);
    p->at = at;
    p->cap = cap;
    return WEFT_OK;
}

static void skip_ignored(struct pattern_reader *r)
{
    while (r->pos < r->len && (is_blank(r->text[r->pos]) || r->text[r->pos] == ','))
        r->pos++;
}

/* Reads "*n" after an item or a group and repeats the symbols of that item or group, which
 * start at `begin`. */
static enum weft_status read_repeat(struct pattern_reader *r, struct symbols *p, size_t begin,
                                    struct weft_error *err)
{
    skip_ignored(r);
    if (r->pos == r->len || r->text[r->pos] != '*')
        return WEFT_OK;
    r->pos++;
    skip_ignored(r);
    size_t column = r->pos + 1;
    uint32_t times;
    WEFT_TRY(read_number(r, &times, err));
    if (times == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: repeated 0 times; give at least 1",
                         r->what, column);

    size_t n = p->n - begin, more;
    if (!wf_size_mul(n, times - 1, &more))
        return fail_too_many(r, column, err);
    WEFT_TRY(reserve(r, p, more, column, err));
    for (uint32_t k = 1; k < times; k++)
        memcpy(&p->at[begin + k * n], &p->at[begin], n * sizeof *p->at);
    p->n += more;
    return WEFT_OK;
}

static enum weft_status fail_unexpected(const struct pattern_reader *r, struct weft_error *err)
{
    char c = r->text[r->pos], shown[QUOTED + 4];
    size_t column = r->pos + 1;
    if (c == ')')
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: unmatched )", r->what, column);
    if (c == '*')
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s, column %zu: * must follow one item or group; write (t*2)*3",
                         r->what, column);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%s, column %zu: unexpected %s; use E, t, m, L, |, parentheses and *n",
                     r->what, column, quote(c, shown));
}

static enum weft_status read_symbols(struct pattern_reader *r, unsigned depth,
                                     struct symbols *p, struct weft_error *err);

static enum weft_status read_group(struct pattern_reader *r, unsigned depth, struct symbols *p,
                                   struct weft_error *err)
{
    size_t column = r->pos + 1, begin = p->n;
    if (depth == MAX_DEPTH)
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: more than %d nested parentheses",
                         r->what, column, MAX_DEPTH);
    r->pos++;
    WEFT_TRY(read_symbols(r, depth + 1, p, err));
    if (r->pos == r->len)
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: unmatched (", r->what, column);
    if (p->n == begin)
        return WEFT_FAIL(err, WEFT_USAGE, "%s, column %zu: the group is empty", r->what,
                         column);
    r->pos++;
    return read_repeat(r, p, begin, err);
}

/* Reads up to the end of the text, or up to the parenthesis that closes the group. */
static enum weft_status read_symbols(struct pattern_reader *r, unsigned depth,
                                     struct symbols *p, struct weft_error *err)
{
    for (skip_ignored(r); r->pos < r->len; skip_ignored(r)) {
        char c = r->text[r->pos];
        if (c == ')' && depth > 0)
            return WEFT_OK;
        if (c == '(') {
            WEFT_TRY(read_group(r, depth, p, err));
            continue;
        }
        if (c != 'E' && c != 't' && c != 'm' && c != 'L' && c != '|')
            return fail_unexpected(r, err);
        size_t column = ++r->pos, begin = p->n;
        WEFT_TRY(reserve(r, p, 1, column, err));
        p->at[p->n++] = (struct symbol){c, (uint32_t)column};
        WEFT_TRY(read_repeat(r, p, begin, err));
    }
    return WEFT_OK;
}

static enum weft_status check_first_last(const struct pattern_reader *r,
                                         const struct symbols *p, struct weft_error *err)
{
    if (p->n == 0 || p->at[0].kind != 'E')
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s, column %u: the layout must start with E, the embedding", r->what,
                         p->n == 0 ? 1 : p->at[0].column);
    for (size_t k = 1; k < p->n; k++) {
        if (p->at[k].kind == 'E')
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s, column %u: second E; a model has one embedding", r->what,
                             p->at[k].column);
        if (p->at[k].kind == 'L' && k + 1 < p->n)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s, column %u: L, the head, must be the last item", r->what,
                             p->at[k].column);
    }
    if (p->at[p->n - 1].kind != 'L')
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s, column %zu: the layout must end with L, the head", r->what,
                         r->len + 1);
    return WEFT_OK;
}

/* Checks that no layer and no second stage with m follows the first m. */
static enum weft_status check_mtp(const struct pattern_reader *r, const struct symbols *p,
                                  struct weft_error *err)
{
    bool any = false, ended = false;
    for (size_t k = 0; k < p->n; k++) {
        char kind = p->at[k].kind;
        if (any && kind == 't')
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s, column %u: t after m; layers for multi-token prediction, m, "
                             "must follow all layers",
                             r->what, p->at[k].column);
        if (ended && kind == 'm')
            return WEFT_FAIL(err, WEFT_USAGE,
                             "%s, column %u: m on a second stage; all m must be on one stage",
                             r->what, p->at[k].column);
        any = any || kind == 'm';
        ended = any && (ended || kind == '|');
    }
    return WEFT_OK;
}

/* Sets the number of m of each stage. */
static void store_mtp(const struct symbols *p, struct weft_partition *out)
{
    uint32_t stage = 0;
    for (size_t k = 0; k < p->n; k++) {
        stage += p->at[k].kind == '|';
        out->at[stage].n_mtp += p->at[k].kind == 'm';
    }
}

/* Converts the symbols to `ends`, an array with one element per symbol. */
static enum weft_status count_symbols(const struct pattern_reader *r, const struct symbols *p,
                                      uint32_t want_stages, uint32_t want_layers,
                                      uint32_t *ends, uint32_t *out, struct weft_error *err)
{
    uint32_t n_stages = 0, n_layers = 0;
    for (size_t k = 0; k < p->n; k++) {
        if (p->at[k].kind == '|')
            ends[n_stages++] = n_layers;
        else if (p->at[k].kind == 't')
            n_layers++;
    }
    ends[n_stages++] = n_layers;
    if (want_stages != 0 && n_stages != want_stages)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %u stage%s, but ranks x chunks is %u", r->what,
                         n_stages, wf_plural(n_stages), want_stages);
    if (want_layers != 0 && n_layers != want_layers)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %u layer%s, but the model has %u", r->what,
                         n_layers, wf_plural(n_layers), want_layers);
    *out = n_stages;
    return WEFT_OK;
}

enum weft_status weft_partition_parse_pattern(struct weft_partition *p, const char *text,
                                              size_t len, uint32_t n_stages, uint32_t n_layers,
                                              struct weft_error *err)
{
    struct pattern_reader r = {text, len, 0, "layout"};
    struct symbols symbols = {0};
    uint32_t n = 0, *ends = NULL;
    if (len > UINT32_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "layout: the text is too long");

    enum weft_status st = read_symbols(&r, 0, &symbols, err);
    if (st == WEFT_OK)
        st = check_first_last(&r, &symbols, err);
    if (st == WEFT_OK)
        st = check_mtp(&r, &symbols, err);
    if (st == WEFT_OK && (ends = calloc(symbols.n, sizeof *ends)) == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for a layout of %zu stages and layers",
                       symbols.n);
    if (st == WEFT_OK)
        st = count_symbols(&r, &symbols, n_stages, n_layers, ends, &n, err);
    if (st == WEFT_OK)
        st = wf_partition_init_ends(p, ends, n, err);
    if (st == WEFT_OK)
        store_mtp(&symbols, p);
    free(ends);
    free(symbols.at);
    return st;
}
