/* Searching for the best order of given work under given memory.
 *
 *     struct weft_tune_problem problem = {.ranks = 8, .micros = 24, .memory = &memory};
 *     struct weft_tune_options options = {.iterations = 100000};
 *     struct weft_tune_result best;
 *     if (weft_tune(&problem, &options, &best, &err) != WEFT_OK) ...
 *     use(best.schedule, best.gap);
 *     weft_tune_result_release(&best);
 *
 * The search starts from every generator whose schedule has the same placement and fits, and from
 * list schedules and repeated blocks; it improves them by tabu search, and small problems it
 * solves to the end.  It stops when the lower bound (weft/bound.h) is reached.
 */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include "weft/bound.h"
#include "weft/part.h"
#include "weft/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_tune_problem {
    uint32_t ranks, micros;
    uint32_t chunks;                    /* stages a rank; 0: the placement's own number */
    enum weft_placement_kind placement; /* linear, loop, v or wave */
    bool whole;                         /* backwards are not split */
    enum weft_minimize minimize;        /* the other one decides between equals */
    const struct weft_cost *cost;       /* borrowed, may be NULL */
    const struct weft_memory *memory;   /* borrowed, may be NULL; no limits given: none */
};

struct weft_tune_progress {
    double seconds;
    uint64_t evaluations; /* orders timed as a whole */
    double makespan, span, bound;
    const char *origin; /* borrowed: during the call */
};

/* Called now and then; the search ends when it returns false. */
typedef bool (*weft_tune_fn)(const struct weft_tune_progress *progress, void *user);

struct weft_tune_options {
    uint64_t iterations; /* evaluations after which to stop; 0: no such limit.  The same number
                            gives the same result every time, unless the seconds end first. */
    double seconds; /* the same by the clock; 0: no such limit.  Both 0: 100,000 evaluations */
    uint64_t seed;
    weft_tune_fn progress; /* may be NULL */
    void *user;
};

struct weft_tune_result {
    struct weft_schedule *schedule; /* owned; proven right */
    double makespan, span, peak;    /* peak: the highest of all ranks */
    struct weft_bounds bounds;
    double gap;      /* of what was minimized, above its bound */
    bool proven;     /* nothing is better in what was minimized */
    char origin[32]; /* what the best order was made from */
    char start[32];  /* the best generator, "" when none fits */
    double start_makespan, start_span;
    uint64_t evaluations;
    double seconds; /* of the search, by the clock */
};

/* On success the caller releases *out. */
enum weft_status weft_tune(const struct weft_tune_problem *problem,
                           const struct weft_tune_options *options,
                           struct weft_tune_result *out, struct weft_error *err);
void weft_tune_result_release(struct weft_tune_result *r);

#ifdef __cplusplus
}
#endif

#endif
