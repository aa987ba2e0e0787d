/* Compares all schedules for given numbers of ranks and micros.
 *
 * Every rank has the same share of the model, so a schedule with more stages has smaller stages: a
 * single cost applies to 1/P of the model and is divided by the number of chunks.  A list has one
 * value per stage and applies to schedules with that many stages; others are omitted.  A model is
 * partitioned for each schedule. */
#ifndef PLANNING_PLANNER_COMPARISON_H
#define PLANNING_PLANNER_COMPARISON_H

#include "base/json.h"
#include "base/text.h"
#include "planning/planner/plan.h"

enum { WF_COMPARISON_MAX_CELLS = 500000 }; /* maximum of ranks x micros: takes some minutes */

enum wf_comparison_order {
    WF_COMPARISON_BY_TIME,
    WF_COMPARISON_BY_SPAN,
    WF_COMPARISON_BY_MEMORY,
    WF_COMPARISON_BY_NAME,
};

/* Progress callback.  It is called before each generator with the completed fraction, from 0
 * to 1.  The comparison stops if the function returns false. */
typedef bool (*wf_comparison_fn)(double share, const char *name, void *user);

/* The input of a comparison.  All pointers are borrowed during the call. */
struct wf_comparison_input {
    /* The ranks, micros, costs, model, partition, machine and objective of all schedules.  The
     * comparison sets the schedule and its chunks; groups and pipes apply to the schedules that
     * have them.  A schedule that exceeds the
     * memory limit or the bytes limit is omitted. */
    struct wf_plan_input plan;
    struct weft_values chunks; /* numbers of chunks to try; an empty list means 2 and 4 */
    enum wf_comparison_order order;
    wf_comparison_fn progress; /* may be NULL */
    void *user;
};

/* The figures of one schedule. */
struct wf_comparison_row {
    const struct weft_generator *generator;
    uint32_t chunks, stages;
    uint32_t copies; /* number of copies of the weights, equal to the number of pipes */
    double makespan, span, bubble, bubble_span;
    /* Peak memory of the rank with the highest peak: bytes of state and activations if the
     * items of the model have bytes, otherwise in units of the memory costs. */
    double peak;
    size_t messages;
    double bytes; /* total bytes of all messages */
    double gap; /* maximum distance from the optimum for the schedule's placement and memory */
    bool is_pareto; /* no other schedule is better in time, memory and copies at once */
};

/* A schedule that cannot be compared. */
struct wf_comparison_omission {
    const struct weft_generator *generator;
    uint32_t chunks;
    char reason[200];
};

struct wf_comparison {
    struct wf_comparison_row *at; /* owned */
    size_t n, cap;
    struct wf_comparison_omission *omitted; /* owned: in the order of the generators */
    size_t n_omitted, omitted_cap;
    uint32_t ranks, micros;
    bool in_bytes; /* peaks are bytes of state and activations */
    struct wf_time_unit time;
    const char *memory_unit; /* borrowed: of the peaks */
    bool stopped;            /* the progress function ended the comparison early */
};

/* Generates, times and sorts all schedules.  The caller releases *out with
 * wf_comparison_release().  Returns WEFT_USAGE if the sizes are too large or all
 * schedules are omitted.  A comparison that is stopped has the schedules that were compared until
 * then, possibly none. */
enum weft_status wf_comparison_init(struct wf_comparison *out,
                                    const struct wf_comparison_input *in,
                                    struct weft_error *err);
void wf_comparison_release(struct wf_comparison *c); /* `c` may be zeroed */

/* Writes a JSON list with one object per schedule.  Omitted schedules follow, with their
 * reasons. */
void wf_comparison_write_json(struct wf_json *j, const struct wf_comparison *c);

/* Appends the schedules as a table.  If `bytes` is true, it has the bytes of all messages. */
void wf_comparison_write_text(struct wf_text *out, const struct wf_comparison *c, bool bytes);

#endif
