/* Matches compiled regular expressions and finds out how they treat words. */
#include "training/data/regex.h"

#include "training/data/regex_priv.h"
#include "training/data/tokenizer_priv.h"

/* -- classes ------------------------------------------------------------------------------- */

bool wf_regex_class_has(const struct wf_regex *r, const struct wf_regex_class *k, int32_t c)
{
    bool found = false;
    for (uint16_t i = 0; i < k->n_ranges && !found; i++) {
        const struct wf_regex_range *range = &r->ranges[k->first_range + i];
        found = c >= range->first && c <= range->last;
    }
    if (!found && (k->space || k->not_space))
        found = wf_unicode_is_space(c) ? k->space : k->not_space;
    if (!found && k->categories != 0)
        found = (wf_unicode_category(c) & k->categories) != 0;
    return found != k->negated;
}

/* Returns true and stores the length of the character at `at` if the class contains it. */
static bool class_matches(const struct wf_regex *r, const struct wf_regex_class *k,
                          struct wf_subject *s, size_t at, size_t *n)
{
    enum { CHARACTER = 4 };
    if (at + CHARACTER > s->len)
        s->saw_end = true; /* more bytes might complete the character */
    if (at >= s->len)
        return false;
    unsigned char byte = s->at[at];
    *n = 1;
    if (byte < 0x80 && (!s->byte_chars || (byte > ' ' && byte < 0x7F)))
        return (k->ascii[byte / 64] >> byte % 64 & 1) != 0;
    int32_t c =
        s->byte_chars ? (int32_t)wf_byte_to_char(byte) : wf_unicode_at(s->at, s->len, at, n);
    return wf_regex_class_has(r, k, c);
}

/* -- matching ------------------------------------------------------------------------------ */

/* What must match after the current sequence. */
struct rest {
    uint16_t item;
    const struct rest *next; /* borrowed: on the stack */
};

struct matcher {
    const struct wf_regex *r;
    struct wf_subject *s;
    size_t end; /* of the match that was found */
};

static bool match_from(struct matcher *m, uint16_t item, size_t at, const struct rest *rest);

static bool match_group(struct matcher *m, const struct wf_regex_item *item, size_t at,
                        const struct rest *rest)
{
    const struct wf_regex_group *g = &m->r->groups[item->index];
    struct rest after = {item->next, rest};
    for (uint16_t i = 0; i < g->n; i++)
        if (match_from(m, g->starts[i], at, &after))
            return true;
    return item->min == 0 && match_from(m, item->next, at, rest);
}

static bool match_ahead(struct matcher *m, const struct wf_regex_item *item, size_t at,
                        const struct rest *rest)
{
    const struct wf_regex_group *g = &m->r->groups[item->index];
    bool found = false;
    for (uint16_t i = 0; i < g->n && !found; i++)
        found = match_from(m, g->starts[i], at, NULL);
    return found == (item->kind == WF_REGEX_AHEAD) && match_from(m, item->next, at, rest);
}

/* Takes as many characters as possible, then fewer until the rest matches. */
static bool match_class(struct matcher *m, const struct wf_regex_item *item, size_t at,
                        const struct rest *rest)
{
    const struct wf_regex_class *k = &m->r->classes[item->index];
    size_t end = at, n;
    int32_t count = 0;
    while (count < item->max && class_matches(m->r, k, m->s, end, &n)) {
        end += n;
        count++;
    }

    for (; count >= item->min; count--) {
        if (match_from(m, item->next, end, rest))
            return true;
        if (item->possessive || count == 0)
            break;
        end = m->s->byte_chars ? end - 1 : wf_unicode_before(m->s->at, at, end);
    }
    return false;
}

static bool match_from(struct matcher *m, uint16_t index, size_t at, const struct rest *rest)
{
    if (index == WF_REGEX_MAX_ITEMS) {
        if (rest != NULL)
            return match_from(m, rest->item, at, rest->next);
        m->end = at;
        return true;
    }

    const struct wf_regex_item *item = &m->r->items[index];
    switch (item->kind) {
    case WF_REGEX_CLASS:
        return match_class(m, item, at, rest);
    case WF_REGEX_GROUP:
        return match_group(m, item, at, rest);
    case WF_REGEX_AHEAD:
    case WF_REGEX_NOT_AHEAD:
        return match_ahead(m, item, at, rest);
    }
    return false;
}

