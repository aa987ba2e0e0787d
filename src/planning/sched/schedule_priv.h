/* The data structure of a schedule.  Only files of this module that create schedules include
 * this header. */
#ifndef PLANNING_SCHED_SCHEDULE_PRIV_H
#define PLANNING_SCHED_SCHEDULE_PRIV_H

#include "planning/sched/placement.h"
#include "weft/schedule.h"

enum { WF_NAME_MAX = 64 };

struct weft_schedule {
    char name[WF_NAME_MAX];
    struct weft_placement place; /* points into rank_of and pipe_of */
    uint32_t *rank_of;           /* owned: (pipes, stages), indexed as pipe * stages + stage */
    /* owned: (micros), the pipe of each micro; NULL if there is one pipe */
    uint16_t *pipe_of;
    uint32_t *chunk_of; /* owned: (pipes, stages), indexed as pipe * stages + stage */
    uint32_t n_chunks;
    enum weft_placement_kind kind;
    bool lowered;
    bool forward_only;
    bool has_header;             /* it was read from a text with header lines */
    struct weft_action *actions; /* owned: the actions of all ranks, rank by rank */
    size_t *first;               /* owned: (ranks + 1), index of each rank's first action */
};

/* Allocates a schedule without actions.  Fills pipe_of for M micros and k pipes: micro i of
 * pipe j has number j*M/k + i.  Returns NULL if there is no memory. */
struct weft_schedule *wf_schedule_new(const char *name, uint32_t ranks, uint32_t stages,
                                      uint32_t micros, uint32_t pipes);

/* Copies a schedule without its actions.  Returns NULL if there is no memory. */
struct weft_schedule *wf_schedule_dup_empty(const struct weft_schedule *s);

/* Numbers the chunks and classifies the placement.  The caller must not change rank_of,
 * pipe_of, actions or first afterwards.  Returns false if there is no memory. */
bool wf_schedule_finalize(struct weft_schedule *s, bool has_messages);

/* Returns true if the actions contain at least one forward, but no backward, gradient message
 * or reduction. */
bool wf_schedule_find_forward_only(const struct weft_schedule *s);

/* Returns the first micro of pipe j, which is j*M/k for M micros and k pipes. */
static inline uint32_t wf_pipe_first_micro(uint32_t micros, uint32_t pipes, uint32_t pipe)
{
    return (uint32_t)((uint64_t)pipe * micros / pipes);
}

#endif
