/* Moves the blocks of block residuals between ranks.  The traffic table (weft/traffic.h) lists
 * the blocks that accompany a stage's output.  Each stage that receives or computes a block has
 * a copy of it, and later stages on the same rank use that copy.  The gradient of a block is an
 * exact sum.  Each copy accumulates its own sum.  The sum is returned over the hop by which the
 * block arrived and is added to the sum of the sender's copy. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "runtime/exec/exec_priv.h"

static uint32_t pipe_of(const struct weft_exec *e, uint32_t micro)
{
    return weft_placement_pipe(e->place, micro);
}

static struct weft_block_span sends_of(const struct weft_exec *e, uint32_t stage,
                                       uint32_t micro)
{
    return weft_traffic_sends(e->setup.blocks.traffic, pipe_of(e, micro), stage);
}

static struct weft_block_span brings_of(const struct weft_exec *e, uint32_t stage,
                                        uint32_t micro)
{
    return weft_traffic_receives(e->setup.blocks.traffic, pipe_of(e, micro), stage);
}

static struct weft_block_span makes_of(const struct weft_exec *e, uint32_t stage)
{
    return weft_traffic_finishes(e->setup.blocks.traffic, stage);
}

/* Returns the copy of a block that a stage reads, or NULL if the block is not finished yet. */
static struct block_copy *copy_of(struct weft_exec *e, uint32_t stage, uint32_t micro,
                                  uint32_t block)
{
    uint32_t bringer =
        weft_traffic_source(e->setup.blocks.traffic, pipe_of(e, micro), stage, block);
    if (bringer == WEFT_NO_STAGE)
        return NULL;
    return &wf_exec_cell(e, bringer, micro)->copies[block];
}

static size_t elements(const struct weft_exec *e, uint32_t micro)
{
    return e->setup.blocks.row_elements * wf_exec_rows(e, micro);
}

/* -- memory --------------------------------------------------------------------------------- */

static void raise_max(size_t *into, size_t n)
{
    *into = n > *into ? n : *into;
}

static enum weft_status make_block_buffers(struct weft_exec *e, uint32_t index,
                                           struct weft_error *err)
{
    struct stage_buffers *h = &e->local[index];
    uint32_t stage = e->program->local[index].stage;
    h->n_makes = makes_of(e, stage).len;
    for (uint32_t pipe = 0; pipe < e->place->n_pipes; pipe++) {
        raise_max(&h->max_sends, weft_traffic_sends(e->setup.blocks.traffic, pipe, stage).len);
        raise_max(&h->max_brings,
                  weft_traffic_receives(e->setup.blocks.traffic, pipe, stage).len);
    }
    h->block_stride =
        h->n_makes * (e->block_bytes + e->sum_bytes) + h->max_sends * e->sum_bytes;
    size_t n = e->program->local[index].n_out;
    if (e->forward_only) {
        h->block_stride = (h->n_makes + h->max_brings) * e->block_bytes;
        n = e->program->n_sets;
    }
    size_t bytes = n * h->block_stride;
    h->blocks = wf_pages_alloc(bytes + BUFFER_ALIGN);
    if (h->blocks == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the residual blocks of stage %u",
                         stage);
    memset(h->blocks, 0, bytes + BUFFER_ALIGN);
    e->bytes += bytes;
    return WEFT_OK;
}

static char *blocks_at(struct weft_exec *e, uint32_t stage, uint32_t micro)
{
    const struct weft_program *p = e->program;
    struct stage_buffers *h = &e->local[p->local_of[stage]];
    size_t n =
        e->forward_only ? p->set_of[micro] : p->cells[wf_program_cell(p, stage, micro)].out;
    return h->blocks + n * h->block_stride;
}

static float *made_value(struct weft_exec *e, uint32_t stage, uint32_t micro, size_t i)
{
    return (float *)(blocks_at(e, stage, micro) + i * e->block_bytes);
}

static int64_t *made_sum(struct weft_exec *e, uint32_t stage, uint32_t micro, size_t i)
{
    size_t n = e->local[e->program->local_of[stage]].n_makes;
    if (e->forward_only)
        return NULL;
    return (int64_t *)(blocks_at(e, stage, micro) + n * e->block_bytes + i * e->sum_bytes);
}

