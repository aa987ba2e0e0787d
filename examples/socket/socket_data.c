/* Messages of the socket transport: frames in non-blocking streams.  See socket_priv.h. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "socket_priv.h"

/* -- lists --------------------------------------------------------------------------------- */

static void append(struct message_list *list, struct weft_message *m)
{
    m->next = NULL;
    if (list->first == NULL)
        list->first = m;
    else
        list->last->next = m;
    list->last = m;
}

/* Removes the first message with this id; returns NULL if there is none. */
static struct weft_message *take_id(struct message_list *list, uint64_t id)
{
    struct weft_message *before = NULL, *m = list->first;
    while (m != NULL && m->request[0] != id) {
        before = m;
        m = m->next;
    }
    if (m == NULL)
        return NULL;
    if (before == NULL)
        list->first = m->next;
    else
        before->next = m->next;
    if (list->last == m)
        list->last = before;
    return m;
}

static struct weft_message *take_first(struct message_list *list)
{
    return list->first == NULL ? NULL : take_id(list, list->first->request[0]);
}

/* Queues a frame.  Used outputs are kept, so that later frames allocate nothing. */
static enum weft_status queue_frame(struct endpoint *e, uint32_t to, const struct frame *frame,
                                    struct weft_message *m, bool completes,
                                    struct weft_error *err)
{
    struct peer *p = &e->peers[to];
    struct output *o = e->outputs;
    if (o != NULL)
        e->outputs = o->next;
    else
        o = (struct output *)malloc(sizeof *o);
    if (o == NULL)
        return socket_fail(err, WEFT_NOMEM, "rank %u: no memory for a frame", e->rank);
    o->next = NULL;
    o->frame = *frame;
    o->written = 0;
    o->m = m;
    o->completes = completes;
    if (p->first_output == NULL)
        p->first_output = o;
    else
        p->last_output->next = o;
    p->last_output = o;
    return WEFT_OK;
}

/* -- sending ------------------------------------------------------------------------------- */

static struct frame make_frame(enum frame_kind kind, uint32_t channel, uint64_t id)
{
    struct frame f;
    memset(&f, 0, sizeof f); /* also the padding, which is written to the socket */
    f.kind = kind;
    f.channel = channel;
    f.id = id;
    return f;
}

static enum weft_status match(struct endpoint *e, uint32_t from, const struct frame *frame,
                              struct weft_message *own, struct weft_error *err);

enum weft_status socket_send(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = (struct endpoint *)self;
    struct peer *p = &e->peers[m->peer];
    if (e->gave_up) {
        *err = e->error;
        return err->status;
    }
    struct frame f = make_frame(FRAME_MESSAGE, m->channel, p->next_id++);
    f.head = m->head;
    m->request[0] = f.id;
    if (m->peer == e->rank)
        return match(e, e->rank, &f, m, err);
    if (m->bytes > 0)
        append(&p->announced, m);
    enum weft_status st =
        queue_frame(e, m->peer, &f, m->bytes > 0 ? NULL : m, m->bytes == 0, err);
    if (st == WEFT_OK)
        socket_write(e, m->peer);
    return st;
}

/* Writes as much of an output as the socket takes: the rest of the frame, and the rest
 * of the payload.  Returns the number of bytes, 0 if the socket is full, or -1 if the
 * peer has gone. */
static ssize_t write_some(int fd, struct output *o, size_t payload)
{
    struct iovec parts[2];
    struct msghdr h;
    size_t n = 0, skipped = o->written;
    memset(&h, 0, sizeof h);

    if (skipped < sizeof o->frame) {
        parts[n].iov_base = (char *)&o->frame + skipped;
        parts[n++].iov_len = sizeof o->frame - skipped;
        skipped = sizeof o->frame;
    }
    if (payload > 0) {
        parts[n].iov_base = (char *)o->m->data + (skipped - sizeof o->frame);
        parts[n++].iov_len = payload - (skipped - sizeof o->frame);
    }

    h.msg_iov = parts;
    h.msg_iovlen = n;

    for (;;) {
        ssize_t sent = sendmsg(fd, &h, MSG_NOSIGNAL); /* no SIGPIPE */
        if (sent >= 0)
            return sent;
        if (errno != EINTR)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -1;
    }
}

