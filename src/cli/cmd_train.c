/* Trains a model as settings say: where they come from, and how ranks are started. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/train.h"
#include "compute/kern/pool.h"
#include "training/settings/settings.h"
#include "weft/comm.h"

struct train_options {
    bool print_config, dry_run;
};

static const struct wf_option options[] = {
    {"print-config", 0, WF_OPTION_SWITCH, NULL, "print all settings as a file, and do nothing",
     NULL, offsetof(struct train_options, print_config)},
    {"dry-run", 0, WF_OPTION_SWITCH, NULL,
     "check everything, show layout, memory and timeline, and train nothing", NULL,
     offsetof(struct train_options, dry_run)},
};

/* -- ranks ----------------------------------------------------------------------------------- */

/* srun without MPI starts tasks that know nothing of each other: each would train all by itself. */
static enum weft_status check_tasks(const struct wf_train_settings *s, struct weft_error *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (tasks == NULL || atoi(tasks) <= 1 || s->parallel.transport == WF_TRAIN_TRANSPORT_INPROC)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "srun started %.20s tasks without MPI: srun --mpi=pmix (Open MPI) or "
                     "--mpi=pmi2 (MPICH) makes them ranks of one run; "
                     "--parallel.transport=inproc if each is a run of its own",
                     tasks);
}

/* How ranks are started is the environment's to say: a flag can only agree. */
static enum weft_status check_transport(const struct wf_train_settings *s, const char *launcher,
                                        struct weft_error *err)
{
    if (launcher == NULL && s->parallel.transport == WF_TRAIN_TRANSPORT_MPI)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is mpi, and no MPI started this: mpirun -n %llu "
                         "weft train ...",
                         (unsigned long long)s->parallel.pp * s->parallel.dp);
    if (launcher != NULL && s->parallel.transport == WF_TRAIN_TRANSPORT_INPROC)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "parallel.transport is inproc, but %s started this process as one "
                         "rank of many: leave it at auto",
                         launcher);
    return launcher == NULL ? check_tasks(s, err) : WEFT_OK;
}

static enum weft_status check_settings(const struct wf_train_settings *settings,
                                       struct weft_error *err)
{
    WEFT_TRY(wf_train_settings_check(settings, err));
    return check_transport(settings, weft_comm_launcher(), err);
}

static enum weft_status return_error(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)comm;
    *err = *(const struct weft_error *)arg;
    return err->status;
}

/* A rank that cannot even start tells the others: they would wait for it in MPI, without an end. */
static enum weft_status tell_others(enum weft_status st, struct weft_error *err)
{
    struct weft_error own = *err, joined = {0};
    own.status = st;
    if (weft_comm_launcher() != NULL)
        (void)weft_comm_run_mpi(return_error, &own, &joined);
    return st;
}

/* How many ranks of this machine share the cores that this process may use: a launcher that gave
 * each rank cores of its own has made that number 1. */
static uint32_t ranks_that_share(const struct wf_train_settings *s, const char *launcher)
{
    const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                 "SLURM_NTASKS_PER_NODE"};
    if (launcher == NULL)
        return s->parallel.pp * s->parallel.dp;
    if (wf_cores_available() < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN))
        return 1;
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        if (getenv(names[i]) != NULL && atoi(getenv(names[i])) > 0)
            return (uint32_t)atoi(getenv(names[i]));
    return 1;
}

/* Threads that are not given: ranks of one process that have cores of their own find them; others
 * divide what there is. */
static void choose_threads(struct wf_train_settings *s, const char *launcher)
{
    uint32_t n = ranks_that_share(s, launcher), cores = wf_cores_available();
    if (s->parallel.threads != 0 || n <= 1 || (launcher == NULL && n <= cores))
        return;
    s->parallel.threads = cores / n > 0 ? cores / n : 1;
    s->parallel.given.threads = false; /* "auto" was */
}

static enum weft_status train(struct wf_train_settings *settings, struct weft_error *err)
{
    wf_train_catch_signals();
    if (weft_comm_launcher() == NULL)
        WEFT_TRY(wf_train_auto(settings, NULL, err));
    if (weft_comm_launcher() != NULL)
        return weft_comm_run_mpi(wf_train_run_rank, settings, err);
    uint64_t n = (uint64_t)settings->parallel.pp * settings->parallel.dp;
    if (n > WF_MAX_THREADS)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "parallel.pp x parallel.dp is %llu: more than %d ranks are not for one "
            "process",
            (unsigned long long)n, WF_MAX_THREADS);
    WEFT_TRY(wf_train_check_memory(settings, err));
    return weft_comm_run_threads((uint32_t)n, wf_train_run_rank, settings, err);
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

/* The ordinary options and the file's name. */
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
        return tell_others(st, err);
    st = read_settings(argc, argv, config, &settings, err);
    if (st == WEFT_OK && !in.print_config)
        st = wf_train_settings_infer_vocab(&settings, err);
    if (st == WEFT_OK && !in.print_config)
        st = check_settings(&settings, err);
    if (st == WEFT_OK && !in.print_config)
        choose_threads(&settings, weft_comm_launcher());
    if (st != WEFT_OK)
        st = tell_others(st, err);
    else
        st = in.print_config ? print_config(&settings, err)
             : in.dry_run    ? wf_train_dry_run(&settings, err)
                             : train(&settings, err);
    wf_settings_release(list, &settings);
    /* A run that a signal ended in good order says so, as shells expect it. */
    if (st == WEFT_OK && wf_train_stop_signal() != 0) {
        fflush(stdout);
        exit(128 + wf_train_stop_signal());
    }
    return st;
}

const struct wf_command wf_command_train = {
    .name = "train",
    .summary = "train a model as a file of settings says",
    .operands = "[CONFIG.yaml]",
    .text = "Trains a transformer on token shards. All settings are in one file of sections\n"
            "with keys; each is also a flag, which wins over the file; of a flag given twice\n"
            "the last one holds. The final weights, a Hugging Face directory, the settings\n"
            "and a line of figures for every step go to the directory log.dir.\n\n"
            "The first interrupt (Ctrl-C, or SIGTERM) ends the run after the step at hand:\n"
            "a checkpoint is written where there are any (checkpoint.every), else the\n"
            "weights, and the exit code is 130 (143). A second one ends it at once.\n\n"
            "Several ranks (parallel.pp x parallel.dp) are threads of this process, or\n"
            "processes under mpirun or srun. Whatever the layout, schedule and number of\n"
            "ranks, losses and weights are the same bits.\n\n"
            "With checkpoint.every a run that was stopped, or killed, goes on with\n"
            "--checkpoint.resume=auto, in any layout, as if it had never stopped. One that\n"
            "was finished goes on with more train.steps, too; its learning rate is then that\n"
            "of the longer run from there on, unless optim.decay_steps is given.\n\n"
            "On a terminal the last line is a bar that shows how far the run is; elsewhere,\n"
            "with TERM=dumb or NO_COLOR, there are lines only. When it ends, it writes the\n"
            "page about it, RUN/report.html, and says how to go on when steps are left.\n\n"
            "With log.sample the model goes on from log.sample_prompt now and then, as weft\n"
            "generate does; RUN/samples.jsonl has these texts.\n\n"
            "With parallel.auto a few micros are measured, and those of pp, dp, chunks,\n"
            "schedule and threads that are not given are chosen by them; the output says\n"
            "why, the run's config.yaml what. Micros stay as they are, for they are part\n"
            "of what is computed: pipelines and replicas need several. Only when nothing\n"
            "can be run otherwise are those that are not given raised, to the fewest that\n"
            "can, and the output says so.\n",
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
