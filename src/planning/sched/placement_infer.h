/* Finding the placement of a schedule whose rows are all that is known. */
#ifndef PLANNING_SCHED_PLACEMENT_INFER_H
#define PLANNING_SCHED_PLACEMENT_INFER_H

#include "planning/sched/schedule_priv.h"

/* Takes over `actions` and `first` (ranks + 1 entries) in any case.  A stage that no action names
 * goes to rank 0; one that several ranks run for different micros makes several pipes. */
enum weft_status wf_schedule_from_rows(const char *name, uint32_t ranks, uint32_t stages,
                                       uint32_t micros, struct weft_action *actions,
                                       size_t *first, struct weft_schedule **out,
                                       struct weft_error *err);

/* For a schedule with fewer micros than pipes: gives it `n_pipes`, which go the ways of `rank_of`,
 * micros on them by the rule of weft_placement.  Where the rows go another way it stays as it
 * is.  *s may be another one afterwards. */
enum weft_status wf_schedule_add_pipes(struct weft_schedule **s, uint32_t n_pipes,
                                       const uint32_t *rank_of, struct weft_error *err);

#endif