size_t wf_regex_match(const struct wf_regex *r, struct wf_subject *s, size_t at)
{
    struct matcher m = {r, s, at};
    unsigned char byte = at < s->len ? s->at[at] : 0x80;
    if (byte > ' ' && byte < 0x7F && (r->first[byte / 64] >> byte % 64 & 1) == 0)
        return at; /* fails without looking further, whatever follows */
    const struct wf_regex_group *g = &r->groups[0];
    for (uint16_t i = 0; i < g->n; i++)
        if (match_from(&m, g->starts[i], at, NULL))
            return m.end;
    return at;
}

/* -- words --------------------------------------------------------------------------------- */

static bool has_letter(const struct wf_regex_class *k)
{
    return (k->ascii[1] & UINT64_C(0x07FFFFFE07FFFFFE)) != 0;
}

static bool has_all_letters(const struct wf_regex_class *k)
{
    const uint64_t letters = UINT64_C(0x07FFFFFE07FFFFFE);
    return (k->ascii[1] & letters) == letters;
}

static bool has_space(const struct wf_regex_class *k)
{
    return (k->ascii[0] & UINT64_C(0x100003E00)) != 0;
}

/* Expressions with groups of several characters are judged without their order: no class
 * outside of look-ahead may then contain letters beside one that contains white space. */
bool wf_regex_separates_words(const struct wf_regex *r)
{
    for (uint16_t g = 0; g < r->n_groups; g++)
        for (uint16_t a = 0; a < r->groups[g].n; a++) {
            bool letters = false;
            for (uint16_t i = r->groups[g].starts[a]; i != WF_REGEX_MAX_ITEMS;
                 i = r->items[i].next) {
                const struct wf_regex_item *item = &r->items[i];
                if (item->kind == WF_REGEX_GROUP && g != 0)
                    return false;
                if (item->kind != WF_REGEX_CLASS) {
                    letters = letters || item->kind == WF_REGEX_GROUP;
                    continue;
                }

                const struct wf_regex_class *k = &r->classes[item->index];
                bool repeats = item->max > 1 && has_letter(k);
                if (has_space(k) && (letters || repeats || g != 0))
                    return false;
                letters = letters || has_letter(k);
            }
        }
    return true;
}

bool wf_regex_uses_letters(const struct wf_regex *r)
{
    for (uint16_t i = 0; i < r->n_classes; i++)
        if (has_letter(&r->classes[i]))
            return true;
    return false;
}

/* Returns true if an item is one character that is white space (or that is not). */
static bool is_space_item(const struct wf_regex *r, uint16_t index, bool space)
{
    const struct wf_regex_item *item = &r->items[index];
    if (index == WF_REGEX_MAX_ITEMS || item->kind != WF_REGEX_CLASS)
        return false;
    const struct wf_regex_class *k = &r->classes[item->index];
    return !k->negated && k->categories == 0 && k->n_ranges == 0 && k->space == space &&
           k->not_space == !space;
}

bool wf_regex_looks_for_space(const struct wf_regex *r)
{
    for (uint16_t i = 0; i < r->n_items; i++) {
        const struct wf_regex_item *item = &r->items[i];
        bool ahead = item->kind == WF_REGEX_AHEAD || item->kind == WF_REGEX_NOT_AHEAD;
        if (!ahead)
            continue;
        const struct wf_regex_group *g = &r->groups[item->index];
        bool usual = item->kind == WF_REGEX_NOT_AHEAD && g->n == 1 &&
                     is_space_item(r, g->starts[0], false) && i > 0 &&
                     r->items[i - 1].next == i && is_space_item(r, (uint16_t)(i - 1), true);
        if (!usual)
            return false;
    }
    return true;
}

bool wf_regex_matches_letters(const struct wf_regex *r)
{
    const struct wf_regex_group *g = &r->groups[0];
    for (uint16_t a = 0; a < g->n; a++) {
        bool single = false, possible = true;
        for (uint16_t i = g->starts[a]; i != WF_REGEX_MAX_ITEMS && possible;
             i = r->items[i].next) {
            const struct wf_regex_item *item = &r->items[i];
            const struct wf_regex_class *k = &r->classes[item->index];
            bool is_class = item->kind == WF_REGEX_CLASS;
            if (is_class && !single && item->min <= 1 && has_all_letters(k))
                single = true;
            else
                possible = item->min == 0 && (!is_class || !has_letter(k) || !item->possessive);
        }
        if (single && possible)
            return true;
    }
    return false;
}