/* Returns the memory that receives the gradient of the i-th sent block. */
static int64_t *returned_sum(struct weft_exec *e, uint32_t stage, uint32_t micro, size_t i)
{
    size_t n = e->local[e->program->local_of[stage]].n_makes;
    return (int64_t *)(blocks_at(e, stage, micro) + n * (e->block_bytes + e->sum_bytes) +
                       i * e->sum_bytes);
}

/* An input buffer contains the activation, the received blocks, and the gradients of these
 * blocks.  In a forward-only step, later stages of the rank and messages may use a block after
 * the input, so that its memory is in the set of the micro-batch. */
static float *brought_value(struct weft_exec *e, uint32_t stage, uint32_t micro, size_t i)
{
    struct stage_buffers *h = &e->local[e->program->local_of[stage]];
    struct cell *c = wf_exec_cell(e, stage, micro);
    if (e->forward_only)
        return (float *)(blocks_at(e, stage, micro) + (h->n_makes + i) * e->block_bytes);
    return (float *)(h->in + c->in_set * h->in_stride + h->in_bytes + i * e->block_bytes);
}

static int64_t *brought_sum(struct weft_exec *e, uint32_t stage, uint32_t micro, size_t i)
{
    struct stage_buffers *h = &e->local[e->program->local_of[stage]];
    struct cell *c = wf_exec_cell(e, stage, micro);
    return (int64_t *)(h->in + c->in_set * h->in_stride + h->in_bytes +
                       h->max_brings * e->block_bytes + i * e->sum_bytes);
}

static size_t count_messages(const struct weft_exec *e)
{
    size_t n = 0;
    for (uint32_t h = 0; h < e->program->n_local; h++)
        for (uint32_t m = 0; m < e->place->n_micros; m++)
            n += 3 * (sends_of(e, e->program->local[h].stage, m).len +
                      brings_of(e, e->program->local[h].stage, m).len);
    return n;
}

static void assign_messages(struct weft_exec *e)
{
    struct weft_message *next = e->block_messages;
    struct block_copy *copies = e->copies;
    for (uint32_t h = 0; h < e->program->n_local; h++)
        for (uint32_t m = 0; m < e->place->n_micros; m++) {
            uint32_t stage = e->program->local[h].stage;
            struct cell *c = wf_exec_cell(e, stage, m);
            size_t sends = sends_of(e, stage, m).len, brings = brings_of(e, stage, m).len;
            c->copies = copies;
            copies += e->n_blocks;
            c->sent = next;
            c->returned = next + 2 * sends;
            c->brought = next + 3 * sends;
            c->returns = next + 3 * sends + 2 * brings;
            next += 3 * (sends + brings);
        }
}

enum weft_status wf_exec_blocks_new(struct weft_exec *e, struct weft_error *err)
{
    for (uint32_t h = 0; h < e->program->n_local; h++)
        WEFT_TRY(make_block_buffers(e, h, err));
    e->copies = calloc((size_t)e->program->n_local * e->place->n_micros * e->n_blocks + 1,
                       sizeof *e->copies);
    size_t n_messages = count_messages(e);
    e->block_messages = calloc(n_messages + 1, sizeof *e->block_messages);
    e->call_value = calloc(e->n_blocks + 1, sizeof *e->call_value);
    e->call_sum = calloc(e->n_blocks + 1, sizeof *e->call_sum);
    e->call_fresh = calloc(e->n_blocks + 1, sizeof *e->call_fresh);
    if (e->copies == NULL || e->block_messages == NULL || e->call_value == NULL ||
        e->call_sum == NULL || e->call_fresh == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the residual blocks of rank %u",
                         e->rank);
    e->bytes += n_messages * sizeof *e->block_messages;
    assign_messages(e);
    return WEFT_OK;
}

/* -- calls ---------------------------------------------------------------------------------- */

const struct weft_stage_blocks *wf_exec_blocks_begin(struct weft_exec *e, struct weft_action a,
                                                     struct weft_stage_blocks *out)
{
    struct weft_block_span makes = makes_of(e, a.stage);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    if (e->place->n_stages == 1)
        return NULL; /* a stage that is the whole model manages its blocks itself */
    for (size_t i = 0; a.kind == WEFT_ACT_F && i < makes.len; i++)
        c->copies[makes.at[i]] = (struct block_copy){made_value(e, a.stage, a.micro, i),
                                                     made_sum(e, a.stage, a.micro, i), true};
    if (a.kind == WEFT_ACT_F && !e->forward_only)
        e->live_copies += makes.len;
    for (uint32_t b = 0; b < e->n_blocks; b++) {
        const struct block_copy *copy = copy_of(e, a.stage, a.micro, b);
        e->call_value[b] = copy == NULL ? NULL : copy->value;
        e->call_sum[b] = copy == NULL ? NULL : copy->sum;
        e->call_fresh[b] = copy == NULL || copy->fresh;
    }
    *out = (struct weft_stage_blocks){e->call_value, e->call_sum, e->call_fresh};
    return out;
}

