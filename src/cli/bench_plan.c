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
        snprintf(limit, sizeof limit, "%s (limit %.0f)", f->over_limit ? "over" : "ok",
                 c->limit_ns);
    printf("%-17s %-13s %10zu %8.1f %8.1f %8.1f %8.1f %6.1f %6.1f  %s\n", c->schedule, shape,
           f->actions, f->generate_ns, f->verify_ns, f->lower_ns, f->lowered_verify_ns,
           f->stored_bytes, f->peak_bytes, limit);
}

struct plan_table {
    struct wf_json json;
    bool as_json;
};

static void show_row(void *ctx, const struct wf_bench_case *c, const struct wf_bench_plan *f)
{
    struct plan_table *t = ctx;
    if (t->as_json)
        wf_bench_plan_write_json(&t->json, c, f);
    else
        print_row(c, f);
}

enum weft_status wf_bench_show_plan(uint32_t repeat, bool large, bool json,
                                    struct weft_error *err)
{
    struct plan_table t = {.json = {.out = stdout}, .as_json = json};
    if (json)
        wf_json_begin(&t.json, NULL, '[');
    else
        printf("ns per action, minimum of %u, processor time of one thread\n"
               "%-17s %-13s %10s %8s %8s %8s %8s %6s %6s\n",
               repeat, "schedule", "PxVxM", "actions", "generate", "verify", "lower", "+verify",
               "bytes", "peak");
    WEFT_TRY(wf_bench_plans(repeat, large, show_row, &t, err));
    if (json) {
        wf_json_end(&t.json, ']');
        putchar('\n');
    }
    return WEFT_OK;
}

/* -- weft bench sim ------------------------------------------------------------------------- */

static void print_sim(const struct wf_bench_sim_figures *f)
{
    printf("%-17s %-13s %12s\n", "one schedule", "PxVxM", "M actions/s");
    for (size_t i = 0; i < f->n_cases; i++) {
        const struct wf_bench_sim_case *c = &f->cases[i];
        char shape[40];
        snprintf(shape, sizeof shape, "%ux1x%u", c->shape->ranks, c->shape->micros);
        printf("%-17s %-13s %12.1f   %.3f s\n", c->shape->schedule, shape, c->rate / 1e6,
               (double)c->actions / c->rate);
    }

    printf("\n1024 scenarios of 64 ranks x 512 micro-batches: %.2f G action-scenarios/s\n",
           f->scenarios_rate / 1e9);
    printf("one step of 100,000 devices (782 pipelines of 16 ranks, 8 chunks, 64 "
           "micro-batches): %.3f s\n",
           f->fleet_seconds);

    printf("\nreference cache model, 8x4x512, ns per event by micro-batches in flight (0: no "
           "cache)\n");
    for (size_t k = 0; k < WF_BENCH_N_CACHE; k++) {
        printf("%-17s", f->cache[k].schedule);
        for (size_t i = 0; i < WF_BENCH_N_IN_FLIGHT; i++)
            printf("  %zu: %.1f", wf_bench_in_flight[i], f->cache[k].ns[i]);
        putchar('\n');
    }
}

enum weft_status wf_bench_show_sim(uint32_t repeat, bool large, bool json,
                                   struct weft_error *err)
{
    struct wf_bench_sim_figures figures;
    WEFT_TRY(wf_bench_sims(repeat, large, &figures, err));
    if (json) {
        wf_bench_sim_write_json(&(struct wf_json){.out = stdout}, &figures);
        putchar('\n');
    } else {
        print_sim(&figures);
    }
    return WEFT_OK;
}
