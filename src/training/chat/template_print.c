/* Writes values of templates: as Python's str() and repr(), and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "training/chat/template_priv.h"

/* Appends a number with the shortest digits that read back as the same number, in the notation
 * of Python. */
static void print_float(struct wf_text *out, double x)
{
    char text[40], digits[40];
    if (!isfinite(x)) {
        wf_text_adds(out, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = 0; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, x);
        if (strtod(text, NULL) == x)
            break;
    }

    char *e = strchr(text, 'e');
    int exponent = atoi(e + 1), n = 0;
    for (const char *at = text; at < e; at++)
        if (*at >= '0' && *at <= '9')
            digits[n++] = *at;
    digits[n] = '\0';
    if (text[0] == '-')
        wf_text_addc(out, '-');
    if (exponent < -4 || exponent >= 16) {
        wf_text_addc(out, digits[0]);
        if (n > 1)
            wf_text_addf(out, ".%s", digits + 1);
        wf_text_addf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        wf_text_adds(out, "0.");
    for (int i = exponent < 0 ? exponent + 1 : 0; i < n || i <= exponent; i++) {
        if (i > 0 && i == exponent + 1 && exponent >= 0)
            wf_text_addc(out, '.');
        wf_text_addc(out, i < 0 || i >= n ? '0' : digits[i]);
    }
    if (exponent >= n - 1)
        wf_text_adds(out, ".0");
}

/* Appends a string as repr() writes it. */
static void print_quoted(struct wf_text *out, struct wf_tpl_string s)
{
    bool single = memchr(s.at, '\'', s.len) != NULL, twice = memchr(s.at, '"', s.len) != NULL;
    char quote = single && !twice ? '"' : '\'';
    wf_text_addc(out, quote);
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (c == quote || c == '\\')
            wf_text_addf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            wf_text_addf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if ((unsigned char)c < 0x20 || c == 0x7f)
            wf_text_addf(out, "\\x%02x", (unsigned)c);
        else
            wf_text_addc(out, c);
    }
    wf_text_addc(out, quote);
}

static void print_inner(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v)
{
    if (v.kind == WF_TPL_STRING)
        print_quoted(out, v.s);
    else if (v.kind == WF_TPL_UNDEFINED)
        wf_text_adds(out, "Undefined");
    else
        wf_tpl_print(r, out, v);
}

static void print_list(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v)
{
    wf_text_addc(out, '[');
    for (size_t i = 0; i < v.list->n; i++) {
        wf_text_adds(out, i == 0 ? "" : ", ");
        print_inner(r, out, v.list->at[i]);
    }
    wf_text_addc(out, ']');
}

static void print_dict(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v)
{
    wf_text_addc(out, '{');
    for (size_t i = 0; i < v.dict->n; i++) {
        wf_text_adds(out, i == 0 ? "" : ", ");
        print_inner(r, out, v.dict->keys[i]);
        wf_text_adds(out, ": ");
        print_inner(r, out, v.dict->values[i]);
    }
    wf_text_addc(out, '}');
}

void wf_tpl_print(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v)
{
    if (out->len > WF_TPL_MAX_OUTPUT || ++r->depth > 4 * WF_TPL_MAX_DEPTH) {
        wf_tpl_raise(r, 0, "the output is larger than %d MiB, or a value is nested too deep",
                     WF_TPL_MAX_OUTPUT >> 20);
        return;
    }

    switch (v.kind) {
    case WF_TPL_UNDEFINED:
        break;
    case WF_TPL_NONE:
        wf_text_adds(out, "None");
        break;
    case WF_TPL_BOOL:
        wf_text_adds(out, v.b ? "True" : "False");
        break;
    case WF_TPL_INT:
        wf_text_addf(out, "%" PRId64, v.i);
        break;
    case WF_TPL_FLOAT:
        print_float(out, v.f);
        break;
    case WF_TPL_STRING:
        wf_text_add(out, v.s.at, v.s.len);
        break;
    case WF_TPL_LIST:
        print_list(r, out, v);
        break;
    case WF_TPL_DICT:
        print_dict(r, out, v);
        break;
    case WF_TPL_LOOP:
    case WF_TPL_MACRO:
    case WF_TPL_METHOD:
    case WF_TPL_FUNCTION:
        wf_tpl_raise(r, 0, "%s cannot be written", wf_tpl_type(v));
        break;
    }
    r->depth--;
}