void wf_exec_blocks_end(struct weft_exec *e, struct weft_action a)
{
    if (e->place->n_stages == 1 || (a.kind != WEFT_ACT_B && a.kind != WEFT_ACT_I))
        return;
    for (uint32_t b = 0; b < e->n_blocks; b++) {
        struct block_copy *copy = copy_of(e, a.stage, a.micro, b);
        if (copy != NULL)
            copy->fresh = e->call_fresh[b];
    }
    e->live_copies -= makes_of(e, a.stage).len + brings_of(e, a.stage, a.micro).len;
}

/* -- messages ------------------------------------------------------------------------------- */

/* Returns true if the sender of a block lends memory for its gradient. */
static bool has_loans(const struct weft_exec *e)
{
    return e->by_reference && !e->forward_only;
}

static struct envelope part_of(const struct weft_exec *e, struct weft_action a,
                               enum wf_message_kind kind, uint32_t block, void *data)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    bool forward = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_F;
    uint32_t lower = up ? a.stage : a.stage - 1;
    size_t each = kind == WF_MESSAGE_BLOCK            ? sizeof(float)
                  : kind == WF_MESSAGE_BLOCK_GRADIENT ? sizeof(int64_t)
                                                      : 0;
    return (struct envelope){
        .kind = kind,
        .stage = lower,
        .micro = a.micro,
        .part = block,
        .peer = weft_placement_rank(e->place, up ? lower + 1 : lower, a.micro),
        .channel = forward ? WF_COMM_CHANNEL_FORWARD : WF_COMM_CHANNEL_BACKWARD,
        .bytes = each * elements(e, a.micro),
        .data = data,
    };
}

static enum weft_status send_blocks(struct weft_exec *e, struct weft_action a,
                                    struct weft_error *err)
{
    struct weft_block_span sends = sends_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < sends.len; i++) {
        uint32_t b = sends.at[i];
        struct envelope what =
            part_of(e, a, WF_MESSAGE_BLOCK, b, copy_of(e, a.stage, a.micro, b)->value);
        WEFT_TRY(wf_exec_send(e, &c->sent[2 * i], &what, err));
        if (!has_loans(e))
            continue;
        what = part_of(e, a, WF_MESSAGE_LOAN, b, returned_sum(e, a.stage, a.micro, i));
        WEFT_TRY(wf_exec_send(e, &c->sent[2 * i + 1], &what, err));
    }
    return WEFT_OK;
}

static enum weft_status send_sums(struct weft_exec *e, struct weft_action a,
                                  struct weft_error *err)
{
    struct weft_block_span brings = brings_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < brings.len; i++) {
        struct block_copy *copy = &c->copies[brings.at[i]];
        if (copy->fresh)
            memset(copy->sum, 0, elements(e, a.micro) * sizeof *copy->sum);
        struct envelope what =
            part_of(e, a, WF_MESSAGE_BLOCK_GRADIENT, brings.at[i], copy->sum);
        WEFT_TRY(wf_exec_send(e, &c->returns[i], &what, err));
    }
    return WEFT_OK;
}

enum weft_status wf_exec_blocks_send(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err)
{
    return a.kind == WEFT_ACT_SEND_F ? send_blocks(e, a, err) : send_sums(e, a, err);
}

enum weft_status wf_exec_blocks_sent(struct weft_exec *e, struct weft_action a, bool *done,
                                     struct weft_error *err)
{
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    bool forward = a.kind == WEFT_ACT_SEND_F;
    size_t n = forward ? sends_of(e, a.stage, a.micro).len : brings_of(e, a.stage, a.micro).len;
    *done = true;
    for (size_t i = 0; i < n; i++) {
        struct weft_message *m = forward ? &c->sent[2 * i] : &c->returns[i];
        WEFT_TRY(weft_comm_test(e->comm, m, err));
        *done = *done && m->done;
    }
    return WEFT_OK;
}

