/* Measures how much saving slows down a run.  Steps during which a checkpoint is written
 * alternate with steps without a checkpoint. */
#define _GNU_SOURCE /* mkdtemp, nftw */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "bench/bench_priv.h"
#include "training/trainer/trainer.h"

enum { MAX_ROUNDS = 100, KEEP = 1 };

struct checkpoint_bench {
    const struct wf_bench_params *s;
    struct wf_train_settings settings;
    bool has_settings;
    struct wf_trainer *trainer; /* owned */
    char *dir, *tokens;         /* owned: the directory of all files; the token file in it */
    struct pace {
        double seconds[MAX_ROUNDS], cpu[MAX_ROUNDS]; /* per step; cpu: all threads */
    } without, with;
    double saved[MAX_ROUNDS]; /* seconds per checkpoint */
};

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status make_settings(struct checkpoint_bench *b, struct weft_error *err)
{
    const struct wf_bench_params *s = b->s;
    WEFT_TRY(wf_settings_init(wf_train_setting_list(), &b->settings, err));
    b->has_settings = true;
    WEFT_TRY(wf_bench_set(&b->settings, "model.spec", s->spec, err));
    WEFT_TRY(wf_bench_set(&b->settings, "data.train", b->tokens, err));
    WEFT_TRY(wf_bench_set(&b->settings, "log.dir", b->dir, err));
    WEFT_TRY(wf_bench_set(&b->settings, "train.precision", s->precision, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.batch", s->batch, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "data.seq", s->seq, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.micros", s->micros, err));
    if (s->threads != 0)
        WEFT_TRY(wf_bench_set_number(&b->settings, "parallel.threads", s->threads, err));
    WEFT_TRY(wf_bench_set(&b->settings, "train.steps", "1000000", err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "checkpoint.every", s->steps, err));
    WEFT_TRY(wf_bench_set_number(&b->settings, "checkpoint.keep", KEEP, err));
    return wf_train_settings_check(&b->settings, err);
}

static enum weft_status make_directory(struct checkpoint_bench *b, struct weft_error *err)
{
    b->dir = wf_path_join(b->s->dir, "weft-bench-XXXXXX");
    if (b->dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    if (mkdtemp(b->dir) == NULL) {
        enum weft_status st = WEFT_FAIL(err, WEFT_IO, "%.160s: cannot create a directory: %s",
                                        b->s->dir, strerror(errno));
        free(b->dir);
        b->dir = NULL;
        return st;
    }
    b->tokens = wf_path_join(b->dir, "tokens.bin");
    return b->tokens == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
}

/* -- steps ---------------------------------------------------------------------------------- */

static enum weft_status step(struct checkpoint_bench *b, struct weft_error *err)
{
    struct wf_step_result r;
    WEFT_TRY(wf_bench_check_stop(b->s, err));
    return wf_trainer_step(b->trainer, &r, err);
}

struct moment {
    int64_t ns, cpu_ns;
};

static struct moment now(void)
{
    struct timespec cpu = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct moment){wf_clock_ns(),
                           (int64_t)cpu.tv_sec * 1000000000 + (int64_t)cpu.tv_nsec};
}

static void record(struct pace *p, uint32_t round, struct moment begin, uint32_t n_steps)
{
    struct moment end = now();
    p->seconds[round] = (double)(end.ns - begin.ns) * 1e-9 / n_steps;
    p->cpu[round] = (double)(end.cpu_ns - begin.cpu_ns) * 1e-9 / n_steps;
}

/* Runs steps until a checkpoint is due.  No checkpoint starts, because
 * wf_trainer_advance_checkpoint() is not called. */
static enum weft_status steps_without(struct checkpoint_bench *b, uint32_t round,
                                      struct weft_error *err)
{
    uint32_t n = 0;
    struct moment begin = now();
    do {
        WEFT_TRY(step(b, err));
        n++;
    } while (wf_trainer_steps_done(b->trainer) % b->s->steps != 0);
    record(&b->without, round, begin, n);
    return WEFT_OK;
}

/* Starts the checkpoint that is due.  Runs steps until the next checkpoint is due, while the
 * first one is written. */
