/* Searches generated text for stop strings.  A stop string may span several tokens, so bytes
 * that may be its beginning are held back. */
#include "training/jobs/generate_text.h"

#include <string.h>

/* Returns the position of `stop` at or after `from`, or `none`. */
static size_t find(const struct wf_text *text, size_t from, const char *stop, size_t none)
{
    size_t len = strlen(stop);
    for (size_t at = from; at + len <= text->len; at++)
        if (memcmp(text->at + at, stop, len) == 0)
            return at;
    return none;
}

/* Returns the number of bytes at the end of the text that are the beginning of `stop`. */
static size_t held_by(const struct wf_text *text, const char *stop)
{
    size_t n = strlen(stop) - 1;
    n = n < text->len ? n : text->len;
    while (n > 0 && memcmp(text->at + text->len - n, stop, n) != 0)
        n--;
    return n;
}

void wf_stop_text_add(struct wf_stop_text *t, const char *bytes, size_t len)
{
    wf_text_add(&t->text, bytes, len);
    if (t->text.failed || t->text.at == NULL)
        return;

    size_t first = t->text.len, held = 0;
    for (size_t i = 0; i < t->n_stops; i++) {
        size_t at = find(&t->text, t->n_ready, t->stops[i], first);
        size_t n = held_by(&t->text, t->stops[i]);
        first = at < first ? at : first;
        held = n > held ? n : held;
    }

    t->stopped = first < t->text.len;
    if (t->stopped)
        t->text.len = first;
    t->n_ready = t->stopped ? first : t->text.len - held;
    t->text.at[t->text.len] = '\0';
}

void wf_stop_text_finish(struct wf_stop_text *t)
{
    t->n_ready = t->text.len;
}
