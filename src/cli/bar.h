/* A line at the bottom of a terminal that is drawn again and again: how far something is.
 *
 *     struct wf_bar bar = wf_bar_make(stdout);
 *     const char *fields[] = {"loss 4.81", "eta 0:25:11"};
 *     if (wf_bar_is_due(&bar))
 *         wf_bar_draw(&bar, 0.4, "step 40/100", fields, 2);
 *     wf_bar_clear(&bar);                   before anything else is printed, and at the end
 *
 * Where there is no terminal, or one that cannot draw a line again (TERM=dumb) or shall have none
 * of this (NO_COLOR), nothing is drawn. */
#ifndef CLI_BAR_H
#define CLI_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct wf_bar {
    FILE *out; /* borrowed */
    bool on;
    bool shown;
    int64_t drawn_ns;
};

struct wf_bar wf_bar_make(FILE *out);

/* It is to be drawn, and was not within the last tenth of a second, or is not to be seen. */
bool wf_bar_is_due(const struct wf_bar *bar);

/* "head [####......]  40% | field | field": as many fields, the first ones first, as the terminal
 * has room for at this moment. */
void wf_bar_draw(struct wf_bar *bar, double part, const char *head, const char *const *fields,
                 size_t n);

void wf_bar_clear(struct wf_bar *bar);

/* What removes the line, for who can only write(). */
#define WF_BAR_CLEAR "\r\033[K"

#endif
