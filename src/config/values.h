/* Lists of values on the command line: "F=1,I=1:2:1,C=0.5" and "4:6:8". */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include <stdbool.h>

#include "weft/cost.h"
#include "weft/status.h"

/* Parses numbers separated by ':' or ','.  `what` is the name of the list in error messages.
 * The caller releases *out. */
enum weft_status wf_values_parse(const char *text, const char *what, struct weft_values *out,
                                 struct weft_error *err);

/* One key of "KEY=list,KEY=list". */
struct wf_value_key {
    const char *key;
    struct weft_values *out; /* stays empty if the key is not given */
    double min_value;
    bool single; /* the value is a single number, not a list */
};

/* Parses "KEY=list,KEY=list".  Each key must be in `keys` and may be given at most once.  On
 * success, the caller releases each list; after an error all lists are empty. */
enum weft_status wf_values_parse_keys(const char *text, const char *what,
                                      const struct wf_value_key *keys, size_t n,
                                      struct weft_error *err);

/* Frees a list. */
void wf_values_release(struct weft_values *v);

/* Frees all lists of both structs. */
void wf_costs_release(struct weft_cost *cost, struct weft_memory_cost *memory);

#endif
