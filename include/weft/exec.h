/* Runs one rank's part of a schedule: any schedule that weft_verify() accepts, on any stages
 * (weft/stage.h), between any ranks (weft/comm.h).
 *
 *     struct weft_program *p;                       what the rank does, compiled once
 *     weft_program_new(schedule, rank, NULL, &p, &err);
 *     make each stage that it holds with weft_program_slots(p, stage) slots
 *     struct weft_exec_setup setup = {.program = p, .comm = comm, .stages = stages};
 *     struct weft_exec *e;
 *     weft_exec_new(&setup, &e, &err);              allocates everything once
 *     weft_exec_step(e, &io, &err);                 micro inputs in; losses, gradients out
 *     weft_exec_free(e);
 *     weft_program_free(p);
 *
 * A schedule without messages is lowered first.  Every activation that leaves a stage has its own
 * buffer from the stage's forward to its backward: it goes to the next stage, which writes the
 * activation's gradient over it and gives it back.  So there are just as many buffers as the
 * verifier counts activations, sends never wait, and threads exchange pointers only.
 *
 * examples/pipeline.c is a complete program on four ranks. */
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

/* -- what a rank does ----------------------------------------------------------------------- */

struct weft_program; /* opaque: made once, then read-only */

/* Compiles one rank of a schedule, which must verify; lowers it if it has no messages.
 *
 * With slot_bytes (by stage; those that the rank does not hold are not read) the slots of all its
 * stages are laid into one piece of memory that is shared over time: weft_program_slot_offset() says
 * where.  With NULL each stage has slots of its own.  A schedule with messages is borrowed while
 * the program lives.  Local. */
WEFT_API enum weft_status weft_program_new(const struct weft_schedule *s, uint32_t rank,
                                           const size_t *slot_bytes, struct weft_program **out,
                                           struct weft_error *err);
WEFT_API void weft_program_free(struct weft_program *p); /* NULL is allowed */

/* The schedule with its messages; borrowed. */
WEFT_API const struct weft_schedule *weft_program_schedule(const struct weft_program *p);
WEFT_API uint32_t weft_program_rank(const struct weft_program *p);

/* Slots that a stage's micros are given: 0 when the rank does not hold the stage. */
WEFT_API uint32_t weft_program_slots(const struct weft_program *p, uint32_t stage);
/* The most micros of a stage between their input and their weight gradient at one time. */
WEFT_API uint32_t weft_program_split_slots(const struct weft_program *p, uint32_t stage);
/* The most outputs of a stage that are on their way, or wait for their gradients, at one time. */
WEFT_API uint32_t weft_program_outputs(const struct weft_program *p, uint32_t stage);
/* Buffers for what comes in from other ranks, where receives need memory of their own. */
WEFT_API uint32_t weft_program_inputs(const struct weft_program *p, uint32_t stage);
/* Activations between forward and the end of backward at one time: what the verifier counts. */
WEFT_API size_t weft_program_peak(const struct weft_program *p);
/* Bytes of all slots together, and where one begins in them; 64 bytes aligned. */
WEFT_API size_t weft_program_slot_bytes(const struct weft_program *p);
WEFT_API size_t weft_program_slot_offset(const struct weft_program *p, uint32_t stage,
                                         uint32_t slot);
/* The least that slots could take: the most that is in use at one time. */
WEFT_API size_t weft_program_slot_bound(const struct weft_program *p);

/* -- running it ----------------------------------------------------------------------------- */

struct weft_exec;

/* Block attention residuals. */
struct weft_exec_blocks {
    const struct weft_traffic *traffic; /* borrowed; NULL: none */
    size_t row_elements;                /* of a block, for one row */
    /* a[i] += b[i], exact; true when a sum left its range */
    bool (*merge)(int64_t *a, const int64_t *b, size_t n);
};

struct weft_exec_setup {
    const struct weft_program *program; /* borrowed */
    struct weft_comm *comm;             /* borrowed; NULL when the schedule has one rank */
    uint32_t rank_offset;               /* comm's number of the schedule's rank 0 */
    const struct weft_stage *stages;    /* by stage: those that the rank holds */
    const uint32_t *rows;               /* of each micro; NULL: one each */
    uint32_t first_micro;               /* what the first micro is called in the whole step */
    struct weft_exec_blocks blocks;
    /* REDUCE_GRAD: the stage's gradients on this rank are complete.  May be NULL. */
    enum weft_status (*reduce)(void *arg, uint32_t stage, struct weft_error *err);
    void *reduce_arg;
};

/* Allocates all buffers.  weft_exec_free() frees, when the other ranks have taken what this one
 * sent in the last step; before comm is closed.  Local. */
WEFT_API enum weft_status weft_exec_new(const struct weft_exec_setup *setup,
                                        struct weft_exec **out, struct weft_error *err);
WEFT_API void weft_exec_free(struct weft_exec *e); /* NULL is allowed */

WEFT_API size_t weft_exec_bytes(const struct weft_exec *e); /* of the buffers */

/* What goes into a step and what comes out, by micro of the schedule. */
struct weft_exec_io {
    uint64_t step;
    const void *const *inputs;     /* the first stage's; read where it runs */
    void *const *input_grads;      /* gets their gradients there; NULL: not wanted */
    const int32_t *const *targets; /* the last stage's; NULL: none */
    float scale;                   /* of the loss: see weft/stage.h */
    /* Not NULL: this rank cannot take part, for this reason.  It computes nothing, its messages go
     * their way, and the step returns the error. */
    const struct weft_error *failure;
    /* Only losses are wanted: forwards run with `train` off, backwards and REDUCE_GRAD do nothing. */
    bool forward_only;
    double *losses; /* gets each micro's loss, where the last stage runs */
    int64_t
        origin_ns; /* traces count from this moment of the monotonic clock; 0: from the step's begin here */
};

/* Runs the rank's whole list.  When a stage fails with WEFT_NUMERIC or WEFT_DATA the messages
 * still go their way, so that the others finish; the error is returned at the end, and the ranks
 * can go on.  After any other error they cannot.  Collective, over the schedule's ranks. */
WEFT_API enum weft_status weft_exec_step(struct weft_exec *e, const struct weft_exec_io *io,
                                         struct weft_error *err);

/* After such a failure: where it was first. */
struct weft_cell_id {
    uint32_t stage, micro;
};
WEFT_API struct weft_cell_id weft_exec_failed_at(const struct weft_exec *e);

/* -- what was measured ---------------------------------------------------------------------- */

/* Of the last step. */
struct weft_exec_times {
    int64_t begin_ns, end_ns; /* of the list */
    int64_t compute_ns, wait_ns;
    uint64_t sent_bytes;
};
WEFT_API struct weft_exec_times weft_exec_times(const struct weft_exec *e);

/* Events of the last step, one for each action; pairs are one.  Local. */
WEFT_API size_t weft_exec_n_events(const struct weft_exec *e);
WEFT_API struct weft_trace_event weft_exec_event(const struct weft_exec *e, size_t i);

/* Bytes that went to each rank of the schedule in the last step, forward and backward. */
WEFT_API uint64_t weft_exec_bytes_to(const struct weft_exec *e, uint32_t rank, bool backward);

/* "2F5" at a position of a rank's list, for weft_comm_describe(). */
WEFT_API void weft_program_describe(const struct weft_program *p, uint32_t rank,
                                    size_t position, char *out, size_t room);

#ifdef __cplusplus
}
#endif

#endif
