/* Reads the source of a template: text, the beginnings and ends of tags, and their tokens. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "training/chat/template_priv.h"

void wf_tpl_fail(struct wf_tpl_parser *p, uint32_t line, const char *format, ...)
{
    char text[256];
    va_list args;
    if (p->status != WEFT_OK)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->status = WEFT_FAIL(p->err, WEFT_DATA, "%.160s:%u: %s", p->t->name, (unsigned)line, text);
    p->at = p->end;
    p->token = (struct wf_tpl_token){.kind = WF_TPL_TOKEN_END, .line = line};
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char peek(const struct wf_tpl_parser *p, size_t i)
{
    return (size_t)(p->end - p->at) > i ? p->at[i] : '\0';
}

static void skip(struct wf_tpl_parser *p, size_t n)
{
    for (; n > 0 && p->at < p->end; n--)
        p->line += *p->at++ == '\n';
}

static void skip_spaces(struct wf_tpl_parser *p)
{
    while (p->at < p->end && is_space(*p->at))
        skip(p, 1);
}

/* Skips the end of a tag or a comment, which has `n` bytes after its sign, and what it trims.
 * */
static void end_tag(struct wf_tpl_parser *p, bool trims)
{
    char sign = peek(p, 0);
    bool has_sign = sign == '-' || sign == '+';
    skip(p, has_sign ? 3 : 2);
    const char *begin = p->at;
    if (sign == '-')
        skip_spaces(p);
    else if (trims && sign != '+' && peek(p, 0) == '\n')
        skip(p, 1);
    p->line_starting = p->at > begin && p->at[-1] == '\n';
}

/* Removes the white space before a block, back to the start of its line. */
static void strip_line(const struct wf_tpl_parser *p, struct wf_tpl_string *text)
{
    size_t begin = text->len;
    while (begin > 0 && text->at[begin - 1] != '\n')
        begin--;
    if (begin == 0 && !p->line_starting)
        return;
    for (size_t i = begin; i < text->len; i++)
        if (!is_space(text->at[i]))
            return;
    text->len = begin;
}

void wf_tpl_read_text(struct wf_tpl_parser *p, struct wf_tpl_string *text, char *tag)
{
    const char *begin = p->at, *at = begin;
    while (at + 1 < p->end && !(at[0] == '{' && strchr("{%#", at[1]) != NULL && at[1] != '\0'))
        at++;
    bool found = at + 1 < p->end;
    if (!found)
        at = p->end;
    *text = (struct wf_tpl_string){begin, (size_t)(at - begin)};
    *tag = found ? at[1] : '\0';
    skip(p, text->len);
    if (!found)
        return;

    skip(p, 2);
    char sign = peek(p, 0);
    if (sign == '-')
        while (text->len > 0 && is_space(text->at[text->len - 1]))
            text->len--;
    else if (sign != '+' && *tag != '{')
        strip_line(p, text);
    if (sign == '-' || sign == '+')
        skip(p, 1);
    p->in_block = *tag == '%';
    p->brackets = 0;
}

void wf_tpl_skip_comment(struct wf_tpl_parser *p)
{
    uint32_t line = p->line;
    for (; p->at < p->end; skip(p, 1)) {
        size_t sign = (peek(p, 0) == '-' || peek(p, 0) == '+') && peek(p, 1) == '#';
        if (peek(p, sign) == '#' && peek(p, sign + 1) == '}') {
            end_tag(p, true);
            return;
        }
    }
    wf_tpl_fail(p, line, "the comment has no end");
}

/* -- tokens -------------------------------------------------------------------------------- */

/* Appends a character as UTF-8. */
static char *put_char(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    }
    return out;
}

/* Decodes an escape after its backslash.  Returns the end of the output.  The output has at
 * most as many bytes as the escape. */
static char *unescape(struct wf_tpl_parser *p, const char **at, const char *end, char *out)
{
    static const char from[] = "nrtabfv0\\'\"", to[] = "\n\r\t\a\b\f\v\0\\'\"";
    char c = *(*at)++;
    const char *known = c == '\0' ? NULL : strchr(from, c);
    if (known != NULL && c != '0') {
        *out++ = to[known - from];
        return out;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0 || (size_t)(end - *at) < digits) {
        if (c >= '0' && c <= '9') {
            wf_tpl_fail(p, p->line, "the escape \\%c is not supported", c);
            return out;
        }
        if (c == '\n') /* a continued line */
            return out;
        *out++ = '\\';
        *out++ = c;
        return out;
    }

    uint32_t code = 0;
    for (size_t i = 0; i < digits; i++) {
        char d = (*at)[i];
        if (!isxdigit((unsigned char)d)) {
            wf_tpl_fail(p, p->line, "the escape \\%c needs %zu hexadecimal digits", c, digits);
            return out;
        }
        code = code << 4 | (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
    }
    *at += digits;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) || code == 0) {
        wf_tpl_fail(p, p->line, "the escape \\%c is not a character", c);
        return out;
    }
    return put_char(out, code);
}

