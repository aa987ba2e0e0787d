/* Placements that are known before a schedule exists. */
#ifndef PLANNING_SCHED_PLACEMENT_H
#define PLANNING_SCHED_PLACEMENT_H

#include "weft/schedule.h"

/* Fills the rank of each stage of one pipe, for the placement kinds linear, loop, v and
 * wave. */
void wf_placement_fill(uint32_t *rank_of, uint32_t ranks, uint32_t stages,
                       enum weft_placement_kind kind);

/* Returns the placement of all schedules of a generator that searches (WEFT_GEN_USES_COST):
 * linear with one stage per rank, V with two. */
enum weft_placement_kind wf_generator_placement(const struct weft_generator *g);

#endif
