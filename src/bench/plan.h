/* Benchmarks of planning: generating, verifying, lowering and timing schedules on one core. */
#ifndef BENCH_PLAN_H
#define BENCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_bench_case {
    const char *schedule;
    uint32_t ranks, chunks, micros; /* chunks 0: the schedule's default */
    double limit_ns;                /* for generating and verifying one action; 0: none */
    bool generate_only;
    bool large; /* takes seconds and gigabytes */
};

/* -- generate, verify, lower ------------------------------------------------------------------- */

/* Per action. */
struct wf_bench_plan {
    size_t actions;
    double generate_ns, verify_ns, lower_ns, lowered_verify_ns;
    double stored_bytes, peak_bytes; /* peak 0: too few actions to be measured */
    double limited_ns;               /* what limit_ns applies to */
};

const struct wf_bench_case *wf_bench_plan_cases(size_t *n);

/* Measures one case; times are the minimum of `repeat` runs. */
enum weft_status wf_bench_plan(const struct wf_bench_case *c, uint32_t repeat,
                               struct wf_bench_plan *out, struct weft_error *err);

/* -- simulate ---------------------------------------------------------------------------------- */

const struct wf_bench_case *wf_bench_sim_cases(size_t *n);

/* Times one schedule; *actions_s is the maximum of `repeat` runs. */
enum weft_status wf_bench_sim(const struct wf_bench_case *c, uint32_t repeat, size_t *actions,
                              double *actions_s, struct weft_error *err);

/* Simulates `pipelines` copies of a case with different speeds per rank.  *rate counts actions times
 * pipelines per second. */
enum weft_status wf_bench_fleet(const struct wf_bench_case *c, size_t pipelines,
                                uint32_t repeat, double *rate, double *seconds,
                                struct weft_error *err);

/* The reference cache model (weft/cache.h) by micro-batches in flight; 0: no cache. */
enum { WF_BENCH_N_IN_FLIGHT = 6 };
extern const size_t wf_bench_in_flight[WF_BENCH_N_IN_FLIGHT];

struct wf_bench_cache {
    const char *schedule;            /* of 8 ranks, 4 chunks, 512 micro-batches */
    double ns[WF_BENCH_N_IN_FLIGHT]; /* per event */
};

enum { WF_BENCH_N_CACHE = 2 };
enum weft_status wf_bench_cache(uint32_t repeat, struct wf_bench_cache out[WF_BENCH_N_CACHE],
                                struct weft_error *err);

#endif
