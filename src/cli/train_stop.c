/* How a run is told to stop. */
#include <signal.h>

#include "cli/train.h"

/* The first signal asks for an end after the step; a second one has its usual effect. */
static volatile sig_atomic_t stop_signal;

static void note_signal(int number)
{
    stop_signal = number;
}

void weft_train_catch_signals(void)
{
    struct sigaction how = {.sa_handler = note_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&how.sa_mask);
    sigaction(SIGINT, &how, NULL);
    sigaction(SIGTERM, &how, NULL);
    sigaction(SIGHUP, &how, NULL);
    signal(SIGPIPE, SIG_IGN); /* who watches may go: the run goes on, and is saved */
}

int weft_train_stop_signal(void)
{
    return stop_signal;
}
