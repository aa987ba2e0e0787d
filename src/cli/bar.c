#include "cli/bar.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"

enum {
    EVERY_NS = 100000000,
    LEAST_MARKS = 10,
    MOST_MARKS = 40,
    FRAME = 8,     /* " [" and "] 100%" */
    LEFT_FREE = 3, /* a Ctrl-C shows as two characters, which must not begin another line */
    LONGEST = 400, /* characters of a line, however wide the terminal */
};

struct wf_bar wf_bar_make(FILE *out)
{
    return (struct wf_bar){.out = out, .on = wf_style_for(out, NULL, 0).colour};
}

bool wf_bar_is_due(const struct wf_bar *bar)
{
    return bar->on && (!bar->shown || wf_clock_ns() - bar->drawn_ns >= EVERY_NS);
}

static size_t room_on(FILE *out)
{
    size_t width = wf_style_for(out, NULL, 0).width;
    width = width > LEFT_FREE ? width - LEFT_FREE : 1;
    return width < LONGEST ? width : LONGEST;
}

/* Appends what fits. */
static void add(char line[LONGEST + 1], size_t room, const char *text)
{
    size_t len = strlen(line), more = strlen(text);
    more = len + more <= room ? more : room - len;
    memcpy(line + len, text, more);
    line[len + more] = '\0';
}

static void add_marks(char line[LONGEST + 1], size_t room, double part, size_t n)
{
    char marks[MOST_MARKS + FRAME + 1], *at = marks;
    part = part > 0 ? part < 1 ? part : 1 : 0; /* not a number: none */
    size_t full = (size_t)(part * (double)n);
    if (n > 0) {
        memcpy(at, " [", 2);
        memset(at + 2, '#', full);
        memset(at + 2 + full, '.', n - full);
        at += n + 2;
        *at++ = ']';
    }
    snprintf(at, 6, " %3.0f%%", 100 * part);
    add(line, room, marks);
}

void wf_bar_draw(struct wf_bar *bar, double part, const char *head, const char *const *fields,
                 size_t n)
{
    char line[LONGEST + 1] = "";
    size_t room = room_on(bar->out), used = strlen(head) + FRAME + LEAST_MARKS, shown = 0;
    if (!bar->on)
        return;
    while (shown < n && used + strlen(fields[shown]) + 3 <= room)
        used += strlen(fields[shown++]) + 3;
    size_t marks = used <= room ? LEAST_MARKS + room - used : 0;
    add(line, room, head);
    add_marks(line, room, part, marks < MOST_MARKS ? marks : MOST_MARKS);
    for (size_t i = 0; i < shown; i++) {
        add(line, room, " | ");
        add(line, room, fields[i]);
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
