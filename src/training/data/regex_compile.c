/* Compiles regular expressions.  The pattern is untrusted input. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/data/regex_priv.h"

enum { MAX_DEPTH = 8, NONE = WF_REGEX_MAX_ITEMS };

struct compiler {
    const char *pattern; /* borrowed */
    size_t len, at;
    struct wf_regex *r;
    int depth;
    struct weft_error *err;
};

#define FAIL(c, what)                                                                          \
    WEFT_FAIL((c)->err, WEFT_DATA, "at character %zu: %s is not supported", (c)->at + 1, what)

static bool is_next(const struct compiler *c, const char *text)
{
    size_t n = strlen(text);
    return c->len - c->at >= n && memcmp(c->pattern + c->at, text, n) == 0;
}

static bool take(struct compiler *c, const char *text)
{
    if (!is_next(c, text))
        return false;
    c->at += strlen(text);
    return true;
}

/* -- classes ------------------------------------------------------------------------------- */

static enum weft_status add_range(struct compiler *c, struct wf_regex_class *k, int32_t first,
                                  int32_t last)
{
    if (first == WF_NOT_A_CHAR || last < first)
        return FAIL(c, "this range of characters");
    if (c->r->n_ranges == WF_REGEX_MAX_RANGES)
        return FAIL(c, "so long a pattern");
    c->r->ranges[c->r->n_ranges++] = (struct wf_regex_range){first, last};
    k->n_ranges++;
    return WEFT_OK;
}

/* Adds one character and, without regard to case, its other forms. */
static enum weft_status add_char(struct compiler *c, struct wf_regex_class *k, int32_t ch,
                                 bool any_case)
{
    WEFT_TRY(add_range(c, k, ch, ch));
    if (!any_case)
        return WEFT_OK;
    bool lower = ch >= 'a' && ch <= 'z', upper = ch >= 'A' && ch <= 'Z';
    if (!lower && !upper)
        return ch < 0x80 ? WEFT_OK : FAIL(c, "(?i:) with a character that is not ASCII");

    WEFT_TRY(add_range(c, k, ch ^ 0x20, ch ^ 0x20));
    if ((ch | 0x20) == 's') /* the long s */
        return add_range(c, k, 0x17F, 0x17F);
    return (ch | 0x20) == 'k' ? add_range(c, k, 0x212A, 0x212A) : WEFT_OK;
}

/* Reads \p{Name} or \P{Name} after the letter p. */
static enum weft_status read_category(struct compiler *c, struct wf_regex_class *k,
                                      bool complement)
{
    const char *end = memchr(c->pattern + c->at, '}', c->len - c->at);
    wf_category_set set;
    if (!take(c, "{") || end == NULL ||
        !wf_unicode_find_category(c->pattern + c->at, (size_t)(end - c->pattern) - c->at, &set))
        return FAIL(c, "this category of characters");
    k->categories |= complement ? ~set : set;
    c->at = (size_t)(end - c->pattern) + 1;
    return WEFT_OK;
}

