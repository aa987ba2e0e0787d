/* Collects what functions print and checks it. */
#ifndef FUZZ_PRINTED_H
#define FUZZ_PRINTED_H

#include <stddef.h>
#include <stdio.h>

struct printed {
    FILE *out; /* functions print to it */
    char *text;
    size_t len;
};

/* Opens the stream of *p. */
void printed_begin(struct printed *p);

/* Closes the stream and requires lines of UTF-8 without control characters.  Returns the number of
 * lines. */
size_t printed_end(struct printed *p);

/* Closes the stream and requires a JSON value. */
void printed_end_json(struct printed *p);

/* Requires an error message of one line of printable text. */
void require_message(const char *message);

#endif
