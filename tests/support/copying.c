/* Implements the copying transport over the transport of threads: each message is copied into a
 * packet, which is sent instead of the message. */
#include "copying.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "runtime/comm/transport.h"

/* The packet that carries one message over the transport of threads. */
struct packet {
    struct weft_message inner;
    struct weft_message *outer; /* NULL once it is done */
    struct packet *next;
    void *copy; /* owned: for a send that completes at once */
};

struct endpoint {
    struct weft_comm *inner;
    enum copying how;
    struct packet *packets; /* owned: newest first */
};

static struct packet *new_packet(struct endpoint *c, struct weft_message *m)
{
    struct packet *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->inner = (struct weft_message){.head = m->head,
                                     .peer = m->peer,
                                     .channel = m->channel,
                                     .bytes = m->bytes,
                                     .up_to = m->up_to,
                                     .data = m->data};
    p->outer = m;
    p->next = c->packets;
    c->packets = p;
    return p;
}

static enum weft_status copying_send(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *c = self;
    struct packet *p = new_packet(c, m);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a packet");
    if (c->how == COPYING_SOME_EAGER &&
        wf_random_below(m->head.sequence, m->head.stage, m->head.micro, 2) == 0) {
        p->copy = malloc(m->bytes + 1);
        if (p->copy == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a packet");
        if (m->bytes > 0)
            memcpy(p->copy, m->data, m->bytes);
        p->inner.data = p->copy;
        p->outer = NULL;
        m->done = true;
    }
    return weft_comm_send(c->inner, &p->inner, err);
}

static enum weft_status copying_post(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *c = self;
    struct packet *p = new_packet(c, m);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a packet");
    return weft_comm_post(c->inner, &p->inner, err);
}

static enum weft_status finish(struct endpoint *c, struct packet *p, struct weft_error *err)
{
    WEFT_TRY(weft_comm_test(c->inner, &p->inner, err));
    if (!p->inner.done)
        return WEFT_OK;
    if (p->inner.posted) {
        if (p->inner.head.bytes > 0)
            memcpy(p->outer->data, p->inner.data, p->inner.head.bytes);
        p->outer->received = p->inner.received;
        /* The number of the inner message was checked. */
        p->outer->received.sequence = p->outer->head.sequence;
        weft_comm_release(c->inner, &p->inner);
    }
    p->outer->done = true;
    p->outer = NULL;
    return WEFT_OK;
}

/* Every call advances all messages. */
static enum weft_status copying_test(void *self, struct weft_message *m, struct weft_error *err)
{
    struct endpoint *c = self;
    (void)m;
    for (struct packet *p = c->packets; p != NULL; p = p->next)
        if (p->outer != NULL)
            WEFT_TRY(finish(c, p, err));
    return WEFT_OK;
}

static void copying_release(void *self, struct weft_message *m)
{
    (void)self;
    (void)m;
}

static void copying_rest(void *self, uint64_t round, int64_t ns)
{
    struct endpoint *c = self;
    c->inner->ops.rest(c->inner->self, round, ns);
}

static void copying_publish(void *self, const struct weft_activity *activity)
{
    struct endpoint *c = self;
    c->inner->ops.publish(c->inner->self, activity);
}

static void copying_inspect(void *self, uint32_t rank, struct weft_activity *activity,
                            int64_t *age_ns)
{
    struct endpoint *c = self;
    c->inner->ops.inspect(c->inner->self, rank, activity, age_ns);
}

static void copying_abort(void *self, const struct weft_error *err)
{
    struct endpoint *c = self;
    c->inner->ops.abort(c->inner->self, err);
}

static bool copying_aborted(void *self, struct weft_error *err)
{
    struct endpoint *c = self;
    return c->inner->ops.aborted(c->inner->self, err);
}

/* Waits until the other ranks have read the messages of this rank. */
static void copying_finish(void *self)
{
    struct endpoint *c = self;
    enum weft_status st = WEFT_OK;
    for (struct packet *p = c->packets; p != NULL && st == WEFT_OK; p = p->next)
        if (!p->inner.posted)
            st = weft_comm_wait(c->inner, &p->inner, NULL);
    while (c->packets != NULL) {
        struct packet *p = c->packets;
        c->packets = p->next;
        free(p->copy);
        free(p);
    }
    free(c);
}

static const struct weft_transport copying_transport = {
    .abi = WEFT_TRANSPORT_ABI,
    .name = "copying",
    .by_reference = false,
    .send = copying_send,
    .post = copying_post,
    .test = copying_test,
    .release = copying_release,
    .rest = copying_rest,
    .publish = copying_publish,
    .inspect = copying_inspect,
    .abort = copying_abort,
    .aborted = copying_aborted,
    .close = copying_finish,
};

enum weft_status copying_open(struct weft_comm *inner, enum copying how, struct weft_comm **out,
                              struct weft_error *err)
{
    struct endpoint *c = calloc(1, sizeof *c);
    if (c == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a transport");
    c->inner = inner;
    c->how = how;
    enum weft_status st = weft_comm_open(&copying_transport, c, inner->rank, inner->n_ranks,
                                         inner->run, out, err);
    if (st != WEFT_OK) {
        free(c);
        return st;
    }
    (*out)->timeout_ns = inner->timeout_ns;
    return WEFT_OK;
}

void copying_close(struct weft_comm *comm)
{
    weft_comm_close(comm);
}