static enum weft_status post_blocks(struct weft_exec *e, struct weft_action a,
                                    struct weft_error *err)
{
    struct weft_block_span brings = brings_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < brings.len; i++) {
        void *room = e->by_reference ? NULL : brought_value(e, a.stage, a.micro, i);
        struct envelope what = part_of(e, a, WF_MESSAGE_BLOCK, brings.at[i], room);
        WEFT_TRY(wf_exec_post(e, &c->brought[2 * i], &what, err));
        if (!has_loans(e))
            continue;
        what = part_of(e, a, WF_MESSAGE_LOAN, brings.at[i], NULL);
        WEFT_TRY(wf_exec_post(e, &c->brought[2 * i + 1], &what, err));
    }
    return WEFT_OK;
}

enum weft_status wf_exec_blocks_post(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err)
{
    if (a.kind == WEFT_ACT_RECV_F)
        return post_blocks(e, a, err);
    struct weft_block_span sends = sends_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < sends.len; i++) {
        struct envelope what = part_of(e, a, WF_MESSAGE_BLOCK_GRADIENT, sends.at[i],
                                       returned_sum(e, a.stage, a.micro, i));
        WEFT_TRY(wf_exec_post(e, &c->returned[i], &what, err));
    }
    return WEFT_OK;
}

/* Moves a received block to the set of its micro-batch and returns its address. */
static float *keep_block(struct weft_exec *e, struct weft_action a, size_t i,
                         struct weft_message *block)
{
    float *to = brought_value(e, a.stage, a.micro, i);
    if (e->by_reference)
        memcpy(to, block->data, block->bytes);
    weft_comm_release(e->comm, block);
    return to;
}

static enum weft_status wait_for_blocks(struct weft_exec *e, struct weft_action a,
                                        struct weft_error *err)
{
    struct weft_block_span brings = brings_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < brings.len; i++) {
        struct weft_message *block = &c->brought[2 * i], *loan = &c->brought[2 * i + 1];
        WEFT_TRY(weft_comm_wait(e->comm, block, err));
        e->received_bytes += block->bytes;
        if (e->forward_only) {
            c->copies[brings.at[i]].value = keep_block(e, a, i, block);
            continue;
        }
        if (e->by_reference)
            WEFT_TRY(weft_comm_wait(e->comm, loan, err));
        c->copies[brings.at[i]] = (struct block_copy){
            block->data, e->by_reference ? loan->data : brought_sum(e, a.stage, a.micro, i),
            true};
    }
    e->live_copies += e->forward_only ? 0 : brings.len;
    return WEFT_OK;
}

/* Adds a returned gradient to the sum that this rank's later stages have accumulated. */
static enum weft_status merge_sum(struct weft_exec *e, struct weft_action a, uint32_t block,
                                  const int64_t *sum, struct weft_error *err)
{
    struct block_copy *copy = copy_of(e, a.stage, a.micro, block);
    size_t n = elements(e, a.micro);
    bool overflow = false;
    if (copy->fresh)
        memcpy(copy->sum, sum, n * sizeof *sum);
    else
        overflow = e->setup.blocks.merge(copy->sum, sum, n);
    copy->fresh = false;
    if (!overflow || e->failed)
        return WEFT_OK;
    e->failed = true;
    e->failed_at = (struct weft_cell_id){a.stage, a.micro};
    (void)WEFT_FAIL(&e->failure, WEFT_NUMERIC,
                    "the gradient of residual block %u of micro %u is out of the range of "
                    "exact sums",
                    block, e->setup.first_micro + a.micro);
    (void)err;
    return WEFT_OK;
}

enum weft_status wf_exec_blocks_wait(struct weft_exec *e, struct weft_action a,
                                     struct weft_error *err)
{
    if (a.kind == WEFT_ACT_RECV_F)
        return wait_for_blocks(e, a, err);
    struct weft_block_span sends = sends_of(e, a.stage, a.micro);
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < sends.len; i++) {
        WEFT_TRY(weft_comm_wait(e->comm, &c->returned[i], err));
        e->received_bytes += c->returned[i].bytes;
        WEFT_TRY(merge_sum(e, a, sends.at[i], c->returned[i].data, err));
    }
    return WEFT_OK;
}

void wf_exec_blocks_release(struct weft_exec *e, struct weft_action a)
{
    struct cell *c = wf_exec_cell(e, a.stage, a.micro);
    for (size_t i = 0; i < sends_of(e, a.stage, a.micro).len; i++)
        weft_comm_release(e->comm, &c->returned[i]);
}
