/* Threads that process segments of text; the results are consumed in the order of the text. */
#ifndef TRAINING_DATA_TEXT_WORKERS_H
#define TRAINING_DATA_TEXT_WORKERS_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

/* A segment and its results. */
struct wf_text_job {
    struct wf_text_segment segment;
    struct weft_tokens tokens;
    uint64_t text_bytes;         /* of its documents, without JSON syntax */
    struct weft_tokens doc_ends; /* number of tokens before the end of each document */
};

struct wf_text_workers {
    uint32_t n_threads;
    /* Processes a job on any thread; worker < n_threads, one job at a time per worker. */
    enum weft_status (*work)(void *ctx, uint32_t worker, struct wf_text_job *job,
                             struct weft_error *err);
    /* Consumes the results in the order of the text, on the calling thread; may be NULL. */
    enum weft_status (*consume)(void *ctx, const struct wf_text_job *job,
                                struct weft_error *err);
    /* Reports the bytes that are done, on the calling thread; may be NULL. */
    void (*progress)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* Runs the workers over all text.  Returns the first error in the order of the text; nothing
 * after it is consumed. */
enum weft_status wf_text_workers_run(const struct wf_text_workers *workers,
                                     struct wf_text_reader *reader, struct weft_error *err);

#endif
