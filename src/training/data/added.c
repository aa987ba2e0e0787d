/* Searches for added tokens.  The names are sorted, and a search narrows the range of names
 * that agree with the text, byte by byte. */
#include "training/data/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/data/unicode.h"

enum weft_status wf_added_set_add(struct wf_added_set *s, const char *text, size_t len,
                                  size_t index, bool special, struct weft_error *err)
{
    struct wf_added_entry *larger = NULL;
    char *copy = malloc(len + 1);
    if (copy != NULL)
        larger = realloc(s->at, (s->n + 1) * sizeof *larger);
    if (larger != NULL)
        s->at = larger;
    if (copy == NULL || larger == NULL) {
        free(copy);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the names of added tokens");
    }

    memcpy(copy, text, len);
    copy[len] = '\0';
    s->at[s->n++] = (struct wf_added_entry){copy, len, index};
    s->n_plain += !special;
    s->longest = len > s->longest ? len : s->longest;
    if (len > 0)
        s->starts[(unsigned char)text[0]] = true;
    return WEFT_OK;
}

static int by_text(const void *a, const void *b)
{
    const struct wf_added_entry *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    if (order == 0 && x->len != y->len)
        order = x->len < y->len ? -1 : 1;
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

void wf_added_set_sort(struct wf_added_set *s)
{
    if (s->n > 0)
        qsort(s->at, s->n, sizeof *s->at, by_text);
}

void wf_added_set_release(struct wf_added_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i].text);
    free(s->at);
    *s = (struct wf_added_set){0};
}

/* -- searching ----------------------------------------------------------------------------- */

/* Returns the first entry from `begin` to `end` whose byte number k is at least `byte`. */
static size_t lower_bound(const struct wf_added_set *s, size_t begin, size_t end, size_t k,
                          int byte)
{
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct wf_added_entry *e = &s->at[middle];
        int have = k < e->len ? (unsigned char)e->text[k] : -1;
        if (have < byte)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

/* Returns the longest name at the start of a text, or NULL. */
static const struct wf_added_entry *longest(const struct wf_added_set *s, const char *text,
                                            size_t len)
{
    const struct wf_added_entry *found = NULL;
    size_t begin = 0, end = s->n;
    for (size_t k = 0; k < len && begin < end; k++) {
        int byte = (unsigned char)text[k];
        begin = lower_bound(s, begin, end, k, byte);
        end = lower_bound(s, begin, end, k, byte + 1);
        if (begin < end && s->at[begin].len == k + 1)
            found = &s->at[begin];
    }
    return found;
}

bool wf_added_set_crosses(const struct wf_added_set *s, const char *text, size_t cut)
{
    for (size_t at = cut > s->longest ? cut - s->longest : 0; at < cut; at++) {
        size_t begin = 0, end = s->starts[(unsigned char)text[at]] ? s->n : 0;
        for (size_t k = 0; at + k < cut && begin < end; k++) {
            int byte = (unsigned char)text[at + k];
            begin = lower_bound(s, begin, end, k, byte);
            end = lower_bound(s, begin, end, k, byte + 1);
        }
        if (begin < end)
            return true;
    }
    return false;
}

static bool is_in_word(const struct wf_added_search *s, size_t begin, size_t end)
{
    const unsigned char *bytes = (const unsigned char *)s->text;
    size_t n;
    if (begin > 0) {
        size_t before = wf_unicode_before(bytes, 0, begin);
        if (wf_unicode_is_word(wf_unicode_at(bytes, s->len, before, &n)))
            return true;
    }
    return end < s->len && wf_unicode_is_word(wf_unicode_at(bytes, s->len, end, &n));
}

static size_t skip_space_left(const struct wf_added_search *s, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)s->text;
    size_t n;
    while (at > s->done) {
        size_t before = wf_unicode_before(bytes, s->done, at);
        if (!wf_unicode_is_space(wf_unicode_at(bytes, s->len, before, &n)))
            break;
        at = before;
    }
    return at;
}

static size_t skip_space_right(const struct wf_added_search *s, size_t at)
{
    const unsigned char *bytes = (const unsigned char *)s->text;
    size_t n;
    while (at < s->len && wf_unicode_is_space(wf_unicode_at(bytes, s->len, at, &n)))
        at += n;
    return at;
}

/* Moves s->at to the next byte with which a name starts.  Returns false if there is none. */
static bool find_start(struct wf_added_search *s)
{
    while (s->at < s->len && !s->set->starts[(unsigned char)s->text[s->at]])
        s->at++;
    return s->at < s->len;
}

bool wf_added_search_next(struct wf_added_search *s, int32_t *id, size_t *begin, size_t *end)
{
    if (!s->special && s->set->n_plain == 0)
        return false;
    while (find_start(s)) {
        const struct wf_added_entry *e = longest(s->set, s->text + s->at, s->len - s->at);
        if (e == NULL) {
            s->at++;
            continue;
        }
        const struct wf_added *token = &s->tokens[e->index];
        size_t from = s->at, to = s->at + e->len;
        s->at = to;
        if ((token->special && !s->special) || (token->single_word && is_in_word(s, from, to)))
            continue;

        *id = token->id;
        *begin = token->lstrip ? skip_space_left(s, from) : from;
        *end = token->rstrip ? skip_space_right(s, to) : to;
        s->done = *end;
        return true;
    }
    return false;
}
