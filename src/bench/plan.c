/* Measures planning: nanoseconds and bytes per action, on one core. */
#define _DEFAULT_SOURCE /* wait4, malloc_trim */

#include "bench/plan.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "weft/schedule.h"
#include "weft/verify.h"

/* Minimum number of actions for measuring memory.  The memory of a smaller schedule cannot be
 * distinguished from the memory of the process itself. */
enum { MIN_PEAK_ACTIONS = 500000 };

static const struct wf_bench_case cases[] = {
    {"1f1b", 64, 0, 4096, 60, false, false},
    {"1f1b", 512, 0, 8192, 60, false, true},
    {"interleaved-1f1b", 64, 2, 4096, 60, false, false},
    {"interleaved-1f1b", 512, 2, 8192, 60, false, true},
    {"zb-h1", 64, 0, 4096, 60, false, false},
    {"zb-h1", 512, 0, 8192, 60, false, true},
    {"greedy-gpipe", 8, 4, 32, 15, true, false},
    {"greedy-gpipe", 8, 4, 2048, 15, true, false},
    {"greedy-gpipe", 64, 1, 512, 15, true, false},
    {"greedy-1f1b", 8, 4, 32, 15, true, false},
    {"greedy-1f1b", 8, 4, 2048, 15, true, false},
    {"greedy-1f1b", 8, 4, 65536, 15, true, true},
    {"greedy-1f1b", 64, 1, 512, 15, true, false},
    {"zb-v", 64, 0, 4096, 0, false, false},
    {"dualpipe-v", 64, 0, 4096, 0, false, false},
};

/* Returns the peak resident memory, in KiB, of a child process that generates and verifies a
 * case.  If the case has no schedule, the child does nothing.  Returns -1 on failure. */
static long child_kib(const struct wf_bench_case *c)
{
    fflush(NULL);
    malloc_trim(0); /* the child must not reuse memory that this process has freed */
    pid_t child = fork();
    if (child == 0) {
        struct weft_gen_params params = {
            .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
        struct weft_schedule *s = NULL;
        struct weft_verify_result result;
        bool work = c->schedule != NULL;
        bool ok = !work || (weft_schedule_generate(c->schedule, &params, &s, NULL) == WEFT_OK &&
                            weft_verify(s, NULL, &result, NULL) == WEFT_OK);
        _exit(ok ? 0 : 1);
    }
    struct rusage usage;
    int status = 0;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0)
        return -1;
    return usage.ru_maxrss;
}

static double peak_bytes(const struct wf_bench_case *c, size_t actions)
{
    static const struct wf_bench_case nothing = {0};
    long busy = child_kib(c), idle = child_kib(&nothing);
    return busy < 0 || idle < 0 ? 0 : (double)(busy - idle) * 1024 / (double)actions;
}

/* Measures a case once.  A small schedule is generated repeatedly, because the clock is too
 * coarse to measure it once. */
static enum weft_status run_once(const struct wf_bench_case *c, struct wf_bench_plan *out,
                                 struct weft_error *err)
{
    struct weft_gen_params params = {
        .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
    struct weft_schedule *s = NULL, *lowered = NULL;
    struct weft_verify_result result = {0};
    size_t n_runs = 1 + 400000 / ((size_t)c->ranks * c->micros);

    int64_t t0 = wf_clock_cpu_ns();
    for (size_t i = 0; i < n_runs; i++) {
        weft_schedule_free(s);
        s = NULL;
        WEFT_TRY(weft_schedule_generate(c->schedule, &params, &s, err));
    }
    int64_t t1 = wf_clock_cpu_ns();
    enum weft_status st = weft_verify(s, NULL, &result, err);
    int64_t t2 = wf_clock_cpu_ns();
    if (st == WEFT_OK && result.n_findings > 0)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%s does not verify", c->schedule);
    weft_verify_result_release(&result);

    size_t n = weft_schedule_n_actions(s);
    *out = (struct wf_bench_plan){.actions = n,
                                  .generate_ns = (double)(t1 - t0) / (double)(n * n_runs),
                                  .verify_ns = (double)(t2 - t1) / (double)n,
                                  .stored_bytes = (double)weft_schedule_bytes(s) / (double)n};

    if (st == WEFT_OK && !c->generate_only) {
        t0 = wf_clock_cpu_ns();
        st = weft_schedule_lower(s, WEFT_LOWERING_WEFT, &lowered, err);
        t1 = wf_clock_cpu_ns();
        if (st == WEFT_OK)
            st = weft_verify(lowered, NULL, &result, err);
        t2 = wf_clock_cpu_ns();
        weft_verify_result_release(&result);
        if (st == WEFT_OK) {
            double all = (double)weft_schedule_n_actions(lowered);
            out->lower_ns = (double)(t1 - t0) / all;
            out->lowered_verify_ns = (double)(t2 - t1) / all;
        }
    }
    weft_schedule_free(lowered);
    weft_schedule_free(s);
    return st;
}

static double minimum(double a, double b)
{
    return a < b ? a : b;
}

enum weft_status wf_bench_plan(const struct wf_bench_case *c, uint32_t repeat,
                               struct wf_bench_plan *out, struct weft_error *err)
{
    struct wf_bench_plan best = {0};
    for (uint32_t i = 0; i < repeat; i++) {
        struct wf_bench_plan f = {0};
        WEFT_TRY(run_once(c, &f, err));
        if (i == 0) {
            best = f;
            continue;
        }
        best.generate_ns = minimum(best.generate_ns, f.generate_ns);
        best.verify_ns = minimum(best.verify_ns, f.verify_ns);
        best.lower_ns = minimum(best.lower_ns, f.lower_ns);
        best.lowered_verify_ns = minimum(best.lowered_verify_ns, f.lowered_verify_ns);
    }

    best.limited_ns = c->generate_only ? best.generate_ns : best.generate_ns + best.verify_ns;
    best.over_limit = c->limit_ns > 0 && best.limited_ns > c->limit_ns;
    if (best.actions >= MIN_PEAK_ACTIONS)
        best.peak_bytes = peak_bytes(c, best.actions);
    *out = best;
    return WEFT_OK;
}

enum weft_status wf_bench_plans(uint32_t repeat, bool large, wf_bench_plan_fn *each, void *ctx,
                                struct weft_error *err)
{
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct wf_bench_plan f;
        if (cases[i].large && !large)
            continue;
        WEFT_TRY(wf_bench_plan(&cases[i], repeat, &f, err));
        each(ctx, &cases[i], &f);
    }
    return WEFT_OK;
}
