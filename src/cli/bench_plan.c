/* Prints the benchmarks of planning and simulating. */
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "bench/plan.h"
#include "cli/bench.h"

/* -- weft bench plan ------------------------------------------------------------------------ */

static void print_row(const struct wf_bench_case *c, const struct wf_bench_plan *f)
{
    char shape[40], limit[40] = "";
    snprintf(shape, sizeof shape, "%ux%ux%u", c->ranks, c->chunks ? c->chunks : 1, c->micros);
    if (c->limit_ns > 0)
        snprintf(limit, sizeof limit, "%s (limit %.0f)",
                 f->limited_ns <= c->limit_ns ? "ok" : "over", c->limit_ns);
    printf("%-17s %-13s %10zu %8.1f %8.1f %8.1f %8.1f %6.1f %6.1f  %s\n", c->schedule, shape,
           f->actions, f->generate_ns, f->verify_ns, f->lower_ns, f->lowered_verify_ns,
           f->stored_bytes, f->peak_bytes, limit);
}

static void put_row(struct wf_json *j, const struct wf_bench_case *c,
                    const struct wf_bench_plan *f)
{
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "schedule", c->schedule);
    wf_json_uint(j, "ranks", c->ranks);
    wf_json_uint(j, "chunks", c->chunks ? c->chunks : 1);
    wf_json_uint(j, "micros", c->micros);
    wf_json_uint(j, "actions", f->actions);
    wf_json_number(j, "generate_ns", f->generate_ns);
    wf_json_number(j, "verify_ns", f->verify_ns);
    wf_json_number(j, "lower_ns", f->lower_ns);
    wf_json_number(j, "lowered_verify_ns", f->lowered_verify_ns);
    wf_json_number(j, "stored_bytes", f->stored_bytes);
    wf_json_number(j, "peak_bytes", f->peak_bytes);
    wf_json_number(j, "bar_ns", c->limit_ns);
    wf_json_end(j, '}');
}

enum weft_status wf_bench_show_plan(uint32_t repeat, bool large, bool json,
                                    struct weft_error *err)
{
    struct wf_json j = {.out = stdout};
    size_t n = 0;
    const struct wf_bench_case *cases = wf_bench_plan_cases(&n);
    if (json)
        wf_json_begin(&j, NULL, '[');
    else
        printf("ns per action, minimum of %u, processor time of one thread\n"
               "%-17s %-13s %10s %8s %8s %8s %8s %6s %6s\n",
               repeat, "schedule", "PxVxM", "actions", "generate", "verify", "lower", "+verify",
               "bytes", "peak");

    for (size_t i = 0; i < n; i++) {
        struct wf_bench_plan f;
        if (cases[i].large && !large)
            continue;
        WEFT_TRY(wf_bench_plan(&cases[i], repeat, &f, err));
        if (json)
            put_row(&j, &cases[i], &f);
        else
            print_row(&cases[i], &f);
    }

    if (json) {
        wf_json_end(&j, ']');
        putchar('\n');
    }
    return WEFT_OK;
}

/* -- weft bench sim ------------------------------------------------------------------------- */

static enum weft_status show_cache(uint32_t repeat, struct weft_error *err)
{
    struct wf_bench_cache cache[WF_BENCH_N_CACHE];
    WEFT_TRY(wf_bench_cache(repeat, cache, err));
    printf("\nreference cache model, 8x4x512, ns per event by micro-batches in flight (0: no "
           "cache)\n");
    for (size_t k = 0; k < WF_BENCH_N_CACHE; k++) {
        printf("%-17s", cache[k].schedule);
        for (size_t i = 0; i < WF_BENCH_N_IN_FLIGHT; i++)
            printf("  %zu: %.1f", wf_bench_in_flight[i], cache[k].ns[i]);
        putchar('\n');
    }
    return WEFT_OK;
}

enum weft_status wf_bench_show_sim(uint32_t repeat, bool large, struct weft_error *err)
{
    static const struct wf_bench_case many = {"1f1b", 64, 0, 512, 0, false, false};
    static const struct wf_bench_case fleet = {"interleaved-1f1b", 16, 8, 64, 0, false, false};
    size_t n = 0;
    const struct wf_bench_case *cases = wf_bench_sim_cases(&n);
    double rate = 0, seconds = 0;

    printf("%-17s %-13s %12s\n", "one schedule", "PxVxM", "M actions/s");
    for (size_t i = 0; i < n; i++) {
        size_t actions = 0;
        char shape[40];
        if (cases[i].large && !large)
            continue;
        WEFT_TRY(wf_bench_sim(&cases[i], repeat, &actions, &rate, err));
        snprintf(shape, sizeof shape, "%ux1x%u", cases[i].ranks, cases[i].micros);
        printf("%-17s %-13s %12.1f   %.3f s\n", cases[i].schedule, shape, rate / 1e6,
               (double)actions / rate);
    }

    WEFT_TRY(wf_bench_fleet(&many, 1024, repeat, &rate, &seconds, err));
    printf("\n1024 scenarios of 64 ranks x 512 micro-batches: %.2f G action-scenarios/s\n",
           rate / 1e9);
    WEFT_TRY(wf_bench_fleet(&fleet, 782, repeat, &rate, &seconds, err));
    printf("one step of 100,000 devices (782 pipelines of 16 ranks, 8 chunks, 64 "
           "micro-batches): %.3f s\n",
           seconds);
    return show_cache(repeat, err);
}
