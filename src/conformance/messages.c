/* Cases about messages: contents, sizes, order, channels, many pending messages. */
#include "conformance/conformance_priv.h"

static uint32_t next_rank(struct weft_comm *comm)
{
    return (weft_comm_rank(comm) + 1) % weft_comm_size(comm);
}

static uint32_t previous_rank(struct weft_comm *comm)
{
    return (weft_comm_rank(comm) + weft_comm_size(comm) - 1) % weft_comm_size(comm);
}

/* Sends all messages to the next rank on one channel. */
static void use_ring(struct wf_exchange *x, struct weft_comm *comm, uint32_t channel)
{
    for (size_t i = 0; i < x->n; i++) {
        x->out[i].peer = next_rank(comm);
        x->in[i].peer = previous_rank(comm);
        x->out[i].channel = x->in[i].channel = channel;
    }
}

/* -- a ring of ranks ----------------------------------------------------------------------- */

enum { ROUNDS = 200 };

static enum weft_status pass_number(struct weft_comm *comm, uint64_t i, uint64_t *got,
                                    struct weft_error *err)
{
    uint64_t value = i * weft_comm_size(comm) + weft_comm_rank(comm), buffer = 0;
    struct weft_message out = {.head = {.kind = 7, .step = i},
                               .peer = next_rank(comm),
                               .channel = WEFT_USER_CHANNEL,
                               .bytes = sizeof value,
                               .data = &value};
    struct weft_message in = out;
    in.peer = previous_rank(comm);
    in.data = &buffer;
    WEFT_TRY(weft_comm_send(comm, &out, err));
    WEFT_TRY(weft_comm_post(comm, &in, err));
    WEFT_TRY(weft_comm_wait(comm, &in, err));
    *got = *(const uint64_t *)in.data;
    weft_comm_release(comm, &in);
    return weft_comm_wait(comm, &out, err);
}

enum weft_status wf_case_ring(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint64_t n = weft_comm_size(comm), sum = 0;
    (void)arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t got = 0;
        WEFT_TRY(pass_number(comm, i, &got, err));
        sum += got;
    }
    uint64_t expected = n * ROUNDS * (ROUNDS - 1) / 2 + ROUNDS * previous_rank(comm);
    if (sum != expected)
        return WF_WRONG(err, "rank %u: the sum is %llu (expected %llu)", weft_comm_rank(comm),
                        (unsigned long long)sum, (unsigned long long)expected);
    return WEFT_OK;
}

/* -- sizes --------------------------------------------------------------------------------- */

/* Sends messages of all sizes at once, so that large messages travel in both directions; in one
 * round the receives state the exact sizes, in the other one maximum sizes. */
static enum weft_status exchange_sizes(struct weft_comm *comm, bool up_to,
                                       struct weft_error *err)
{
    static const size_t sizes[] = {0, 1, 64, 1000000, 0, 30000000, 3, 0};
    struct wf_exchange x;
    enum weft_status st = wf_exchange_init(&x, WEFT_LEN(sizes), sizes, WEFT_LEN(sizes),
                                           weft_comm_rank(comm), err);
    if (st == WEFT_OK) {
        use_ring(&x, comm, WEFT_USER_CHANNEL + 1);
        for (size_t i = 0; i < x.n && up_to; i++) {
            x.in[i].up_to = true;
            x.in[i].bytes += WF_EXCHANGE_SLACK;
        }
        st = wf_exchange_post(&x, comm, err);
    }
    if (st == WEFT_OK)
        st = wf_exchange_send(&x, comm, err);
    for (size_t i = 0; st == WEFT_OK && i < x.n; i++)
        st = wf_exchange_take(&x, comm, i, err);
    if (st == WEFT_OK)
        st = wf_exchange_flush(&x, comm, err);
    return wf_exchange_end(&x, comm, st, err);
}

enum weft_status wf_case_sizes(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    WEFT_TRY(exchange_sizes(comm, false, err));
    return exchange_sizes(comm, true, err);
}

/* -- order --------------------------------------------------------------------------------- */

static enum weft_status exchange_in_order(struct weft_comm *comm, bool sends_first,
                                          struct weft_error *err)
{
    static const size_t sizes[] = {8, 0, 1000, 1, 0, 70000, 3};
    enum { N = 300 };
    struct wf_exchange x;
    enum weft_status st =
        wf_exchange_init(&x, N, sizes, WEFT_LEN(sizes), weft_comm_rank(comm), err);
    if (st == WEFT_OK) {
        use_ring(&x, comm, WEFT_USER_CHANNEL);
        st = sends_first ? wf_exchange_send(&x, comm, err) : wf_exchange_post(&x, comm, err);
    }
    if (st == WEFT_OK) /* every rank has finished the first half */
        st = weft_comm_barrier(comm, err);
    if (st == WEFT_OK)
        st = sends_first ? wf_exchange_post(&x, comm, err) : wf_exchange_send(&x, comm, err);
    for (size_t i = N; st == WEFT_OK && i-- > 0;) /* the last message first */
        st = wf_exchange_take(&x, comm, i, err);
    if (st == WEFT_OK)
        st = wf_exchange_flush(&x, comm, err);
    return wf_exchange_end(&x, comm, st, err);
}

