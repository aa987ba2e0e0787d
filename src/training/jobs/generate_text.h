/* Collects generated text and finds stop strings in it. */
#ifndef TRAINING_JOBS_GENERATE_TEXT_H
#define TRAINING_JOBS_GENERATE_TEXT_H

#include <stdbool.h>

#include "base/text.h"

struct wf_stop_text {
    struct wf_text text;
    const char *const *stops; /* borrowed: (n_stops) */
    size_t n_stops;
    size_t n_ready; /* bytes that no stop string can include any more */
    bool stopped;   /* the text ends before a stop string */
};

/* Adds bytes.  Sets t->stopped and removes the first stop string and all bytes after it if the
 * text now has one. */
void wf_stop_text_add(struct wf_stop_text *t, const char *bytes, size_t len);

/* Declares the text complete: all bytes are ready. */
void wf_stop_text_finish(struct wf_stop_text *t);

#endif
