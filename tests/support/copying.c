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
    struct weft_comm base; /* first: ops get a pointer to it */
    struct weft_comm *inner;
    enum copying how;
    struct packet *packets; /* owned: newest first */
};

static struct endpoint *of(struct weft_comm *comm)
{
    return (struct endpoint *)comm;
}

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

static enum weft_status copying_send(struct weft_comm *comm, struct weft_message *m,
                                     struct weft_error *err)
{
    struct endpoint *c = of(comm);
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

static enum weft_status copying_post(struct weft_comm *comm, struct weft_message *m,
                                     struct weft_error *err)
{
    struct packet *p = new_packet(of(comm), m);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a packet");
    return weft_comm_post(of(comm)->inner, &p->inner, err);
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
        p->outer->received.sequence = p->outer->head.sequence; /* the inner one was checked */
        weft_comm_release(c->inner, &p->inner);
    }
    p->outer->done = true;
    p->outer = NULL;
    return WEFT_OK;
}

/* Every call advances all messages. */
static enum weft_status copying_test(struct weft_comm *comm, struct weft_message *m,
                                     struct weft_error *err)
{
    struct endpoint *c = of(comm);
    (void)m;
    for (struct packet *p = c->packets; p != NULL; p = p->next)
        if (p->outer != NULL)
            WEFT_TRY(finish(c, p, err));
    return WEFT_OK;
}

static void copying_release(struct weft_comm *comm, struct weft_message *m)
{
    (void)comm;
    (void)m;
}

static void copying_rest(struct weft_comm *comm, uint64_t round, int64_t ns)
{
    of(comm)->inner->ops->rest(of(comm)->inner, round, ns);
}

static void copying_publish(struct weft_comm *comm, const struct weft_activity *activity,
                            bool now)
{
    of(comm)->inner->ops->publish(of(comm)->inner, activity, now);
}

static void copying_inspect(struct weft_comm *comm, uint32_t rank,
                            struct weft_activity *activity, int64_t *age_ns)
{
    of(comm)->inner->ops->inspect(of(comm)->inner, rank, activity, age_ns);
}

static void copying_abort(struct weft_comm *comm, const struct weft_error *err)
{
    of(comm)->inner->ops->abort(of(comm)->inner, err);
}

static bool copying_aborted(struct weft_comm *comm, struct weft_error *err)
{
    return of(comm)->inner->ops->aborted(of(comm)->inner, err);
}

/* Waits until the other ranks have read the messages of this rank. */
static void copying_finish(struct weft_comm *comm)
{
    struct endpoint *c = of(comm);
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
    wf_comm_base_release(comm);
    free(c);
}

static const struct wf_comm_ops copying_ops = {
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
    c->base = (struct weft_comm){
        .ops = &copying_ops, .rank = inner->rank, .n_ranks = inner->n_ranks, .run = inner->run};
    c->inner = inner;
    c->how = how;
    enum weft_status st = wf_comm_base_init(&c->base, err);
    if (st != WEFT_OK) {
        free(c);
        return st;
    }
    c->base.timeout_ns = inner->timeout_ns;
    *out = &c->base;
    return WEFT_OK;
}

void copying_close(struct weft_comm *comm)
{
    if (comm != NULL)
        comm->ops->close(comm);
}
