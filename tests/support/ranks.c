/* Implements the programs that every transport runs, and the injected faults. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"

/* -- a ring of ranks ------------------------------------------------------------------------ */

enum { ROUNDS = 200 };

static enum weft_status pass_number(struct weft_comm *comm, uint64_t i, uint64_t *got,
                                    struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    uint64_t value = i * n + rank, buffer = 0;
    struct weft_message out = {.head = {.kind = 7, .step = i},
                               .peer = (rank + 1) % n,
                               .channel = WEFT_USER_CHANNEL,
                               .bytes = sizeof value,
                               .data = &value};
    struct weft_message in = {.head = {.kind = 7, .step = i},
                              .peer = (rank + n - 1) % n,
                              .channel = WEFT_USER_CHANNEL,
                              .bytes = sizeof buffer,
                              .data = &buffer};
    WEFT_TRY(weft_comm_send(comm, &out, err));
    WEFT_TRY(weft_comm_post(comm, &in, err));
    WEFT_TRY(weft_comm_wait(comm, &in, err));
    memcpy(got, in.data, sizeof *got);
    /* Threads pass a reference; other transports copy. */
    if ((in.data == &buffer) == weft_comm_by_reference(comm))
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: the data are in the wrong buffer", rank);
    weft_comm_release(comm, &in);
    return weft_comm_wait(comm, &out, err);
}

enum weft_status ranks_ring(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint64_t n = weft_comm_size(comm), from = (weft_comm_rank(comm) + n - 1) % n, sum = 0;
    (void)arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t got = 0;
        WEFT_TRY(pass_number(comm, i, &got, err));
        sum += got;
    }
    uint64_t expected = n * ROUNDS * (ROUNDS - 1) / 2 + ROUNDS * from;
    if (sum != expected)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: the sum is %llu, expected %llu",
                         weft_comm_rank(comm), (unsigned long long)sum,
                         (unsigned long long)expected);
    return WEFT_OK;
}

/* -- gather, broadcast, barrier ---------------------------------------------------------------- */

enum weft_status ranks_collect(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    uint32_t own[8], all[8][8], total = 0;
    void *at[8];
    size_t size[8];
    (void)arg;
    for (uint32_t r = 0; r < n; r++) {
        own[r] = 100 * rank + r;
        at[r] = all[r];
        size[r] = r * sizeof own[0]; /* rank r sends r numbers */
    }
    WEFT_TRY(weft_comm_gather(comm, own, rank * sizeof own[0], at, size, err));
    for (uint32_t r = 0; rank == 0 && r < n; r++)
        for (uint32_t i = 0; i < r; i++)
            total += all[r][i];
    WEFT_TRY(weft_comm_broadcast(comm, &total, sizeof total, err));
    uint32_t expected = 0;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < r; i++)
            expected += 100 * r + i;
    if (total != expected)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: the total is %u, expected %u", rank,
                         total, expected);
    return weft_comm_barrier(comm, err);
}

/* -- messages of many sizes ----------------------------------------------------------------- */

static const size_t sizes[] = {0, 1, 64, 1000000, 0, 30000000, 3, 0};
enum { MAX_BYTES = 30000000 };

static unsigned char byte_of(uint32_t rank, size_t i)
{
    return (unsigned char)(i * 31 + (i >> 8) * 7 + rank * 101 + 1);
}

static enum weft_status check_bytes(struct weft_comm *comm, const struct weft_message *in,
                                    size_t bytes, struct weft_error *err)
{
    const unsigned char *data = in->data;
    if (in->head.bytes != bytes)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: received %llu bytes, expected %zu",
                         weft_comm_rank(comm), (unsigned long long)in->head.bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(in->peer, i))
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u: byte %zu of %zu is wrong",
                             weft_comm_rank(comm), i, bytes);
    return WEFT_OK;
}

