/* A growing text buffer, edit distances, and UTF-8. */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static bool text_reserve(struct wf_text *t, size_t more)
{
    size_t need;
    if (t->failed || !wf_size_add(t->len, more, &need) || !wf_size_add(need, 1, &need)) {
        t->failed = true;
        return false;
    }
    if (need <= t->cap)
        return true;
    size_t cap = wf_size_max(need, t->cap < 256 ? 256 : t->cap + t->cap / 2);
    char *at = realloc(t->at, cap);
    if (at == NULL) {
        t->failed = true;
        return false;
    }
    t->at = at;
    t->cap = cap;
    return true;
}

void wf_text_add(struct wf_text *t, const char *bytes, size_t len)
{
    if (!text_reserve(t, len))
        return;
    memcpy(t->at + t->len, bytes, len);
    t->len += len;
    t->at[t->len] = '\0';
}

void wf_text_adds(struct wf_text *t, const char *string)
{
    wf_text_add(t, string, strlen(string));
}

void wf_text_addc(struct wf_text *t, char c)
{
    wf_text_add(t, &c, 1);
}

void wf_text_addu(struct wf_text *t, unsigned long long number)
{
    char digits[24];
    size_t n = sizeof digits;
    do
        digits[--n] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    wf_text_add(t, digits + n, sizeof digits - n);
}

void wf_text_addf(struct wf_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0 && text_reserve(t, (size_t)n)) {
        vsnprintf(t->at + t->len, (size_t)n + 1, format, again);
        t->len += (size_t)n;
    }
    va_end(again);
}

void wf_text_release(struct wf_text *t)
{
    free(t->at);
    *t = (struct wf_text){0};
}

static int lower(char c)
{
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static bool has_prefix(const char *name, const char *written)
{
    while (*written != '\0' && lower(*name) == lower(*written)) {
        name++;
        written++;
    }
    return *written == '\0';
}

const char *wf_text_nearest(const char *written, const char *const *names, size_t n,
                            size_t stride)
{
    const char *best = NULL;
    size_t min_distance = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const char *name = *(const char *const *)((const char *)names + i * stride);
        if (name == NULL)
            continue;
        size_t distance = strlen(written) >= 2 && has_prefix(name, written)
                              ? 0
                              : wf_text_distance(written, name);
        if (distance < min_distance) {
            min_distance = distance;
            best = name;
        }
    }
    return best != NULL && min_distance <= 1 + strlen(best) / 3 ? best : NULL;
}

size_t wf_text_distance(const char *a, const char *b)
{
    size_t row[64]; /* one row of the edit-distance table; longer names never match */
    size_t na = strlen(a), nb = strlen(b);
    if (nb >= sizeof row / sizeof row[0] || na >= sizeof row / sizeof row[0])
        return na > nb ? na : nb;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t change = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            row[j] = wf_size_min(change, wf_size_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[nb];
}

int wf_utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    int n = s[0] < 0x80                   ? 1
            : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
            : (s[0] & 0xf0) == 0xe0       ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool outside = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);
    return n > 1 && (overlong || outside) ? 0 : n;
}

bool wf_is_utf8(const char *text)
{
    for (int n; *text != '\0'; text += n)
        if ((n = wf_utf8_length(text)) == 0)
            return false;
    return true;
}
