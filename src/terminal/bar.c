/* Draws a progress bar in the last line of a terminal. */
#include "terminal/bar.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "terminal/output.h"

enum {
    EVERY_NS = 100000000,
    MIN_MARKS = 10,
    MAX_MARKS = 40,
    FRAME = 8,       /* characters of " [" and "] 100%" */
    LEFT_FREE = 3,   /* free columns: the terminal prints Ctrl-C as "^C", which must not wrap */
    MAX_CHARS = 400, /* maximum number of characters per line */
};

struct wf_bar wf_bar_make(FILE *out)
{
    return (struct wf_bar){.out = out, .on = wf_style_for(out, NULL, 0).colour};
}

bool wf_bar_is_due(const struct wf_bar *bar)
{
    return bar->on && (!bar->shown || wf_clock_ns() - bar->drawn_ns >= EVERY_NS);
}

/* Returns the number of characters that fit into a line of the terminal. */
static size_t line_size(FILE *out)
{
    size_t width = wf_style_for(out, NULL, 0).width;
    width = width > LEFT_FREE ? width - LEFT_FREE : 1;
    return width < MAX_CHARS ? width : MAX_CHARS;
}

/* Appends as much of `text` as fits into the line. */
static void add(char line[MAX_CHARS + 1], size_t size, const char *text)
{
    size_t len = strlen(line), more = strlen(text);
    more = len + more <= size ? more : size - len;
    memcpy(line + len, text, more);
    line[len + more] = '\0';
}

static void add_marks(char line[MAX_CHARS + 1], size_t size, double part, size_t n)
{
    char marks[MAX_MARKS + FRAME + 1], *at = marks;
    part = part > 0 ? part < 1 ? part : 1 : 0; /* NAN becomes 0 */
    size_t full = (size_t)(part * (double)n);
    if (n > 0) {
        memcpy(at, " [", 2);
        memset(at + 2, '#', full);
        memset(at + 2 + full, '.', n - full);
        at += n + 2;
        *at++ = ']';
    }
    snprintf(at, 6, " %3.0f%%", 100 * part);
    add(line, size, marks);
}

void wf_bar_draw(struct wf_bar *bar, double part, const char *head, const char *const *fields,
                 size_t n)
{
    char line[MAX_CHARS + 1] = "";
    size_t size = line_size(bar->out), used = strlen(head) + FRAME + MIN_MARKS, shown = 0;
    if (!bar->on)
        return;
    while (shown < n && used + strlen(fields[shown]) + 3 <= size)
        used += strlen(fields[shown++]) + 3;
    size_t marks = used <= size ? MIN_MARKS + size - used : 0;
    add(line, size, head);
    add_marks(line, size, part, marks < MAX_MARKS ? marks : MAX_MARKS);
    for (size_t i = 0; i < shown; i++) {
        add(line, size, " | ");
        add(line, size, fields[i]);
    }
    fprintf(bar->out, "\r%s\033[K", line);
    fflush(bar->out);
    bar->shown = true;
    bar->drawn_ns = wf_clock_ns();
}

void wf_bar_clear(struct wf_bar *bar)
{
    if (!bar->shown)
        return;
    fputs(WF_BAR_CLEAR, bar->out);
    fflush(bar->out);
    bar->shown = false;
}
