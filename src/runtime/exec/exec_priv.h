/* The executor's data structures, shared by its files. */
#ifndef RUNTIME_EXEC_EXEC_PRIV_H
#define RUNTIME_EXEC_EXEC_PRIV_H

#include "runtime/comm/channels.h"
#include "runtime/exec/program.h"

enum {
    POST_AHEAD = 4, /* maximum number of receives per channel that are posted ahead */
    BUFFER_ALIGN = 64,
};

/* A rank's copy of a block of one micro-batch. */
struct block_copy {
    float *value;
    int64_t *sum; /* the gradient of the block */
    bool fresh;
};

/* The tensors at one side of a stage. */
struct boundary {
    struct weft_tensor_shape bytes;       /* the only tensor if `list` is NULL */
    const struct weft_tensor_shape *list; /* borrowed: (n), or NULL */
    uint32_t n;
};

/* Micro-batches between their forward and the end of their backward. */
struct saved_count {
    uint32_t now, max;
};

/* One cell: a (stage, micro) pair. */
struct cell {
    /* Sizes and shapes of the activations, for the rows of the current step. */
    size_t in_bytes, out_bytes;
    char in_shape[WEFT_SHAPE_TEXT], out_shape[WEFT_SHAPE_TEXT];
    void *in; /* the input; later the gradient of the input */
    uint32_t in_set;
    bool ahead;   /* the cell's input buffer was taken ahead of the schedule */
    bool sending; /* forward-only: messages of the cell may not have arrived yet */
    struct weft_message send_f, recv_f, send_b, recv_b;
    /* Block residuals.  These pointers point into arrays of the executor. */
    struct block_copy *copies; /* (blocks): blocks that the stage receives or computes */
    /* (sends, 2): a block, and the loan of memory for its gradient. */
    struct weft_message *sent;
    struct weft_message *returned; /* (sends): receives the gradient of a sent block */
    /* (brings, 2): receives a block, and the loan of memory for its gradient. */
    struct weft_message *brought;
    struct weft_message *returns; /* (brings): sends the gradient of a received block */
};

struct stage_buffers {
    struct boundary in_tensors, out_tensors;
    struct saved_count saved;
    size_t out_bytes, in_bytes; /* of the largest micro-batch, rounded up */
    char *out;                  /* owned: (n_out) */
    uint32_t *out_user; /* owned: (n_out), forward-only: the last micro, or WF_NO_MICRO */
    /* Input buffers.  Only transports that copy and forward-only programs use them. */
    uint32_t n_in;
    /* Owned: (n_in) buffers, each with an activation and, except in forward-only programs, its
     * blocks and the blocks' gradients. */
    char *in;
    size_t in_stride;
    uint32_t *free_in; /* owned: a stack of free buffers */
    uint32_t n_free_in;
    uint32_t
        n_ahead; /* number of buffers taken ahead of the schedule, at most WF_INPUTS_AHEAD */
    uint32_t *returning; /* owned: ring of n_in + 1 micros whose input gradient is being sent */
    uint32_t first_returning, n_returning;
    /* Block residuals. */
    size_t n_makes, max_sends, max_brings;
    /* Owned: (n_out): computed blocks, their gradients, memory lent for gradients.
     * Forward-only: (sets): computed and received blocks. */
    char *blocks;
    size_t block_stride;
};

/* The receives of one channel.  Receives are posted independently on each channel, so that a
 * missing buffer for an activation never delays a gradient. */
struct recv_queue {
    uint32_t peer;
    bool backward;
    size_t *at; /* positions of the receives in the list; points into weft_exec.receives */
    size_t n, next_post, next_arrival;
};

struct weft_exec {
    struct weft_exec_setup setup;
    const struct weft_program *program;
    bool forward_only;         /* the program is forward-only */
    struct weft_exec *forward; /* owned: runs forward-only steps; NULL if this one does */
    struct weft_exec *last;    /* this executor or `forward`: the one of the last step */
    const struct weft_placement *place;
    struct weft_comm *comm;
    bool by_reference;
    uint32_t *ranks; /* owned: (ranks), the rank in `comm` of each rank of the schedule */
    uint32_t rank, n_blocks;
    uint32_t max_rows;
    uint32_t *rows, *usual_rows;   /* owned: (micros), of the current step and of the setup */
    size_t block_bytes, sum_bytes; /* of the largest micro-batch, rounded up */
    struct stage_buffers *local;   /* owned: as the program's */
    struct cell *cells;            /* owned: as the program's */
    struct block_copy *copies;     /* owned */
    struct weft_message *block_messages; /* owned */
    float **call_value;                  /* owned: (blocks), block values of the current call */
    int64_t **call_sum;
    bool *call_fresh;
    size_t bytes;