static void read_string(struct wf_tpl_parser *p)
{
    char quote = *p->at;
    const char *end = p->at + 1;
    while (end < p->end && *end != quote)
        end += *end == '\\' && end + 1 < p->end ? 2 : 1;
    if (end >= p->end) {
        wf_tpl_fail(p, p->line, "the string has no end");
        return;
    }

    char *text = wf_tpl_alloc(&p->t->arena, (size_t)(end - p->at) + 1), *out = text;
    if (text == NULL) {
        wf_tpl_fail(p, p->line, "no memory");
        return;
    }
    for (const char *at = p->at + 1; at < end && p->status == WEFT_OK;) {
        if (*at != '\\') {
            *out++ = *at++;
        } else {
            at++;
            out = unescape(p, &at, end, out);
        }
    }
    if (p->status != WEFT_OK)
        return;
    p->token.kind = WF_TPL_TOKEN_STRING;
    p->token.text = (struct wf_tpl_string){text, (size_t)(out - text)};
    skip(p, (size_t)(end + 1 - p->at));
}

static void read_number(struct wf_tpl_parser *p)
{
    char text[64];
    size_t n = 0, used = 0;
    bool real = false;
    for (char c; (c = peek(p, used)) != '\0' && n + 1 < sizeof text; used++) {
        char next = peek(p, used + 1);
        if (c == '_' && isdigit((unsigned char)next))
            continue;
        bool signed_next = next == '-' || next == '+';
        bool point = c == '.' && !real && isdigit((unsigned char)next);
        bool exponent =
            (c == 'e' || c == 'E') && isdigit((unsigned char)peek(p, used + 1 + signed_next));
        bool sign = (c == '-' || c == '+') && n > 0 && (text[n - 1] | 32) == 'e';
        if (!isdigit((unsigned char)c) && !point && !exponent && !sign)
            break;
        real = real || point || exponent;
        text[n++] = c;
    }
    text[n] = '\0';

    errno = 0;
    p->token.text = (struct wf_tpl_string){p->at, used};
    p->token.kind = real ? WF_TPL_TOKEN_FLOAT : WF_TPL_TOKEN_INT;
    if (real)
        p->token.value = (struct wf_tpl_value){.kind = WF_TPL_FLOAT, .f = strtod(text, NULL)};
    else
        p->token.value = wf_tpl_int(strtoll(text, NULL, 10));
    if (errno != 0)
        wf_tpl_fail(p, p->line, "the number %s is too large", text);
    else
        skip(p, used);
}

/* Returns the bytes of the operator at the reading position, or 0. */
static size_t operator_length(const struct wf_tpl_parser *p)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (size_t i = 0; i < WEFT_LEN(two); i++)
        if (peek(p, 0) == two[i][0] && peek(p, 1) == two[i][1])
            return 2;
    return peek(p, 0) != '\0' && strchr("+-*/%~<>=()[]{}.,:|", peek(p, 0)) != NULL;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Returns true if the tag ends at the reading position. */
static bool at_end(const struct wf_tpl_parser *p)
{
    size_t sign = (peek(p, 0) == '-' || peek(p, 0) == '+');
    if (p->brackets > 0)
        return false;
    return peek(p, sign) == (p->in_block ? '%' : '}') && peek(p, sign + 1) == '}';
}

void wf_tpl_next(struct wf_tpl_parser *p)
{
    skip_spaces(p);
    p->token = (struct wf_tpl_token){.kind = WF_TPL_TOKEN_END, .line = p->line};
    if (p->status != WEFT_OK)
        return;
    if (p->at == p->end) {
        wf_tpl_fail(p, p->line, "the tag has no end");
        return;
    }
    char c = *p->at;

    if (at_end(p)) {
        end_tag(p, p->in_block);
    } else if (c == '"' || c == '\'') {
        read_string(p);
    } else if (isdigit((unsigned char)c)) {
        read_number(p);
    } else if (is_word(c)) {
        size_t n = 1;
        while (is_word(peek(p, n)))
            n++;
        p->token.kind = WF_TPL_TOKEN_NAME;
        p->token.text = (struct wf_tpl_string){p->at, n};
        skip(p, n);
    } else {
        size_t n = operator_length(p);
        if (n == 0) {
            wf_tpl_fail(p, p->line, "unexpected character '%c'",
                        isprint((unsigned char)c) ? c : '?');
            return;
        }
        p->token.kind = WF_TPL_TOKEN_OPERATOR;
        p->token.text = (struct wf_tpl_string){p->at, n};
        if (strchr("([{", c) != NULL)
            p->brackets++;
        else if (strchr(")]}", c) != NULL && p->brackets > 0)
            p->brackets--;
        skip(p, n);
    }
}

bool wf_tpl_token_is(const struct wf_tpl_parser *p, const char *text)
{
    return (p->token.kind == WF_TPL_TOKEN_NAME || p->token.kind == WF_TPL_TOKEN_OPERATOR) &&
           wf_tpl_is(p->token.text, text);
}

bool wf_tpl_accept(struct wf_tpl_parser *p, const char *text)
{
    if (!wf_tpl_token_is(p, text))
        return false;
    wf_tpl_next(p);
    return true;
}

void wf_tpl_expect(struct wf_tpl_parser *p, const char *text)
{
    if (wf_tpl_accept(p, text))
        return;
    if (p->token.kind == WF_TPL_TOKEN_END)
        wf_tpl_fail(p, p->token.line, "expected '%s' before the end of the tag", text);
    else
        wf_tpl_fail(p, p->token.line, "expected '%s' instead of '%.*s'", text,
                    (int)(p->token.text.len < 40 ? p->token.text.len : 40), p->token.text.at);
}
