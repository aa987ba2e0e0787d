/* The compiled list of a rank's actions, as the executor uses it. */
#ifndef RUNTIME_EXEC_PROGRAM_H
#define RUNTIME_EXEC_PROGRAM_H

#include "planning/sched/slots.h"
#include "weft/exec.h"

#define WF_NOT_LOCAL UINT32_MAX
#define WF_NO_MICRO UINT32_MAX

/* One stage of a rank. */
struct wf_local_stage {
    uint32_t stage;
    uint32_t n_slots, n_split;
    /* Number of output buffers; each is in use from the forward to the gradient of the output
     * or, in a forward-only program, until the next stage has the output. */
    uint32_t n_out;
    uint32_t n_in;       /* number of input buffers, without WF_INPUTS_AHEAD */
    size_t *slot_offset; /* owned: (n_slots) */
};

/* One cell: a (stage, micro) pair of a rank. */
struct wf_program_cell {
    uint32_t slot, out;
};

struct weft_program {
    const struct weft_schedule *schedule; /* the schedule with its messages */
    /* Owned; NULL if the schedule is the caller's, with its messages. */
    struct weft_schedule *lowered;
    const struct weft_placement *place;
    uint32_t rank;
    uint32_t n_local;
    struct wf_local_stage *local;  /* owned */
    uint32_t *local_of;            /* owned: (stages) */
    struct wf_program_cell *cells; /* owned: (local, micros) */
    size_t peak, slot_bytes, slot_bound;

    bool forward_only;
    /* Owned: the program of forward-only steps; NULL if this program is forward-only. */
    struct weft_program *forward;
    /* Forward-only programs.  A set is the memory for the residual blocks of one micro-batch on
     * this rank, from its first to its last action and until its messages have arrived. */
    uint32_t n_sets;
    uint32_t *set_of;     /* owned: (micros) */
    uint32_t *set_before; /* owned: (micros), the previous user in the step, or WF_NO_MICRO */
};

static inline size_t wf_program_cell(const struct weft_program *p, uint32_t stage,
                                     uint32_t micro)
{
    return (size_t)p->local_of[stage] * p->place->n_micros + micro;
}

/* Numbers the output buffers and the sets of a forward-only program, and counts its input
 * buffers (program_forward.c). */
enum weft_status wf_program_number_forward(struct weft_program *p, struct weft_error *err);

#endif
