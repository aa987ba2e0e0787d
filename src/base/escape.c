/* Escapes text for markup and scripts. */
#include "base/escape.h"

/* Returns the entity for a character that has a meaning in markup, or NULL. */
static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void wf_escape_markup(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *name = entity(*text);
        if (name != NULL)
            fputs(name, out);
        else
            fputc(*text, out);
    }
}

void wf_escape_script(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == '<' || c == '>' || c == '&')
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}
