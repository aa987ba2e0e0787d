/* Cases about the reuse of memory, progress during waits, collectives and the end of a rank. */
#include <string.h>
#include <time.h>

#include "conformance/conformance_priv.h"

static struct weft_message make_message(uint32_t peer, uint32_t channel, void *data,
                                        size_t bytes)
{
    return (struct weft_message){
        .head = {.kind = 11}, .peer = peer, .channel = channel, .data = data, .bytes = bytes};
}

static enum weft_status send_now(struct weft_comm *comm, uint32_t peer, uint32_t channel,
                                 void *data, size_t bytes, struct weft_error *err)
{
    struct weft_message m = make_message(peer, channel, data, bytes);
    WEFT_TRY(weft_comm_send(comm, &m, err));
    return weft_comm_wait(comm, &m, err);
}

static enum weft_status receive_now(struct weft_comm *comm, uint32_t peer, uint32_t channel,
                                    void *data, size_t bytes, struct weft_error *err)
{
    struct weft_message m = make_message(peer, channel, data, bytes);
    WEFT_TRY(weft_comm_post(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    if (m.data != data && bytes > 0)
        memcpy(data, m.data, bytes);
    weft_comm_release(comm, &m);
    return WEFT_OK;
}

/* -- memory -------------------------------------------------------------------------------- */

enum { WORDS = 30000 };

static enum weft_status check_words(struct weft_comm *comm, const uint32_t *words,
                                    uint32_t first, const char *when, struct weft_error *err)
{
    for (uint32_t i = 0; i < WORDS; i++)
        if (words[i] != first + i)
            return WF_WRONG(err, "rank %u: word %u is %u (expected %u) %s",
                            weft_comm_rank(comm), i, words[i], first + i, when);
    return WEFT_OK;
}

static void fill_words(uint32_t *words, uint32_t first)
{
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = first + i;
}

/* Sends the memory of rank 0, and overwrites it as soon as the send is complete. */
static enum weft_status overwrite_sent(struct weft_comm *comm, uint32_t *words,
                                       struct weft_error *err)
{
    struct weft_message m = make_message(1, WEFT_USER_CHANNEL, words, WORDS * sizeof words[0]);
    fill_words(words, 1);
    WEFT_TRY(weft_comm_send(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    /* By reference, the receiver has changed the memory before it released it. */
    WEFT_TRY(check_words(comm, words, weft_comm_by_reference(comm) ? 5000000 : 1,
                         "after the send", err));
    fill_words(words, 9000000);
    return send_now(comm, 1, WEFT_USER_CHANNEL + 1, NULL, 0,
                    err); /* the memory is overwritten now */
}

/* Changes what rank 1 received.  By reference it then releases the memory of rank 0;
 * otherwise it keeps a copy that rank 0 cannot change. */
static enum weft_status change_received(struct weft_comm *comm, uint32_t *words,
                                        struct weft_error *err)
{
    struct weft_message m = make_message(0, WEFT_USER_CHANNEL, words, WORDS * sizeof words[0]);
    WEFT_TRY(weft_comm_post(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    WEFT_TRY(check_words(comm, m.data, 1, "on arrival", err));
    if (weft_comm_by_reference(comm)) {
        fill_words(m.data, 5000000);
        weft_comm_release(comm, &m);
        return receive_now(comm, 0, WEFT_USER_CHANNEL + 1, NULL, 0, err);
    }
    WEFT_TRY(receive_now(comm, 0, WEFT_USER_CHANNEL + 1, NULL, 0, err));
    WEFT_TRY(check_words(comm, words, 1, "after the sender reused its memory", err));
    weft_comm_release(comm, &m);
    return WEFT_OK;
}

enum weft_status wf_case_reuse(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t words[WORDS];
    (void)arg;
    for (int i = 0; i < 3; i++)
        WEFT_TRY(weft_comm_rank(comm) == 0 ? overwrite_sent(comm, words, err)
                                           : change_received(comm, words, err));
    return WEFT_OK;
}

/* -- progress ------------------------------------------------------------------------------ */

enum { ANSWER_BYTES = 200000 };

struct replier {
    struct weft_comm *comm;
    struct weft_message question, reply;
    bool answered;
    unsigned char data[ANSWER_BYTES];
};

static enum weft_status answer_question(void *arg, struct weft_error *err)
{
    struct replier *a = arg;
    if (!a->question.done)
        WEFT_TRY(weft_comm_test(a->comm, &a->question, err));
    if (!a->question.done || a->answered)
        return WEFT_OK;
    a->answered = true;
    weft_comm_release(a->comm, &a->question);
    memset(a->data, 77, sizeof a->data);
    a->reply = make_message(1, WEFT_USER_CHANNEL, a->data, sizeof a->data);
    return weft_comm_send(a->comm, &a->reply, err);
}

static enum weft_status wait_and_answer(struct weft_comm *comm, struct replier *a,
                                        struct weft_error *err)
{
    uint32_t number = 0;
    a->question = make_message(1, WEFT_USER_CHANNEL, NULL, 0);
    WEFT_TRY(weft_comm_post(comm, &a->question, err));
    weft_comm_on_progress(comm, answer_question, a);
    enum weft_status st =
        receive_now(comm, 2, WEFT_USER_CHANNEL + 1, &number, sizeof number, err);
    weft_comm_on_progress(comm, NULL, NULL);
    if (st == WEFT_OK && (!a->answered || number != 42))
        st = WF_WRONG(err, "rank 0: the number is %u (expected 42)", number);
    if (st == WEFT_OK)
        st = weft_comm_wait(comm, &a->reply, err);
    return st;
}

/* Rank 0 waits for rank 2, which waits for rank 1, which waits for a large answer that rank 0
 * sends from its progress function during its wait. */
enum weft_status wf_case_progress(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct replier a = {.comm = comm};
    uint32_t number = 42;
    (void)arg;
    if (weft_comm_rank(comm) == 0)
        return wait_and_answer(comm, &a, err);
    if (weft_comm_rank(comm) == 1) {
        WEFT_TRY(send_now(comm, 0, WEFT_USER_CHANNEL, NULL, 0, err));
        WEFT_TRY(receive_now(comm, 0, WEFT_USER_CHANNEL, a.data, sizeof a.data, err));
        if (a.data[0] != 77 || a.data[ANSWER_BYTES - 1] != 77)
            return WF_WRONG(err, "rank 1: the answer is wrong");
        return send_now(comm, 2, WEFT_USER_CHANNEL, NULL, 0, err);
    }
    WEFT_TRY(receive_now(comm, 1, WEFT_USER_CHANNEL, NULL, 0, err));
    return send_now(comm, 0, WEFT_USER_CHANNEL + 1, &number, sizeof number, err);
}

/* -- collectives --------------------------------------------------------------------------- */

enum { MAX_RANKS = 8 };

/* Gathers r numbers from rank r, and broadcasts their sum. */
enum weft_status wf_case_collectives(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), n = weft_comm_size(comm);
    uint32_t own[MAX_RANKS], all[MAX_RANKS][MAX_RANKS], total = 0, expected = 0;
    void *at[MAX_RANKS];
    size_t size[MAX_RANKS];
    (void)arg;

    for (uint32_t r = 0; r < n; r++) {
        own[r] = 100 * rank + r;
        at[r] = all[r];
        size[r] = r * sizeof own[0];
    }
    WEFT_TRY(weft_comm_gather(comm, own, rank * sizeof own[0], at, size, err));

    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < r; i++) {
            expected += 100 * r + i;
            if (rank == 0)
                total += all[r][i];
        }

    WEFT_TRY(weft_comm_broadcast(comm, &total, sizeof total, err));
    if (total != expected)
        return WF_WRONG(err, "rank %u: the total is %u (expected %u)", rank, total, expected);
    return weft_comm_barrier(comm, err);
}

/* -- the end of a rank --------------------------------------------------------------------- */

/* Rank 0 ends at once, while the other ranks still exchange messages. */
enum weft_status wf_case_early_end(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), other = 3 - rank, got = 0;
    (void)arg;
    if (rank == 0)
        return WEFT_OK;
    nanosleep(&(struct timespec){0, 300000000}, NULL);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t value = 10 * i + rank;
        WEFT_TRY(rank == 1
                     ? send_now(comm, other, WEFT_USER_CHANNEL, &value, sizeof value, err)
                     : receive_now(comm, other, WEFT_USER_CHANNEL, &got, sizeof got, err));
        WEFT_TRY(rank == 2
                     ? send_now(comm, other, WEFT_USER_CHANNEL, &value, sizeof value, err)
                     : receive_now(comm, other, WEFT_USER_CHANNEL, &got, sizeof got, err));
        if (got != 10 * i + other)
            return WF_WRONG(err, "rank %u: received %u (expected %u)", rank, got,
                            10 * i + other);
    }
    return WEFT_OK;
}