void socket_write(struct endpoint *e, uint32_t to)
{
    struct peer *p = &e->peers[to];
    while (p->first_output != NULL && p->at.data >= 0) {
        struct output *o = p->first_output;
        size_t payload = o->frame.kind == FRAME_PAYLOAD ? o->m->bytes : 0;
        ssize_t n = write_some(p->at.data, o, payload);
        if (n < 0) { /* the control socket shows why */
            close(p->at.data);
            p->at.data = -1;
            return;
        }
        o->written += (size_t)n;
        if (o->written < sizeof o->frame + payload)
            return;
        if (o->completes)
            o->m->done = true;
        p->first_output = o->next;
        o->next = e->outputs;
        e->outputs = o;
    }
}

/* -- receiving ----------------------------------------------------------------------------- */

/* Completes a receive for a message of this rank to itself. */
static void copy_own(struct weft_message *in, struct weft_message *out)
{
    in->received = out->head;
    if (out->bytes <= in->bytes && out->bytes > 0)
        memcpy(in->data, out->data, out->bytes);
    in->done = true;
    out->done = true;
}

/* Starts a receive whose message has arrived: requests the payload, unless there is none or it
 * is too large. */
static enum weft_status start_receive(struct endpoint *e, struct weft_message *m, uint32_t from,
                                      const struct frame *frame, struct weft_message *own,
                                      struct weft_error *err)
{
    if (own != NULL) {
        copy_own(m, own);
        return WEFT_OK;
    }
    m->received = frame->head;
    if (frame->head.bytes == 0 || frame->head.bytes > m->bytes) {
        m->done = true;
        return WEFT_OK;
    }
    struct frame ready = make_frame(FRAME_READY, frame->channel, frame->id);
    m->request[0] = frame->id;
    append(&e->peers[from].expected, m);
    enum weft_status st = queue_frame(e, from, &ready, NULL, false, err);
    if (st == WEFT_OK)
        socket_write(e, from);
    return st;
}

/* Gives an announced message to the first posted receive of its channel, or
 * keeps its header. */
static enum weft_status match(struct endpoint *e, uint32_t from, const struct frame *frame,
                              struct weft_message *own, struct weft_error *err)
{
    struct channel *c = &e->peers[from].channels[frame->channel];
    struct weft_message *m = take_first(&c->posted);

    if (m != NULL)
        return start_receive(e, m, from, frame, own, err);

    /* Uses a free record, or allocates one. */
    struct arrival *a = e->arrivals;
    if (a != NULL)
        e->arrivals = a->next;
    else
        a = (struct arrival *)malloc(sizeof *a);
    if (a == NULL)
        return socket_fail(err, WEFT_NOMEM, "rank %u: no memory for a message", e->rank);

    a->next = NULL;
    a->frame = *frame;
    a->own = own;
    if (c->first_arrival == NULL)
        c->first_arrival = a;
    else
        c->last_arrival->next = a;
    c->last_arrival = a;
    return WEFT_OK;
}

enum weft_status socket_post(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *e = (struct endpoint *)self;
    struct channel *c = &e->peers[m->peer].channels[m->channel];
    if (e->gave_up) {
        *err = e->error;
        return err->status;
    }
    struct arrival *a = c->first_arrival;
    if (a == NULL) {
        append(&c->posted, m);
        return WEFT_OK;
    }
    c->first_arrival = a->next;
    enum weft_status st = start_receive(e, m, m->peer, &a->frame, a->own, err);
    a->next = e->arrivals;
    e->arrivals = a;
    return st;
}