struct wf_tpl_value wf_tpl_take_text(struct wf_tpl_run *r, struct wf_text *text)
{
    struct wf_tpl_value v = wf_tpl_string("", 0);
    if (text->failed)
        wf_tpl_raise(r, 0, "no memory for the output");
    else if (text->len > 0)
        v = wf_tpl_copy(r, text->at, text->len);
    wf_text_release(text);
    return v;
}

struct wf_tpl_value wf_tpl_str(struct wf_tpl_run *r, struct wf_tpl_value v)
{
    struct wf_text text = {0};
    if (v.kind == WF_TPL_STRING)
        return v;
    wf_tpl_print(r, &text, v);
    return wf_tpl_take_text(r, &text);
}

/* -- JSON ---------------------------------------------------------------------------------- */

static void print_json_string(struct wf_text *out, struct wf_tpl_string s)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    wf_text_addc(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        const char *known = c == '\0' ? NULL : strchr(from, c);
        if (known != NULL)
            wf_text_addf(out, "\\%c", to[known - from]);
        else if ((unsigned char)c < 0x20)
            wf_text_addf(out, "\\u%04x", (unsigned)c);
        else
            wf_text_addc(out, c);
    }
    wf_text_addc(out, '"');
}

static void break_line(struct wf_text *out, int64_t indent, int64_t level)
{
    if (indent < 0)
        return;
    wf_text_addc(out, '\n');
    for (int64_t i = 0; i < indent * level; i++)
        wf_text_addc(out, ' ');
}

/* Appends the key of a dictionary: other values become strings, as json.dumps() does. */
static void print_json_key(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value key,
                           uint32_t line)
{
    if (key.kind == WF_TPL_STRING) {
        print_json_string(out, key.s);
        return;
    }
    wf_text_addc(out, '"');
    wf_tpl_print_json(r, out, key, -1, 0, line);
    wf_text_addc(out, '"');
}

static void print_json_items(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v,
                             int64_t indent, int64_t level, uint32_t line)
{
    bool is_dict = v.kind == WF_TPL_DICT;
    size_t n = is_dict ? v.dict->n : v.list->n;
    wf_text_addc(out, is_dict ? '{' : '[');
    for (size_t i = 0; i < n && r->status == WEFT_OK; i++) {
        if (i > 0)
            wf_text_adds(out, indent < 0 ? ", " : ",");
        break_line(out, indent, level + 1);
        if (is_dict) {
            print_json_key(r, out, v.dict->keys[i], line);
            wf_text_adds(out, ": ");
        }
        wf_tpl_print_json(r, out, is_dict ? v.dict->values[i] : v.list->at[i], indent,
                          level + 1, line);
    }
    if (n > 0)
        break_line(out, indent, level);
    wf_text_addc(out, is_dict ? '}' : ']');
}

void wf_tpl_print_json(struct wf_tpl_run *r, struct wf_text *out, struct wf_tpl_value v,
                       int64_t indent, int64_t level, uint32_t line)
{
    if (out->len > WF_TPL_MAX_OUTPUT || level > WF_TPL_MAX_DEPTH) {
        wf_tpl_raise(r, line, "the value is too large for tojson");
        return;
    }

    switch (v.kind) {
    case WF_TPL_NONE:
        wf_text_adds(out, "null");
        break;
    case WF_TPL_BOOL:
        wf_text_adds(out, v.b ? "true" : "false");
        break;
    case WF_TPL_INT:
        wf_text_addf(out, "%" PRId64, v.i);
        break;
    case WF_TPL_FLOAT:
        if (isfinite(v.f))
            print_float(out, v.f);
        else
            wf_text_adds(out, isnan(v.f) ? "NaN" : v.f > 0 ? "Infinity" : "-Infinity");
        break;
    case WF_TPL_STRING:
        print_json_string(out, v.s);
        break;
    case WF_TPL_LIST:
    case WF_TPL_DICT:
        print_json_items(r, out, v, indent, level, line);
        break;
    case WF_TPL_UNDEFINED:
    case WF_TPL_LOOP:
    case WF_TPL_MACRO:
    case WF_TPL_METHOD:
    case WF_TPL_FUNCTION:
        wf_tpl_raise(r, line, "tojson: %s is not JSON", wf_tpl_type(v));
        break;
    }
}