/* Returns the character of an escape sequence such as \n or \., or WF_NOT_A_CHAR. */
static int32_t escaped_char(char letter)
{
    static const char letters[] = "nrtfv", chars[] = "\n\r\t\f\v";
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    if (found != NULL)
        return chars[found - letters];
    bool plain = letter > ' ' && letter <= '~' && !(letter >= '0' && letter <= '9') &&
                 !((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z');
    return plain ? letter : WF_NOT_A_CHAR;
}

/* Reads an escape sequence after its backslash.  Stores the character in *ch if it stands for
 * one character, else adds a set to the class and stores WF_NOT_A_CHAR. */
static enum weft_status read_escape(struct compiler *c, struct wf_regex_class *k, int32_t *ch)
{
    wf_category_set digits;
    *ch = WF_NOT_A_CHAR;
    if (take(c, "p"))
        return read_category(c, k, false);
    if (take(c, "P"))
        return read_category(c, k, true);
    if (take(c, "d")) {
        (void)wf_unicode_find_category("Nd", 2, &digits);
        k->categories |= digits;
        return WEFT_OK;
    }
    if (is_next(c, "s") || is_next(c, "S")) {
        k->space = k->space || is_next(c, "s");
        k->not_space = k->not_space || is_next(c, "S");
        c->at++;
        return WEFT_OK;
    }

    *ch = c->at < c->len ? escaped_char(c->pattern[c->at]) : WF_NOT_A_CHAR;
    if (*ch == WF_NOT_A_CHAR)
        return FAIL(c, "this escape sequence");
    c->at++;
    return WEFT_OK;
}

static enum weft_status read_char(struct compiler *c, int32_t *ch)
{
    size_t n = 0;
    *ch = wf_unicode_at((const unsigned char *)c->pattern, c->len, c->at, &n);
    if (*ch == WF_NOT_A_CHAR)
        return FAIL(c, "a byte that is not UTF-8");
    c->at += n;
    return WEFT_OK;
}

/* Reads one element of [...]: a character, a range or a set. */
static enum weft_status read_member(struct compiler *c, struct wf_regex_class *k, bool any_case)
{
    int32_t first, last;
    if (is_next(c, "[") || is_next(c, "&&"))
        return FAIL(c, "a class within a class");
    if (take(c, "\\")) {
        WEFT_TRY(read_escape(c, k, &first));
        if (first == WF_NOT_A_CHAR)
            return WEFT_OK;
    } else {
        WEFT_TRY(read_char(c, &first));
    }
    if (!is_next(c, "-") || is_next(c, "-]"))
        return add_char(c, k, first, any_case);

    c->at++;
    if (any_case)
        return FAIL(c, "a range in (?i:)");
    if (!take(c, "\\")) {
        WEFT_TRY(read_char(c, &last));
        return add_range(c, k, first, last);
    }
    WEFT_TRY(read_escape(c, k, &last));
    return add_range(c, k, first, last);
}

/* Fills the table of ASCII characters. */
static void finish_class(const struct wf_regex *r, struct wf_regex_class *k)
{
    uint64_t ascii[2] = {0, 0};
    for (int32_t ch = 0; ch < 0x80; ch++)
        if (wf_regex_class_has(r, k, ch))
            ascii[ch / 64] |= (uint64_t)1 << ch % 64;
    memcpy(k->ascii, ascii, sizeof ascii);
}

static enum weft_status read_class(struct compiler *c, bool any_case, uint16_t *out)
{
    struct wf_regex_class *k = &c->r->classes[c->r->n_classes];
    int32_t ch;
    *k = (struct wf_regex_class){.first_range = c->r->n_ranges};
    if (take(c, "[")) {
        k->negated = take(c, "^");
        do {
            if (c->at >= c->len)
                return FAIL(c, "a class without ']'");
            WEFT_TRY(read_member(c, k, any_case));
        } while (!take(c, "]"));
    } else if (take(c, ".")) {
        k->negated = true;
        WEFT_TRY(add_range(c, k, '\n', '\n'));
    } else if (take(c, "\\")) {
        WEFT_TRY(read_escape(c, k, &ch));
        if (ch != WF_NOT_A_CHAR)
            WEFT_TRY(add_char(c, k, ch, any_case));
    } else if (is_next(c, "^") || is_next(c, "$")) {
        return FAIL(c, "an anchor");
    } else {
        WEFT_TRY(read_char(c, &ch));
        WEFT_TRY(add_char(c, k, ch, any_case));
    }

    finish_class(c->r, k);
    *out = c->r->n_classes++;
    return WEFT_OK;
}

/* -- sequences ----------------------------------------------------------------------------- */

static enum weft_status read_number(struct compiler *c, int32_t *out)
{
    enum { MAX = 1000 };
    int32_t n = 0;
    size_t begin = c->at;
    while (c->at < c->len && c->pattern[c->at] >= '0' && c->pattern[c->at] <= '9' && n <= MAX)
        n = 10 * n + (c->pattern[c->at++] - '0');
    if (c->at == begin || n > MAX)
        return FAIL(c, "this number of repetitions");
    *out = n;
    return WEFT_OK;
}

static enum weft_status read_quantifier(struct compiler *c, struct wf_regex_item *item)
{
    item->min = item->max = 1;
    if (take(c, "{")) {
        WEFT_TRY(read_number(c, &item->min));
        item->max = item->min;
        if (take(c, ",")) {
            item->max = WF_REGEX_ENDLESS;
            if (!is_next(c, "}"))
                WEFT_TRY(read_number(c, &item->max));
        }
        if (!take(c, "}") || item->max < item->min || item->max == 0 || is_next(c, "+"))
            return FAIL(c, "this quantifier");
    } else if (is_next(c, "?") || is_next(c, "*") || is_next(c, "+")) {
        item->min = is_next(c, "+") ? 1 : 0;
        item->max = is_next(c, "?") ? 1 : WF_REGEX_ENDLESS;
        c->at++;
        item->possessive = take(c, "+");
    }

    if (is_next(c, "?") || is_next(c, "*") || is_next(c, "+") || is_next(c, "{"))
        return FAIL(c, "this quantifier");
    if (item->kind != WF_REGEX_CLASS && (item->max > 1 || item->possessive))
        return FAIL(c, "repetition of a group");
    bool ahead = item->kind == WF_REGEX_AHEAD || item->kind == WF_REGEX_NOT_AHEAD;
    return ahead && item->min != 1 ? FAIL(c, "optional look-ahead") : WEFT_OK;
}

static enum weft_status read_group(struct compiler *c, bool any_case, uint16_t *out);

static enum weft_status read_item(struct compiler *c, bool any_case, uint16_t *out)
{
    if (c->r->n_items == WF_REGEX_MAX_ITEMS)
        return FAIL(c, "so long a pattern");
    uint16_t self = c->r->n_items++;
    struct wf_regex_item *item = &c->r->items[self];
    *item = (struct wf_regex_item){.kind = WF_REGEX_CLASS, .next = NONE};

    if (take(c, "(")) {
        item->kind = take(c, "?!")   ? WF_REGEX_NOT_AHEAD
                     : take(c, "?=") ? WF_REGEX_AHEAD
                                     : WF_REGEX_GROUP;
        bool fold = any_case;
        if (item->kind == WF_REGEX_GROUP && is_next(c, "?")) {
            fold = fold || is_next(c, "?i:");
            if (!take(c, "?i:") && !take(c, "?:"))
                return FAIL(c, "this group");
        }
        WEFT_TRY(read_group(c, fold, &item->index));
        if (!take(c, ")"))
            return FAIL(c, "a group without ')'");
    } else {
        WEFT_TRY(read_class(c, any_case, &item->index));
    }
    *out = self;
    return read_quantifier(c, item);
}

/* Reads alternatives up to the end of the pattern or a closing parenthesis. */
static enum weft_status read_group(struct compiler *c, bool any_case, uint16_t *out)
{
    if (c->r->n_groups == WF_REGEX_MAX_GROUPS || c->depth == MAX_DEPTH)
        return FAIL(c, "so long a pattern");
    c->depth++;
    *out = c->r->n_groups++;
    struct wf_regex_group *g = &c->r->groups[*out];
    *g = (struct wf_regex_group){.n = 0};

    do {
        if (g->n == WEFT_LEN(g->starts))
            return FAIL(c, "so long a pattern");
        uint16_t *link = &g->starts[g->n++];
        *link = NONE;
        while (c->at < c->len && !is_next(c, "|") && !is_next(c, ")")) {
            WEFT_TRY(read_item(c, any_case, link));
            link = &c->r->items[*link].next;
        }
    } while (take(c, "|"));
    c->depth--;
    return WEFT_OK;
}

/* Adds the characters with which the sequence at `item` may start.  Returns true if what
 * follows the sequence may start a match as well. */
static bool add_first(struct wf_regex *r, uint16_t item)
{
    for (; item != NONE; item = r->items[item].next) {
        const struct wf_regex_item *i = &r->items[item];
        bool skips = i->min == 0;
        if (i->kind == WF_REGEX_CLASS) {
            r->first[0] |= r->classes[i->index].ascii[0];
            r->first[1] |= r->classes[i->index].ascii[1];
        } else if (i->kind == WF_REGEX_GROUP) {
            const struct wf_regex_group *g = &r->groups[i->index];
            for (uint16_t a = 0; a < g->n; a++)
                skips = add_first(r, g->starts[a]) || skips;
        } else {
            skips = true;
        }
        if (!skips)
            return false;
    }
    return true;
}

enum weft_status wf_regex_new(const char *pattern, struct wf_regex **out,
                              struct weft_error *err)
{
    struct wf_regex *r = calloc(1, sizeof *r);
    struct compiler c = {.pattern = pattern, .len = strlen(pattern), .r = r, .err = err};
    uint16_t whole;
    if (r != NULL)
        r->pattern = strdup(pattern);
    if (r == NULL || r->pattern == NULL) {
        wf_regex_free(r);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a regular expression");
    }

    enum weft_status st = read_group(&c, false, &whole);
    if (st == WEFT_OK && c.at < c.len)
        st = FAIL(&c, "a ')' without '('");
    if (st != WEFT_OK) {
        wf_regex_free(r);
        return st;
    }
    for (uint16_t a = 0; a < r->groups[0].n; a++)
        (void)add_first(r, r->groups[0].starts[a]);
    *out = r;
    return WEFT_OK;
}

void wf_regex_free(struct wf_regex *r)
{
    if (r != NULL)
        free(r->pattern);
    free(r);
}

const char *wf_regex_pattern(const struct wf_regex *r)
{
    return r->pattern;
}
