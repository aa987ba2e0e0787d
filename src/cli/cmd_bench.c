/* weft bench: parses the options and runs one benchmark of src/bench. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/train.h"
#include "training/session/stop.h"

struct bench_settings {
    bool json, large;
    uint32_t repeat;
    const char *spec, *precision, *schedule, *dir;
    uint32_t batch, seq, micros, threads, ranks, steps;
};

#define AT(field) offsetof(struct bench_settings, field)

static const struct wf_option options[] = {
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print the results as JSON", NULL, AT(json)},
    {"large", 0, WF_OPTION_SWITCH, NULL,
     "also 512 ranks x 8192 micro-batches (up to 25 million actions)", NULL, AT(large)},
    {"repeat", 0, WF_OPTION_COUNT, "N",
     "number of runs (default: 5; pipeline: 2; checkpoint: 3)", NULL, AT(repeat)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Train, kernels, pipeline, generate and checkpoint",
     NULL, 0},
    {"spec", 0, WF_OPTION_TEXT, "NAME", "the model (default: gpt2-124m)", NULL, AT(spec)},
    {"batch", 0, WF_OPTION_COUNT, "N",
     "sequences per step (default: 4); pipeline: per micro-batch (default: 1)", NULL,
     AT(batch)},
    {"seq", 0, WF_OPTION_COUNT, "N", "tokens per sequence (default: 256)", NULL, AT(seq)},
    {"micros", 0, WF_OPTION_COUNT, "N", "micro-batches per step (default: 1; pipeline: 16)",
     NULL, AT(micros)},
    {"threads", 0, WF_OPTION_COUNT, "N", "number of threads (default: one per core)", NULL,
     AT(threads)},
    {"precision", 0, WF_OPTION_CHOICE, "TYPE",
     "precision of matrix products: fp32 (default) "
     "or bf16",
     "fp32|bf16", AT(precision)},
    {"ranks", 0, WF_OPTION_COUNT, "N",
     "pipeline: number of ranks, with one thread each (default: 2)", NULL, AT(ranks)},
    {"schedule", 0, WF_OPTION_TEXT, "NAME", "pipeline: schedule (default: 1f1b)", NULL,
     AT(schedule)},
    {"dir", 0, WF_OPTION_TEXT, "DIR",
     "checkpoint: a directory on the disk to measure (default: .)", NULL, AT(dir)},
    {"steps", 0, WF_OPTION_COUNT, "N", "checkpoint: save every N steps (default: 10)", NULL,
     AT(steps)},
};

static bool is_stopped(void)
{
    return wf_stop_signal() != 0;
}

static enum weft_status run_train(const struct wf_bench_params *p, bool json,
                                  struct weft_error *err)
{
    struct wf_bench_train figures;
    WEFT_TRY(wf_bench_train(p, &figures, err));
    wf_bench_print_train(p, &figures, json);
    return WEFT_OK;
}

static enum weft_status run_generate(const struct wf_bench_params *p, bool json,
                                     struct weft_error *err)
{
    struct wf_bench_generate figures;
    WEFT_TRY(wf_bench_generate(p, &figures, err));
    wf_bench_print_generate(p, &figures, json);
    return WEFT_OK;
}

static enum weft_status run_checkpoint(const struct wf_bench_params *p, bool json,
                                       struct weft_error *err)
{
    struct wf_bench_checkpoint figures;
    wf_train_catch_signals();
    enum weft_status st = wf_bench_checkpoint(p, &figures, err);
    if (st == WEFT_OK)
        wf_bench_print_checkpoint(p, &figures, json);
    if (is_stopped()) {
        fflush(stdout);
        exit(128 + wf_stop_signal());
    }
    return st;
}

/* Replace a default if the option is given. */
static void overlay(uint32_t *value, uint32_t given)
{
    if (given != 0)
        *value = given;
}

static void overlay_text(const char **value, const char *given)
{
    if (given != NULL)
        *value = given;
}

typedef enum weft_status bench_fn(const struct wf_bench_params *p, bool json,
                                  struct weft_error *err);

