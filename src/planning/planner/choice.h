/* Choices that are given as one word: a schedule by its name or file, and how a model is cut into
 * stages.  Every command and the trainer read them here. */
#ifndef PLANNING_PLANNER_CHOICE_H
#define PLANNING_PLANNER_CHOICE_H

#include "weft/part.h"
#include "weft/schedule.h"

/* -- schedules ------------------------------------------------------------------------------ */

/* Returns true if `name` is a file's path: it is not the name of a generator, and it contains
 * '.' or '/' or a file of this name exists. */
bool wf_schedule_is_file(const char *name);

/* Reads a schedule from a CSV file; "-" is standard input.  `keep_idle` keeps PyTorch's empty
 * cells.  On success the caller frees *out.  Returns WEFT_SCHEDULE if the file cannot be read. */
enum weft_status wf_schedule_read(const char *path, bool keep_idle, struct weft_schedule **out,
                                  struct weft_error *err);

/* Reads the schedule if `name` is a file's path, or generates it from `params`.  A schedule from a
 * file is not checked against `params`. */
enum weft_status wf_schedule_obtain(const char *name, const struct weft_gen_params *params,
                                    struct weft_schedule **out, struct weft_error *err);

/* Returns true if `name` is a generator that searches with the costs of the stages. */
bool wf_schedule_searches(const char *name);

/* -- partitions ----------------------------------------------------------------------------- */

enum wf_partition_kind {
    WF_PARTITION_EVEN,
    WF_PARTITION_BALANCED,
    WF_PARTITION_COUNTS,  /* layers of each stage: "4,3,3" */
    WF_PARTITION_PATTERN, /* a Megatron layout: "Et*3|(tt|)*2L" */
};

struct wf_partition_choice {
    enum wf_partition_kind kind;
    const char *text; /* borrowed: counts or pattern */
};

/* Reads "even", "balanced", a pattern (it contains one of E, t, L and |) or counts; NULL
 * selects `otherwise`.  Errors in counts and patterns are reported by the functions below. */
struct wf_partition_choice wf_partition_choice_parse(const char *text,
                                                     enum wf_partition_kind otherwise);

/* Stores in *layers the number of layers that counts or a pattern have, else 0. */
enum weft_status wf_partition_choice_layers(struct wf_partition_choice choice, uint32_t stages,
                                            uint32_t *layers, struct weft_error *err);

/* Limits for a balanced partition. */
struct wf_partition_limits {
    const struct weft_schedule *schedule; /* borrowed: it determines the micros in flight */
    const size_t *bytes;                  /* borrowed: (n) */
    size_t n;                             /* 0, 1 or the number of ranks */
};

/* Cuts a model into `stages` stages.  An even or balanced partition needs at least one layer
 * per stage; otherwise WEFT_USAGE is returned.  `limits` may be NULL.  weft_partition_release()
 * frees. */
enum weft_status wf_partition_choose(struct weft_partition *out,
                                     struct wf_partition_choice choice,
                                     const struct weft_items *items, uint32_t stages,
                                     const struct wf_partition_limits *limits,
                                     struct weft_error *err);

#endif
