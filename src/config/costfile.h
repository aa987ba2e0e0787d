/* Costs in a YAML file, for what is too long for a command line.
 *
 *     F: [11, 8, 12]        # a number, or a list with one for each stage
 *     I: 6
 *     W: 4                  # also B, FB
 *     C: 0.5                # a hop between ranks
 *     mem: {F: 3, I: -1, W: -2}
 *     mem_limit: 18         # a number, or a list with one for each rank
 */
#ifndef CONFIG_COSTFILE_H
#define CONFIG_COSTFILE_H

#include "weft/cost.h"

/* Fills what the file says and leaves the rest as it is.  Every list is the caller's to release
 * (wf_values_release()), also when it fails half way.  Errors name line and column: WEFT_USAGE. */
enum weft_status wf_costfile_parse(const char *text, size_t len, const char *source,
                                   struct weft_cost *cost, struct weft_memory_cost *memory,
                                   struct weft_error *err);

#endif
