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
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print the figures as JSON", NULL, AT(json)},
    {"large", 0, WF_OPTION_SWITCH, NULL,
     "also 512 ranks x 8192 micro-batches (up to 25 million actions)", NULL, AT(large)},
    {"repeat", 0, WF_OPTION_COUNT, "N",
     "best, or median, of N runs (5; pipeline 2, checkpoint 3)", NULL, AT(repeat)},
    {NULL, 0, WF_OPTION_HEADING, NULL, "Train, kernels, pipeline, generate and checkpoint",
     NULL, 0},
    {"spec", 0, WF_OPTION_TEXT, "NAME", "the model (gpt2-124m)", NULL, AT(spec)},
    {"batch", 0, WF_OPTION_COUNT, "N", "sequences per step (4); pipeline: per micro-batch (1)",
     NULL, AT(batch)},
    {"seq", 0, WF_OPTION_COUNT, "N", "tokens per sequence (256)", NULL, AT(seq)},
    {"micros", 0, WF_OPTION_COUNT, "N", "micro-batches per step (1; pipeline: 16)", NULL,
     AT(micros)},
    {"threads", 0, WF_OPTION_COUNT, "N", "threads (one per core)", NULL, AT(threads)},
    {"precision", 0, WF_OPTION_CHOICE, "TYPE",
     "precision of matrix products: fp32 (default) "
     "or bf16",
     "fp32|bf16", AT(precision)},
    {"ranks", 0, WF_OPTION_COUNT, "N", "pipeline: number of ranks, with one thread each (2)",
     NULL, AT(ranks)},
    {"schedule", 0, WF_OPTION_TEXT, "NAME", "pipeline: schedule (1f1b)", NULL, AT(schedule)},
    {"dir", 0, WF_OPTION_TEXT, "DIR", "checkpoint: a directory on the disk to measure (.)",
     NULL, AT(dir)},
    {"steps", 0, WF_OPTION_COUNT, "N", "checkpoint: save every N steps (10)", NULL, AT(steps)},
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
    bool pipeline = strcmp(what, "pipeline") == 0;
    if (s.repeat == 0)
        s.repeat = pipeline ? 2 : strcmp(what, "checkpoint") == 0 ? 3 : 5;

    if (strcmp(what, "plan") == 0)
        return wf_bench_show_plan(s.repeat, s.large, s.json, err);
    if (strcmp(what, "sim") == 0)
        return wf_bench_show_sim(s.repeat, s.large, err);

    const struct wf_bench_params p = {
        .spec = s.spec != NULL ? s.spec : "gpt2-124m",
        .precision = s.precision != NULL ? s.precision : "fp32",
        .schedule = s.schedule != NULL ? s.schedule : "1f1b",
        .dir = s.dir != NULL ? s.dir : ".",
        .batch = s.batch != 0 ? s.batch : (pipeline ? 1 : 4),
        .seq = s.seq != 0 ? s.seq : 256,
        .micros = s.micros != 0 ? s.micros : (pipeline ? 16 : 1),
        .threads = s.threads,
        .ranks = s.ranks != 0 ? s.ranks : 2,
        .repeat = s.repeat < WF_BENCH_MAX_REPEAT ? s.repeat : WF_BENCH_MAX_REPEAT,
        .steps = s.steps != 0 ? s.steps : 10,
        .is_stopped = is_stopped,
    };
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
        "plan measures planning: nanoseconds and bytes per action for generating a schedule,\n"
        "verifying it, lowering it to messages, and verifying the result. Times are processor\n"
        "time of one thread, the minimum of several runs. sim measures the simulator: one\n"
        "schedule, and many scenarios at once.\n"
        "\n"
        "train runs training steps of a model with random weights and tokens, alternately with\n"
        "exact and with fast sums. kernels runs each kernel at that model's shapes. Both report\n"
        "the share of the machine's peak, which is that of a loop of multiply-adds on registers.\n"
        "During training every thread runs this loop for a moment fifty times per second; for\n"
        "kernels it runs between the measurements.\n"
        "\n"
        "pipeline trains with ranks of one thread, as a pipeline and as replicas. It compares\n"
        "them with one rank of as many threads, compares the measured bubble with the simulated\n"
        "one, and measures the time per message. Under mpirun it uses the launched ranks.\n"
        "\n"
        "generate feeds a model with random weights one token at a time and reports the share\n"
        "of the machine's memory bandwidth, since each token reads every weight once. The\n"
        "bandwidth is measured between the tokens, by the same threads.\n"
        "\n"
        "checkpoint trains alternately with and without saving and reports by how much saving\n"
        "slows down the steps. Then it writes and reads checkpoints of that model and plain\n"
        "files of the same size (1 MiB at a time, with fsync). Files are dropped from memory\n"
        "before they are read. It needs 5 to 8 times the model's size in memory and on the\n"
        "disk. Ctrl-C ends it after the current step (exit code 130) and removes all its files.\n",
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