    /* The outputs of the last stage (outputs.c). */
    bool has_outputs; /* set on the ranks that compute or receive outputs */
    struct boundary outputs;
    /* Owned, or borrowed from the executor that owns this one: outputs that are not in memory of
     * the caller. */
    char *output_memory;
    bool borrows_outputs;
    size_t output_stride;
    uint32_t *output_number;              /* owned: (micros), index in output_memory */
    struct weft_message *output_messages; /* owned: (micros) */

    /* Memory of forward-only steps (forward.c). */
    uint32_t *set_user; /* owned: (sets), the last micro of each set, or WF_NO_MICRO */
    bool *has_set;      /* owned: (micros), the micro has its set in this step */
    size_t *micro_end;  /* owned: (micros), position of the last action of the micro */
    bool *micro_done;   /* owned: (micros), the last action has run in this step */

    /* The current step. */
    const struct weft_exec_io *io;
    struct weft_action_span list;
    struct recv_queue *recv_queues; /* owned */
    size_t n_recv_queues;
    size_t *receives;   /* owned: positions of all receives, grouped by queue */
    uint32_t *queue_of; /* owned: by position */
    /* Owned: (ranks), position of the last gradient sent to each rank, or SIZE_MAX. */
    size_t *last_to;
    bool sends_pending; /* peers may not have received the last messages of this rank yet */
    size_t live_copies;
    struct saved_count saved; /* of all stages */
    uint64_t received_bytes;  /* bytes received in this step */
    bool failed;
    struct weft_error failure;
    struct weft_cell_id failed_at;

    /* Measurements. */
    int64_t *start_ns, *end_ns; /* owned: by position */
    uint64_t *event_bytes;      /* owned: by position */
    size_t *events;             /* owned: positions that are events */
    size_t n_events;
    uint64_t *bytes_to; /* owned: (ranks, 2) */
    struct weft_exec_times times;
    int64_t origin_ns;
};

static inline struct cell *wf_exec_cell(struct weft_exec *e, uint32_t stage, uint32_t micro)
{
    return &e->cells[wf_program_cell(e->program, stage, micro)];
}

static inline uint32_t wf_exec_rows(const struct weft_exec *e, uint32_t micro)
{
    return e->rows[micro];
}

static inline bool wf_is_receive(struct weft_action a)
{
    return a.kind == WEFT_ACT_RECV_F || a.kind == WEFT_ACT_RECV_B;
}

/* Returns the rank of the schedule at the other end of a message. */
static inline uint32_t wf_exec_peer(const struct weft_exec *e, struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    return weft_placement_rank(e->place, up ? a.stage + 1 : a.stage - 1, a.micro);
}

/* Returns the maximum rows of a setup. */
static inline uint32_t wf_exec_max_rows(const struct weft_exec_setup *s)
{
    uint32_t max = 1;
    if (s->max_rows != 0)
        return s->max_rows;
    for (uint32_t m = 0; s->rows != NULL && m < s->program->place->n_micros; m++)
        max = s->rows[m] > max ? s->rows[m] : max;
    return max;
}

/* Returns the output buffer of a cell. */
static inline char *wf_exec_out(struct weft_exec *e, uint32_t stage, uint32_t micro)
{
    const struct wf_program_cell *c =
        &e->program->cells[wf_program_cell(e->program, stage, micro)];
    struct stage_buffers *h = &e->local[e->program->local_of[stage]];
    return h->out + c->out * h->out_bytes;
}

/* The header fields and the peer of a message of a cell. */
struct envelope {
    enum wf_message_kind kind;
    uint32_t stage, micro, part; /* stage: the stage whose output the message carries */
    uint32_t peer;               /* the peer's rank in the schedule */
    uint32_t channel;
    size_t bytes;
    void *data;
    const char *shape; /* WEFT_SHAPE_TEXT bytes; NULL: no description */
};
enum weft_status wf_exec_send(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);
enum weft_status wf_exec_post(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);

/* -- checks (check.c) ----------------------------------------------------------------------- */

/* Returns WEFT_USAGE if a setup cannot run. */
enum weft_status wf_exec_check_setup(const struct weft_exec_setup *s, struct weft_error *err);
/* Returns WEFT_USAGE if the step lacks something that this rank needs. */
enum weft_status wf_exec_check_io(const struct weft_exec *e, const struct weft_exec_io *io,
                                  struct weft_error *err);

