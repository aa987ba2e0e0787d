#define _DEFAULT_SOURCE /* wait4, malloc_trim */

/* How fast planning is: nanoseconds and bytes for each action, on one core. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "planning/sched/start_times.h"
#include "weft/cache.h"
#include "weft/sim.h"
#include "weft/timing.h"
#include "weft/verify.h"

struct bench_settings {
    bool json, large;
    uint32_t repeat;
    const char *spec, *precision, *schedule, *dir;
    uint32_t batch, seq, micros, threads, ranks, steps;
};

#define AT(field) offsetof(struct bench_settings, field)

static const struct wf_option options[] = {
    {"json", 'j', WF_OPTION_SWITCH, NULL, "figures for programs", NULL, AT(json)},
    {"large", 0, WF_OPTION_SWITCH, NULL,
     "also 512 ranks x 8192 micros (up to 25 million actions)", NULL, AT(large)},
    {"repeat", 0, WF_OPTION_COUNT, "N",
     "best, or median, of N runs (5; pipeline 2, checkpoint 3)", NULL, AT(repeat)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Train, kernels, pipeline, generate and checkpoint",
     NULL, 0},
    {"spec", 0, WF_OPTION_TEXT, "NAME", "the model (gpt2-124m)", NULL, AT(spec)},
    {"batch", 0, WF_OPTION_COUNT, "N", "sequences a step (4); pipeline: a micro (1)", NULL,
     AT(batch)},
    {"seq", 0, WF_OPTION_COUNT, "N", "tokens a sequence (256)", NULL, AT(seq)},
    {"micros", 0, WF_OPTION_COUNT, "N", "micros a step (1; pipeline: 16)", NULL, AT(micros)},
    {"threads", 0, WF_OPTION_COUNT, "N", "threads (one for each core)", NULL, AT(threads)},
    {"precision", 0, WF_OPTION_CHOICE, "TYPE", "of the products: fp32 (default) or bf16",
     "fp32|bf16", AT(precision)},
    {"ranks", 0, WF_OPTION_COUNT, "N", "pipeline: ranks of one thread (2)", NULL, AT(ranks)},
    {"schedule", 0, WF_OPTION_TEXT, "NAME", "pipeline: its schedule (1f1b)", NULL,
     AT(schedule)},
    {"dir", 0, WF_OPTION_TEXT, "DIR", "checkpoint: on the disk to be measured (.)", NULL,
     AT(dir)},
    {"steps", 0, WF_OPTION_COUNT, "N", "checkpoint: save every N steps (10)", NULL, AT(steps)},
};

struct bench_case {
    const char *schedule;
    uint32_t ranks, chunks, micros;
    double bar_ns; /* what generating and verifying an action may cost; 0: no bar */
    bool generate_only;
    bool large;
};

