/* A streaming JSON writer. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>

#include "base/numbers.h"
#include "base/text.h"

/* Prints a quoted JSON string.  Bytes that are not UTF-8 become U+FFFD.  All control characters
 * are escaped, because the text may reach a terminal. */
static void put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else if (c == 0xc2 && (s[1] & 0xe0) == 0x80) /* a control character of two bytes */
            fprintf(out, "\\u%04x", (unsigned char)*++s);
        else if (wf_utf8_length(s) == 0)
            fputs("\\ufffd", out);
        else {
            int n = wf_utf8_length(s);
            fwrite(s, 1, (size_t)n, out);
            s += n - 1;
        }
    }
    fputc('"', out);
}

static void write_key(struct wf_json *j, const char *key)
{
    if (j->comma)
        fputc(',', j->out);
    j->comma = true;
    if (key != NULL) {
        put_string(j->out, key);
        fputc(':', j->out);
    }
}

void wf_json_begin(struct wf_json *j, const char *key, char bracket)
{
    write_key(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void wf_json_end(struct wf_json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}

void wf_json_string(struct wf_json *j, const char *key, const char *value)
{
    write_key(j, key);
    put_string(j->out, value);
}

void wf_json_uint(struct wf_json *j, const char *key, uint64_t value)
{
    write_key(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void wf_json_bool(struct wf_json *j, const char *key, bool value)
{
    write_key(j, key);
    fputs(value ? "true" : "false", j->out);
}

void wf_json_number(struct wf_json *j, const char *key, double value)
{
    write_key(j, key);
    if (!isfinite(value)) {
        fputs("null", j->out);
        return;
    }
    char text[WF_NUMBER_CHARS];
    wf_number_print(value, text);
    fputs(text, j->out);
}
