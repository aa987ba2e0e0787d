/* Packs the streams of records to and from each peer into messages. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "runtime/comm/channels.h"
#include "runtime/sync/reducer_priv.h"

enum {
    /* In bytes.  A smaller message is copied to a smaller buffer, which saves memory while the
     * message is in flight. */
    SMALL = 1 << 16,
};

/* The head of a message.  A receive is posted for the maximum length; the head has the actual
 * length. */
struct head {
    uint64_t bytes;
};

struct sync_bucket {
    struct weft_message m;
    struct sync_bucket *next;
    size_t used;
    _Alignas(8) unsigned char data[];
};

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

/* -- sending ------------------------------------------------------------------------------- */

/* Detaches the packed message and returns it in a buffer of suitable size. */
static struct sync_bucket *detach_filling(struct weft_sync *s, struct sync_peer *p)
{
    struct sync_bucket *out = p->filling;
    if (out->used <= SMALL) {
        struct sync_bucket *copy = wf_sync_pool_alloc(&s->pool, sizeof *copy + out->used);
        if (copy != NULL) {
            copy->used = out->used;
            memcpy(copy->data, out->data, out->used);
            out->used = 0;
            return copy;
        }
    }
    p->filling = NULL;
    return out;
}

static bool has_something(const struct sync_peer *p)
{
    return p->filling != NULL && p->filling->used != 0;
}

static enum weft_status flush(struct weft_sync *s, uint32_t peer, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    struct sync_bucket *out = detach_filling(s, p);
    p->urgent = false;
    out->m = (struct weft_message){.head = {.kind = WF_MESSAGE_REDUCER},
                                   .peer = peer,
                                   .channel = WF_COMM_CHANNEL_REDUCER,
                                   .bytes = out->used,
                                   .data = out->data};
    out->next = NULL;
    memcpy(out->data, &(struct head){out->used}, sizeof(struct head));
    *p->in_flight_end = out;
    p->in_flight_end = &out->next;
    p->n_in_flight++;
    s->counts.messages++;
    s->counts.bytes += out->used;
    return weft_comm_send(s->comm, &out->m, err);
}

enum weft_status wf_sync_link_put(struct weft_sync *s, uint32_t peer, struct sync_record record,
                                  size_t bytes, void **at, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    size_t all = sizeof record + padded(bytes);

    if (has_something(p) && SYNC_BUCKET_BYTES - p->filling->used < all)
        WEFT_TRY(flush(s, peer, err));
    if (p->filling == NULL) {
        p->filling = wf_sync_pool_alloc(&s->pool, sizeof *p->filling + SYNC_BUCKET_BYTES);
        if (p->filling == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for gradients to rank %u",
                             s->rank, peer);
        p->filling->used = 0;
    }
    if (p->filling->used == 0)
        p->filling->used = sizeof(struct head);

    unsigned char *to = p->filling->data + p->filling->used;
    memcpy(to, &record, sizeof record);
    p->filling->used += all;
    p->urgent |= record.kind != SYNC_KIND_PART && record.kind != SYNC_KIND_RESULT;

    s->counts.work++;
    if (at != NULL)
        *at = to + sizeof record;
    return WEFT_OK;
}

/* Frees messages that the peer has read.  The peer reads messages in order, so only the first
 * message is tested. */
static enum weft_status reap(struct weft_sync *s, struct sync_peer *p, struct weft_error *err)
{
    while (p->in_flight != NULL) {
        struct sync_bucket *out = p->in_flight;
        WEFT_TRY(weft_comm_test(s->comm, &out->m, err));
        if (!out->m.done)
            break;
        p->in_flight = out->next;
        if (p->in_flight == NULL)
            p->in_flight_end = &p->in_flight;
        p->n_in_flight--;
        wf_sync_pool_free(&s->pool, out);
    }
    return WEFT_OK;
}

static enum weft_status send_part(struct weft_sync *s, uint32_t peer, struct sync_piece *piece,
                                  struct weft_error *err)
{
    const struct sync_param *param = &piece->step->params[piece->param];
    size_t n = wf_sync_piece_size(piece), bytes = n * sync_type_size(param->type);
    uint32_t grad = piece->sent++;
    struct sync_record record = {.kind = SYNC_KIND_PART,
                                 .type = (uint8_t)param->type,
                                 .last = piece->sent == param->n_grads,
                                 .id = param->id,
                                 .step = piece->step->number,
                                 .piece = piece->index,
                                 .n = (uint32_t)n};
    void *at;
    WEFT_TRY(wf_sync_link_put(s, peer, record, bytes, &at, err));
    memcpy(at, wf_sync_piece_at(piece, grad), bytes);
    /* The last record of a step is sent at once. */
    if (piece->step->unpushed == 0)
        s->peers[peer].urgent = true;
    return WEFT_OK;
}

/* Sends the packed message if it is full, if no other message is in flight, or if this rank has
 * nothing more to add.  Otherwise the message waits, so that more small pieces are packed into
 * it. */
