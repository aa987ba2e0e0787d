/* Figures as a person reads them. */
#ifndef TRAINING_REPORT_WORDS_H
#define TRAINING_REPORT_WORDS_H

#include <stdio.h>

enum weft_unit {
    WEFT_UNIT_LOSS,    /* 4.8123 */
    WEFT_UNIT_NORM,    /* 0.842 */
    WEFT_UNIT_LR,      /* 5.9e-4 */
    WEFT_UNIT_COUNT,   /* 10,085 */
    WEFT_UNIT_MS,      /* 812 ms, 1.25 s, 2:03:10 */
    WEFT_UNIT_PERCENT, /* of a part of 1: 18.3% */
    WEFT_UNIT_BYTES,   /* 1.25 MiB */
    WEFT_UNIT_SHORT,   /* 124M, of a count */
    WEFT_N_UNITS
};

enum { WEFT_WORDS = 48 };

/* "n/a" for what is no number. */
const char *weft_words(char out[WEFT_WORDS], enum weft_unit unit, double value);

/* For the ticks of an axis: `step` apart. */
const char *weft_words_tick(char out[WEFT_WORDS], enum weft_unit unit, double value,
                            double step);

/* What the page's script calls the unit. */
const char *weft_unit_name(enum weft_unit unit);

/* Text from anywhere, as text of the page: valid UTF-8, no control characters, nothing of HTML.
 * Lines stay lines. */
void weft_put_clean(FILE *out, const char *text);

#endif