/* Handles a frame that has been read completely, except for its payload. */
static enum weft_status take_frame(struct endpoint *e, uint32_t from, struct weft_error *err)
{
    struct peer *p = &e->peers[from];
    const struct frame *f = &p->frame;

    if (f->kind == FRAME_MESSAGE && f->channel < WEFT_N_CHANNELS)
        return match(e, from, f, NULL, err);

    if (f->kind == FRAME_READY) {
        struct weft_message *m = take_id(&p->announced, f->id);
        struct frame payload = make_frame(FRAME_PAYLOAD, f->channel, f->id);
        if (m != NULL) {
            enum weft_status st = queue_frame(e, from, &payload, m, true, err);
            if (st == WEFT_OK)
                socket_write(e, from);
            return st;
        }
    }
    /* Payloads arrive in the order in which they were requested. */
    if (f->kind == FRAME_PAYLOAD && p->expected.first != NULL &&
        p->expected.first->request[0] == f->id)
        return WEFT_OK;
    return socket_fail(err, WEFT_PEER, "rank %u: an invalid frame from rank %u (kind %u)",
                       e->rank, from, f->kind);
}

/* Returns where the next bytes go, and how many are missing there. */
static char *next_bytes(struct peer *p, size_t *missing)
{
    if (p->n_read < sizeof p->frame) {
        *missing = sizeof p->frame - p->n_read;
        return (char *)&p->frame + p->n_read;
    }
    size_t at = p->n_read - sizeof p->frame;
    *missing = (size_t)p->expected.first->received.bytes - at;
    return (char *)p->expected.first->data + at;
}

/* Handles n new bytes. */
static enum weft_status take_bytes(struct endpoint *e, uint32_t from, size_t n,
                                   struct weft_error *err)
{
    struct peer *p = &e->peers[from];
    size_t before = p->n_read;
    p->n_read += n;
    if (p->n_read < sizeof p->frame)
        return WEFT_OK;
    if (before < sizeof p->frame) {
        enum weft_status st = take_frame(e, from, err);
        if (st != WEFT_OK || p->frame.kind == FRAME_PAYLOAD)
            return st;
        p->n_read = 0;
        return WEFT_OK;
    }
    if (p->n_read - sizeof p->frame == p->expected.first->received.bytes) {
        take_first(&p->expected)->done = true;
        p->n_read = 0;
    }
    return WEFT_OK;
}

enum weft_status socket_read(struct endpoint *e, uint32_t from, struct weft_error *err)
{
    enum { MAX_READS = 256 }; /* reads from one peer before the next peer is served */
    struct peer *p = &e->peers[from];

    for (int i = 0; i < MAX_READS && p->at.data >= 0; i++) {
        size_t missing;
        char *to = next_bytes(p, &missing);
        ssize_t n = recv(p->at.data, to, missing, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WEFT_OK;
        if (n <= 0) { /* the peer has ended; the control socket shows whether it had failed */
            close(p->at.data);
            p->at.data = -1;
            return WEFT_OK;
        }

        enum weft_status st = take_bytes(e, from, (size_t)n, err);
        if (st != WEFT_OK)
            return st;
    }
    return WEFT_OK;
}

/* -- freeing ------------------------------------------------------------------------------- */

static void free_outputs(struct output *o)
{
    while (o != NULL) {
        struct output *next = o->next;
        free(o);
        o = next;
    }
}

static void free_arrivals(struct arrival *a)
{
    while (a != NULL) {
        struct arrival *next = a->next;
        free(a);
        a = next;
    }
}

void socket_free_data(struct endpoint *e)
{
    for (uint32_t r = 0; e->peers != NULL && r < e->n_ranks; r++) {
        free_outputs(e->peers[r].first_output);
        for (uint32_t c = 0; c < WEFT_N_CHANNELS; c++)
            free_arrivals(e->peers[r].channels[c].first_arrival);
    }
    free_outputs(e->outputs);
    free_arrivals(e->arrivals);
}