static enum weft_status steps_with(struct checkpoint_bench *b, uint32_t round,
                                   struct weft_error *err)
{
    struct moment begin = now();
    for (uint32_t i = 0; i < b->s->steps; i++) {
        WEFT_TRY(wf_trainer_advance_checkpoint(b->trainer, err));
        WEFT_TRY(step(b, err));
    }
    record(&b->with, round, begin, b->s->steps);
    return WEFT_OK;
}

/* Runs steps until the checkpoint is complete, so that writing it does not slow down the next
 * round. */
static enum weft_status drain(struct checkpoint_bench *b, double *seconds,
                              struct weft_error *err)
{
    struct wf_checkpoint_result result = wf_trainer_poll_checkpoint(b->trainer);
    while (result.saved == 0 && result.error[0] == '\0') {
        WEFT_TRY(wf_trainer_advance_checkpoint(b->trainer, err));
        WEFT_TRY(step(b, err));
        result = wf_trainer_poll_checkpoint(b->trainer);
    }
    if (result.error[0] != '\0')
        return WEFT_FAIL(err, WEFT_IO, "checkpoint: %s", result.error);
    *seconds = result.seconds;
    while (wf_trainer_steps_done(b->trainer) % b->s->steps != 0)
        WEFT_TRY(step(b, err));
    return WEFT_OK;
}

static enum weft_status run_steps(struct checkpoint_bench *b, struct weft_error *err)
{
    WEFT_TRY(wf_bench_write_tokens(b->tokens, b->s->spec,
                                   2 * (size_t)b->s->batch * b->s->seq + 1, err));
    WEFT_TRY(make_settings(b, err));
    WEFT_TRY(wf_trainer_new(&b->settings, NULL, &b->trainer, err));
    WEFT_TRY(step(b, err)); /* warms up caches and pages */
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        WEFT_TRY(steps_without(b, i, err));
        WEFT_TRY(steps_with(b, i, err));
        WEFT_TRY(drain(b, &b->saved[i], err));
    }
    wf_trainer_free(b->trainer); /* wf_bench_disk() needs the memory */
    b->trainer = NULL;
    return WEFT_OK;
}

/* -- figures -------------------------------------------------------------------------------- */

/* Returns the median, over all rounds, of the extra time of `with` relative to `without`.  Both
 * halves of a round ran under the same load, so each round is compared separately. */
static double excess(const double *with, const double *without, uint32_t n)
{
    double each[MAX_ROUNDS];
    for (uint32_t i = 0; i < n; i++)
        each[i] = with[i] / without[i] - 1;
    return wf_bench_median(each, n);
}

static void summarize(const struct checkpoint_bench *b, struct wf_bench_checkpoint *out)
{
    uint32_t n = b->s->repeat;
    out->repeat = n;
    out->without_s = wf_bench_median(b->without.seconds, n);
    out->with_s = wf_bench_median(b->with.seconds, n);
    out->stall = excess(b->with.seconds, b->without.seconds, n);
    out->stall_reached = out->stall <= wf_bench_targets.max_stall;
    out->cpu = excess(b->with.cpu, b->without.cpu, n);
    out->checkpoint_s = wf_bench_median(b->saved, n);
}

/* -- the benchmark -------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

/* Removes the directory and everything in it, also after an error or an early stop. */
static void clean_up(struct checkpoint_bench *b)
{
    enum { OPEN_DIRECTORIES = 8 };
    wf_trainer_free(b->trainer);
    if (b->has_settings)
        wf_settings_release(wf_train_setting_list(), &b->settings);
    if (b->dir != NULL)
        nftw(b->dir, remove_one, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
    free(b->tokens);
    free(b->dir);
}

enum weft_status wf_bench_checkpoint(const struct wf_bench_params *p,
                                     struct wf_bench_checkpoint *out, struct weft_error *err)
{
    struct wf_bench_params own = *p;
    own.repeat = own.repeat < MAX_ROUNDS ? own.repeat : MAX_ROUNDS;
    struct checkpoint_bench b = {.s = &own};
    struct wf_bench_checkpoint result;
    enum weft_status st = make_directory(&b, err);
    if (st == WEFT_OK)
        st = run_steps(&b, err);
    if (st == WEFT_OK)
        st = wf_bench_disk(&own, b.dir, &result.disk, err);
    if (st == WEFT_OK) {
        summarize(&b, &result);
        *out = result;
    }
    clean_up(&b);
    return st;
}
