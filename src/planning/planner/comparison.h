/* Compares all schedules for given numbers of ranks and micros.  Every rank has the same
 * share of the model, so a schedule with more stages has smaller stages. */
#ifndef PLANNING_PLANNER_COMPARISON_H
#define PLANNING_PLANNER_COMPARISON_H

#include "base/json.h"
#include "weft/schedule.h"

enum { WF_COMPARISON_MAX_CELLS = 500000 }; /* maximum of ranks x micros: takes some minutes */

enum wf_comparison_order {
    WF_COMPARISON_BY_TIME,
    WF_COMPARISON_BY_SPAN,
    WF_COMPARISON_BY_MEMORY,
    WF_COMPARISON_BY_NAME,
};

/* Progress callback.  It is called before each generator with the completed fraction, from 0
 * to 1. */
typedef void (*wf_comparison_fn)(double share, const char *name, void *user);

/* The input of a comparison.  All pointers are borrowed during the call. */
struct wf_comparison_input {
    uint32_t ranks, micros;
    const struct weft_cost *cost; /* cost of 1/P of the model, one value per list */
    /* memory of 1/P of the model; schedules that exceed the limit are omitted */
    const struct weft_memory_cost *memory;
    struct weft_values chunks; /* numbers of chunks to try; an empty list means 2 and 4 */
    double message_bytes;      /* bytes per message; 0 if unknown */
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
    double peak; /* peak memory of the rank with the highest peak */
    size_t messages;
    double bytes; /* total bytes of all messages */
    double gap; /* maximum distance from the optimum for the schedule's placement and memory */
    bool is_pareto; /* no other schedule is better in time, memory and copies at once */
};

struct wf_comparison {
    struct wf_comparison_row *at; /* owned */
    size_t n, cap;
};

/* Generates, times and sorts all schedules.  The caller releases *out with
 * wf_comparison_release().  Returns WEFT_USAGE if the sizes are too large or no schedule
 * fits the memory limit. */
enum weft_status wf_comparison_init(struct wf_comparison *out,
                                    const struct wf_comparison_input *in,
                                    struct weft_error *err);
void wf_comparison_release(struct wf_comparison *c); /* `c` may be zeroed */

/* Writes a JSON list with one object per schedule. */
void wf_comparison_write_json(struct wf_json *j, const struct wf_comparison *c);

#endif