static const struct bench_case cases[] = {
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

struct bench_figures {
    size_t actions;
    double generate_ns, verify_ns, lower_ns, lowered_verify_ns; /* an action */
    double stored_bytes, peak_bytes;                            /* an action */
};

/* What making and verifying takes at its peak, seen from outside: the resident memory of a child
 * that does just that, less that of one that does nothing. */
static long child_kib(const struct bench_case *c)
{
    fflush(NULL);
    malloc_trim(0); /* a child must not live on what this process has left over */
    pid_t child = fork();
    if (child == 0) {
        struct weft_gen_params params = {
            .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
        struct weft_schedule *s = NULL;
        struct weft_verify_result report;
        bool work = c->schedule != NULL;
        bool ok = !work || (weft_schedule_generate(c->schedule, &params, &s, NULL) == WEFT_OK &&
                            weft_verify(s, NULL, &report, NULL) == WEFT_OK);
        _exit(ok ? 0 : 1);
    }
    struct rusage usage;
    int status = 0;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0)
        return -1;
    return usage.ru_maxrss;
}

static double peak_bytes(const struct bench_case *c, size_t actions)
{
    static const struct bench_case nothing = {0};
    long busy = child_kib(c), idle = child_kib(&nothing);
    return busy < 0 || idle < 0 ? 0 : (double)(busy - idle) * 1024 / (double)actions;
}

/* What is too short for the clock is timed many times over. */
static enum weft_status run_once(const struct bench_case *c, struct bench_figures *out,
                                 struct weft_error *err)
{
    struct weft_gen_params params = {
        .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
    struct weft_schedule *s = NULL, *lowered = NULL;
    struct weft_verify_result report = {0};
    size_t small = 1 + 400000 / ((size_t)c->ranks * c->micros);
    int64_t t0 = wf_clock_cpu_ns();
    for (size_t i = 0; i < small; i++) {
        weft_schedule_free(s);
        s = NULL;
        WEFT_TRY(weft_schedule_generate(c->schedule, &params, &s, err));
    }
    int64_t t1 = wf_clock_cpu_ns();
    enum weft_status st = weft_verify(s, NULL, &report, err);
    int64_t t2 = wf_clock_cpu_ns();
    if (st == WEFT_OK && report.n_findings > 0)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%s does not verify", c->schedule);
    weft_verify_result_release(&report);
    size_t n = weft_schedule_n_actions(s);
    *out = (struct bench_figures){.actions = n,
                                  .generate_ns = (double)(t1 - t0) / (double)(n * small),
                                  .verify_ns = (double)(t2 - t1) / (double)n,
                                  .stored_bytes = (double)weft_schedule_bytes(s) / (double)n};
    if (st == WEFT_OK && !c->generate_only) {
        t0 = wf_clock_cpu_ns();
        st = weft_schedule_lower(s, WEFT_LOWERING_LATE, &lowered, err);
        t1 = wf_clock_cpu_ns();
        if (st == WEFT_OK)
            st = weft_verify(lowered, NULL, &report, err);
        t2 = wf_clock_cpu_ns();
        weft_verify_result_release(&report);
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

static double least(double a, double b)
{
    return a < b ? a : b;
}

static enum weft_status run_case(const struct bench_case *c, uint32_t repeat,
                                 struct bench_figures *best, struct weft_error *err)
{
    for (uint32_t i = 0; i < repeat; i++) {
        struct bench_figures f = {0};
        WEFT_TRY(run_once(c, &f, err));
        if (i == 0) {
            *best = f;
            continue;
        }
        best->generate_ns = least(best->generate_ns, f.generate_ns);
        best->verify_ns = least(best->verify_ns, f.verify_ns);
        best->lower_ns = least(best->lower_ns, f.lower_ns);
        best->lowered_verify_ns = least(best->lowered_verify_ns, f.lowered_verify_ns);
    }
    return WEFT_OK;
}

static double judged_ns(const struct bench_case *c, const struct bench_figures *f)
{
    return c->generate_only ? f->generate_ns : f->generate_ns + f->verify_ns;
}

static void print_row(const struct bench_case *c, const struct bench_figures *f)
{
    char shape[40], bar[40] = "";
    snprintf(shape, sizeof shape, "%ux%ux%u", c->ranks, c->chunks ? c->chunks : 1, c->micros);
    if (c->bar_ns > 0)
        snprintf(bar, sizeof bar, "%s (bar %.0f)", judged_ns(c, f) <= c->bar_ns ? "ok" : "over",
                 c->bar_ns);
    printf("%-17s %-13s %10zu %8.1f %8.1f %8.1f %8.1f %6.1f %6.1f  %s\n", c->schedule, shape,
           f->actions, f->generate_ns, f->verify_ns, f->lower_ns, f->lowered_verify_ns,
           f->stored_bytes, f->peak_bytes, bar);
}

static void put_row(struct wf_json *j, const struct bench_case *c,
                    const struct bench_figures *f)
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
    wf_json_number(j, "bar_ns", c->bar_ns);
    wf_json_end(j, '}');
}

static enum weft_status bench_plan(const struct bench_settings *s, struct weft_error *err)
{
    struct wf_json j = {.out = stdout};
    if (s->json)
        wf_json_begin(&j, NULL, '[');
    else
        printf("ns an action, best of %u, processor time of one thread\n"
               "%-17s %-13s %10s %8s %8s %8s %8s %6s %6s\n",
               s->repeat, "schedule", "PxVxM", "actions", "generate", "verify", "lower",
               "+verify", "bytes", "peak");
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct bench_figures f = {0};
        if (cases[i].large && !s->large)
            continue;
        WEFT_TRY(run_case(&cases[i], s->repeat, &f, err));
        if (f.actions >= 500000) /* less would drown in the size of the process */
            f.peak_bytes = peak_bytes(&cases[i], f.actions);
        if (s->json)
            put_row(&j, &cases[i], &f);
        else
            print_row(&cases[i], &f);
    }
    if (s->json) {
        wf_json_end(&j, ']');
        putchar('\n');
    }
    return WEFT_OK;
}

/* -- weft bench sim ------------------------------------------------------------------------- */

static enum weft_status make_case(const struct bench_case *c, struct weft_schedule **out,
                                  struct weft_error *err)
{
    struct weft_gen_params params = {
        .ranks = c->ranks, .micros = c->micros, .chunks = c->chunks};
    return weft_schedule_generate(c->schedule, &params, out, err);
}

/* One order, timed: actions a second. */
static enum weft_status bench_clock(const struct bench_case *c, uint32_t repeat, double *rate,
                                    size_t *actions, struct weft_error *err)
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
        *rate = i == 0 || now > *rate ? now : *rate;
    }
    free(ranks);
    weft_schedule_free(s);
    return st;
}

