/* Checks of printed text. */
#include "printed.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/text.h"
#include "require.h"

void printed_begin(struct printed *p)
{
    *p = (struct printed){.out = NULL};
    p->out = open_memstream(&p->text, &p->len);
    require(p->out != NULL);
}

static void close_stream(struct printed *p)
{
    require(ferror(p->out) == 0);
    require(fclose(p->out) == 0);
}

size_t printed_end(struct printed *p)
{
    size_t n_lines = 0;
    close_stream(p);
    require(p->len == 0 || p->text[p->len - 1] == '\n');
    for (size_t i = 0; i < p->len;) {
        int n = wf_utf8_length(p->text + i);
        unsigned char c = (unsigned char)p->text[i];
        bool c1 = c == 0xc2 && (unsigned char)p->text[i + 1] < 0xa0; /* U+0080 to U+009F */
        require(n > 0 && (c >= ' ' || c == '\n') && c != 0x7f && !c1);
        n_lines += c == '\n';
        i += (size_t)n;
    }
    free(p->text);
    return n_lines;
}

void printed_end_json(struct printed *p)
{
    close_stream(p);
    json_t *value = json_loadb(p->text, p->len, /* counts may exceed jansson's integers */
                               JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    require(value != NULL);
    json_decref(value);
    free(p->text);
}

void require_message(const char *message)
{
    require(message[0] != '\0');
    for (const char *c = message; *c != '\0'; c++)
        require(*c >= ' ' && *c <= '~');
}
