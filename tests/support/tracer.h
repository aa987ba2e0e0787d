/* Stages in exact integer arithmetic that see everything: a step by an executor must give the same
 * numbers, to the last bit, as the stages called one after the other, and every buffer and slot
 * that is written too early, too late or twice is found.
 *
 * Each stage puts out a scramble of all its input words; its backward scrambles the gradient with
 * what the forward left in the slot.  The weight gradient is a wrapping sum of products, so that
 * the order of micros does not matter, as with weft's own exact sums. */
#ifndef SUPPORT_TRACER_H
#define SUPPORT_TRACER_H

#include "copying.h"
#include "weft/exec.h"

enum { TRACER_STAGES = 16, TRACER_MICROS = 16, TRACER_RANKS = 8, TRACER_STEPS = 4 };

/* Something that happens to a stage, once. */
struct tracer_event {
    bool on;
    unsigned kind; /* of enum weft_act_kind: of the call */
    uint32_t stage, micro;
    uint64_t step;
    enum weft_status status; /* what it returns ... */
    bool silent;             /* ... without a message ... */
    int64_t sleep_ns;        /* ... after so long */
};

/* What is run; the same for all ranks. */
struct tracer_model {
    uint32_t n_stages, n_micros;
    uint64_t seed;
    size_t words[TRACER_STAGES]; /* of one row of each stage's input, in 8 bytes */
    uint32_t rows[TRACER_MICROS];
    size_t slot_words[TRACER_STAGES]; /* that a micro leaves in its slot: at least 2 */
    bool delays;                      /* calls take random times */
    struct tracer_event event;
    /* Block residuals; n_blocks 0: none. */
    uint32_t n_blocks;
    uint32_t finished_by[TRACER_STAGES];
    size_t row_elements;
};

/* Random sizes; rows: at most so many a micro. */
void tracer_model_init(struct tracer_model *m, const struct weft_placement *place,
                       uint32_t most_rows, uint64_t seed);

/* How it is run. */
struct tracer_run {
    const struct weft_schedule *schedule;
    const struct tracer_model *model;
    uint32_t steps;
    uint32_t first_micro; /* what the first micro is called */
    bool lay_slots;       /* all slots in one piece of memory */
    enum weft_block_cache cache;
    enum copying copying; /* messages are copied, as between processes */
    double timeout;       /* seconds; 0: the usual one */
    size_t (*allocations)(
        void);      /* NULL, or a counter that must not move after the first step */
    char label[96]; /* what messages call it */
    /* What each rank's last step returned. */
    enum weft_status status[TRACER_RANKS];
    struct weft_error err[TRACER_RANKS];
    struct weft_cell_id failed_at[TRACER_RANKS];
    uint32_t steps_done[TRACER_RANKS];
};

/* Runs them one after the other on threads, and compares everything.  WEFT_INTERNAL says what
 * differs.  A step that fails with WEFT_NUMERIC or WEFT_DATA is written down, and the next step is
 * run. */
enum weft_status tracer_run(struct tracer_run *runs, size_t n, struct weft_error *err);

/* Runs that are collected, for starting threads takes longer than a small step. */
enum { TRACER_BATCH = 64, TRACER_SHARES = 4 };

struct tracer_batch {
    size_t n, n_run;
    struct tracer_run runs[TRACER_BATCH];
    struct tracer_model models[TRACER_BATCH];
    struct weft_schedule *schedules[TRACER_BATCH]; /* owned; NULL: the one before */
};

/* Takes the schedule, copies the rest; runs all when it is full.  NULL: the last schedule again, for
 * at most TRACER_SHARES runs.  The test fails if one does. */
void tracer_batch_add(struct tracer_batch *b, struct weft_schedule *s,
                      const struct tracer_run *run);
void tracer_batch_finish(struct tracer_batch *b);

#endif
