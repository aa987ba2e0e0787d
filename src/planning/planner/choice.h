/* Reads options that are given as one word: a schedule by its name or file, and the
 * partition of a model into stages.  All commands and the trainer use these functions. */
#ifndef PLANNING_PLANNER_CHOICE_H
#define PLANNING_PLANNER_CHOICE_H

#include "weft/part.h"
#include "weft/schedule.h"

/* -- schedules ------------------------------------------------------------------------------ */

/* Returns true if `name` is the path of a file.  This is the case if it is not the name of a
 * generator, and it is "-" (standard input), contains '.' or '/', or a file of this name
 * exists. */
bool wf_schedule_is_file(const char *name);

/* Reads a schedule from a CSV file.  The path "-" means standard input.  On success the caller frees *out.  Returns
 * WEFT_SCHEDULE if the file cannot be read. */
enum weft_status wf_schedule_read(const char *path, struct weft_schedule **out,
                                  struct weft_error *err);

/* Reads the schedule if `name` is the path of a file.  Otherwise generates the schedule from
 * `params`.  A schedule from a file is not checked against `params`. */
enum weft_status wf_schedule_obtain(const char *name, const struct weft_gen_params *params,
                                    struct weft_schedule **out, struct weft_error *err);

/* Returns true if `name` is a generator that searches with the costs of the stages. */
bool wf_schedule_searches(const char *name);

/* -- partitions ----------------------------------------------------------------------------- */

enum wf_partition_kind {
    WF_PARTITION_EVEN,
    WF_PARTITION_BALANCED,
    WF_PARTITION_COUNTS,  /* number of layers of each stage: "4,3,3" */
    WF_PARTITION_PATTERN, /* a Megatron layout: "Et*3|(tt|)*2L" */
};

struct wf_partition_choice {
    enum wf_partition_kind kind;
    const char *text; /* borrowed: the counts or the pattern */
};

/* Reads "even", "balanced", a pattern or counts.  A text that contains E, t, L or | is a
 * pattern.  NULL selects `otherwise`.  Errors in counts and patterns are reported by the
 * functions below. */
struct wf_partition_choice wf_partition_choice_parse(const char *text,
                                                     enum wf_partition_kind otherwise);

/* Stores the total number of layers of the counts or the pattern in *layers.  Stores 0 for
 * other choices. */
enum weft_status wf_partition_choice_layers(struct wf_partition_choice choice, uint32_t stages,
                                            uint32_t *layers, struct weft_error *err);

/* Memory limits for a balanced partition. */
struct wf_partition_limits {
    /* borrowed: determines the number of micros in flight */
    const struct weft_schedule *schedule;
    const size_t *bytes; /* borrowed: (n), memory limit of each rank in bytes */
    /* 0 (no limit), 1 (all ranks) or the number of ranks */
    size_t n;
};

/* Partitions a model into `stages` stages.  Returns WEFT_USAGE if an even or balanced
 * partition has less than one layer per stage.  `limits` may be NULL.  The caller releases
 * *out with weft_partition_release(). */
enum weft_status wf_partition_choose(struct weft_partition *out,
                                     struct wf_partition_choice choice,
                                     const struct weft_items *items, uint32_t stages,
                                     const struct wf_partition_limits *limits,
                                     struct weft_error *err);

#endif
