/* A progress bar: a line at the bottom of a terminal that is redrawn in place.
 *
 *     struct wf_bar bar = wf_bar_make(stdout);
 *     const char *fields[] = {"loss 4.81", "eta 0:25:11"};
 *     if (wf_bar_is_due(&bar))
 *         wf_bar_draw(&bar, 0.4, "step 40/100", fields, 2);
 *     wf_bar_clear(&bar);                   before other output, and at the end
 *
 * Nothing is drawn if the stream is not a terminal, or if TERM=dumb or NO_COLOR is set. */
#ifndef TERMINAL_BAR_H
#define TERMINAL_BAR_H

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

/* Returns a bar on a stream. */
struct wf_bar wf_bar_make(FILE *out);

/* Returns true if the bar is on and is either hidden or was last drawn more than a tenth of a
 * second ago. */
bool wf_bar_is_due(const struct wf_bar *bar);

/* Draws "head [####......]  40% | field | field" with as many fields as fit
 * into the terminal. */
void wf_bar_draw(struct wf_bar *bar, double part, const char *head, const char *const *fields,
                 size_t n);

/* Removes the line of the bar. */
void wf_bar_clear(struct wf_bar *bar);

/* The text that removes the line of the bar, for signal handlers. */
#define WF_BAR_CLEAR "\r\033[K"

#endif
