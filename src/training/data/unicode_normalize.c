/* Implements the normalization forms with the decompositions and compositions of utf8proc.
 *
 * The text is normalized in chunks that do not affect each other.  Marks are sorted here,
 * because utf8proc takes quadratic time for long sequences of them. */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/error.h"
#include "training/data/unicode.h"
#include "training/data/unicode_tables.h"

/* A growing list of characters. */
struct chars {
    utf8proc_int32_t *at; /* owned */
    size_t len, cap;
    bool failed;
};

static bool reserve(struct chars *list, size_t n)
{
    if (n <= list->cap - list->len)
        return true;
    size_t cap = 2 * (list->len + n) + 64;
    utf8proc_int32_t *at = realloc(list->at, cap * sizeof *at);
    if (at == NULL) {
        list->failed = true;
        return false;
    }
    list->at = at;
    list->cap = cap;
    return true;
}

static bool is_inert(utf8proc_int32_t c)
{
    for (size_t i = 0; i < WEFT_LEN(inert_characters) && c >= inert_characters[i].first; i++)
        if (c <= inert_characters[i].last)
            return true;
    return false;
}

bool wf_unicode_starts_chunk(int32_t c)
{
    return c < 0x80 || (c >= 0x2010 && c <= 0x2027) || (c >= 0x3000 && c <= 0x3029) ||
           (c >= 0x3030 && c <= 0x3098) || (c >= 0x309B && c <= 0x30FF) ||
           (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) ||
           (c >= 0xFF00 && c <= 0xFF9D);
}

/* -- one chunk ----------------------------------------------------------------------------- */

static void add_char(struct wf_text *out, utf8proc_int32_t c)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t n = utf8proc_encode_char(c, bytes);
    wf_text_add(out, (const char *)bytes, (size_t)n);
}

static int class_of(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Sorts marks by their combining class and keeps the order of marks of the same class. */
static void sort_marks(utf8proc_int32_t *marks, size_t n, struct chars *spare)
{
    enum { CLASSES = 256 };
    size_t begin[CLASSES + 1] = {0};
    if (n < 2)
        return;
    spare->len = 0;
    if (!reserve(spare, n))
        return;

    for (size_t i = 0; i < n; i++)
        begin[class_of(marks[i]) + 1]++;
    for (size_t k = 1; k <= CLASSES; k++)
        begin[k] += begin[k - 1];
    for (size_t i = 0; i < n; i++)
        spare->at[begin[class_of(marks[i])]++] = marks[i];
    for (size_t i = 0; i < n; i++)
        marks[i] = spare->at[i];
}

static void sort_all(struct chars *list, struct chars *spare)
{
    for (size_t i = 0; i < list->len;) {
        size_t end = i;
        while (end < list->len && class_of(list->at[end]) != 0)
            end++;
        sort_marks(list->at + i, end - i, spare);
        i = end + 1;
    }
}

static void decompose(struct chars *list, utf8proc_int32_t c, bool compatible)
{
    enum { LONGEST = 32 }; /* no character has a longer decomposition */
    int bound = 0;
    utf8proc_option_t how = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    if (!reserve(list, LONGEST))
        return;
    utf8proc_ssize_t n = utf8proc_decompose_char(c, list->at + list->len, LONGEST, how, &bound);
    if (n > 0 && n <= LONGEST)
        list->len += (size_t)n;
}

/* Appends the characters of the list in their normalization form and empties the list. */
static void flush(struct wf_text *out, struct chars *list, struct chars *spare, bool compose)
{
    sort_all(list, spare);
    utf8proc_ssize_t n = (utf8proc_ssize_t)list->len;
    if (compose && n > 0)
        n = utf8proc_normalize_utf32(list->at, n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        add_char(out, list->at[i]);
    list->len = 0;
}

/* -- the text ------------------------------------------------------------------------------ */

/* Returns the start of the chunk after the one at `at`: where the next character that
 * normalization may change is preceded by one that it does not. */
static size_t skip_plain(const unsigned char *s, size_t len, size_t at, bool compatible)
{
    size_t plain = at;
    /* No character below U+0300 changes in NFC. */
    const unsigned char limit = compatible ? 0x80 : 0xCC;
    while (at < len && s[at] < limit) {
        if (s[at] < 0x80 || s[at] >= 0xC0)
            plain = at;
        at++;
    }
    return at == len ? len : plain;
}

void wf_unicode_normalize(struct wf_text *out, const char *text, size_t len,
                          enum wf_unicode_form form)
{
    const unsigned char *s = (const unsigned char *)text;
    bool compatible = form == WF_UNICODE_NFKC || form == WF_UNICODE_NFKD;
    bool compose = form == WF_UNICODE_NFC || form == WF_UNICODE_NFKC;
    struct chars list = {0}, spare = {0};

    for (size_t at = 0, n; at < len; at += n) {
        if (list.len == 0) {
            size_t plain = skip_plain(s, len, at, compatible || !compose);
            wf_text_add(out, text + at, plain - at);
            at = plain;
            n = 0;
            if (at == len)
                break;
        }

        int32_t c = wf_unicode_at(s, len, at, &n);
        if (c == WF_NOT_A_CHAR || is_inert(c)) {
            flush(out, &list, &spare, compose);
            wf_text_add(out, text + at, n);
            continue;
        }
        if (list.len > 0 && wf_unicode_starts_chunk(c))
            flush(out, &list, &spare, compose);
        decompose(&list, c, compatible);
        if (c < 0x80 && at + 1 < len && s[at + 1] < 0x80)
            flush(out, &list, &spare, compose);
    }

    flush(out, &list, &spare, compose);
    out->failed = out->failed || list.failed || spare.failed;
    free(list.at);
    free(spare.at);
}