/* Sends all messages at once; they arrive in order. */
static enum weft_status exchange(struct weft_comm *comm, unsigned char *own,
                                 unsigned char *const *buffer, bool up_to,
                                 struct weft_error *err)
{
    enum { N = sizeof sizes / sizeof sizes[0] };
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    struct weft_message out[N], in[N];
    for (size_t i = 0; i < N; i++) {
        in[i] = (struct weft_message){.head = {.kind = 3, .micro = (uint32_t)i},
                                      .peer = (rank + n - 1) % n,
                                      .channel = WEFT_USER_CHANNEL + 1,
                                      .bytes = up_to ? sizes[i] + 5 : sizes[i],
                                      .up_to = up_to,
                                      .data = buffer[i]};
        out[i] = (struct weft_message){.head = in[i].head,
                                       .peer = (rank + 1) % n,
                                       .channel = in[i].channel,
                                       .bytes = sizes[i],
                                       .data = own};
        WEFT_TRY(weft_comm_post(comm, &in[i], err));
    }
    for (size_t i = 0; i < N; i++)
        WEFT_TRY(weft_comm_send(comm, &out[i], err));
    for (size_t i = 0; i < N; i++) {
        WEFT_TRY(weft_comm_wait(comm, &in[i], err));
        WEFT_TRY(check_bytes(comm, &in[i], sizes[i], err));
        weft_comm_release(comm, &in[i]);
    }
    for (size_t i = 0; i < N; i++)
        WEFT_TRY(weft_comm_wait(comm, &out[i], err));
    return WEFT_OK;
}

enum weft_status ranks_sizes(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    unsigned char *own = malloc(MAX_BYTES), *buffer[WEFT_LEN(sizes)] = {0};
    bool allocated = own != NULL;
    (void)arg;
    for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
        buffer[i] = malloc(sizes[i] + 5);
        allocated = allocated && buffer[i] != NULL;
    }
    for (size_t i = 0; allocated && i < MAX_BYTES; i++)
        own[i] = byte_of(weft_comm_rank(comm), i);
    enum weft_status st =
        allocated ? WEFT_OK : WEFT_FAIL(err, WEFT_NOMEM, "no memory for the messages");
    if (st == WEFT_OK)
        st = exchange(comm, own, buffer, false, err);
    if (st == WEFT_OK)
        st = exchange(comm, own, buffer, true, err);
    if (st != WEFT_OK) /* before freeing memory that others may be sending to */
        weft_comm_abort(comm, err);
    for (size_t i = 0; i < WEFT_LEN(sizes); i++)
        free(buffer[i]);
    free(own);
    return st;
}

/* -- long work ------------------------------------------------------------------------------ */

enum weft_status ranks_busy(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct timespec moment = {0, 5000000}, long_time = {3, 500000000};
    uint64_t value = 17;
    struct weft_message m = {.head = {.kind = 9},
                             .peer = 1 - weft_comm_rank(comm),
                             .channel = WEFT_USER_CHANNEL,
                             .bytes = sizeof value,
                             .data = &value};
    (void)arg;
    weft_comm_set_timeout(comm, 3.0); /* a thread may lose the processor for a second */
    if (weft_comm_rank(comm) == 1) {
        nanosleep(&long_time, NULL);
        WEFT_TRY(weft_comm_post(comm, &m, err));
        WEFT_TRY(weft_comm_wait(comm, &m, err));
        weft_comm_release(comm, &m);
        return WEFT_OK;
    }

    /* Rank 0 works for longer still: in small pieces, then in one long piece. */
    int64_t begin = wf_clock_ns();
    for (uint64_t i = 0; wf_clock_ns() - begin < INT64_C(4000000000); i++) {
        weft_comm_publish(comm, 0, i);
        nanosleep(&moment, NULL);
    }
    while (wf_clock_ns() - begin < INT64_C(9000000000)) {
        weft_comm_heartbeat(comm);
        nanosleep(&moment, NULL);
    }
    WEFT_TRY(weft_comm_send(comm, &m, err));
    return weft_comm_wait(comm, &m, err);
}

static enum weft_status is_past(void *arg, bool *yes, struct weft_error *err)
{
    (void)err;
    *yes = wf_clock_ns() > *(const int64_t *)arg;
    return WEFT_OK;
}

