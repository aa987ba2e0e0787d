/* Prints the results of weft inspect (training/inspect/inspect.h) as text. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include <stdio.h>

#include "training/inspect/inspect.h"

void wf_inspection_print(const struct wf_inspection *v, const char *path, FILE *out);

/* Prints the state of all ranks.  If the run is not finished, also prints the last action of each
 * rank and the lost rank. */
void wf_flights_print(const struct wf_flights *f, bool finished, FILE *out);

/* Prints one flight record. */
void wf_flight_print(const struct weft_flight *r, FILE *out);

#endif
