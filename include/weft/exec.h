/* Execution of one rank of a schedule: any schedule that weft_verify() accepts, with any stages
 * (weft/stage.h) and any transport (weft/comm.h).
 *
 *     struct weft_program *p;                       the rank's actions, compiled once
 *     weft_program_new(schedule, rank, NULL, &p, &err);
 *     create each stage of the rank with weft_program_slots(p, stage) slots
 *     struct weft_exec_setup setup = {.program = p, .comm = comm, .stages = stages};
 *     struct weft_exec *e;
 *     weft_exec_new(&setup, &e, &err);              allocates all memory
 *     weft_exec_step(e, &io, &err);                 inputs of micros in; losses, gradients out
 *     weft_exec_free(e);
 *     weft_program_free(p);
 *
 * A schedule without messages is lowered first.  Each activation that leaves a stage has a
 * buffer from the stage's forward to its backward.  The next stage writes the gradient of the
 * activation over it and returns the buffer.  The number of buffers therefore equals the number
 * of activations that the verifier counts, sends never wait for a buffer, and threads exchange
 * pointers only.
 *
 * examples/pipeline.c is a complete program with four ranks.
 *
 * Unstable: struct weft_exec_setup, struct weft_exec_io and struct weft_exec_times gain fields.
 */
#ifndef WEFT_EXEC_H
#define WEFT_EXEC_H

#include "weft/comm.h"
#include "weft/schedule.h"
#include "weft/stage.h"
#include "weft/trace.h"
#include "weft/traffic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- programs ------------------------------------------------------------------------------- */

struct weft_program; /* opaque: created once, then read-only */

/* Compiles one rank of a schedule that has passed weft_verify().  A schedule without messages
 * is lowered first.  A schedule with messages is borrowed until the program is freed.
 *
 * With slot_bytes (by stage; entries of other ranks' stages are not read) the slots of all
 * stages share one memory area, so that slots that are not in use at the same time may overlap;
 * weft_program_slot_offset() returns the offsets.  If slot_bytes is NULL, each stage allocates
 * its own slots.  The caller owns *out.  Local. */
WEFT_API enum weft_status weft_program_new(const struct weft_schedule *s, uint32_t rank,
                                           const size_t *slot_bytes, struct weft_program **out,
                                           struct weft_error *err);

/* Frees a program.  NULL is allowed. */
WEFT_API void weft_program_free(struct weft_program *p);

/* Returns the schedule with its messages.  Borrowed. */
WEFT_API const struct weft_schedule *weft_program_schedule(const struct weft_program *p);

/* Returns the rank of the program. */
WEFT_API uint32_t weft_program_rank(const struct weft_program *p);

/* Returns the number of slots of a stage; 0 if the stage is on another rank. */
WEFT_API uint32_t weft_program_slots(const struct weft_program *p, uint32_t stage);

/* Returns the maximum number of micro-batches of a stage that have their input gradient but not
 * yet their weight gradient at one time. */
WEFT_API uint32_t weft_program_split_slots(const struct weft_program *p, uint32_t stage);

/* Returns the maximum number of outputs of a stage that are in transit or wait for their
 * gradients at one time. */
WEFT_API uint32_t weft_program_outputs(const struct weft_program *p, uint32_t stage);

/* Returns the number of buffers for inputs from other ranks, for transports that copy data. */
WEFT_API uint32_t weft_program_inputs(const struct weft_program *p, uint32_t stage);

/* Returns the peak activations of the rank, as the verifier counts them. */
WEFT_API size_t weft_program_peak(const struct weft_program *p);

/* Returns the size of the memory of all slots, in bytes. */
WEFT_API size_t weft_program_slot_bytes(const struct weft_program *p);

/* Returns the offset of a slot in the memory of all slots, aligned to 64 bytes. */
WEFT_API size_t weft_program_slot_offset(const struct weft_program *p, uint32_t stage,
                                         uint32_t slot);

/* Returns the lower bound of weft_program_slot_bytes(): the maximum number of bytes in use at
 * one time. */
WEFT_API size_t weft_program_slot_bound(const struct weft_program *p);

/* -- execution ------------------------------------------------------------------------------ */

struct weft_exec;

