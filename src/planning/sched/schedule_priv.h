/* The inside of a schedule: for the files of this module that make one. */
#ifndef PLANNING_SCHED_SCHEDULE_PRIV_H
#define PLANNING_SCHED_SCHEDULE_PRIV_H

#include "weft/schedule.h"

enum { WF_NAME_MAX = 64 };

struct weft_schedule {
    char name[WF_NAME_MAX];
    struct weft_placement place; /* points into rank_of and pipe_of */
    uint32_t *rank_of;           /* owned: (pipes, stages) */
    uint16_t *pipe_of;           /* owned: (micros), NULL with one pipe */
    uint32_t *chunk_of;          /* owned: (pipes, stages) */
    uint32_t n_chunks;
    enum weft_placement_kind kind;
    bool lowered;
    struct weft_action *actions; /* owned: rank after rank */
    size_t *first;               /* owned: (ranks + 1), where each rank's actions begin */
};

/* Allocates everything but the actions, with pipe_of by the rule j*M/k + i.  NULL on failure. */
struct weft_schedule *wf_schedule_new(const char *name, uint32_t ranks, uint32_t stages,
                                      uint32_t micros, uint32_t pipes);

/* A copy of all but the actions. */
struct weft_schedule *wf_schedule_dup_empty(const struct weft_schedule *s);

/* Call when rank_of, pipe_of, actions and first are final: numbers the chunks and names the
 * placement.  False when there is no memory. */
bool wf_schedule_finalize(struct weft_schedule *s, bool has_messages);

/* The first micro of a pipe: j*M/k. */
static inline uint32_t wf_pipe_first_micro(uint32_t micros, uint32_t pipes, uint32_t pipe)
{
    return (uint32_t)((uint64_t)pipe * micros / pipes);
}

/* Fills one pipe's map for a named one-way placement. */
void wf_placement_fill(uint32_t *rank_of, uint32_t ranks, uint32_t stages,
                       enum weft_placement_kind kind);

#endif
