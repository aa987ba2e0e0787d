/* Lists of values on the command line: "F=1,I=1:2:1,C=0.5", "4:6:8" and "16GB:80GB". */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include <stdbool.h>

#include "base/units.h"
#include "weft/cost.h"
#include "weft/status.h"

/* The units of values that belong together, such as all times of a problem: either all values
 * have a unit or none has one.  A 0 needs no unit. */
struct wf_units {
    enum wf_quantity quantity;
    double scale; /* unit of the results of values with units; 0: bytes, seconds */
    /* the first value with a unit and the first one without; empty if there is none */
    char with[24], without[24];
};

/* Notes a value that ends at ':', ',' or the end of the text.  Returns its number in units of
 * units->scale. */
double wf_units_note(struct wf_units *units, const char *text, struct wf_amount amount);

/* Returns WEFT_USAGE if some values have units and others do not. */
enum weft_status wf_units_check(const struct wf_units *units, const char *what,
                                struct weft_error *err);

/* Parses numbers separated by ':' or ','.  `what` is the name of the list in error messages.
 * `units` may be NULL; otherwise the values are noted there.  The caller releases *out. */
enum weft_status wf_values_parse(const char *text, const char *what, enum wf_quantity quantity,
                                 struct wf_units *units, struct weft_values *out,
                                 struct weft_error *err);

/* Parses one number from 0 to `max`.  If `text` is NULL, *out stays unchanged. */
enum weft_status wf_value_parse(const char *text, const char *what, enum wf_quantity quantity,
                                double max, double *out, struct weft_error *err);

/* One key of "KEY=list,KEY=list". */
struct wf_value_key {
    const char *key;
    struct weft_values *out; /* stays empty if the key is not given */
    double min_value;
    bool single; /* the value is a single number, not a list */
    enum wf_quantity quantity;
};

/* Parses "KEY=list,KEY=list".  Each key must be in `keys` and may be given at most once.  `units`
 * may be NULL; otherwise values of units->quantity are noted there and checked.  On success, the
 * caller releases each list; after an error all lists are empty. */
enum weft_status wf_values_parse_keys(const char *text, const char *what,
                                      const struct wf_value_key *keys, size_t n,
                                      struct wf_units *units, struct weft_error *err);

/* Copies a list.  The caller owns the copy. */
enum weft_status wf_values_copy(struct weft_values *to, struct weft_values from,
                                struct weft_error *err);

/* Frees a list. */
void wf_values_release(struct weft_values *v);

/* Frees all lists of a cost. */
void wf_cost_release(struct weft_cost *cost);

/* Frees all lists of both structs. */
void wf_costs_release(struct weft_cost *cost, struct weft_memory_cost *memory);

#endif
