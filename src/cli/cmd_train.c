/* weft train: reads the settings from a file and flags, and runs a session. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/train.h"
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
    fprintf(stderr, "weft: %s\n", err->msg);
    fflush(stdout);
    _exit(weft_status_exit_code(err->status));
}

static enum weft_status train(struct wf_train_settings *settings, struct weft_error *err)
{
    struct wf_train_show show = wf_train_show_make(settings);
    struct wf_session session = {.settings = settings,
                                 .on_event = wf_train_show_event,
                                 .on_hang = exit_on_hang,
                                 .arg = &show};
    wf_train_catch_signals();
    return wf_session_run(&session, err);
}

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status print_config(const struct wf_train_settings *s, struct weft_error *err)
{
    struct wf_text text = {0};
    wf_settings_print(wf_train_setting_list(), s, &text);
    enum weft_status st = WEFT_OK;
    if (text.failed)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the settings");
    else
        fputs(text.at, stdout);
    wf_text_release(&text);
    return st;
}

static enum weft_status read_config(const char *path, struct wf_train_settings *s,
                                    struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    if (path == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_input_read(path, &text, &len, err));
    enum weft_status st = wf_settings_parse(wf_train_setting_list(), text, len, path, s, err);
    free(text);
    return st;
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
                                      struct wf_train_settings *s, struct weft_error *err)
{
    WEFT_TRY(read_config(config, s, err));
    return wf_settings_parse_flags(wf_train_setting_list(), argc, argv, s, err);
}

static enum weft_status run_train(int argc, char **argv, struct weft_error *err)
{
    const struct wf_setting_list list = wf_train_setting_list();
    struct train_options in = {0};
    struct wf_train_settings settings = {0};
    const char *config = NULL;
    enum weft_status st = parse_options(argc, argv, &in, &config, err);
    if (st == WEFT_OK)
        st = wf_settings_init(list, &settings, err);
    if (st != WEFT_OK)
        return wf_session_fail(st, err);
    st = read_settings(argc, argv, config, &settings, err);
    if (st == WEFT_OK && !in.print_config)
        st = wf_session_prepare(&settings, err);

    if (st != WEFT_OK)
        st = wf_session_fail(st, err);
    else
        st = in.print_config ? print_config(&settings, err)
             : in.dry_run    ? wf_train_dry_run(&settings, err)
                             : train(&settings, err);
    wf_settings_release(list, &settings);

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
        "under mpirun or srun. Losses and weights are the same bits for every layout,\n"
        "schedule and number of ranks.\n\n"
        "With checkpoint.every a stopped or killed run continues with\n"
        "--checkpoint.resume=auto, in any layout, with the same results as without the\n"
        "interruption. A finished run continues if train.steps is raised; its learning\n"
        "rate then follows the curve of the longer run, unless optim.decay_steps is set.\n\n"
        "On a terminal the last line is a progress bar. Without a terminal, with\n"
        "TERM=dumb or with NO_COLOR only lines are printed. At the end the run writes\n"
        "RUN/report.html, and prints the command that resumes it if steps are left.\n\n"
        "With log.sample the model regularly continues log.sample_prompt, as weft\n"
        "generate does; RUN/samples.jsonl has these texts.\n\n"
        "With parallel.auto the run measures a few micro-batches and chooses those of\n"
        "pp, dp, chunks, schedule and threads that are not given. The output explains\n"
        "the choice, and the run's config.yaml records it. parallel.micros is not\n"
        "chosen, because it changes results; pipelines and replicas need more than 1.\n"
        "If it is not given and no layout can run with the default, it is raised to the\n"
        "minimum that can, and the output reports that.\n",
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
