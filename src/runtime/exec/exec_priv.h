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

/* One cell: a (stage, micro) pair. */
struct cell {
    void *in; /* the input; later the gradient of the input */
    uint32_t in_set;
    bool ahead; /* the cell's input buffer was taken ahead of the schedule */
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
    size_t out_bytes, in_bytes; /* of the largest micro-batch, rounded up */
    char *out;                  /* owned: (n_out) */
    /* Input buffers.  Only transports that copy use them. */
    uint32_t n_in;
    /* Owned: (n_in) buffers, each with an activation, its blocks and the blocks' gradients. */
    char *in;
    size_t in_stride;
    uint32_t *free_in; /* owned: a stack of free buffers */
    uint32_t n_free_in;
    uint32_t n_ahead; /* number of buffers taken ahead of the schedule, at most INPUTS_AHEAD */
    uint32_t *returning; /* owned: ring of n_in + 1 micros whose input gradient is being sent */
    uint32_t first_returning, n_returning;
    /* Block residuals. */
    size_t n_makes, max_sends, max_brings;
    /* Owned: (n_out): computed blocks, their gradients, memory lent for gradients. */
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
    const struct weft_placement *place;
    struct weft_comm *comm;
    bool by_reference;
    uint32_t rank, max_rows, n_blocks;
    size_t block_bytes, sum_bytes;       /* of the largest micro-batch, rounded up */
    struct stage_buffers *local;         /* owned: as the program's */
    struct cell *cells;                  /* owned: as the program's */
    struct block_copy *copies;           /* owned */
    struct weft_message *block_messages; /* owned */
    float **call_value;                  /* owned: (blocks), block values of the current call */
    int64_t **call_sum;
    bool *call_fresh;
    size_t bytes;

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
    uint64_t received_bytes; /* bytes received in this step */
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
    return e->setup.rows == NULL ? 1 : e->setup.rows[micro];
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
};
enum weft_status wf_exec_send(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);
enum weft_status wf_exec_post(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);

/* Waits until all peers have received all messages of this rank. */
void wf_exec_drain(struct weft_exec *e);

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
