/* A placement from the stages' side: which ranks hold each stage. */
#ifndef PLANNING_PART_HOLDS_H
#define PLANNING_PART_HOLDS_H

#include "weft/part.h"

struct weft_hold {
    uint32_t rank;
    uint64_t in_flight; /* micros whose activations it keeps at once, over all pipes */
};

struct weft_holds {
    uint32_t n_stages, n_ranks;
    size_t *start;        /* owned: those of stage s are start[s] .. start[s + 1] - 1 */
    struct weft_hold *at; /* owned: a rank at most once a stage */
};

/* `holding` may be NULL.  Checks it against the number of stages. */
enum weft_status weft_holds_init(struct weft_holds *holds, const struct weft_holding *holding,
                                 uint32_t n_stages, struct weft_error *err);
void weft_holds_release(struct weft_holds *holds);

/* True when the rank holds the first and the last stage. */
bool weft_holds_both_ends(const struct weft_holds *holds, uint32_t rank);

#endif