static enum weft_status run_bench(int argc, char **argv, struct weft_error *err)
{
    static const struct {
        const char *name;
        bench_fn *run;
    } benches[] = {{"train", run_train},
                   {"kernels", wf_bench_show_kernels},
                   {"pipeline", wf_bench_show_pipeline},
                   {"generate", run_generate},
                   {"checkpoint", run_checkpoint}};
    struct bench_settings s = {0};
    const char *what = NULL;
    WEFT_TRY(wf_command_parse(&wf_command_bench, argc, argv, &s, &what, err));
    struct wf_bench_params p = wf_bench_defaults(what);
    overlay_text(&p.spec, s.spec);
    overlay_text(&p.precision, s.precision);
    overlay_text(&p.schedule, s.schedule);
    overlay_text(&p.dir, s.dir);
    overlay(&p.batch, s.batch);
    overlay(&p.seq, s.seq);
    overlay(&p.micros, s.micros);
    overlay(&p.threads, s.threads);
    overlay(&p.ranks, s.ranks);
    overlay(&p.repeat, s.repeat);
    overlay(&p.steps, s.steps);
    p.is_stopped = is_stopped;

    if (strcmp(what, "plan") == 0)
        return wf_bench_show_plan(p.repeat, s.large, s.json, err);
    if (strcmp(what, "sim") == 0)
        return wf_bench_show_sim(p.repeat, s.large, s.json, err);
    if (p.repeat > WF_BENCH_MAX_REPEAT)
        p.repeat = WF_BENCH_MAX_REPEAT;
    for (size_t i = 0; i < WEFT_LEN(benches); i++)
        if (strcmp(what, benches[i].name) == 0)
            return benches[i].run(&p, s.json, err);
    return WEFT_FAIL(err, WEFT_USAGE,
                     "unknown benchmark '%.40s' (expected plan, sim, train, kernels, "
                     "pipeline, generate or checkpoint)",
                     what);
}

const struct wf_command wf_command_bench = {
    .name = "bench",
    .summary = "measure how fast weft itself is",
    .operands = "plan|sim|train|kernels|pipeline|generate|checkpoint",
    .text =
        "Runs one benchmark:\n"
        "\n"
        "  plan        Nanoseconds and bytes per action for generating a schedule, verifying it,\n"
        "              lowering it to messages, and verifying the result. Times are processor\n"
        "              time of one thread.\n"
        "  sim         Speed of the simulator: one schedule, and many scenarios at once.\n"
        "  train       Training steps of a model with random weights and tokens, alternately\n"
        "              with exact and with fast sums, as a share of the machine's peak rate.\n"
        "  kernels     Each kernel at the shapes of that model, as a share of the peak rate, and\n"
        "              sums of gradients: those of training, and those of weft/sync.h.\n"
        "  pipeline    Training with ranks of one thread, as a pipeline and as replicas, compared\n"
        "              with one rank of as many threads; the measured bubble, compared with the\n"
        "              simulated one; evaluations; the time per message. Under mpirun, the\n"
        "              launched ranks are measured.\n"
        "  generate    Generation of one token at a time by a model with random weights, as a\n"
        "              share of the machine's memory bandwidth, because each token reads every\n"
        "              weight once. The same threads measure the bandwidth between the tokens.\n"
        "  checkpoint  Training alternately with and without saving: by how much saving slows\n"
        "              down the steps. Then the speed of writing and reading checkpoints of that\n"
        "              model, compared with plain files of the same size (1 MiB at a time, with\n"
        "              fsync). Files are dropped from memory before they are read. Needs 5 to 8\n"
        "              times the model's size in memory and on the disk. Ctrl-C ends it after the\n"
        "              current step (exit code 130) and removes all its files.\n"
        "\n"
        "--repeat sets the number of runs. The best run is reported; for train and the steps\n"
        "of checkpoint, the median.\n"
        "\n"
        "The peak rate is measured with a loop of multiply-adds on registers. During training,\n"
        "every thread runs this loop for a moment fifty times per second; for kernels, it runs\n"
        "between the measurements.\n",
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
