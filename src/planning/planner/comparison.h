/* Compares all schedules for one size: every rank has the same share of the model, and schedules
 * with more stages have accordingly smaller ones. */
#ifndef PLANNING_PLANNER_COMPARISON_H
#define PLANNING_PLANNER_COMPARISON_H

#include "base/json.h"
#include "weft/schedule.h"

enum { WF_COMPARISON_MAX_CELLS = 500000 }; /* limit of ranks x micros: takes some minutes */

enum wf_comparison_order {
    WF_COMPARISON_BY_TIME,
    WF_COMPARISON_BY_SPAN,
    WF_COMPARISON_BY_MEMORY,
    WF_COMPARISON_BY_NAME,
};

/* Called before each generator with the finished share, 0 to 1. */
typedef void (*wf_comparison_fn)(double share, const char *name, void *user);

/* What to compare.  Everything is borrowed during the call. */
struct wf_comparison_input {
    uint32_t ranks, micros;
    const struct weft_cost *cost;          /* of 1/P of the model, one value each */
    const struct weft_memory_cost *memory; /* of 1/P of the model; schedules over the limit
                                              are left out */
    struct weft_values chunks;             /* numbers of chunks to try; none: 2 and 4 */
    double message_bytes;                  /* 0: unknown */
    enum wf_comparison_order order;
    wf_comparison_fn progress; /* may be NULL */
    void *user;
};

/* The figures of one schedule. */
struct wf_comparison_row {
    const struct weft_generator *generator;
    uint32_t chunks, stages;
    uint32_t copies; /* of the weights: pipes */
    double makespan, span, bubble, bubble_span;
    double peak; /* memory of the fullest rank */
    size_t messages;
    double bytes;   /* of all messages */
    double gap;     /* maximum distance above the optimum for its placement and memory */
    bool is_pareto; /* no other schedule is better in time, memory and copies at once */
};

struct wf_comparison {
    struct wf_comparison_row *at; /* owned */
    size_t n, cap;
};

/* Generates, times and sorts all schedules.  wf_comparison_release() frees.  Returns WEFT_USAGE if
 * the sizes are too large or no schedule fits the memory limit. */
enum weft_status wf_comparison_init(struct wf_comparison *out,
                                    const struct wf_comparison_input *in,
                                    struct weft_error *err);
void wf_comparison_release(struct wf_comparison *c); /* a zeroed one is allowed */

/* Writes a list with an object for every schedule. */
void wf_comparison_write_json(struct wf_json *j, const struct wf_comparison *c);

#endif
