/* Checks the rules of memory that other ranks may read: it outlives every error of its rank, and
 * a function of comm that fails has aborted all ranks. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "runtime/comm/ownership.h"
#include "weft/transport.h"

/* -- ranks as threads ---------------------------------------------------------------------- */

/* An object with a message in flight. */
struct lender {
    struct weft_message out;
    char data[64];
    struct wf_disposal disposal;
};

static atomic_bool disposed, freed;

static void free_lender(void *lender)
{
    memset(lender, 0xa5, sizeof(struct lender)); /* a later read finds no message */
    free(lender);
    atomic_store(&freed, true);
}

/* Sends a message, disposes of its memory and fails, as a rank does whose disk fails. */
static enum weft_status lend_and_fail(struct weft_comm *comm, struct weft_error *err)
{
    struct lender *x = calloc(1, sizeof *x);
    assert_non_null(x);
    strcpy(x->data, "still here");
    x->out = (struct weft_message){.head = {.kind = 77},
                                   .peer = 0,
                                   .channel = WEFT_USER_CHANNEL,
                                   .data = x->data,
                                   .bytes = sizeof x->data};
    x->disposal = (struct wf_disposal){.free_object = free_lender, .object = x};
    wf_comm_lend(comm);
    WEFT_TRY(weft_comm_send(comm, &x->out, err));
    wf_comm_dispose(comm, &x->disposal);
    atomic_store(&disposed, true);
    return WEFT_FAIL(err, WEFT_IO, "the disk of rank 1 failed");
}

/* Receives the message after its sender has disposed of it. */
static enum weft_status receive_late(struct weft_comm *comm, struct weft_error *err)
{
    char data[64] = "";
    struct weft_message in = {.head = {.kind = 77},
                              .peer = 1,
                              .channel = WEFT_USER_CHANNEL,
                              .data = data,
                              .bytes = sizeof data};
    while (!atomic_load(&disposed))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_false(atomic_load(&freed));

    WEFT_TRY(weft_comm_post(comm, &in, err));
    WEFT_TRY(weft_comm_wait(comm, &in, err));
    assert_string_equal(in.data, "still here");
    weft_comm_release(comm, &in);
    return weft_comm_barrier(comm, err);
}

static enum weft_status fail_with_a_loan(struct weft_comm *comm, void *arg,
                                         struct weft_error *err)
{
    (void)arg;
    return weft_comm_rank(comm) == 1 ? lend_and_fail(comm, err) : receive_late(comm, err);
}

