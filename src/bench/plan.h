/* Benchmarks of planning: generating, verifying, lowering and timing schedules on one core. */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_bench_case {
    const char *schedule;
    uint32_t ranks, chunks, micros; /* chunks is 0 for the schedule's default */
    double limit_ns; /* maximum time to generate and verify one action; 0: no limit */
    bool generate_only;
    bool large; /* the case takes seconds and gigabytes */
};

/* -- generate, verify, lower ------------------------------------------------------------------- */

/* Figures per action. */
struct wf_bench_plan {
    size_t actions;
    double generate_ns, verify_ns, lower_ns, lowered_verify_ns;
    double stored_bytes, peak_bytes; /* peak_bytes is 0 if there are too few actions */
    double limited_ns;               /* the time to which limit_ns applies */
};

const struct wf_bench_case *wf_bench_plan_cases(size_t *n);

/* Measures one case.  Each time is the minimum over `repeat` runs. */
enum weft_status wf_bench_plan(const struct wf_bench_case *c, uint32_t repeat,
                               struct wf_bench_plan *out, struct weft_error *err);

/* -- simulate ---------------------------------------------------------------------------------- */

const struct wf_bench_case *wf_bench_sim_cases(size_t *n);

/* Simulates one schedule.  *actions_s is the maximum number of actions per second over `repeat`
 * runs. */
enum weft_status wf_bench_sim(const struct wf_bench_case *c, uint32_t repeat, size_t *actions,
                              double *actions_s, struct weft_error *err);

/* Simulates `pipelines` copies of a case with different speeds per rank.  *rate is the number
 * of actions times the number of pipelines, per second. */
enum weft_status wf_bench_fleet(const struct wf_bench_case *c, size_t pipelines,
                                uint32_t repeat, double *rate, double *seconds,
                                struct weft_error *err);

/* Figures of the reference cache model (weft/cache.h) by number of micro-batches in flight; 0
 * means no cache. */
enum { WF_BENCH_N_IN_FLIGHT = 6 };
extern const size_t wf_bench_in_flight[WF_BENCH_N_IN_FLIGHT];

struct wf_bench_cache {
    const char *schedule; /* name of a schedule with 8 ranks, 4 chunks, 512 micro-batches */
    double ns[WF_BENCH_N_IN_FLIGHT]; /* nanoseconds per event */
};

enum { WF_BENCH_N_CACHE = 2 };
enum weft_status wf_bench_cache(uint32_t repeat, struct wf_bench_cache out[WF_BENCH_N_CACHE],
                                struct weft_error *err);

#endif
