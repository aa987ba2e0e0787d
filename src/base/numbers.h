/* Numbers as text: shortest decimals, grouped digits, byte counts; and medians. */
#ifndef BASE_NUMBERS_H
#define BASE_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

enum { WF_NUMBER_CHARS = 32 }; /* enough for the output of every function below */

/* Writes the shortest decimal text of at most 17 significant digits that reads back as the same
 * double.  Numbers of up to 15 digits are written without an exponent. */
void wf_number_print(double value, char out[WF_NUMBER_CHARS]);

/* Writes the same text as wf_number_print(), but with an exponent instead of trailing zeros:
 * 1e+05. */
void wf_number_print_short(double value, char out[WF_NUMBER_CHARS]);

/* Writes the shortest decimal text that gives the same float if it is read as a double and then
 * rounded to a float. */
void wf_number_print_float(float value, char out[WF_NUMBER_CHARS]);

/* Writes decimal digits in groups of three, "1,234,567", and returns `out`. */
const char *wf_digits_group(char out[WF_NUMBER_CHARS], const char *digits);

/* Writes n in groups of three digits and returns `out`. */
const char *wf_grouped(char out[WF_NUMBER_CHARS], uint64_t n);

enum wf_bytes_style {
    WF_BYTES_BINARY,  /* "1.5 MiB" */
    WF_BYTES_PRECISE, /* "1.50 MiB": three significant digits */
    WF_BYTES_DECIMAL, /* "1.57MB": powers of 1000, three significant digits */
};

/* Writes a number of bytes with the largest unit that fits, and returns `out`. */
const char *wf_bytes_print(char out[WF_NUMBER_CHARS], double bytes, enum wf_bytes_style style);

/* Returns wf_bytes_print() in the style WF_BYTES_BINARY. */
const char *wf_bytes_text(char out[WF_NUMBER_CHARS], size_t bytes);

/* Sorts `x` in ascending order and returns its median; n must not be 0. */
double wf_median(double *x, size_t n);

#endif