static enum weft_status send_to(struct weft_sync *s, uint32_t peer, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    WEFT_TRY(reap(s, p, err));
    while (p->pending != NULL && p->n_in_flight < SYNC_MAX_IN_FLIGHT) {
        struct sync_piece *piece = p->pending;
        WEFT_TRY(send_part(s, peer, piece, err));
        if (piece->sent < piece->step->params[piece->param].n_pushed)
            continue;
        p->pending = piece->next;
        if (p->pending == NULL)
            p->pending_end = &p->pending;
    }
    if (has_something(p) && (p->urgent || s->waits || p->n_in_flight == 0))
        return flush(s, peer, err);
    return WEFT_OK;
}

/* -- end of a stream ----------------------------------------------------------------------- */

/* Returns true if this rank sends nothing more to a peer: the peer has left and all common
 * steps are done, or this rank has left and finished. */
static bool can_send_bye(const struct weft_sync *s, const struct sync_peer *p)
{
    if (p->bye_out)
        return false;
    if (s->left && s->n_unfinished == 0)
        return true;
    if (!p->left || (!s->left && s->next_step < p->next_step))
        return false;
    for (const struct sync_step *k = s->steps; k != NULL && k->number < p->next_step;
         k = k->next)
        if (k->left != 0)
            return false;
    return true;
}

bool wf_sync_link_is_closed(const struct weft_sync *s, uint32_t peer)
{
    const struct sync_peer *p = &s->peers[peer];
    return peer == s->rank || (p->bye_in && p->bye_out && p->in_flight == NULL);
}

/* -- receiving ----------------------------------------------------------------------------- */

static enum weft_status post(struct weft_sync *s, uint32_t peer, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    p->in = (struct weft_message){.head = {.kind = WF_MESSAGE_REDUCER},
                                  .peer = peer,
                                  .channel = WF_COMM_CHANNEL_REDUCER,
                                  .bytes = SYNC_BUCKET_BYTES,
                                  .data = p->room,
                                  .up_to = true};
    WEFT_TRY(weft_comm_post(s->comm, &p->in, err));
    p->posted = true;
    return WEFT_OK;
}

enum weft_status wf_sync_link_open(struct weft_sync *s, uint32_t peer, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    p->stored_end = &p->stored;
    p->pending_end = &p->pending;
    p->in_flight_end = &p->in_flight;
    if (!weft_comm_by_reference(s->comm)) {
        p->room = wf_sync_pool_alloc(&s->pool, SYNC_BUCKET_BYTES);
        if (p->room == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for gradients from rank %u",
                             s->rank, peer);
    }
    return post(s, peer, err);
}

static enum weft_status protocol_error(struct weft_sync *s, uint32_t peer,
                                       const struct sync_record *r, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_INTERNAL,
                     "rank %u: rank %u sent an unexpected record (kind %u, step %" PRIu64
                     ", parameter %u, piece %u, %u elements)",
                     s->rank, peer, r->kind, r->step, r->id, r->piece, r->n);
}

/* Decrements the number of missing sets of each step in a range of steps. */
static enum weft_status count_down(struct weft_sync *s, uint64_t from, uint64_t to,
                                   struct weft_error *err)
{
    for (struct sync_step *k = s->steps; k != NULL && k->number < to; k = k->next)
        if (k->number >= from && --k->unknown == 0)
            WEFT_TRY(wf_sync_step_open(s, k, err));
    return WEFT_OK;
}

static enum weft_status store_set(struct weft_sync *s, struct sync_peer *p, uint64_t step,
                                  const void *entries, size_t n, struct weft_error *err)
{
    struct sync_stored *set = wf_sync_pool_alloc(&s->pool, sizeof *set + n * sizeof set->at[0]);
    if (set == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for a set of %zu parameters",
                         s->rank, n);
    *set = (struct sync_stored){.step = step, .n = n};
    memcpy(set->at, entries, n * sizeof set->at[0]);
    *p->stored_end = set;
    p->stored_end = &set->next;
    return WEFT_OK;
}

static enum weft_status take_set(struct weft_sync *s, uint32_t peer,
                                 const struct sync_record *r, const void *entries,
                                 struct weft_error *err)
{
    static const char *const ops[] = {
        [WEFT_SYNC_SUM] = "the sum", [WEFT_SYNC_MEAN] = "the mean"};
    struct sync_peer *p = &s->peers[peer];

    if (r->id > WEFT_SYNC_MEAN || r->step < p->next_step || r->step == UINT64_MAX || p->left)
        return protocol_error(s, peer, r, err);
    if (r->id != (uint32_t)s->op)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "rank %u computes %s of gradients and rank %u %s; give all ranks the "
                         "same operation",
                         s->rank, ops[s->op], peer, ops[r->id]);

    if (r->step >= s->next_step) {
        if (!s->left)
            WEFT_TRY(store_set(s, p, r->step, entries, r->n, err));
    } else {
        struct sync_step *step = wf_sync_step_find(s, r->step);
        if (step != NULL)
            WEFT_TRY(wf_sync_step_match(s, step, peer, entries, r->n, err));
    }

    if (r->piece != 0) /* another record of the same set follows */
        return WEFT_OK;
    uint64_t before = p->next_step;
    p->next_step = r->step + 1;
    return count_down(s, before, p->next_step, err);
}

