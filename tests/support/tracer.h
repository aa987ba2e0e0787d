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
#include "weft/conformance.h"
#include "weft/exec.h"

enum { TRACER_TENSORS = 3 };
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
    /* 8-byte words per input row of each stage, and per output row of the last stage. */
    size_t words[TRACER_STAGES + 1];
    uint32_t rows[TRACER_MICROS], max_rows;
    bool vary_rows;   /* each step has its own rows, at most max_rows */
    bool tensors;     /* boundaries have TRACER_TENSORS tensors of different types */
    bool has_outputs; /* the last stage returns outputs, and a loss function follows */
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
    /* Forward-only steps after each step, with the inputs of other steps.  If the schedule is
     * forward-only, all steps are. */
    uint32_t evals;
    uint32_t first_micro; /* number of the first micro */
    bool lay_slots;       /* all slots are in one allocation */
    bool shuffle_ranks;   /* ranks of the transport in a random order */
    enum weft_outputs_on outputs_on;
    enum weft_block_cache cache;
    enum copying copying; /* messages are copied, as between processes */
    /* Starts the ranks as processes, which always copy; NULL: threads.  The first run decides
     * for all runs of a batch, and the results of the ranks below are not filled in. */
    weft_launch_fn *launch;
    double timeout; /* seconds; 0: the default */
    size_t (*allocations)(
        void);      /* NULL, or a counter that must not change after the first step */
    char label[96]; /* name in messages */
    /* Results of the last step of each rank. */
    enum weft_status status[TRACER_RANKS];
    struct weft_error err[TRACER_RANKS];
    struct weft_cell_id failed_at[TRACER_RANKS];
    uint32_t steps_done[TRACER_RANKS];
};

/* Executes the runs one after the other and compares all results.  Returns WEFT_INTERNAL if
 * something differs.  A step that fails with WEFT_NUMERIC or WEFT_DATA is recorded, and the
 * next step runs. */
enum weft_status tracer_run(struct tracer_run *runs, size_t n, struct weft_error *err);

/* Executes the runs on the ranks of `comm`, or on threads if it is NULL. Collective. */
enum weft_status tracer_run_on(struct weft_comm *comm, struct tracer_run *runs, size_t n,
                               struct weft_error *err);

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
