/* Sends and receives sets of messages whose contents follow a formula. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/conformance_priv.h"

enum weft_status wf_conformance_wrong(struct weft_error *err, const char *file, int line,
                                      const char *format, ...)
{
    va_list list;
    if (err == NULL)
        return WEFT_INTERNAL;
    err->status = WEFT_INTERNAL;
    err->file = file;
    err->line = line;
    va_start(list, format);
    vsnprintf(err->msg, sizeof err->msg, format, list);
    va_end(list);
    return WEFT_INTERNAL;
}

unsigned char wf_conformance_byte(uint32_t rank, size_t k, size_t i)
{
    return (unsigned char)(i * 31 + (i >> 8) * 7 + k * 13 + rank * 101 + 1);
}

static size_t sum_of(const size_t *sizes, size_t n_sizes, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += sizes[i % n_sizes];
    return sum;
}

enum { UNTOUCHED = 0xEE };

/* Returns the buffer of receive i, which WF_EXCHANGE_SLACK bytes follow. */
static unsigned char *buffer_of(const struct wf_exchange *x, size_t i)
{
    size_t at = (size_t)((const unsigned char *)x->out[i].data - x->sent);
    return x->buffers + at + i * WF_EXCHANGE_SLACK;
}

enum weft_status wf_exchange_init(struct wf_exchange *x, size_t n, const size_t *sizes,
                                  size_t n_sizes, uint32_t rank, struct weft_error *err)
{
    size_t total = sum_of(sizes, n_sizes, n), at = 0;
    *x = (struct wf_exchange){.n = n,
                              .out = calloc(n, sizeof *x->out),
                              .in = calloc(n, sizeof *x->in),
                              .sent = malloc(total + 1),
                              .buffers = malloc(total + n * WF_EXCHANGE_SLACK + 1)};
    if (x->out == NULL || x->in == NULL || x->sent == NULL || x->buffers == NULL)
        return WF_WRONG(err, "rank %u: no memory for messages of %zu bytes", rank, total);

    memset(x->buffers, UNTOUCHED, total + n * WF_EXCHANGE_SLACK);

    for (size_t i = 0; i < n; i++) {
        size_t bytes = sizes[i % n_sizes];
        struct weft_message_header head = {.kind = 0x80000001u + (uint32_t)i,
                                           .stage = UINT32_MAX - (uint32_t)i,
                                           .micro = (uint32_t)i,
                                           .part = 0xA5A5A5A5u,
                                           .step = UINT64_MAX - i};
        x->out[i] = (struct weft_message){.head = head, .bytes = bytes, .data = x->sent + at};
        x->in[i] = (struct weft_message){.head = head, .bytes = bytes, .data = buffer_of(x, i)};

        for (size_t k = 0; k < bytes; k++)
            x->sent[at + k] = wf_conformance_byte(rank, i, k);
        at += bytes;
    }

    return WEFT_OK;
}

enum weft_status wf_exchange_end(struct wf_exchange *x, struct weft_comm *comm,
                                 enum weft_status st, struct weft_error *err)
{
    if (st != WEFT_OK)
        weft_comm_abort(comm, err);
    free(x->out);
    free(x->in);
    free(x->sent);
    free(x->buffers);
    return st;
}

enum weft_status wf_exchange_send(struct wf_exchange *x, struct weft_comm *comm,
                                  struct weft_error *err)
{
    for (size_t i = 0; i < x->n; i++)
        WEFT_TRY(weft_comm_send(comm, &x->out[i], err));
    return WEFT_OK;
}

enum weft_status wf_exchange_post(struct wf_exchange *x, struct weft_comm *comm,
                                  struct weft_error *err)
{
    for (size_t i = 0; i < x->n; i++)
        WEFT_TRY(weft_comm_post(comm, &x->in[i], err));
    return WEFT_OK;
}

/* Compares a payload with the formula, and checks that nothing was written
 * behind the buffer. */
static enum weft_status check_payload(const struct wf_exchange *x, struct weft_comm *comm,
                                      size_t i, struct weft_error *err)
{
    const struct weft_message *m = &x->in[i];
    const unsigned char *data = m->data, *end = buffer_of(x, i) + x->out[i].bytes;
    for (size_t k = 0; k < x->out[i].bytes; k++)
        if (data[k] != wf_conformance_byte(m->peer, i, k))
            return WF_WRONG(err,
                            "rank %u: byte %zu of message %zu from rank %u on channel %u is %u "
                            "(expected %u)",
                            weft_comm_rank(comm), k, i, m->peer, m->channel, data[k],
                            wf_conformance_byte(m->peer, i, k));
    for (size_t k = 0; k < WF_EXCHANGE_SLACK; k++)
        if (end[k] != UNTOUCHED)
            return WF_WRONG(err, "rank %u: the receive of message %zu wrote past its %zu bytes",
                            weft_comm_rank(comm), i, x->out[i].bytes);
    return WEFT_OK;
}

enum weft_status wf_exchange_take(struct wf_exchange *x, struct weft_comm *comm, size_t i,
                                  struct weft_error *err)
{
    struct weft_message *m = &x->in[i];
    size_t bytes = x->out[i].bytes;
    WEFT_TRY(weft_comm_wait(comm, m, err));
    if (m->head.bytes != bytes)
        return WF_WRONG(err, "rank %u: message %zu from rank %u has %llu bytes (expected %zu)",
                        weft_comm_rank(comm), i, m->peer, (unsigned long long)m->head.bytes,
                        bytes);
    if (bytes > 0 && (m->data == buffer_of(x, i)) == weft_comm_by_reference(comm))
        return WF_WRONG(err, "rank %u: message %zu is in the wrong memory (by_reference is %d)",
                        weft_comm_rank(comm), i, weft_comm_by_reference(comm));
    WEFT_TRY(check_payload(x, comm, i, err));
    weft_comm_release(comm, m);
    return WEFT_OK;
}

enum weft_status wf_exchange_flush(struct wf_exchange *x, struct weft_comm *comm,
                                   struct weft_error *err)
{
    for (size_t i = 0; i < x->n; i++)
        WEFT_TRY(weft_comm_wait(comm, &x->out[i], err));
    return WEFT_OK;
}
