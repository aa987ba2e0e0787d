/* Gather, broadcast and barrier over all ranks, implemented with messages. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "runtime/comm/blocking.h"
#include "runtime/comm/channels.h"
#include "runtime/comm/transport.h"

static enum weft_status gather_root(struct weft_comm *comm, const void *data, size_t bytes,
                                    void *const *at, const size_t *size, struct weft_error *err)
{
    struct weft_message *in = comm->gathered;
    if (bytes != 0 && at[0] != data)
        memcpy(at[0], data, bytes);
    for (uint32_t r = 1; r < comm->n_ranks; r++) {
        in[r] = (struct weft_message){.head = {.kind = WF_MESSAGE_GATHER},
                                      .peer = r,
                                      .channel = WF_COMM_CHANNEL_COLLECTIVE,
                                      .bytes = size == NULL ? 0 : size[r],
                                      .data = at == NULL ? NULL : at[r]};
        WEFT_TRY(weft_comm_post(comm, &in[r], err));
    }
    for (uint32_t r = 1; r < comm->n_ranks; r++) {
        WEFT_TRY(weft_comm_wait(comm, &in[r], err));
        if (in[r].bytes != 0 && in[r].data != at[r])
            memcpy(at[r], in[r].data, in[r].bytes);
        weft_comm_release(comm, &in[r]);
    }
    return WEFT_OK;
}

enum weft_status weft_comm_gather(struct weft_comm *comm, const void *data, size_t bytes,
                                  void *const *at, const size_t *size, struct weft_error *err)
{
    if (comm->rank == 0)
        return gather_root(comm, data, bytes, at, size, err);
    struct weft_message out = {.head = {.kind = WF_MESSAGE_GATHER},
                               .peer = 0,
                               .channel = WF_COMM_CHANNEL_COLLECTIVE,
                               .bytes = bytes,
                               .data = (void *)data};
    return wf_comm_send_blocking(comm, out, err);
}

enum weft_status weft_comm_gather_equal(struct weft_comm *comm, const void *data, size_t bytes,
                                        void *all, struct weft_error *err)
{
    if (comm == NULL) {
        memcpy(all, data, bytes);
        return WEFT_OK;
    }

    if (comm->rank != 0)
        return weft_comm_gather(comm, data, bytes, NULL, NULL, err);

    void **at = calloc(comm->n_ranks, sizeof *at);
    size_t *size = calloc(comm->n_ranks, sizeof *size);
    enum weft_status st = WEFT_OK;
    if (at == NULL || size == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to gather from %u ranks", comm->n_ranks);

    for (uint32_t r = 0; st == WEFT_OK && r < comm->n_ranks; r++) {
        at[r] = (char *)all + r * bytes;
        size[r] = bytes;
    }
    if (st == WEFT_OK)
        st = weft_comm_gather(comm, data, bytes, at, size, err);

    free(at);
    free(size);
    return st;
}

/* Broadcasts along a binary tree: rank r receives from rank (r - 1) / 2 and sends to ranks
 * 2r + 1 and 2r + 2. */
enum weft_status weft_comm_broadcast(struct weft_comm *comm, void *data, size_t bytes,
                                     struct weft_error *err)
{
    struct weft_message out[2];
    uint32_t n = 0;
    struct weft_message in = {.head = {.kind = WF_MESSAGE_BROADCAST},
                              .peer = (comm->rank - 1) / 2,
                              .channel = WF_COMM_CHANNEL_COLLECTIVE,
                              .bytes = bytes,
                              .data = data};

    if (comm->rank != 0)
        WEFT_TRY(wf_comm_receive_blocking(comm, in, err));

    for (uint32_t i = 1; i <= 2; i++) {
        uint64_t to = 2 * (uint64_t)comm->rank + i;
        if (to >= comm->n_ranks)
            break;
        out[n] = (struct weft_message){.head = {.kind = WF_MESSAGE_BROADCAST},
                                       .peer = (uint32_t)to,
                                       .channel = WF_COMM_CHANNEL_COLLECTIVE,
                                       .bytes = bytes,
                                       .data = data};
        WEFT_TRY(weft_comm_send(comm, &out[n], err));
        n++;
    }

    for (uint32_t i = 0; i < n; i++)
        WEFT_TRY(weft_comm_wait(comm, &out[i], err));
    return WEFT_OK;
}

enum weft_status weft_comm_barrier(struct weft_comm *comm, struct weft_error *err)
{
    WEFT_TRY(weft_comm_gather(comm, NULL, 0, NULL, NULL, err));
    return weft_comm_broadcast(comm, NULL, 0, err);
}
