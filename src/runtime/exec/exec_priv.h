/* What the files of the executor share. */
#ifndef RUNTIME_EXEC_EXEC_PRIV_H
#define RUNTIME_EXEC_EXEC_PRIV_H

#include "runtime/comm/channels.h"
#include "runtime/exec/program.h"

enum {
    POST_AHEAD = 4, /* receives of a channel that are posted before their turn, at most */
    BUFFER_ALIGN = 64,
};

/* A rank's copy of a block of one micro. */
struct block_copy {
    float *value;
    int64_t *sum; /* its gradient */
    bool fresh;
};

/* One (stage, micro). */
struct cell {
    void *in; /* what came in; later its gradient */
    uint32_t in_set;
    bool ahead; /* its input buffer was taken before its turn */
    struct weft_message send_f, recv_f, send_b, recv_b;
    /* Block residuals; owned by the executor's one array. */
    struct block_copy *copies;     /* (blocks): those that the stage brings or makes */
    struct weft_message *sent;     /* (sends, 2): a block, a loan */
    struct weft_message *returned; /* (sends): its gradient comes back */
    struct weft_message *brought;  /* (brings, 2) */
    struct weft_message *returns;  /* (brings) */
};

struct stage_buffers {
    size_t out_bytes, in_bytes; /* of the largest micro, rounded up */
    char *out;                  /* owned: (n_out) */
    /* Input buffers, where receives need memory. */
    uint32_t n_in;
    char *in; /* owned: (n_in), each with its blocks and their gradients */
    size_t in_stride;
    uint32_t *free_in; /* owned: a stack of free ones */
    uint32_t n_free_in;
    uint32_t n_ahead;    /* taken for receives whose turn has not come: at most INPUTS_AHEAD */
    uint32_t *returning; /* owned: micros whose gradient is on its way: a ring of n_in + 1 */
    uint32_t first_returning, n_returning;
    /* Block residuals. */
    size_t n_makes, max_sends, max_brings;
    char *blocks; /* owned: (n_out): values made, their gradients, gradients on loan */
    size_t block_stride;
};

/* The receives of one channel.  Channels are posted independently of each other: a gradient must
 * never wait to be received because an activation has no room. */
struct recv_queue {
    uint32_t peer;
    bool backward;
    size_t *at; /* positions; in the executor's one array */
    size_t n, next_post, next_arrival;
};

struct weft_exec {
    struct weft_exec_setup setup;
    const struct weft_program *program;
    const struct weft_placement *place;
    struct weft_comm *comm;
    bool by_reference;
    uint32_t rank, max_rows, n_blocks;
    size_t block_bytes, sum_bytes;       /* of the largest micro, rounded up */
    struct stage_buffers *local;         /* owned: as the program's */
    struct cell *cells;                  /* owned: as the program's */
    struct block_copy *copies;           /* owned */
    struct weft_message *block_messages; /* owned */
    float **call_value;                  /* owned: (blocks), of the call under way */
    int64_t **call_sum;
    bool *call_fresh;
    size_t bytes;

    /* The step. */
    const struct weft_exec_io *io;
    struct weft_action_span list;
    struct recv_queue *recv_queues; /* owned */
    size_t n_recv_queues;
    size_t *receives;   /* owned: positions, lane after lane */
    uint32_t *queue_of; /* owned: by position */
    size_t *last_to; /* owned: (ranks) the position of the last gradient to each, or SIZE_MAX */
    bool sends_pending; /* others may not have taken yet what this rank sent last */
    size_t live_copies;
    uint64_t received_bytes; /* in this step */
    bool failed;
    struct weft_error failure;
    struct weft_cell_id failed_at;

    /* What was measured. */
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

/* The buffer that a cell's output is written to. */
static inline char *wf_exec_out(struct weft_exec *e, uint32_t stage, uint32_t micro)
{
    const struct wf_program_cell *c =
        &e->program->cells[wf_program_cell(e->program, stage, micro)];
    struct stage_buffers *h = &e->local[e->program->local_of[stage]];
    return h->out + c->out * h->out_bytes;
}

/* Sends or posts one message of a cell. */
struct envelope {
    enum wf_message_kind kind;
    uint32_t stage, micro, part; /* stage: the one whose output it is */
    uint32_t peer;               /* rank of the schedule */
    uint32_t channel;
    size_t bytes;
    void *data;
};
enum weft_status wf_exec_send(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);
enum weft_status wf_exec_post(struct weft_exec *e, struct weft_message *m,
                              const struct envelope *what, struct weft_error *err);

/* Waits until the others have taken everything. */
void wf_exec_drain(struct weft_exec *e);

/* -- block residuals (blocks.c) ------------------------------------------------------------- */

enum weft_status wf_exec_blocks_new(struct weft_exec *e, struct weft_error *err);

/* Fills in what a stage's call sees of the blocks, and takes back what it says of them. */
const struct weft_stage_blocks *wf_exec_blocks_begin(struct weft_exec *e, struct weft_action a,
                                                     struct weft_stage_blocks *out);
void wf_exec_blocks_end(struct weft_exec *e, struct weft_action a);

/* The parts of a message action that go along with the activation. */
enum weft_status wf_exec_blocks_send(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
enum weft_status wf_exec_blocks_post(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
enum weft_status wf_exec_blocks_wait(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err);
/* The senders may free their messages. */
void wf_exec_blocks_release(struct weft_exec *e, struct weft_action a);
/* Have all sends of the action's blocks gone out? */
enum weft_status wf_exec_blocks_sent(struct weft_exec *e, struct weft_action a, bool *done,
                                     struct weft_error *err);

#endif
