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
 * A forward-only step (evaluation, inference) runs the forwards alone and sends activations
 * alone, never a gradient.  Any executor can run such steps between training steps
 * (weft_exec_io.forward_only).  An executor of a forward-only schedule runs nothing else; its
 * stages need no backward functions and one slot each.
 *
 * The last stage computes the loss, or it returns outputs.  In the second case, the loss
 * function of the step computes the loss and the gradient of the outputs, and the program can
 * get the outputs themselves, with or without a loss.
 *
 * examples/pipeline.c is a complete program with four ranks; examples/loss.c uses a loss
 * function, several tensors per boundary and steps of different sizes.
 *
 * Every function accepts NULL for a pointer: it returns WEFT_USAGE, 0 or NULL.
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

/* -- programs ------------------------------------------------------------------------------ */

struct weft_program; /* opaque: created once, then read-only */

/* Compiles one rank of a schedule that has passed weft_verify().  A schedule without messages
 * is lowered first.  A schedule with messages is borrowed until the program is freed.  The
 * schedule may be forward-only (weft/schedule.h).
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

/* Returns the schedule with its messages.  The pointer is borrowed. */
WEFT_API const struct weft_schedule *weft_program_schedule(const struct weft_program *p);

/* Returns the rank of the program. */
WEFT_API uint32_t weft_program_rank(const struct weft_program *p);

/* Returns the number of slots of a stage; 0 if the stage is on another rank. */
WEFT_API uint32_t weft_program_slots(const struct weft_program *p, uint32_t stage);

/* Returns the maximum number of micro-batches of a stage that have their input gradient but not
 * yet their weight gradient at one time. */
WEFT_API uint32_t weft_program_split_slots(const struct weft_program *p, uint32_t stage);

/* Returns the program of forward-only steps, which has the forwards and the forward messages of
 * `p`; `p` itself if its schedule is forward-only.  Borrowed. */
WEFT_API const struct weft_program *weft_program_forward(const struct weft_program *p);

/* Returns the maximum number of outputs of a stage that are in transit or wait for their
 * gradients at one time; in a forward-only program, the number of buffers for outputs. */
WEFT_API uint32_t weft_program_outputs(const struct weft_program *p, uint32_t stage);

/* Returns the number of buffers for inputs from other ranks: for transports that copy data
 * (`copies`), and for others, which need buffers in forward-only programs only. */
WEFT_API uint32_t weft_program_inputs(const struct weft_program *p, uint32_t stage,
                                      bool copies);

/* Returns the number of micro-batches whose residual blocks a forward-only program keeps on
 * this rank at one time; 0 for other programs. */
WEFT_API uint32_t weft_program_block_sets(const struct weft_program *p);

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

/* -- execution ----------------------------------------------------------------------------- */

struct weft_exec;

/* Block attention residuals. */
struct weft_exec_blocks {
    const struct weft_traffic *traffic; /* borrowed; NULL: no blocks */
    size_t row_elements;                /* elements of a block per row */
    /* Adds exact sums, a[i] += b[i], and returns true if a sum leaves its range. */
    bool (*merge)(int64_t *a, const int64_t *b, size_t n);
};

/* The rank that gets the outputs of the last stage. */
enum weft_outputs_on {
    WEFT_OUTPUTS_ON_LAST, /* the rank that runs the last stage of the micro-batch */
    /* Rank 0 of the schedule: the other ranks send their outputs at the end of every step.
     * Rank 0 must know the tensors of the outputs: it also reads out_bytes, out and n_out of
     * the last stage if another rank runs that stage. */
    WEFT_OUTPUTS_ON_FIRST,
};

struct weft_exec_setup {
    const struct weft_program *program; /* borrowed */
    struct weft_comm *comm;             /* borrowed; NULL if the schedule has one rank */
    /* Read by weft_exec_new() only: ranks[r] is the rank in `comm` that runs rank r of the
     * schedule, any of its ranks in any order; NULL: the same number. */
    const uint32_t *ranks;
    const struct weft_stage *stages; /* by stage; entries of other ranks' stages are not read */
    /* Rows of each micro-batch in a step that gives no rows; NULL: one row each. */
    const uint32_t *rows;
    /* Maximum rows of a micro-batch, for which buffers are allocated; 0: that of `rows`. */
    uint32_t max_rows;
    uint32_t first_micro; /* number of the schedule's first micro-batch within the whole step */
    struct weft_exec_blocks blocks;
    /* Called at REDUCE_GRAD, when the gradients of the stage on this rank are complete.  May be
     * NULL. */
    enum weft_status (*reduce)(void *arg, uint32_t stage, struct weft_error *err);
    void *reduce_arg;
    enum weft_outputs_on outputs_on; /* the same on all ranks */
};

/* Creates an executor and allocates all of its buffers.  The program, comm and stages are
 * borrowed until the executor is freed.  Returns WEFT_USAGE if a pointer is missing, if the
 * ranks are wrong, or if the tensors at a boundary between two stages of this rank differ.  The
 * caller owns *out.  Local. */
WEFT_API enum weft_status weft_exec_new(const struct weft_exec_setup *setup,
                                        struct weft_exec **out, struct weft_error *err);

/* Frees an executor after the other ranks have received the messages of the last step.  Call it
 * before comm is closed.  NULL is allowed.  Local. */
WEFT_API void weft_exec_free(struct weft_exec *e);

/* Returns the size of all buffers of an executor, with the messages of blocks, in bytes. */
WEFT_API size_t weft_exec_bytes(const struct weft_exec *e);

