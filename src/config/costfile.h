/* Costs in a YAML file, for costs that are too long for a command line.
 *
 *     F: [11, 8, 12]        # a number, or a list with one number per stage
 *     I: 6
 *     W: 4                  # also B, FB
 *     C: 0.5                # delay of a message between ranks; times may have units: 500us
 *     mem: {F: 3, I: -1, W: -2}
 *     mem_limit: 18         # a number, or a list with one number per rank
 */
#ifndef CONFIG_COSTFILE_H
#define CONFIG_COSTFILE_H

#include "config/values.h"

/* Reads the costs in a text.  Costs that the text does not contain stay unchanged.  Times are
 * noted in *times, amounts of memory in *amounts; the caller checks them with wf_units_check().  Returns
 * WEFT_USAGE with line and column if the text is malformed.  The caller releases all lists with
 * wf_costs_release(), even after an error. */
enum weft_status wf_costfile_parse(const char *text, size_t len, const char *source,
                                   struct wf_units *times, struct wf_units *amounts,
                                   struct weft_cost *cost, struct weft_memory_cost *memory,
                                   struct weft_error *err);

#endif
