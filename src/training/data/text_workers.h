/* Runs worker threads that process segments of text.  The results are consumed in the order of
 * the text. */
#ifndef TRAINING_DATA_TEXT_WORKERS_H
#define TRAINING_DATA_TEXT_WORKERS_H

#include "training/data/text_records.h"
#include "training/data/tokenizer.h"

/* A segment and its results. */
struct wf_text_job {
    struct wf_text_segment segment;
    struct weft_tokens tokens;
    uint64_t text_bytes;       /* bytes of the documents' text, without JSON syntax */
    struct wf_bad_records bad; /* records of the segment that were skipped */
    /* For each document that ends in the segment: index after its last token. */
    struct weft_tokens doc_ends;
};

struct wf_text_workers {
    uint32_t n_threads;
    /* Processes a job on any thread.  `worker` < n_threads identifies the worker, which
     * processes one job at a time. */
    enum weft_status (*work)(void *ctx, uint32_t worker, struct wf_text_job *job,
                             struct weft_error *err);
    /* Consumes the results in the order of the text, on the thread that called
     * wf_text_workers_run().  May be NULL. */
    enum weft_status (*consume)(void *ctx, const struct wf_text_job *job,
                                struct weft_error *err);
    /* Receives the number of bytes processed so far, on the thread that called
     * wf_text_workers_run().  May be NULL. */
    void (*progress)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* Processes all text.  Returns the first error in the order of the text.  Results after this
 * error are not consumed. */
enum weft_status wf_text_workers_run(const struct wf_text_workers *workers,
                                     struct wf_text_reader *reader, struct weft_error *err);

#endif