enum weft_status wf_case_order(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    WEFT_TRY(exchange_in_order(comm, true, err));
    return exchange_in_order(comm, false, err);
}

/* -- channels ------------------------------------------------------------------------------ */

/* Sends two messages on every channel to every rank, also to itself: the highest channel first.
 * The receives are posted from the lowest channel on, and completed in another order. */
enum weft_status wf_case_channels(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    static const size_t sizes[] = {16, 5};
    uint32_t n_ranks = weft_comm_size(comm);
    size_t n = (size_t)n_ranks * WEFT_N_CHANNELS * 2;
    struct wf_exchange x;
    (void)arg;
    enum weft_status st =
        wf_exchange_init(&x, n, sizes, WEFT_LEN(sizes), weft_comm_rank(comm), err);

    for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        uint32_t rank = weft_comm_rank(comm), distance = (uint32_t)(i / 2 % n_ranks);
        x.out[i].peer = (rank + distance) % n_ranks;
        x.in[i].peer = (rank + n_ranks - distance) % n_ranks;
        x.out[i].channel = x.in[i].channel = (uint32_t)(i / 2 / n_ranks);
    }

    /* Sends the pairs in reverse order and receives them in another order. */
    for (size_t i = n / 2; st == WEFT_OK && i-- > 0;) {
        st = weft_comm_send(comm, &x.out[2 * i], err);
        if (st == WEFT_OK)
            st = weft_comm_send(comm, &x.out[2 * i + 1], err);
    }

    if (st == WEFT_OK)
        st = wf_exchange_post(&x, comm, err);
    for (size_t i = 0; st == WEFT_OK && i < n; i++) /* 1009 is a prime number */
        st = wf_exchange_take(&x, comm, i * 1009 % n, err);

    if (st == WEFT_OK)
        st = wf_exchange_flush(&x, comm, err);
    return wf_exchange_end(&x, comm, st, err);
}

/* Messages that the receiver does not expect yet must not delay messages on another
 * channel: each rank posts the receives of channel A only after a message on channel B
 * that follows them. */
enum weft_status wf_case_late(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    static const size_t sizes[] = {1000000};
    enum { N = 9 };
    struct wf_exchange x;
    (void)arg;
    enum weft_status st =
        wf_exchange_init(&x, N, sizes, WEFT_LEN(sizes), weft_comm_rank(comm), err);

    if (st == WEFT_OK) {
        use_ring(&x, comm, WEFT_USER_CHANNEL);
        x.out[N - 1].channel = x.in[N - 1].channel = WEFT_USER_CHANNEL + 1;
        st = wf_exchange_send(&x, comm, err);
    }

    /* The last message arrives although the receives of the earlier ones are missing. */
    if (st == WEFT_OK)
        st = weft_comm_post(comm, &x.in[N - 1], err);
    if (st == WEFT_OK)
        st = wf_exchange_take(&x, comm, N - 1, err);

    for (size_t i = 0; st == WEFT_OK && i < N - 1; i++)
        st = weft_comm_post(comm, &x.in[i], err);
    for (size_t i = 0; st == WEFT_OK && i < N - 1; i++)
        st = wf_exchange_take(&x, comm, i, err);

    if (st == WEFT_OK)
        st = wf_exchange_flush(&x, comm, err);
    return wf_exchange_end(&x, comm, st, err);
}

/* -- many posted receives ------------------------------------------------------------------ */

struct arrivals {
    struct weft_comm *comm;
    struct wf_exchange *x;
    size_t first; /* all receives before this one are done */
};

/* Tests the receives in turn; they complete in the order in which they were posted. */
static enum weft_status all_arrived(void *arg, bool *yes, struct weft_error *err)
{
    struct arrivals *p = arg;
    while (p->first < p->x->n) {
        struct weft_message *m = &p->x->in[p->first];
        WEFT_TRY(weft_comm_test(p->comm, m, err));
        if (!m->done)
            return WEFT_OK;
        p->first++;
    }
    *yes = true;
    return WEFT_OK;
}

enum weft_status wf_case_posted(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    static const size_t sizes[] = {40, 4, 400};
    enum { N = 2000, CHANNELS = 4 };
    struct wf_exchange x;
    struct arrivals p = {comm, &x, 0};
    (void)arg;
    enum weft_status st =
        wf_exchange_init(&x, N, sizes, WEFT_LEN(sizes), weft_comm_rank(comm), err);

    if (st == WEFT_OK) {
        use_ring(&x, comm, WEFT_USER_CHANNEL);
        for (size_t i = 0; i < N; i++)
            x.out[i].channel = x.in[i].channel = WEFT_USER_CHANNEL + i % CHANNELS;
        st = wf_exchange_post(&x, comm, err);
    }

    if (st == WEFT_OK)
        st = wf_exchange_send(&x, comm, err);
    if (st == WEFT_OK)
        st = weft_comm_wait_until(comm, previous_rank(comm), all_arrived, &p, err);

    for (size_t i = 0; st == WEFT_OK && i < N; i++)
        st = wf_exchange_take(&x, comm, i, err);
    if (st == WEFT_OK)
        st = wf_exchange_flush(&x, comm, err);
    return wf_exchange_end(&x, comm, st, err);
}
