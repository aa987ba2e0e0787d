/* Counts the bytes that a rank gives to its transport, whatever the transport is. */
#ifndef SUPPORT_WIRE_H
#define SUPPORT_WIRE_H

#include "runtime/comm/channels.h"
#include "runtime/comm/transport.h"

struct wire {
    uint64_t bytes[WEFT_N_CHANNELS]; /* payload by channel */
    enum weft_status (*send)(void *self, struct weft_message *m, struct weft_error *err);
};

/* Each rank is a thread or a process. */
static _Thread_local struct wire *wire_of_rank;

static inline enum weft_status wire_send(void *self, struct weft_message *m,
                                         struct weft_error *err)
{
    wire_of_rank->bytes[m->channel] += m->head.bytes;
    return wire_of_rank->send(self, m, err);
}

/* Counts in *wire what the calling rank sends through `comm` from now on. */
static inline void wire_count(struct weft_comm *comm, struct wire *wire)
{
    wire->send = comm->ops.send;
    comm->ops.send = wire_send;
    wire_of_rank = wire;
}

/* Ends counting. */
static inline void wire_release(struct weft_comm *comm)
{
    comm->ops.send = wire_of_rank->send;
    wire_of_rank = NULL;
}

#endif
