/* String operations of templates: stripping, splitting, replacing, searching, case. */
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

/* Returns true if `set` has the character, or if it is white space and `set` is NULL. */
static bool is_in_set(const char *at, size_t n, const struct wf_tpl_string *set)
{
    if (set != NULL)
        return wf_tpl_find(*set, (struct wf_tpl_string){at, n}, 0) != SIZE_MAX;
    if (n == 1)
        return *at == ' ' || (*at >= '\t' && *at <= '\r') || (*at >= 0x1c && *at <= 0x1f);
    utf8proc_int32_t c = 0;
    if (utf8proc_iterate((const utf8proc_uint8_t *)at, (utf8proc_ssize_t)n, &c) <= 0)
        return false;
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP || c == 0x85;
}

/* Returns the bytes of the last character. */
static size_t last_char_bytes(struct wf_tpl_string s)
{
    size_t n = 1;
    while (n < s.len && n < 4 && ((unsigned char)s.at[s.len - n] & 0xC0) == 0x80)
        n++;
    return n;
}

struct wf_tpl_value wf_tpl_strip(struct wf_tpl_string s, const struct wf_tpl_string *set,
                                 bool left, bool right)
{
    while (left && s.len > 0) {
        size_t n = wf_tpl_char_bytes(s.at, s.len);
        if (!is_in_set(s.at, n, set))
            break;
        s.at += n;
        s.len -= n;
    }
    while (right && s.len > 0) {
        size_t n = last_char_bytes(s);
        if (!is_in_set(s.at + s.len - n, n, set))
            break;
        s.len -= n;
    }
    return wf_tpl_string(s.at, s.len);
}

size_t wf_tpl_find(struct wf_tpl_string s, struct wf_tpl_string part, size_t from)
{
    for (size_t i = from; i + part.len <= s.len; i++) {
        if (part.len == 0)
            return i;
        const char *at = memchr(s.at + i, part.at[0], s.len - i);
        if (at == NULL || (size_t)(at - s.at) + part.len > s.len)
            return SIZE_MAX;
        i = (size_t)(at - s.at);
        if (memcmp(at, part.at, part.len) == 0)
            return i;
    }
    return SIZE_MAX;
}

struct wf_tpl_value wf_tpl_replace(struct wf_tpl_run *r, struct wf_tpl_string s,
                                   struct wf_tpl_string from, struct wf_tpl_string to,
                                   int64_t count, uint32_t line)
{
    struct wf_text text = {0};
    size_t at = 0;
    if (from.len == 0)
        return wf_tpl_raise(r, line, "replace of an empty string is not supported");
    while (count != 0) {
        size_t found = wf_tpl_find(s, from, at);
        if (found == SIZE_MAX || text.len > WF_TPL_MAX_OUTPUT)
            break;
        wf_text_add(&text, s.at + at, found - at);
        wf_text_add(&text, to.at, to.len);
        at = found + from.len;
        count--;
    }
    wf_text_add(&text, s.at + at, s.len - at);
    return wf_tpl_take_text(r, &text);
}

struct wf_tpl_value wf_tpl_change_case(struct wf_tpl_run *r, struct wf_tpl_string s, char how)
{
    struct wf_text text = {0};

    bool start = true; /* of a word, or of the string */
    for (size_t i = 0; i < s.len;) {
        size_t n = wf_tpl_char_bytes(s.at + i, s.len - i);
        utf8proc_int32_t c = 0;
        utf8proc_uint8_t bytes[4];
        bool valid =
            utf8proc_iterate((const utf8proc_uint8_t *)s.at + i, (utf8proc_ssize_t)n, &c) > 0;
        bool up = how == 'U' || ((how == 'T' || how == 'C') && start);
        bool letter = valid && utf8proc_category(c) >= UTF8PROC_CATEGORY_LU &&
                      utf8proc_category(c) <= UTF8PROC_CATEGORY_LO;
        if (valid) {
            utf8proc_ssize_t len =
                utf8proc_encode_char(up ? utf8proc_toupper(c) : utf8proc_tolower(c), bytes);
            wf_text_add(&text, (const char *)bytes, (size_t)len);
        } else {
            wf_text_add(&text, s.at + i, n);
        }
        start = how == 'T' && !letter;
        i += n;
    }
    return wf_tpl_take_text(r, &text);
}
