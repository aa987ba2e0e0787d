/* Formats figures for the page. */
#ifndef TRAINING_REPORT_UNITS_H
#define TRAINING_REPORT_UNITS_H

#include <stdbool.h>
#include <stdio.h>

enum wf_unit {
    WF_UNIT_LOSS,    /* 4.8123 */
    WF_UNIT_NORM,    /* 0.842 */
    WF_UNIT_LR,      /* 5.9e-4 */
    WF_UNIT_COUNT,   /* 10,085 */
    WF_UNIT_MS,      /* 812 ms, 1.25 s, 2:03:10 */
    WF_UNIT_PERCENT, /* 18.3% for 0.183 */
    WF_UNIT_BYTES,   /* 1.25 MiB */
    WF_UNIT_SHORT,   /* 124M for 124,000,000 */
    WF_N_UNITS
};

enum { WF_FORMAT_LEN = 48 };

/* Formats a value and returns `out`.  The text is "n/a" if the value is not finite. */
const char *wf_unit_format(char out[WF_FORMAT_LEN], enum wf_unit unit, double value);

/* Formats the value at a tick of an axis whose ticks are `step` apart. */
const char *wf_unit_format_tick(char out[WF_FORMAT_LEN], enum wf_unit unit, double value,
                                double step);

/* Returns the name of the unit in the script of the page. */
const char *wf_unit_name(enum wf_unit unit);

/* Writes untrusted text as valid UTF-8 with HTML escaped and control characters replaced.
 * Keeps line breaks.  Returns false if memory runs out. */
bool wf_html_put_text(FILE *out, const char *text);

#endif