/* Allocates zeroed memory for n buffers and counts its bytes; returns NULL if memory runs
 * out. */
char *wf_exec_allocate(struct weft_exec *e, size_t n, size_t each);

/* Waits until all peers have received all messages of this rank. */
void wf_exec_drain(struct weft_exec *e);

/* -- memory of forward-only steps (forward.c) ------------------------------------------------ */

enum weft_status wf_exec_forward_new(struct weft_exec *e, struct weft_error *err);
void wf_exec_forward_free(struct weft_exec *e);
void wf_exec_forward_begin(struct weft_exec *e);
/* Waits for the memory to which an action writes. */
enum weft_status wf_exec_forward_prepare(struct weft_exec *e, struct weft_action a,
                                         struct weft_error *err);
/* Sets *ready to true if the blocks of a micro-batch have memory now. */
enum weft_status wf_exec_forward_take_set(struct weft_exec *e, uint32_t micro, bool *ready,
                                          struct weft_error *err);
/* Moves a received activation to an input buffer, on transports by reference. */
void wf_exec_forward_keep_input(struct weft_exec *e, struct weft_action a,
                                struct weft_message *m);
/* Frees the memory that an action was the last to use. */
void wf_exec_forward_end(struct weft_exec *e, struct weft_action a, size_t position);
/* Waits until all messages have arrived.  Returns false after an error. */
bool wf_exec_forward_drain(struct weft_exec *e);

/* Posts receives for which memory is free (step.c). */
enum weft_status wf_exec_post_ahead(struct weft_exec *e, struct weft_error *err);

/* -- tensors and rows (boundary.c) ---------------------------------------------------------- */

/* Returns the tensors of a stage's output or input. */
struct boundary wf_exec_boundary(const struct weft_stage *stage, bool out);
/* Computes the bytes of the tensors for `rows` rows, as weft_tensors_bytes(). */
enum weft_status wf_exec_boundary_bytes(const struct boundary *b, uint32_t rows, size_t *out,
                                        struct weft_error *err);
void wf_exec_boundary_print(const struct boundary *b, uint32_t rows, char out[WEFT_SHAPE_TEXT]);
/* Returns false if a last stage computes the loss. */
bool wf_stage_has_outputs(const struct weft_stage *stage);
/* Checks and sets the rows of all micro-batches; NULL: those of the setup.  Nothing changes if
 * the rows are wrong. */
enum weft_status wf_exec_set_rows(struct weft_exec *e, const uint32_t *rows,
                                  struct weft_error *err);

/* -- outputs and loss (outputs.c) ----------------------------------------------------------- */

enum weft_status wf_exec_outputs_new(struct weft_exec *e, struct weft_error *err);
/* Returns the memory to which the last stage writes the outputs of a micro-batch. */
void *wf_exec_output_at(const struct weft_exec *e, uint32_t micro);
/* Calls the loss function, if there is one, after the forward of the last stage. */
enum weft_status wf_exec_call_loss(struct weft_exec *e, struct weft_action a,
                                   const struct weft_stage_call *stage, struct weft_error *err);
/* Sends the outputs of the step to rank 0, or receives them there, if the setup requires it. */
enum weft_status wf_exec_return_outputs(struct weft_exec *e, struct weft_error *err);

/* -- block residuals (blocks.c) ------------------------------------------------------------- */

enum weft_status wf_exec_blocks_new(struct weft_exec *e, struct weft_error *err);

/* Prepare the blocks for a call of a stage, and process them after the call. */
const struct weft_stage_blocks *wf_exec_blocks_begin(struct weft_exec *e, struct weft_action a,
                                                     struct weft_stage_blocks *out);
void wf_exec_blocks_end(struct weft_exec *e, struct weft_action a);

/* Send, post and wait for the blocks that accompany an activation or a gradient. */
enum weft_status wf_exec_blocks_send(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
enum weft_status wf_exec_blocks_post(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
enum weft_status wf_exec_blocks_wait(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
/* Releases the gradients that were returned for the blocks of an action, so that their senders
 * can reuse the memory. */
void wf_exec_blocks_release(struct weft_exec *e, struct weft_action a);
/* Sets *done to true once all sends of the action's blocks are complete. */
enum weft_status wf_exec_blocks_sent(struct weft_exec *e, struct weft_action a, bool *done,
                                     struct weft_error *err);

#endif
