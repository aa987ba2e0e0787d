/* Handles the signals that stop a session. */
#include "training/session/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* Signal handlers have no user argument, so this state is global to the process. */
static atomic_int stop_signal;
static atomic_int finished;
static _Atomic int64_t first_ns;
static const char *messages[2];

enum { SAME_REQUEST_NS = 1000000000 };

static void write_message(const char *text)
{
    if (text != NULL)
        (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void handle(int number)
{
    int saved_errno = errno;
    int64_t now = wf_clock_ns();
    if (stop_signal == 0) {
        stop_signal = number;
        first_ns = now;
        write_message(messages[0]);
    } else if (stop_signal == number || now - first_ns > SAME_REQUEST_NS) {
        write_message(messages[1]);
        /* The signal raised below is delivered when this handler returns. */
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = saved_errno;
}

void wf_stop_catch_signals(const char *first, const char *second)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGHUP);
    messages[0] = first;
    messages[1] = second;
    stop_signal = 0;
    finished = 0;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe must not end the run before its state is saved */
}

int wf_stop_signal(void)
{
    return finished ? 0 : stop_signal;
}

void wf_stop_finish(void)
{
    finished = 1;
}
