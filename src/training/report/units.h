/* Figures as a person reads them. */
#ifndef TRAINING_REPORT_UNITS_H
#define TRAINING_REPORT_UNITS_H

#include <stdio.h>

enum wf_unit {
    WF_UNIT_LOSS,    /* 4.8123 */
    WF_UNIT_NORM,    /* 0.842 */
    WF_UNIT_LR,      /* 5.9e-4 */
    WF_UNIT_COUNT,   /* 10,085 */
    WF_UNIT_MS,      /* 812 ms, 1.25 s, 2:03:10 */
    WF_UNIT_PERCENT, /* of a part of 1: 18.3% */
    WF_UNIT_BYTES,   /* 1.25 MiB */
    WF_UNIT_SHORT,   /* 124M, of a count */
    WF_N_UNITS
};

enum { WF_FORMAT_LEN = 48 };

/* "n/a" for what is no number. */
const char *wf_unit_format(char out[WF_FORMAT_LEN], enum wf_unit unit, double value);

/* For the ticks of an axis: `step` apart. */
const char *wf_unit_format_tick(char out[WF_FORMAT_LEN], enum wf_unit unit, double value,
                                double step);

/* What the page's script calls the unit. */
const char *wf_unit_name(enum wf_unit unit);

/* Text from anywhere, as text of the page: valid UTF-8, no control characters, nothing of HTML.
 * Lines stay lines. */
void wf_html_put_text(FILE *out, const char *text);

#endif