/* Sixteen scenarios at a time: action-scenarios a second, the order found beforehand. */
static enum weft_status bench_fleet(const struct bench_case *c, size_t pipelines,
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

/* The reference system's count of a plan's traffic: nanoseconds an event, the best of several. */
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

static enum weft_status bench_cache(uint32_t repeat, struct weft_error *err)
{
    static const size_t in_flight[] = {0,  1,   8,
                                       64, 511, 512}; /* 0: activations only, no cache */
    static const struct bench_case plans[] = {{"greedy-1f1b", 8, 4, 512, 0, true, false},
                                              {"greedy-gpipe", 8, 4, 512, 0, true, false}};
    struct weft_partition p;
    WEFT_TRY(weft_partition_init_even(&p, 64, 32, err));
    printf("\nreference cache model, 8x4x512, ns an event by micros in flight (0: no cache)\n");
    enum weft_status st = WEFT_OK;
    for (size_t k = 0; st == WEFT_OK && k < WEFT_LEN(plans); k++) {
        struct weft_schedule *s = NULL;
        double best = 0;
        st = make_case(&plans[k], &s, err);
        printf("%-17s", plans[k].schedule);
        for (size_t i = 0; st == WEFT_OK && i < WEFT_LEN(in_flight); i++) {
            st = time_cache(s, &p, in_flight[i], repeat, &best, err);
            printf("  %zu: %.1f", in_flight[i], best);
        }
        putchar('\n');
        weft_schedule_free(s);
    }
    weft_partition_release(&p);
    return st;
}

static enum weft_status bench_sim(const struct bench_settings *s, struct weft_error *err)
{
    static const struct bench_case orders[] = {
        {"1f1b", 8, 0, 32, 0, false, false},
        {"zb-v", 64, 0, 512, 0, false, false},
        {"1f1b", 1024, 0, 4096, 0, false, false},
        {"1f1b", 1024, 0, 98304, 0, false, true},
    };
    static const struct bench_case many = {"1f1b", 64, 0, 512, 0, false, false};
    static const struct bench_case fleet = {"interleaved-1f1b", 16, 8, 64, 0, false, false};
    double rate = 0, seconds = 0;
    printf("%-17s %-13s %12s\n", "one order", "PxVxM", "M actions/s");
    for (size_t i = 0; i < WEFT_LEN(orders); i++) {
        size_t actions = 0;
        if (orders[i].large && !s->large)
            continue;
        WEFT_TRY(bench_clock(&orders[i], s->repeat, &rate, &actions, err));
        char shape[40];
        snprintf(shape, sizeof shape, "%ux1x%u", orders[i].ranks, orders[i].micros);
        printf("%-17s %-13s %12.1f   %.3f s\n", orders[i].schedule, shape, rate / 1e6,
               (double)actions / rate);
    }
    WEFT_TRY(bench_fleet(&many, 1024, s->repeat, &rate, &seconds, err));
    printf("\n1024 scenarios of 64 ranks x 512 micros: %.2f G action-scenarios/s\n",
           rate / 1e9);
    WEFT_TRY(bench_fleet(&fleet, 782, s->repeat, &rate, &seconds, err));
    printf(
        "a step of 100,000 devices (782 pipelines of 16 ranks, 8 chunks, 64 micros): %.3f s\n",
        seconds);
    return bench_cache(s->repeat, err);
}

static enum weft_status run_bench(int argc, char **argv, struct weft_error *err)
{
    struct bench_settings s = {0};
    const char *what = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_bench, argc, argv, &s, &what, err));
    bool pipeline = strcmp(what, "pipeline") == 0;
    if (s.repeat == 0)
        s.repeat = pipeline ? 2 : strcmp(what, "checkpoint") == 0 ? 3 : 5;
    struct wf_bench_compute compute = {
        .spec = s.spec != NULL ? s.spec : "gpt2-124m",
        .precision = s.precision != NULL ? s.precision : "fp32",
        .schedule = s.schedule != NULL ? s.schedule : "1f1b",
        .batch = s.batch != 0 ? s.batch
                 : pipeline   ? 1
                              : 4,
        .seq = s.seq != 0 ? s.seq : 256,
        .micros = s.micros != 0 ? s.micros
                  : pipeline    ? 16
                                : 1,
        .threads = s.threads,
        .ranks = s.ranks != 0 ? s.ranks : 2,
        .repeat = s.repeat < 1000 ? s.repeat : 1000,
        .dir = s.dir != NULL ? s.dir : ".",
        .steps = s.steps != 0 ? s.steps : 10,
        .json = s.json,
    };
    if (strcmp(what, "plan") == 0)
        return bench_plan(&s, err);
    if (strcmp(what, "sim") == 0)
        return bench_sim(&s, err);
    if (strcmp(what, "train") == 0)
        return wf_bench_train(&compute, err);
    if (strcmp(what, "kernels") == 0)
        return wf_bench_kernels(&compute, err);
    if (pipeline)
        return wf_bench_pipeline(&compute, err);
    if (strcmp(what, "generate") == 0)
        return wf_bench_generate(&compute, err);
    if (strcmp(what, "checkpoint") == 0)
        return wf_bench_checkpoint(&compute, err);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "there is no benchmark '%.40s': plan, sim, train, kernels, pipeline, "
                     "generate or checkpoint",
                     what);
}