/* One call of a loss function, for one micro-batch.  Pointers are borrowed during the call. */
struct weft_loss_call {
    uint32_t micro, rows;
    const void *outputs; /* the outputs of the last stage */
    const void *targets; /* as in weft_exec_io */
    float scale;         /* weight of the loss in the step: see weft/stage.h */
    double *loss;        /* output: the loss of the micro-batch, not scaled */
    /* Output: the gradient of scale * loss, with the layout of the outputs; NULL if no backward
     * follows. */
    void *grad;
};

/* Computes a loss.  An error is treated like an error of the stage. */
typedef enum weft_status weft_loss_fn(void *arg, const struct weft_loss_call *call,
                                      struct weft_error *err);

/* Inputs and outputs of a step, indexed by micro of the schedule.  Entries for micro-batches
 * whose first or last stage is on another rank are not read. */
struct weft_exec_io {
    uint64_t step;
    /* Rows of each micro-batch in this step, from 1 to the maximum of the setup, the same on
     * all ranks; NULL: those of the setup. */
    const uint32_t *rows;
    /* Inputs of the first stage; required on the rank of the first stage. */
    const void *const *inputs;
    void *const *input_grads; /* written on the rank of the first stage; NULL: not needed */
    /* Targets, of any type; required on the rank of the last stage if a loss is computed. */
    const void *const *targets;
    float scale; /* weight of one target's loss: see weft/stage.h */
    /* The loss function; read on the rank of the last stage.  Required there if the last stage
     * has outputs and a backward follows; must be NULL if the stage computes the loss. */
    weft_loss_fn *loss;
    void *loss_arg;
    /* Memory for the outputs of the last stage, aligned as that stage requires; not valid after
     * a failed step.  weft_exec_setup.outputs_on is the rank that gets them.  NULL, or a NULL
     * entry: not needed (WEFT_OUTPUTS_ON_LAST); required on rank 0 (WEFT_OUTPUTS_ON_FIRST). */
    void *const *outputs;
    /* If not NULL, this rank has failed with this error.  The rank then exchanges its messages
     * without computing, and the step returns the error. */
    const struct weft_error *failure;
    /* Computes losses and outputs only: runs weft_program_forward() with `train` off, and sends
     * no gradients.  The same on all ranks.  Always on if the schedule is forward-only. */
    bool forward_only;
    /* Loss of each micro-batch; required on the rank of the last stage if a loss is
     * computed. */
    double *losses;
    int64_t origin_ns; /* time 0 of traces on the monotonic clock; 0: the start of the step */
};

/* Runs the whole list of the rank.  A forward-only step may return before the other ranks have
 * received its last messages, so that the ranks run several such steps at the same time.
 *
 * If a stage or the loss function fails with WEFT_NUMERIC or WEFT_DATA, all messages are still
 * exchanged, so that the other ranks finish the step; the error is returned at the end, and
 * further steps are possible.
 *
 * Wrong rows are WEFT_USAGE before anything is sent, and further steps are possible: all ranks
 * return this error, because all of them give the same rows.  If the ranks give different
 * valid rows, the first receiver of a message with other rows reports both shapes.
 *
 * After any other error, such as missing inputs, targets, losses or outputs on this rank, all
 * ranks fail and no further step is possible.  Collective over the ranks of the schedule. */
WEFT_API enum weft_status weft_exec_step(struct weft_exec *e, const struct weft_exec_io *io,
                                         struct weft_error *err);

struct weft_cell_id {
    uint32_t stage, micro;
};

/* Returns the stage and micro of the first failure in the last step. */
WEFT_API struct weft_cell_id weft_exec_failed_at(const struct weft_exec *e);

/* -- what stages hold ---------------------------------------------------------------------- */

#define WEFT_ALL_STAGES UINT32_MAX

/* Returns the number of micro-batches of a stage, or of all stages of this rank, that have run
 * their forward but not yet the end of their backward.  A stage, a loss function or `reduce`
 * can call it during a step; after a successful step it returns 0.  Local. */
WEFT_API uint32_t weft_exec_num_saved(const struct weft_exec *e, uint32_t stage);

/* Returns the maximum of weft_exec_num_saved() in the current or last step.  Local. */
WEFT_API uint32_t weft_exec_max_saved(const struct weft_exec *e, uint32_t stage);

/* Lists the gradients of the parameters of a stage: writes the first `max` to `out` and the
 * number of all parameters to *n.  `out` may be NULL if max is 0.  Gradients are those of this
 * rank; they are complete after the step, and in `reduce` for its stage.  Returns WEFT_USAGE if
 * another rank runs the stage, or if the stage does not list its parameters.  Local. */
WEFT_API enum weft_status weft_exec_param_grads(const struct weft_exec *e, uint32_t stage,
                                                struct weft_param_grad *out, size_t max,
                                                size_t *n, struct weft_error *err);

/* -- measurements -------------------------------------------------------------------------- */

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

/* Returns event `i` of the last step; all fields are 0 if there is no such event.  Local. */
WEFT_API struct weft_trace_event weft_exec_event(const struct weft_exec *e, size_t i);

/* Returns the bytes sent to a rank of the schedule in the last step, in forward or backward
 * messages.  Outputs for rank 0 count as forward messages.  Local. */
WEFT_API uint64_t weft_exec_bytes_to(const struct weft_exec *e, uint32_t rank, bool backward);

/* Writes the text of the action at a position of a rank's list, such as "2F5", for
 * weft_comm_describe(). */
WEFT_API void weft_program_describe(const struct weft_program *p, uint32_t rank,
                                    size_t position, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