enum weft_status ranks_own_work(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    int64_t end = wf_clock_ns() + INT64_C(2500000000);
    (void)arg;
    weft_comm_set_timeout(comm, 1.0);
    if (weft_comm_rank(comm) == 1)
        WEFT_TRY(weft_comm_wait_until(comm, UINT32_MAX, is_past, &end, err));
    return weft_comm_barrier(comm, err);
}

/* -- faults --------------------------------------------------------------------------------- */

const struct ranks_fault ranks_faults[] = {
    {"wrong step", WEFT_PEER, "has step 6 (expected 5", 3},
    {"too short", WEFT_PEER, "has number of bytes 4 (expected 8", 3},
    {"too long", WEFT_PEER, "has number of bytes 16 (expected 8", 3},
    {"much too long", WEFT_PEER, "has number of bytes 5000000 (expected 8", 3},
    {"fails", WEFT_NUMERIC, "something is not finite", 3},
    {"sleeps", WEFT_PEER, "rank 0 has sent no heartbeat", 2},
    {"never sends", WEFT_PEER, "form a cycle", 3},
    {"fails at the end", WEFT_NUMERIC, "something is not finite", 3},
};
const size_t ranks_n_faults = WEFT_LEN(ranks_faults);

static bool is(const struct ranks_fault *c, const char *name)
{
    return strcmp(c->name, name) == 0;
}

static enum weft_status inject_fault(struct weft_comm *comm, const struct ranks_fault *c,
                                     struct weft_error *err)
{
    static uint64_t values[5000000 / 8]; /* static: outlives the messages of a failed rank */
    struct weft_message out = {.head = {.kind = 1, .step = is(c, "wrong step") ? 6 : 5},
                               .peer = 1,
                               .channel = WEFT_USER_CHANNEL,
                               .bytes = is(c, "too short")       ? 4
                                        : is(c, "too long")      ? 16
                                        : is(c, "much too long") ? sizeof values
                                                                 : sizeof values[0],
                               .data = values};
    if (is(c, "fails"))
        return WEFT_FAIL(err, WEFT_NUMERIC, "something is not finite");
    if (is(c, "sleeps"))
        nanosleep(&(struct timespec){3, 0}, NULL);
    if (is(c, "never sends")) { /* waits for a message that is never sent */
        WEFT_TRY(weft_comm_post(comm, &out, err));
        return weft_comm_wait(comm, &out, err);
    }
    WEFT_TRY(weft_comm_send(comm, &out, err));
    WEFT_TRY(weft_comm_wait(comm, &out, err));
    if (is(c, "fails at the end"))
        return WEFT_FAIL(err, WEFT_NUMERIC, "something is not finite");
    return WEFT_OK;
}

static void describe_work(void *arg, uint32_t rank, uint64_t doing, char *out, size_t size)
{
    (void)arg;
    (void)rank;
    snprintf(out, size, "at action %llu", (unsigned long long)doing);
}

/* Rank 0 injects the fault, rank 1 waits for rank 0, rank 2 waits for rank 1. */
enum weft_status ranks_faulty(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct ranks_fault *c = arg;
    uint32_t rank = weft_comm_rank(comm);
    uint64_t buffer;
    weft_comm_set_timeout(comm,
                          1.0); /* healthy ranks may lose the processor for half a second */
    weft_comm_describe(comm, describe_work, NULL);
    weft_comm_publish(comm, 5, 40 + rank);
    if (rank == 0)
        return inject_fault(comm, c, err);
    if (is(c, "fails at the end") && rank == 2)
        return WEFT_OK; /* rank 0 fails after this rank has finished */
    struct weft_message in = {.head = {.kind = 1, .step = 5},
                              .peer = rank - 1,
                              .channel = WEFT_USER_CHANNEL,
                              .bytes = sizeof buffer,
                              .data = &buffer};
    WEFT_TRY(weft_comm_post(comm, &in, err));
    WEFT_TRY(weft_comm_wait(comm, &in, err));
    weft_comm_release(comm, &in);
    return WEFT_OK;
}
