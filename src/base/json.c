#include "base/json.h"

#include <inttypes.h>
#include <math.h>

#include "base/text.h"

/* Names may hold any bytes; JSON may not: what is no character becomes U+FFFD. */
static void put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else if (weft_utf8_length(s) == 0)
            fputs("\\ufffd", out);
        else {
            int n = weft_utf8_length(s);
            fwrite(s, 1, (size_t)n, out);
            s += n - 1;
        }
    }
    fputc('"', out);
}

static void lead_in(struct weft_json *j, const char *key)
{
    if (j->comma)
        fputc(',', j->out);
    j->comma = true;
    if (key != NULL) {
        put_string(j->out, key);
        fputc(':', j->out);
    }
}

void weft_json_begin(struct weft_json *j, const char *key, char bracket)
{
    lead_in(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

void weft_json_end(struct weft_json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}

void weft_json_string(struct weft_json *j, const char *key, const char *value)
{
    lead_in(j, key);
    put_string(j->out, value);
}

void weft_json_uint(struct weft_json *j, const char *key, uint64_t value)
{
    lead_in(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void weft_json_bool(struct weft_json *j, const char *key, bool value)
{
    lead_in(j, key);
    fputs(value ? "true" : "false", j->out);
}

void weft_json_number(struct weft_json *j, const char *key, double value)
{
    lead_in(j, key);
    if (!isfinite(value)) {
        fputs("null", j->out);
        return;
    }
    char text[WEFT_NUMBER_CHARS];
    weft_number_print(value, text);
    fputs(text, j->out);
}
