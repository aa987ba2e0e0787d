/* How a run is told to stop. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/bar.h"
#include "cli/train.h"

/* The first signal asks for an end after the step; the same one again has its usual effect.
 * Launchers may send different ones for one wish. */
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t on_terminal; /* where there may be a bar */

static void say(const char *text)
{
    if (on_terminal)
        (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void note_signal(int number)
{
    if (stop_signal != number) {
        stop_signal = number;
        say(WEFT_BAR_CLEAR "stopping after this step; once more: at once\n");
        return;
    }
    say(WEFT_BAR_CLEAR);
    signal(number, SIG_DFL); /* and it comes when this function is left */
    raise(number);
}

void weft_train_catch_signals(void)
{
    struct sigaction how = {.sa_handler = note_signal};
    sigemptyset(&how.sa_mask);
    on_terminal = weft_bar_make(stdout).on;
    sigaction(SIGINT, &how, NULL);
    sigaction(SIGTERM, &how, NULL);
    sigaction(SIGHUP, &how, NULL);
    signal(SIGPIPE, SIG_IGN); /* who watches may go: the run goes on, and is saved */
}

int weft_train_stop_signal(void)
{
    return stop_signal;
}
