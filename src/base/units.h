/* Numbers with units: "80GB", "64KiB", "40ms", "450GB/s", "312TFLOPS".  This is the only parser
 * of units. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/numbers.h"

enum wf_quantity {
    WF_QUANTITY_PLAIN,     /* a number without a unit */
    WF_QUANTITY_BYTES,     /* B, kB to EB (powers of 1000), KiB to EiB (powers of 1024) */
    WF_QUANTITY_TIME,      /* ns, us, ms, s, min, h, d */
    WF_QUANTITY_BANDWIDTH, /* bytes or bits per second: GB/s, GiB/s, Gb/s, Gbit/s */
    WF_QUANTITY_FLOPS,     /* operations per second: GFLOPS, TFLOPS, TFLOP/s */
};

/* A number as it was written. */
struct wf_amount {
    double number;
    /* the unit in bytes, seconds, bytes per second or operations per second; 0 without a
     * unit */
    double scale;
};

enum wf_amount_result { WF_AMOUNT_OK, WF_AMOUNT_NO_NUMBER, WF_AMOUNT_BAD_UNIT };

/* Reads a number and the unit that follows it directly.  Stores the end of both in *end, or the
 * place of the error.  A plain number has no unit: *end is the end of the number. */
enum wf_amount_result wf_amount_read(const char *text, enum wf_quantity quantity,
                                     struct wf_amount *out, const char **end);

/* Returns the amount in bytes, seconds, bytes per second or operations per second; without a
 * unit, the number.  Bytes with a unit are rounded to a whole number. */
double wf_amount_value(struct wf_amount amount, enum wf_quantity quantity);

/* Returns a description with an example, such as "bytes, as in 80GB"; NULL for plain
 * numbers. */
const char *wf_quantity_example(enum wf_quantity quantity);

/* Returns the units that are accepted, such as "B, kB to EB, KiB to EiB"; NULL for plain
 * numbers. */
const char *wf_quantity_units(enum wf_quantity quantity);

/* Returns the name of a unit of time: "ms" for 1e-3.  Returns NULL if there is none. */
const char *wf_time_unit_name(double seconds);

/* Writes a time with the largest unit that fits, "40.5 ms", and returns `out`. */
const char *wf_time_print(char out[WF_NUMBER_CHARS], double seconds);

#endif
