/* weft train: reads the settings from a file and flags, and runs a session. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/train.h"
#include "training/embed/embed.h"
#include "training/session/dry_run.h"
#include "training/session/stop.h"

struct train_options {
    bool print_config, dry_run;
};

static const struct wf_option options[] = {
    {"print-config", 0, WF_OPTION_SWITCH, NULL, "print all settings as a file and exit", NULL,
     offsetof(struct train_options, print_config)},
    {"dry-run", 0, WF_OPTION_SWITCH, NULL,
     "check the settings, print layout, memory and timeline, and exit", NULL,
     offsetof(struct train_options, dry_run)},
};

/* -- training ------------------------------------------------------------------------------- */

/* Prints the error and ends the process.  Only the first call has an effect. */
static void exit_on_hang(void *arg, const struct weft_error *err)
{
    static atomic_flag called = ATOMIC_FLAG_INIT;
    (void)arg;
    if (atomic_flag_test_and_set(&called))
        return;
    struct wf_bar bar = wf_train_bar();
    bar.shown = bar.on; /* rank 0 may have drawn a bar */
    wf_bar_clear(&bar);
    fprintf(stderr, "weft: %s\n", wf_shown(err->msg).at);
    fflush(stdout);
    _exit(weft_status_exit_code(err->status));
}

static enum weft_status train(struct wf_train_settings *settings, bool dry_run,
                              struct weft_error *err)
{
    struct wf_train_show show = wf_train_show_make(settings);
    struct wf_session session = {
        .settings = settings, .on_event = wf_train_show_event, .arg = &show};
    if (dry_run)
        return wf_session_dry_run(&session, err);
    session.on_hang = exit_on_hang;
    wf_train_catch_signals();
    return wf_session_run(&session, err);
}

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status print_config(const struct weft_settings *s, struct weft_error *err)
{
    char *text = NULL;
    WEFT_TRY(weft_settings_print(s, &text, err));
    fputs(text, stdout);
    free(text);
    return WEFT_OK;
}

/* Parses the options that are not settings, and the name of the settings file. */
static enum weft_status parse_options(int argc, char **argv, struct train_options *out,
                                      const char **config, struct weft_error *err)
{
    char **rest = malloc(((size_t)argc + 1) * sizeof *rest);
    if (rest == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d arguments", argc);
    int n = wf_settings_other_args(argc, argv, rest);
    enum weft_status st = wf_command_parse(&wf_command_train, n, rest, out, config, err);
    free(rest);
    return st;
}

static enum weft_status read_settings(int argc, char **argv, const char *config,
                                      struct weft_settings *s, struct weft_error *err)
{
    if (config != NULL)
        WEFT_TRY(weft_settings_read(s, config, err));
    return wf_settings_parse_flags(wf_train_setting_list(), argc, argv, &s->train, err);
}

static enum weft_status run_train(int argc, char **argv, struct weft_error *err)
{
    struct train_options in = {0};
    struct weft_settings *settings = NULL;
    const char *config = NULL;
    enum weft_status st = parse_options(argc, argv, &in, &config, err);
    if (st == WEFT_OK)
        st = weft_settings_new(&settings, err);
    if (st == WEFT_OK)
        st = read_settings(argc, argv, config, settings, err);
    if (st == WEFT_OK && !in.print_config)
        st = weft_settings_check(settings, err);

    if (st != WEFT_OK)
        st = wf_session_fail(st, err);
    else
        st = in.print_config ? print_config(settings, err)
                             : train(&settings->train, in.dry_run, err);
    weft_settings_free(settings);

    /* Shells expect this exit code from a program that was stopped by a signal. */
    if (st == WEFT_OK && wf_stop_signal() != 0) {
        fflush(stdout);
        exit(128 + wf_stop_signal());
    }
    return st;
}

const struct wf_command wf_command_train = {
    .name = "train",
    .summary = "train a model with the settings of a file",
    .operands = "[CONFIG.yaml]",
    .text =
        "Trains a transformer on token shards. All settings are in one YAML file of\n"
        "sections with keys. Each key is also a flag, which overrides the file. If a flag\n"
        "is given twice, the last value is used. The run writes the final weights (a\n"
        "Hugging Face directory), the settings, and one line of metrics per step to the\n"
        "directory log.dir.\n\n"
        "The first interrupt (Ctrl-C or SIGTERM) stops the run after the current step.\n"
        "The run then saves a checkpoint if checkpoint.every is set, otherwise the\n"
        "weights, and exits with 130 (143). A second interrupt stops it at once.\n\n"
        "Ranks (parallel.pp x parallel.dp) are threads of this process, or processes\n"
        "under mpirun or srun. Losses and weights are bit-for-bit identical for every\n"
        "number of ranks, schedule and number of threads (with train.reduction=exact and\n"
        "the same parallel.micros).\n\n"
        "With checkpoint.every a stopped or killed run continues with\n"
        "--checkpoint.resume=auto, in any layout, with the same results as without the\n"
        "interruption. A finished run continues if train.steps is raised; its learning\n"
        "rate then follows the curve of the longer run, unless optim.decay_steps is set.\n\n"
        "On a terminal the last line is a progress bar. There is no progress bar if the\n"
        "output is not a terminal, if TERM is dumb or if NO_COLOR is set. At the end the\n"
        "run writes RUN/report.html, and prints the command that resumes it if steps are\n"
        "left.\n\n"
        "With log.sample the model regularly continues log.sample_prompt, as weft\n"
        "generate does; RUN/samples.jsonl has these texts.\n\n"
        "With parallel.auto the run measures a few micro-batches and chooses pp, dp,\n"
        "chunks, schedule and threads, except the ones that are set. The output explains\n"
        "the choice, and the run's config.yaml records it. parallel.micros is not\n"
        "chosen, because it changes results. Replicas and efficient pipelines need at\n"
        "least 2 micro-batches. If parallel.micros is not set and no layout works with\n"
        "the default, the run uses the smallest number that works and reports it.\n",
    .examples = "  weft train run.yaml\n"
                "  weft train run.yaml --parallel.pp=2 --parallel.schedule=zb-h1\n"
                "  weft train run.yaml --checkpoint.every=100 --checkpoint.resume=auto\n"
                "  mpirun -n 4 weft train run.yaml --parallel.pp=2 --parallel.dp=2\n"
                "  weft train run.yaml --optim.lr=6e-4 --log.dir=runs/b\n"
                "  weft train --model.spec=d6 --data.train=tokens.bin --train.steps=100\n"
                "  weft train run.yaml --parallel.pp=4 --dry-run\n"
                "  weft train run.yaml --parallel.auto=true --parallel.micros=8\n"
                "  weft train --print-config > run.yaml\n",
    .options = {options, WEFT_LEN(options)},
    .settings = wf_train_setting_list,
    .run = run_train,
};
