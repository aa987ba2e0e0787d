/* Cases about heartbeats, lost ranks and errors that must reach all ranks. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "conformance/conformance_priv.h"

/* A thread of a busy machine may lose the processor for a second. */
static const double timeout_s = 2.0;

static void sleep_ns(int64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (nanosleep(&t, &t) != 0)
        ; /* a signal interrupted the sleep */
}

/* -- long work ----------------------------------------------------------------------------- */

/* Rank 0 works for longer than the time-out, first in small pieces, then in one long piece, and
 * rank 1 waits for it; rank 1 itself has slept for longer than the time-out before. */
enum weft_status wf_case_busy(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint64_t value = 17;
    struct weft_message m = {.head = {.kind = 9},
                             .peer = 1 - weft_comm_rank(comm),
                             .channel = WEFT_USER_CHANNEL,
                             .bytes = sizeof value,
                             .data = &value};

    (void)arg;
    weft_comm_set_timeout(comm, 3.0);

    if (weft_comm_rank(comm) == 1) {
        sleep_ns(INT64_C(3500000000));
        WEFT_TRY(weft_comm_post(comm, &m, err));
        WEFT_TRY(weft_comm_wait(comm, &m, err));
        weft_comm_release(comm, &m);
        return WEFT_OK;
    }

    int64_t begin = wf_clock_ns();
    for (uint64_t i = 0; wf_clock_ns() - begin < INT64_C(4000000000); i++) {
        weft_comm_publish(comm, 0, i);
        sleep_ns(5000000);
    }
    while (wf_clock_ns() - begin < INT64_C(9000000000)) {
        weft_comm_heartbeat(comm);
        sleep_ns(5000000);
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

/* Rank 1 waits for a local condition for longer than the time-out, and the others
 * wait for it. */
enum weft_status wf_case_own_work(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    int64_t end = wf_clock_ns() + INT64_C(4000000000);
    (void)arg;
    weft_comm_set_timeout(comm, timeout_s);
    if (weft_comm_rank(comm) == 1)
        WEFT_TRY(weft_comm_wait_until(comm, UINT32_MAX, is_past, &end, err));
    return weft_comm_barrier(comm, err);
}

/* -- faults -------------------------------------------------------------------------------- */

static enum weft_status fail_rank(const struct weft_conformance_case *c, uint32_t rank,
                                  struct weft_error *err)
{
    *err = (struct weft_error){.status = c->status, .file = __FILE__, .line = __LINE__};
    snprintf(err->msg, sizeof err->msg, "%s (rank %u)", c->message, rank);
    return c->status;
}

/* Publishes activity 40 of step 5 long enough for every transport to send it. */
static void publish_work(struct weft_comm *comm)
{
    for (int64_t begin = wf_clock_ns(); wf_clock_ns() - begin < INT64_C(400000000);) {
        weft_comm_publish(comm, 5, 40);
        sleep_ns(5000000);
    }
}

static size_t bytes_of(enum wf_fault fault, size_t all)
{
    switch (fault) {
    case WF_FAULT_SHORT:
        return 4;
    case WF_FAULT_LONG:
    case WF_FAULT_MAXIMUM:
        return 16;
    case WF_FAULT_HUGE:
        return all;
    default:
        return 8;
    }
}

/* Sends a wrong message from rank 0 to rank 1, or sends none. */
static enum weft_status inject_fault(struct weft_comm *comm,
                                     const struct weft_conformance_case *c,
                                     struct weft_error *err)
{
    /* Static: outlives the messages of a failed rank. */
    static uint64_t values[5000000 / 8];
    enum wf_fault fault = (enum wf_fault)c->detail;
    struct weft_message m = {
        .head = {.kind = 1, .step = fault == WF_FAULT_STEP ? 6 : 5, .shape = "f32[2]"},
        .peer = 1,
        .channel = WEFT_USER_CHANNEL,
        .bytes = bytes_of(fault, sizeof values),
        .data = values};

    if (fault == WF_FAULT_SHAPE)
        memcpy(m.head.shape, "u64[1]", sizeof "u64[1]");

    if (fault == WF_FAULT_NEVER_SENDS) { /* waits for rank 1, which waits for rank 0 */
        WEFT_TRY(weft_comm_post(comm, &m, err));
        return weft_comm_wait(comm, &m, err);
    }
    if (fault == WF_FAULT_SLEEPS) {
        publish_work(comm);
        sleep_ns((int64_t)(timeout_s * 3e9));
    }

    WEFT_TRY(weft_comm_send(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    /* A transport that copies completes a send before the receiver finds the error. */
    return fault == WF_FAULT_FAILS_AT_END ? fail_rank(c, 0, err) : weft_comm_barrier(comm, err);
}

/* Receives a message of 8 bytes; `buffer` outlives the message also after an error. */
static enum weft_status receive_value(struct weft_comm *comm, uint32_t peer, bool up_to,
                                      uint64_t *buffer, struct weft_error *err)
{
    struct weft_message m = {.head = {.kind = 1, .step = 5, .shape = "f32[2]"},
                             .peer = peer,
                             .channel = WEFT_USER_CHANNEL,
                             .bytes = sizeof *buffer,
                             .up_to = up_to,
                             .data = buffer};
    WEFT_TRY(weft_comm_post(comm, &m, err));
    WEFT_TRY(weft_comm_wait(comm, &m, err));
    weft_comm_release(comm, &m);
    return WEFT_OK;
}

/* Checks that every later wait ends with the same error. */
static enum weft_status check_again(struct weft_comm *comm, uint32_t peer, enum weft_status st,
                                    struct weft_error *err)
{
    uint64_t buffer = 0;
    struct weft_error again = {.msg = ""};
    enum weft_status second = receive_value(comm, peer, false, &buffer, &again);
    if (second != st || strcmp(again.msg, err->msg) != 0)
        return WF_WRONG(err, "rank %u: a wait after the error returned status %d: %.200s",
                        weft_comm_rank(comm), (int)second, again.msg);
    return st;
}

static void describe_work(void *arg, uint32_t rank, uint64_t doing, char *out, size_t size)
{
    (void)arg;
    (void)rank;
    snprintf(out, size, "at action %llu", (unsigned long long)doing);
}

/* Fails on all ranks at the same time.  All ranks must then report the error of the same
 * rank. */
static enum weft_status fail_together(struct weft_comm *comm,
                                      const struct weft_conformance_case *c,
                                      struct weft_error *err)
{
    WEFT_TRY(weft_comm_barrier(comm, err));
    (void)fail_rank(c, weft_comm_rank(comm), err);
    weft_comm_abort(comm, err);
    if (weft_comm_progress(comm, err) == WEFT_OK)
        return WF_WRONG(err, "rank %u: there is no error after an abort", weft_comm_rank(comm));
    return c->status;
}

/* Runs a chain: rank 2 waits for rank 1, and rank 1 for rank 0. */
static enum weft_status wait_in_chain(struct weft_comm *comm,
                                      const struct weft_conformance_case *c,
                                      struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm);
    uint64_t buffer = 0;
    if (rank == 0 && c->detail != WF_FAULT_FAILS_1 && c->detail != WF_FAULT_FAILS_2)
        return inject_fault(comm, c, err);
    uint32_t peer = (rank + 2) % 3;
    enum weft_status st =
        receive_value(comm, peer, c->detail == WF_FAULT_MAXIMUM, &buffer, err);
    return st == WEFT_OK ? st : check_again(comm, peer, st, err);
}

enum weft_status wf_case_fault(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct weft_conformance_case *c = arg;
    uint32_t rank = weft_comm_rank(comm);
    enum wf_fault fault = (enum wf_fault)c->detail;
    if (fault == WF_FAULT_SLEEPS || fault == WF_FAULT_NEVER_SENDS || fault == WF_FAULT_KILLED)
        weft_comm_set_timeout(comm, timeout_s);
    weft_comm_describe(comm, describe_work, NULL);
    weft_comm_publish(comm, 5, 40 + rank);
    if (fault == WF_FAULT_ALL_FAIL)
        return fail_together(comm, c, err);
    if (fault >= WF_FAULT_FAILS_0 && fault <= WF_FAULT_FAILS_2 &&
        rank == c->detail - WF_FAULT_FAILS_0)
        return fail_rank(c, rank, err);
    if (fault == WF_FAULT_FAILS_AT_END && rank == 2)
        return WEFT_OK; /* rank 0 fails after this rank has finished */
    if (fault == WF_FAULT_KILLED && rank == 0)
        kill(getpid(), SIGKILL);
    return wait_in_chain(comm, c, err);
}
