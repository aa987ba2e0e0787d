/* How a run is told to stop. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/bar.h"
#include "cli/train.h"

/* The first signal asks for an end after the step.  The next one has its usual effect, unless it is
 * another and comes with it: launchers send different ones for one wish. */
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t on_terminal; /* where there may be a bar */
static volatile sig_atomic_t over;
static volatile int64_t first_ns;

enum { ONE_WISH_NS = 1000000000 };

static void say(const char *text)
{
    if (on_terminal)
        (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void note_signal(int number)
{
    int before = errno;
    int64_t now = wf_clock_ns();
    if (stop_signal == 0) {
        stop_signal = number;
        first_ns = now;
        say(WF_BAR_CLEAR "stopping after this step; once more: at once\n");
    } else if (stop_signal == number || now - first_ns > ONE_WISH_NS) {
        say(WF_BAR_CLEAR);
        signal(number, SIG_DFL); /* and it comes when this function is left */
        raise(number);
    }
    errno = before;
}

void wf_train_catch_signals(void)
{
    struct sigaction how = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
    sigemptyset(&how.sa_mask);
    sigaddset(&how.sa_mask, SIGINT);
    sigaddset(&how.sa_mask, SIGTERM);
    sigaddset(&how.sa_mask, SIGHUP);
    on_terminal = wf_train_bar().on;
    sigaction(SIGINT, &how, NULL);
    sigaction(SIGTERM, &how, NULL);
    sigaction(SIGHUP, &how, NULL);
    signal(SIGPIPE, SIG_IGN); /* who watches may go: the run goes on, and is saved */
}

void wf_train_is_over(void)
{
    over = 1;
}

int wf_train_stop_signal(void)
{
    return over ? 0 : stop_signal;
}
