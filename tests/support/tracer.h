/* Stages in exact integer arithmetic that detect every fault of an executor.  A step must
 * give the same bits as sequential calls of the stages, and every buffer and slot that is
 * written too early, too late or twice is found.
 *
 * The output of a stage is a hash of all its input words.  Its backward hashes the gradient
 * with the data that the forward left in the slot.  The weight gradient is a wrapping sum of
 * products, so the order of micros does not matter, as with the exact sums of weft. */
#ifndef SUPPORT_TRACER_H
#define SUPPORT_TRACER_H

#include "copying.h"
#include "weft/exec.h"

enum { TRACER_STAGES = 16, TRACER_MICROS = 16, TRACER_RANKS = 8, TRACER_STEPS = 4 };

/* An event that happens once in a stage. */
struct tracer_event {
    bool on;
    unsigned kind; /* enum weft_act_kind of the call */
    uint32_t stage, micro;
    uint64_t step;
    enum weft_status status; /* the call returns this status ... */
    bool silent;             /* ... without a message ... */
    int64_t sleep_ns;        /* ... after this time */
};

/* The stages and their sizes; the same for all ranks. */
struct tracer_model {
    uint32_t n_stages, n_micros;
    uint64_t seed;
    size_t words[TRACER_STAGES]; /* 8-byte words per input row of each stage */
    uint32_t rows[TRACER_MICROS];
    size_t slot_words[TRACER_STAGES]; /* words of a slot; at least 2 */
    bool delays;                      /* calls take random times */
    struct tracer_event event;
    /* Block residuals; n_blocks 0: none. */
    uint32_t n_blocks;
    uint32_t finished_by[TRACER_STAGES];
    size_t row_elements;
};

/* Initializes a model with random sizes and at most `max_rows` rows per micro. */
void tracer_model_init(struct tracer_model *m, const struct weft_placement *place,
                       uint32_t max_rows, uint64_t seed);

/* A run of a model, and its results. */
struct tracer_run {
    const struct weft_schedule *schedule;
    const struct tracer_model *model;
    uint32_t steps;
    uint32_t first_micro; /* number of the first micro */
    bool lay_slots;       /* all slots are in one allocation */
    enum weft_block_cache cache;
    enum copying copying; /* messages are copied, as between processes */
    double timeout;       /* seconds; 0: the default */
    size_t (*allocations)(
        void);      /* NULL, or a counter that must not change after the first step */
    char label[96]; /* name in messages */
    /* Results of the last step of each rank. */
    enum weft_status status[TRACER_RANKS];
    struct weft_error err[TRACER_RANKS];
    struct weft_cell_id failed_at[TRACER_RANKS];
    uint32_t steps_done[TRACER_RANKS];
};

/* Executes the runs one after the other on threads and compares all results.  Returns
 * WEFT_INTERNAL if something differs.  A step that fails with WEFT_NUMERIC or WEFT_DATA is
 * recorded, and the next step runs. */
enum weft_status tracer_run(struct tracer_run *runs, size_t n, struct weft_error *err);

/* Runs are collected, because starting threads takes longer than a small step. */
enum { TRACER_BATCH = 64, TRACER_SHARES = 4 };

struct tracer_batch {
    size_t n, n_run;
    struct tracer_run runs[TRACER_BATCH];
    struct tracer_model models[TRACER_BATCH];
    struct weft_schedule *schedules[TRACER_BATCH]; /* owned; NULL: the previous one */
};

/* Adds a run: owns the schedule from now on, copies the rest, and executes all runs once the
 * batch is full.  NULL uses the previous schedule again, for at most TRACER_SHARES runs.
 * The test fails if a run fails. */
void tracer_batch_add(struct tracer_batch *b, struct weft_schedule *s,
                      const struct tracer_run *run);
void tracer_batch_finish(struct tracer_batch *b);

#endif
