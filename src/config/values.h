/* Small languages of values: "F=1,I=1:2:1,C=0.5" and "4:6:8". */
#ifndef CONFIG_VALUES_H
#define CONFIG_VALUES_H

#include <stdbool.h>

#include "weft/cost.h"
#include "weft/status.h"

/* A list of numbers parted by ':' or ','.  `what` names it in errors.  The caller frees out->at. */
enum weft_status wf_values_parse(const char *text, const char *what, struct weft_values *out,
                                 struct weft_error *err);

/* One key of "KEY=list,KEY=list". */
struct wf_value_key {
    const char *key;
    struct weft_values *out; /* stays empty when the key is not there */
    double least;            /* the least value allowed */
    bool single;             /* one number, no list */
};

/* Every key at most once, none that is not in `keys`.  On failure nothing is held.  On success
 * the caller frees each out->at. */
enum weft_status wf_values_parse_keys(const char *text, const char *what,
                                      const struct wf_value_key *keys, size_t n,
                                      struct weft_error *err);

void wf_values_release(struct weft_values *v);

/* All lists of both. */
void wf_costs_release(struct weft_cost *cost, struct weft_memory_cost *memory);

#endif
