/* The compiled list of a rank's actions, as the executor uses it. */
#ifndef RUNTIME_EXEC_PROGRAM_H
#define RUNTIME_EXEC_PROGRAM_H

#include "weft/exec.h"

#define WF_NOT_LOCAL UINT32_MAX

enum { INPUTS_AHEAD = 2 }; /* additional input buffers per stage, on transports that copy */

/* One stage of a rank. */
struct wf_local_stage {
    uint32_t stage;
    uint32_t n_slots, n_split;
    /* Number of output buffers; each is in use from the forward to the gradient of the
     * output. */
    uint32_t n_out;
    uint32_t n_in;       /* number of input buffers, without INPUTS_AHEAD */
    size_t *slot_offset; /* owned: (n_slots) */
};

/* One cell: a (stage, micro) pair of a rank. */
struct wf_program_cell {
    uint32_t slot, out;
};

struct weft_program {
    const struct weft_schedule *schedule; /* the schedule with its messages */
    /* Owned; NULL if the caller's schedule already has messages. */
    struct weft_schedule *lowered;
    const struct weft_placement *place;
    uint32_t rank;
    uint32_t n_local;
    struct wf_local_stage *local;  /* owned */
    uint32_t *local_of;            /* owned: (stages) */
    struct wf_program_cell *cells; /* owned: (local, micros) */
    size_t peak, slot_bytes, slot_bound;
};

static inline size_t wf_program_cell(const struct weft_program *p, uint32_t stage,
                                     uint32_t micro)
{
    return (size_t)p->local_of[stage] * p->place->n_micros + micro;
}

#endif
