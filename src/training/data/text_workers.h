/* Threads that work on blocks of text; the results are taken in the order of the text. */
#ifndef TRAINING_DATA_TEXT_WORKERS_H
#define TRAINING_DATA_TEXT_WORKERS_H

#include "training/data/text_source.h"
#include "training/data/tokenizer.h"

/* A segment and what was made of it. */
struct wf_text_job {
    struct wf_text_segment segment;
    struct weft_tokens tokens;
    uint64_t text_bytes;     /* of its documents: JSON has more than that */
    struct weft_tokens ends; /* how many of the tokens lie before the end of each document */
};

struct wf_text_workers {
    uint32_t n_threads;
    /* A worker's turn on any thread; worker < n_threads, one job at a time each. */
    enum weft_status (*work)(void *ctx, uint32_t worker, struct wf_text_job *job,
                             struct weft_error *err);
    /* In the order of the text, on the calling thread; may be NULL. */
    enum weft_status (*consume)(void *ctx, const struct wf_text_job *job,
                                struct weft_error *err);
    /* Bytes that are done, now and then, on the calling thread; may be NULL. */
    void (*progress)(void *ctx, uint64_t bytes);
    void *ctx;
};

/* The first error in the order of the text wins; nothing behind it is taken. */
enum weft_status wf_text_workers_run(const struct wf_text_workers *workers,
                                     struct wf_text_reader *reader, struct weft_error *err);

#endif