static enum weft_status take_piece(struct weft_sync *s, uint32_t peer,
                                   const struct sync_record *r, const void *data,
                                   struct weft_error *err)
{
    struct sync_step *step = wf_sync_step_find(s, r->step);
    struct sync_param *param = step == NULL ? NULL : wf_sync_param_find(s, step, r->id);
    if (param == NULL || r->piece >= param->n_pieces)
        return protocol_error(s, peer, r, err);
    struct sync_piece *piece = &step->pieces[param->first + r->piece];
    if (wf_sync_piece_size(piece) != r->n || r->type != (uint8_t)param->type)
        return protocol_error(s, peer, r, err);
    s->counts.work++;
    if (r->kind == SYNC_KIND_PART) {
        step->due_parts[peer] -= r->last;
        return wf_sync_piece_add(s, piece, peer, data, err);
    }
    if (param->n_pushed != param->n_grads || step->due_results[peer] == 0)
        return protocol_error(s, peer, r, err);
    step->due_results[peer]--;
    wf_sync_piece_set(s, piece, data);
    return WEFT_OK;
}

static enum weft_status take_record(struct weft_sync *s, uint32_t peer,
                                    const struct sync_record *r, const void *data,
                                    struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    switch ((enum sync_kind)r->kind) {
    case SYNC_KIND_SET:
        return take_set(s, peer, r, data, err);
    case SYNC_KIND_PART:
    case SYNC_KIND_RESULT:
        return take_piece(s, peer, r, data, err);
    case SYNC_KIND_LEAVE:
        p->left = true;
        return count_down(s, p->next_step, UINT64_MAX, err);
    case SYNC_KIND_BYE:
        p->bye_in = true;
        return WEFT_OK;
    }
    return protocol_error(s, peer, r, err);
}

static size_t data_bytes(const struct sync_record *r)
{
    if (r->kind == SYNC_KIND_SET)
        return sizeof(struct sync_entry) * r->n;
    if (r->kind == SYNC_KIND_PART || r->kind == SYNC_KIND_RESULT)
        return sync_type_size((enum weft_sync_type)r->type) * r->n;
    return 0;
}

static enum weft_status take_message(struct weft_sync *s, uint32_t peer,
                                     const unsigned char *data, struct weft_error *err)
{
    struct head head;
    memcpy(&head, data, sizeof head);
    size_t at = sizeof head;
    while (at < head.bytes) {
        struct sync_record r = {0};
        if (head.bytes > SYNC_BUCKET_BYTES || head.bytes - at < sizeof r)
            return protocol_error(s, peer, &r, err);
        memcpy(&r, data + at, sizeof r);
        at += sizeof r;
        size_t bytes = data_bytes(&r);
        if (head.bytes - at < padded(bytes))
            return protocol_error(s, peer, &r, err);
        WEFT_TRY(take_record(s, peer, &r, data + at, err));
        at += padded(bytes);
    }
    return WEFT_OK;
}

static enum weft_status receive_from(struct weft_sync *s, uint32_t peer, struct weft_error *err)
{
    struct sync_peer *p = &s->peers[peer];
    while (p->posted) {
        WEFT_TRY(weft_comm_test(s->comm, &p->in, err));
        if (!p->in.done)
            return WEFT_OK;
        p->posted = false;
        WEFT_TRY(take_message(s, peer, p->in.data, err));
        weft_comm_release(s->comm, &p->in);
        if (!p->bye_in)
            WEFT_TRY(post(s, peer, err));
    }
    return WEFT_OK;
}

static enum weft_status poll_peers(struct weft_sync *s, struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++)
        if (r != s->rank)
            WEFT_TRY(receive_from(s, r, err));
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        if (r == s->rank)
            continue;
        if (can_send_bye(s, &s->peers[r])) {
            struct sync_record bye = {.kind = SYNC_KIND_BYE};
            WEFT_TRY(wf_sync_link_put(s, r, bye, 0, NULL, err));
            s->peers[r].bye_out = true;
        }
        WEFT_TRY(send_to(s, r, err));
    }
    return WEFT_OK;
}

enum weft_status wf_sync_progress(void *arg, struct weft_error *err)
{
    struct weft_sync *s = arg;
    struct weft_error own;

    if (err == NULL)
        err = &own;
    if (s->broken.status != WEFT_OK) {
        *err = s->broken;
        return s->broken.status;
    }

    /* Callbacks push and register, so there may be something to send after them. */
    bool called = true;
    enum weft_status st = WEFT_OK;
    while (st == WEFT_OK && called) {
        st = poll_peers(s, err);
        if (st == WEFT_OK)
            st = wf_sync_report(s, &called, err);
    }

    if (st != WEFT_OK) {
        err->status = st;
        s->broken = *err;
        weft_comm_abort(s->comm, err);
    }
    return st;
}