/* Block attention residuals. */
struct weft_exec_blocks {
    const struct weft_traffic *traffic; /* borrowed; NULL: no blocks */
    size_t row_elements;                /* elements of a block per row */
    /* Adds exact sums, a[i] += b[i], and returns true if a sum leaves its range. */
    bool (*merge)(int64_t *a, const int64_t *b, size_t n);
};

struct weft_exec_setup {
    const struct weft_program *program; /* borrowed */
    struct weft_comm *comm;             /* borrowed; NULL if the schedule has one rank */
    uint32_t rank_offset;            /* the rank in `comm` that runs rank 0 of the schedule */
    const struct weft_stage *stages; /* by stage; entries of other ranks' stages are not read */
    const uint32_t *rows;            /* rows of each micro-batch; NULL: one row each */
    uint32_t first_micro; /* number of the schedule's first micro-batch within the whole step */
    struct weft_exec_blocks blocks;
    /* Called at REDUCE_GRAD, when the gradients of the stage on this rank are complete.  May be
     * NULL. */
    enum weft_status (*reduce)(void *arg, uint32_t stage, struct weft_error *err);
    void *reduce_arg;
};

/* Creates an executor and allocates all of its buffers.  The caller owns *out.  Local. */
WEFT_API enum weft_status weft_exec_new(const struct weft_exec_setup *setup,
                                        struct weft_exec **out, struct weft_error *err);

/* Frees an executor after the other ranks have received the messages of the last step.  Call it
 * before comm is closed.  NULL is allowed.  Local. */
WEFT_API void weft_exec_free(struct weft_exec *e);

/* Returns the size of all buffers of an executor, in bytes. */
WEFT_API size_t weft_exec_bytes(const struct weft_exec *e);

/* Inputs and outputs of a step, indexed by micro of the schedule. */
struct weft_exec_io {
    uint64_t step;
    /* Inputs of the first stage; read on the rank of the first stage. */
    const void *const *inputs;
    void *const *input_grads; /* written on the rank of the first stage; NULL: not needed */
    const int32_t *const *targets; /* targets of the last stage; NULL: none */
    float scale;                   /* weight of one target's loss: see weft/stage.h */
    /* If not NULL, this rank has failed with this error.  The rank then exchanges its messages
     * without computing, and the step returns the error. */
    const struct weft_error *failure;
    /* Computes losses only: forwards run with `train` off, backwards and REDUCE_GRAD do
     * nothing. */
    bool forward_only;
    double *losses;    /* loss of each micro-batch; written on the rank of the last stage */
    int64_t origin_ns; /* time 0 of traces on the monotonic clock; 0: the start of the step */
};

/* Runs the whole list of the rank.  If a stage fails with WEFT_NUMERIC or WEFT_DATA, all
 * messages are still exchanged, so that the other ranks finish the step; the error is returned
 * at the end, and further steps are possible.  After any other error no further step is
 * possible.  Collective over the ranks of the schedule. */
WEFT_API enum weft_status weft_exec_step(struct weft_exec *e, const struct weft_exec_io *io,
                                         struct weft_error *err);

struct weft_cell_id {
    uint32_t stage, micro;
};

/* Returns the stage and micro of the first failure in the last step. */
WEFT_API struct weft_cell_id weft_exec_failed_at(const struct weft_exec *e);

/* -- measurements --------------------------------------------------------------------------- */

/* Times of the last step. */
struct weft_exec_times {
    int64_t begin_ns, end_ns; /* start and end of the rank's list of actions */
    int64_t compute_ns, wait_ns;
    uint64_t sent_bytes;
};

/* Returns the times of the last step.  Local. */
WEFT_API struct weft_exec_times weft_exec_times(const struct weft_exec *e);

/* Returns the number of events of the last step: one per action, one per overlapped pair.
 * Local. */
WEFT_API size_t weft_exec_n_events(const struct weft_exec *e);

/* Returns event `i` of the last step.  Local. */
WEFT_API struct weft_trace_event weft_exec_event(const struct weft_exec *e, size_t i);

/* Returns the bytes sent to a rank of the schedule in the last step, in forward or backward
 * messages.  Local. */
WEFT_API uint64_t weft_exec_bytes_to(const struct weft_exec *e, uint32_t rank, bool backward);

/* Writes the text of the action at a position of a rank's list, such as "2F5", for
 * weft_comm_describe(). */
WEFT_API void weft_program_describe(const struct weft_program *p, uint32_t rank,
                                    size_t position, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
