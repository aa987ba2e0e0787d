/* Runs the conformance suite on the transport of examples/socket: as it is, and with
 * small socket buffers and frequent signals, so that writes are short and system
 * calls are interrupted. */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "conform.h"
#include "socket_transport.h"

struct options {
    int buffer_bytes;
    bool signals;
};

struct program {
    const struct options *options;
    weft_rank_fn *fn;
    void *arg;
};

static void ignore(int number)
{
    (void)number;
}

/* Interrupts system calls of this process every 500 us. */
static void start_signals(void)
{
    struct sigaction action;
    const struct itimerval every = {{0, 500}, {0, 500}};
    memset(&action, 0, sizeof action);
    action.sa_handler = ignore; /* without SA_RESTART */
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
}

static enum weft_status run_program(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct program *p = arg;
    const struct itimerval never = {{0, 0}, {0, 0}};
    if (p->options->signals)
        start_signals();
    enum weft_status st = p->fn(comm, p->arg, err);
    setitimer(ITIMER_REAL, &never, NULL);
    return st;
}

static enum weft_status launch(void *arg, uint32_t n, weft_rank_fn *fn, void *fn_arg,
                               struct weft_error *err)
{
    const struct options *o = arg;
    struct program p = {o, fn, fn_arg};
    return socket_run(n, o->buffer_bytes, run_program, &p, err);
}

static void run_suite(struct options o, const char *only, size_t n_expected)
{
    const struct weft_conformance_setup setup = {
        .launch = launch, .launch_arg = &o, .processes = true, .only = only};
    conform(&setup, n_expected);
}

static void test_conformance(void **state)
{
    (void)state;
    run_suite((struct options){0, false}, NULL, 0);
}

static void test_interrupted(void **state)
{
    const struct options o = {4096, true};
    (void)state;
    run_suite(o, "30 MB", 2);
    run_suite(o, "channel", 4);
    run_suite(o, "posted", 1);
    run_suite(o, "wait", 2);
    run_suite(o, "fail", 5);
}

/* -- the start function -------------------------------------------------------------------- */

static enum weft_status end_early(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    if (weft_comm_rank(comm) == 1)
        _exit(*(const int *)arg);
    return weft_comm_barrier(comm, err);
}

/* A rank that ends without a result is an error that names it, whatever its exit code. */
static void test_exit(void **state)
{
    const int codes[] = {0, 3};
    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct weft_error err = {.msg = ""};
        assert_int_equal(socket_run(3, 0, end_early, (void *)&codes[i], &err), WEFT_PEER);
        if (strstr(err.msg, "rank 1 ") == NULL)
            fail_msg("%s", err.msg);
    }
}

static enum weft_status exit_alone(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)comm;
    (void)err;
    _exit(*(const int *)arg);
}

static void test_exit_alone(void **state)
{
    struct weft_error err = {.msg = ""};
    int code = 0;
    (void)state;
    assert_int_equal(socket_run(0, 0, exit_alone, &code, &err), WEFT_USAGE);
    assert_int_equal(socket_run(1, 0, exit_alone, &code, &err), WEFT_PEER);
    assert_string_equal(err.msg, "rank 0 ended without a result");
    code = 4;
    assert_int_equal(socket_run(1, 0, exit_alone, &code, &err), WEFT_PEER);
    assert_string_equal(err.msg, "rank 0 exited with code 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conformance),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_exit_alone),
    };
    return cmocka_run_group_tests_name("socket", tests, NULL, NULL) != 0;
}
