/* Prints training sessions: events, the chosen layout, the dry run. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "terminal/bar.h"
#include "training/session/session.h"

/* The output of rank 0 during a session. */
struct wf_train_show {
    struct wf_bar bar;
    uint64_t every; /* steps between printed lines */
};

/* Returns the progress bar of standard output.  The bar is off if standard output is not a
 * terminal. */
struct wf_bar wf_train_bar(void);

/* Calls wf_stop_catch_signals() with messages that replace the progress bar. */
void wf_train_catch_signals(void);

struct wf_train_show wf_train_show_make(const struct wf_train_settings *settings);

/* Prints an event; `show` is a struct wf_train_show. */
void wf_train_show_event(void *show, const struct wf_session_event *event);

/* Prints the head of a run: model, data, ranks, machine, memory. */
void wf_train_print_head(const struct wf_train_settings *s,
                         const struct wf_session_start *start);

/* Prints " = weights ... + packed ..." and the other parts of a rank's memory, and ends the
 * line. */
void wf_train_print_bytes(const struct wf_rank_bytes *b);

/* Prints the measured times, a table of layouts, and the reason for choosing the first
 * layout. */
void wf_train_print_choice(const struct wf_train_settings *s,
                           const struct wf_layout_choice *choice);

/* Prints the layout, memory and timeline of a run without training. */
void wf_train_print_dry_run(const struct wf_train_settings *s, const struct wf_dry_run *d);

#endif