const struct wf_command wf_command_bench = {
    .name = "bench",
    .summary = "measure how fast weft itself is",
    .operands = "plan|sim|train|kernels|pipeline|generate|checkpoint",
    .text =
        "Measures what planning costs: nanoseconds and bytes for each action, for making a\n"
        "schedule, proving it, adding its messages, and proving that. Times are processor\n"
        "time of one thread, the best of several runs. weft bench sim does the same for timing\n"
        "a given order, one at a time and many scenarios at once.\n"
        "\n"
        "weft bench train runs whole training steps of a model with random weights and tokens,\n"
        "with exact and with fast sums in turn, and weft bench kernels each kernel at that\n"
        "model's shapes. Both say what share of the machine's peak they reach: a loop of\n"
        "multiply-adds on registers alone. In training every thread runs it for a moment fifty\n"
        "times a second, amidst its work; kernels have it in between.\n"
        "\n"
        "weft bench pipeline trains with ranks of one thread in a pipeline and as replicas, and\n"
        "compares them with one rank of as many threads, and the measured bubble with the\n"
        "simulator's; and it measures how long a message takes. Under mpirun it does so with\n"
        "the ranks that were launched.\n"
        "\n"
        "weft bench generate feeds a model with random weights one token at a time and says what\n"
        "share of the machine's memory bandwidth that takes, each weight being read once for a\n"
        "token; the bandwidth is measured in between, by the same threads.\n"
        "\n"
        "weft bench checkpoint trains with and without saving, a block of steps each in turn,\n"
        "and says by how much saving slows them; then it writes and reads checkpoints of that\n"
        "model, and plain files of as many bytes (1 MiB at a time, and fsync), in turn. Files\n"
        "are dropped from memory before they are read. It needs 5 to 8 times the model's bytes\n"
        "of memory, and as many on the disk. Ctrl-C ends it after the step at hand (exit code\n"
        "130), and no file stays.\n",
    .examples = "  weft bench plan\n"
                "  weft bench plan --large --repeat 3\n"
                "  weft bench sim\n"
                "  weft bench train --spec gpt2-124m --batch 4 --seq 256 --threads 2\n"
                "  weft bench kernels\n"
                "  weft bench pipeline --ranks 2 --schedule zb-h1\n"
                "  mpirun -n 2 weft bench pipeline\n"
                "  weft bench generate --spec gpt2-124m --threads 2\n"
                "  weft bench checkpoint --spec d8 --dir /scratch\n",
    .options = {options, WEFT_LEN(options)},
    .run = run_bench,
};
