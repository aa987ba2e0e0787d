/* Benchmarks of planning: generating, verifying, lowering and timing schedules on one core. */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_json; /* base/json.h */

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
    bool over_limit;                 /* there is a limit, and limited_ns exceeds it */
};

/* Measures one case.  Each time is the minimum over `repeat` runs. */
enum weft_status wf_bench_plan(const struct wf_bench_case *c, uint32_t repeat,
                               struct wf_bench_plan *out, struct weft_error *err);

typedef void wf_bench_plan_fn(void *ctx, const struct wf_bench_case *c,
                              const struct wf_bench_plan *f);

/* Measures all cases, large ones only if `large` is true, and calls `each` after each case. */
enum weft_status wf_bench_plans(uint32_t repeat, bool large, wf_bench_plan_fn *each, void *ctx,
                                struct weft_error *err);

void wf_bench_plan_write_json(struct wf_json *j, const struct wf_bench_case *c,
                              const struct wf_bench_plan *f);

/* -- simulate ---------------------------------------------------------------------------------- */

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

/* All figures of the simulator. */
enum { WF_BENCH_N_SIM = 4 };
struct wf_bench_sim_figures {
    struct wf_bench_sim_case {
        const struct wf_bench_case *shape; /* borrowed: a constant */
        size_t actions;
        double rate; /* actions per second */
    } cases[WF_BENCH_N_SIM];
    size_t n_cases; /* large cases are omitted unless they are requested */
    double
        scenarios_rate; /* 64 ranks x 512 micro-batches: actions times scenarios, per second */
    double fleet_seconds; /* one step of 782 pipelines of 16 ranks */
    struct wf_bench_cache cache[WF_BENCH_N_CACHE];
};

enum weft_status wf_bench_sims(uint32_t repeat, bool large, struct wf_bench_sim_figures *out,
                               struct weft_error *err);

void wf_bench_sim_write_json(struct wf_json *j, const struct wf_bench_sim_figures *f);

#endif
