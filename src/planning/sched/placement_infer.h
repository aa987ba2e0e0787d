/* Infers the placement of a schedule from its rows. */
#ifndef PLANNING_SCHED_PLACEMENT_INFER_H
#define PLANNING_SCHED_PLACEMENT_INFER_H

#include "planning/sched/schedule_priv.h"

/* Creates a schedule from the rows of all ranks and infers its placement.  Takes ownership of
 * `actions` and `first` (ranks + 1 entries), even on failure.  A stage without actions is
 * placed on rank 0.  If several ranks run the same stage for different micros, the schedule has
 * several pipes.  The caller owns *out. */
enum weft_status wf_schedule_from_rows(const char *name, uint32_t ranks, uint32_t stages,
                                       uint32_t micros, struct weft_action *actions,
                                       size_t *first, struct weft_schedule **out,
                                       struct weft_error *err);

/* Sets the pipes of a schedule that has fewer micros than pipes: it gets `n_pipes` pipes with
 * the ranks `rank_of` (pipes, stages).  Assigns micros to pipes by the rule of weft_placement.
 * Replaces *s, or leaves *s unchanged if the pipes contradict the rows. */
enum weft_status wf_schedule_add_pipes(struct weft_schedule **s, uint32_t n_pipes,
                                       const uint32_t *rank_of, struct weft_error *err);

#endif
