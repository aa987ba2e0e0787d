/* Measures the simulator: one schedule, many scenarios, and the reference cache model. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "bench/plan.h"
#include "planning/sched/start_times.h"
#include "weft/cache.h"
#include "weft/sim.h"

static const struct wf_bench_case cases[WF_BENCH_N_SIM] = {
    {"1f1b", 8, 0, 32, 0, false, false},
    {"zb-v", 64, 0, 512, 0, false, false},
    {"1f1b", 1024, 0, 4096, 0, false, false},
    {"1f1b", 1024, 0, 98304, 0, false, true},
};

const size_t wf_bench_in_flight[WF_BENCH_N_IN_FLIGHT] = {0, 1, 8, 64, 511, 512};

static enum weft_status make_case(const struct wf_bench_case *c, struct weft_schedule **out,
                                  struct weft_error *err)
{
    struct weft_gen_params params = {
        .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
    return weft_schedule_generate(c->schedule, &params, out, err);
}

enum weft_status wf_bench_sim(const struct wf_bench_case *c, uint32_t repeat, size_t *actions,
                              double *actions_s, struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    WEFT_TRY(make_case(c, &s, err));
    struct wf_rank_times *ranks = malloc(sizeof *ranks * c->ranks);
    const struct wf_start_times_input in = {.schedule = s};
    enum weft_status st = ranks == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", c->ranks)
                              : WEFT_OK;
    *actions = weft_schedule_n_actions(s);

    for (uint32_t i = 0; st == WEFT_OK && i < repeat; i++) {
        int64_t t = wf_clock_cpu_ns();
        st = wf_start_times_compute(&in, ranks, NULL, NULL, err);
        double now = (double)*actions / (double)(wf_clock_cpu_ns() - t) * 1e9;
        *actions_s = i == 0 || now > *actions_s ? now : *actions_s;
    }
    free(ranks);
    weft_schedule_free(s);
    return st;
}

enum weft_status wf_bench_fleet(const struct wf_bench_case *c, size_t pipelines,
                                uint32_t repeat, double *rate, double *seconds,
                                struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    WEFT_TRY(make_case(c, &s, err));
    const struct weft_sim_options plain = {.cost = NULL};
    size_t n = pipelines * c->ranks;
    float *speeds = malloc(sizeof *speeds * n), *out = malloc(sizeof *out * pipelines);
    enum weft_status st = speeds == NULL || out == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu ranks", n)
                              : WEFT_OK;

    for (size_t i = 0; st == WEFT_OK && i < n; i++)
        speeds[i] = 1 + (float)(i % 97) / 1000;
    for (uint32_t i = 0; st == WEFT_OK && i < repeat; i++) {
        int64_t t = wf_clock_cpu_ns();
        st = weft_fleet_run(s, &plain, speeds, pipelines, out, err);
        double took = (double)(wf_clock_cpu_ns() - t) / 1e9;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }

    *rate = (double)weft_schedule_n_actions(s) * (double)pipelines / *seconds;
    free(speeds);
    free(out);
    weft_schedule_free(s);
    return st;
}

/* Measures the reference cache model.  *best is the minimum time in nanoseconds per event. */
static enum weft_status time_cache(const struct weft_schedule *s,
                                   const struct weft_partition *p, size_t in_flight,
                                   uint32_t repeat, double *best, struct weft_error *err)
{
    bool cached = in_flight > 0;
    const struct weft_ref_traffic_settings how = {
        .mode =
            cached ? WEFT_REF_TRAFFIC_BLOCK_RESIDUAL_CACHE : WEFT_REF_TRAFFIC_ACTIVATION_TENSOR,
        .cache = {cached, WEFT_CACHE_POLICY_RESIDENT_BLOCK_SUMMARIES, true, in_flight},
        .layers_per_block = 2,
        .payload_bytes = 4096};
    for (uint32_t n = 0; n < repeat; n++) {
        struct weft_ref_traffic c;
        int64_t t = wf_clock_cpu_ns();
        WEFT_TRY(weft_ref_traffic_compute(s, p, &how, &c, err));
        double ns = (double)(wf_clock_cpu_ns() - t) / (double)weft_schedule_n_actions(s);
        *best = n == 0 || ns < *best ? ns : *best;
        weft_ref_traffic_release(&c);
    }
    return WEFT_OK;
}

enum weft_status wf_bench_cache(uint32_t repeat, struct wf_bench_cache out[WF_BENCH_N_CACHE],
                                struct weft_error *err)
{
    static const struct wf_bench_case plans[WF_BENCH_N_CACHE] = {
        {"greedy-1f1b", 8, 4, 512, 0, true, false},
        {"greedy-gpipe", 8, 4, 512, 0, true, false},
    };
    struct weft_partition p;
    WEFT_TRY(weft_partition_init_even(&p, 64, 32, err));
    enum weft_status st = WEFT_OK;
    for (size_t k = 0; st == WEFT_OK && k < WF_BENCH_N_CACHE; k++) {
        struct weft_schedule *s = NULL;
        out[k] = (struct wf_bench_cache){.schedule = plans[k].schedule};
        st = make_case(&plans[k], &s, err);
        for (size_t i = 0; st == WEFT_OK && i < WF_BENCH_N_IN_FLIGHT; i++)
            st = time_cache(s, &p, wf_bench_in_flight[i], repeat, &out[k].ns[i], err);
        weft_schedule_free(s);
    }
    weft_partition_release(&p);
    return st;
}

enum weft_status wf_bench_sims(uint32_t repeat, bool large, struct wf_bench_sim_figures *out,
                               struct weft_error *err)
{
    static const struct wf_bench_case many = {"1f1b", 64, 0, 512, 0, false, false};
    static const struct wf_bench_case fleet = {"interleaved-1f1b", 16, 8, 64, 0, false, false};
    double ignored;
    *out = (struct wf_bench_sim_figures){0};
    for (size_t i = 0; i < WF_BENCH_N_SIM; i++) {
        struct wf_bench_sim_case *c = &out->cases[out->n_cases];
        if (cases[i].large && !large)
            continue;
        c->shape = &cases[i];
        WEFT_TRY(wf_bench_sim(c->shape, repeat, &c->actions, &c->rate, err));
        out->n_cases++;
    }
    WEFT_TRY(wf_bench_fleet(&many, 1024, repeat, &out->scenarios_rate, &ignored, err));
    WEFT_TRY(wf_bench_fleet(&fleet, 782, repeat, &ignored, &out->fleet_seconds, err));
    return wf_bench_cache(repeat, out->cache, err);
}