static void test_lent_memory_outlives_its_rank(void **state)
{
    struct weft_error err = {0};
    (void)state;
    atomic_store(&disposed, false);
    atomic_store(&freed, false);
    assert_int_equal(weft_comm_run_threads(2, fail_with_a_loan, NULL, &err), WEFT_IO);
    assert_string_equal(err.msg, "the disk of rank 1 failed");
    assert_true(atomic_load(&freed));
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

static enum weft_status dispose_without_a_loan(struct weft_comm *comm, void *arg,
                                               struct weft_error *err)
{
    bool first = false, second = false;
    struct wf_disposal a = {.free_object = set_flag, .object = &first};
    struct wf_disposal b = {.free_object = set_flag, .object = &second};
    (void)arg;
    (void)err;
    wf_comm_dispose(comm, &a);
    assert_true(first);
    wf_comm_lend(comm);
    wf_comm_end_loan(comm);
    wf_comm_dispose(comm, &b);
    assert_true(second);
    return WEFT_OK;
}

static void test_memory_without_a_loan_is_freed_now(void **state)
{
    struct weft_error err = {0};
    (void)state;
    assert_int_equal(weft_comm_run_threads(2, dispose_without_a_loan, NULL, &err), WEFT_OK);
    assert_int_equal(dispose_without_a_loan(NULL, NULL, &err), WEFT_OK); /* a single rank */
}

/* -- a transport that fails ---------------------------------------------------------------- */

struct broken {
    const char *call; /* the function that fails */
    struct weft_error first;
    bool aborted, closed;
};

static enum weft_status fail_in(struct broken *b, const char *call, struct weft_error *err)
{
    if (strcmp(b->call, call) != 0)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory in %s", call);
}

static enum weft_status broken_send(void *self, struct weft_message *m, struct weft_error *err)
{
    (void)m;
    return fail_in(self, "send", err);
}

static enum weft_status broken_post(void *self, struct weft_message *m, struct weft_error *err)
{
    (void)m;
    return fail_in(self, "post", err);
}

static enum weft_status broken_test(void *self, struct weft_message *m, struct weft_error *err)
{
    struct broken *b = self;
    m->done = strcmp(b->call, "header") == 0; /* the received header is empty */
    return fail_in(b, "test", err);
}

static void broken_release(void *self, struct weft_message *m)
{
    (void)self;
    (void)m;
}

static void broken_rest(void *self, uint64_t round, int64_t ns)
{
    (void)self;
    (void)round;
    (void)ns;
}

static void broken_publish(void *self, const struct weft_activity *activity)
{
    (void)self;
    (void)activity;
}

static void broken_inspect(void *self, uint32_t rank, struct weft_activity *activity,
                           int64_t *age_ns)
{
    (void)self;
    (void)rank;
    *activity = (struct weft_activity){.waits_for = WEFT_NO_PEER};
    *age_ns = 0;
}

static void broken_abort(void *self, const struct weft_error *err)
{
    struct broken *b = self;
    if (!b->aborted)
        b->first = *err;
    b->aborted = true;
}

static bool broken_aborted(void *self, struct weft_error *err)
{
    struct broken *b = self;
    if (b->aborted)
        *err = b->first;
    return b->aborted;
}

static void broken_close(void *self)
{
    struct broken *b = self;
    b->closed = true;
}

static struct weft_comm *open_broken(struct broken *b, bool by_reference)
{
    const struct weft_transport table = {.abi = WEFT_TRANSPORT_ABI,
                                         .name = "broken",
                                         .by_reference = by_reference,
                                         .send = broken_send,
                                         .post = broken_post,
                                         .test = broken_test,
                                         .release = broken_release,
                                         .rest = broken_rest,
                                         .publish = broken_publish,
                                         .inspect = broken_inspect,
                                         .abort = broken_abort,
                                         .aborted = broken_aborted,
                                         .close = broken_close};
    struct weft_comm *comm = NULL;
    assert_int_equal(weft_comm_open(&table, b, 0, 2, 1, &comm, NULL), WEFT_OK);
    return comm;
}

static struct {
    const char *call;
    enum weft_status want;
} failures[] = {
    {"send", WEFT_NOMEM},
    {"post", WEFT_NOMEM},
    {"test", WEFT_NOMEM},
    {"header", WEFT_PEER},
};

static void test_every_failure_aborts(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(failures); i++) {
        struct broken b = {.call = failures[i].call};
        struct weft_comm *comm = open_broken(&b, false);
        struct weft_message m = {.peer = 1, .channel = WEFT_USER_CHANNEL};
        struct weft_error err = {0};
        enum weft_status st = strcmp(b.call, "send") == 0 ? weft_comm_send(comm, &m, &err)
                                                          : weft_comm_post(comm, &m, &err);
        if (st == WEFT_OK)
            st = weft_comm_test(comm, &m, &err);
        assert_int_equal(st, failures[i].want);
        assert_true(b.aborted);
        assert_int_equal(b.first.status, st);
        assert_string_equal(b.first.msg, err.msg);
        weft_comm_close(comm);
        assert_true(b.closed);
    }
}

/* A rank that closes its endpoint with a loan and without an error still aborts first.  Between
 * processes the memory then stays until the exit. */
static void test_close_with_a_loan_aborts(void **state)
{
    (void)state;
    for (int by_reference = 0; by_reference < 2; by_reference++) {
        struct broken b = {.call = ""};
        struct weft_comm *comm = open_broken(&b, by_reference != 0);
        bool is_freed = false;
        struct wf_disposal d = {.free_object = set_flag, .object = &is_freed};
        wf_comm_lend(comm);
        wf_comm_dispose(comm, &d);
        assert_false(is_freed);
        assert_false(b.aborted);
        weft_comm_close(comm);
        assert_true(b.aborted);
        assert_int_equal(b.first.status, WEFT_INTERNAL);
        assert_int_equal(is_freed, by_reference);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lent_memory_outlives_its_rank),
        cmocka_unit_test(test_memory_without_a_loan_is_freed_now),
        cmocka_unit_test(test_every_failure_aborts),
        cmocka_unit_test(test_close_with_a_loan_aborts),
    };
    return cmocka_run_group_tests_name("ownership", tests, NULL, NULL) != 0;
}
