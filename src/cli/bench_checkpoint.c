/* What saving costs a run: steps with a checkpoint written meanwhile, and steps without, in turn. */
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
#include "base/json.h"
#include "cli/bench.h"
#include "cli/train.h"
#include "training/ckpt/file.h"
#include "training/trainer/trainer.h"

enum { MAX_ROUNDS = 100, KEEP = 1 };

static const double most_stall = 0.05, least_share = 0.7;

struct bench {
    const struct wf_bench_compute *s;
    struct wf_train_settings settings;
    bool has_settings;
    struct wf_trainer *trainer; /* owned */
    char *dir, *tokens;         /* owned: where all is written */
    struct pace {
        double seconds[MAX_ROUNDS], cpu[MAX_ROUNDS]; /* a step; cpu: of all threads */
    } without, with;
    double saved[MAX_ROUNDS]; /* seconds that a checkpoint took */
    struct wf_bench_disk disk;
};

/* -- settings ------------------------------------------------------------------------------- */

static enum weft_status make_settings(struct bench *b, struct weft_error *err)
{
    const struct wf_bench_compute *s = b->s;
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

static enum weft_status make_directory(struct bench *b, struct weft_error *err)
{
    b->dir = wf_path_join(b->s->dir, "weft-bench-XXXXXX");
    if (b->dir == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path");
    if (mkdtemp(b->dir) == NULL) {
        enum weft_status st = WEFT_FAIL(err, WEFT_IO, "nothing can be written to %.160s: %s",
                                        b->s->dir, strerror(errno));
        free(b->dir);
        b->dir = NULL;
        return st;
    }
    b->tokens = wf_path_join(b->dir, "tokens.bin");
    return b->tokens == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for a path") : WEFT_OK;
}

/* -- steps ---------------------------------------------------------------------------------- */

static enum weft_status step(struct bench *b, struct weft_error *err)
{
    struct wf_step_result r;
    WEFT_TRY(wf_bench_go_on(err));
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

static void note(struct pace *p, uint32_t round, struct moment begin, uint32_t n_steps)
{
    struct moment end = now();
    p->seconds[round] = (double)(end.ns - begin.ns) * 1e-9 / n_steps;
    p->cpu[round] = (double)(end.cpu_ns - begin.cpu_ns) * 1e-9 / n_steps;
}

/* Up to a step at which a checkpoint is due.  A checkpoint that is not tended is not begun. */
static enum weft_status steps_without(struct bench *b, uint32_t round, struct weft_error *err)
{
    uint32_t n = 0;
    struct moment begin = now();
    do {
        WEFT_TRY(step(b, err));
        n++;
    } while (wf_trainer_steps_done(b->trainer) % b->s->steps != 0);
    note(&b->without, round, begin, n);
    return WEFT_OK;
}

/* The checkpoint that is due begins, and is written while steps are made, up to the next. */
static enum weft_status steps_with(struct bench *b, uint32_t round, struct weft_error *err)
{
    struct moment begin = now();
    for (uint32_t i = 0; i < b->s->steps; i++) {
        WEFT_TRY(wf_trainer_advance_checkpoint(b->trainer, err));
        WEFT_TRY(step(b, err));
    }
    note(&b->with, round, begin, b->s->steps);
    return WEFT_OK;
}

/* A disk may be slower than the steps: what is still under way must not slow the next ones. */
static enum weft_status drain(struct bench *b, double *seconds, struct weft_error *err)
{
    struct wf_checkpoint_result news = wf_trainer_poll_checkpoint(b->trainer);
    while (news.saved == 0 && news.error[0] == '\0') {
        WEFT_TRY(wf_trainer_advance_checkpoint(b->trainer, err));
        WEFT_TRY(step(b, err));
        news = wf_trainer_poll_checkpoint(b->trainer);
    }
    if (news.error[0] != '\0')
        return WEFT_FAIL(err, WEFT_IO, "no checkpoint: %s", news.error);
    *seconds = news.seconds;
    while (wf_trainer_steps_done(b->trainer) % b->s->steps != 0)
        WEFT_TRY(step(b, err));
    return WEFT_OK;
}

static enum weft_status run_steps(struct bench *b, struct weft_error *err)
{
    WEFT_TRY(wf_bench_write_tokens(b->tokens, b->s->spec,
                                   2 * (size_t)b->s->batch * b->s->seq + 1, err));
    WEFT_TRY(make_settings(b, err));
    WEFT_TRY(wf_trainer_new(&b->settings, NULL, &b->trainer, err));
    WEFT_TRY(step(b, err)); /* caches are cold, pages new */
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        WEFT_TRY(steps_without(b, i, err));
        WEFT_TRY(steps_with(b, i, err));
        WEFT_TRY(drain(b, &b->saved[i], err));
    }
    wf_trainer_free(b->trainer); /* the memory is needed */
    b->trainer = NULL;
    return WEFT_OK;
}

/* -- what is said of it --------------------------------------------------------------------- */

/* Of each round by itself: its two halves meet the same machine. */
static double more(const double *with, const double *without, uint32_t n)
{
    double each[MAX_ROUNDS];
    for (uint32_t i = 0; i < n; i++)
        each[i] = with[i] / without[i] - 1;
    return wf_bench_median(each, n);
}

static double stall(const struct bench *b)
{
    return more(b->with.seconds, b->without.seconds, b->s->repeat);
}

/* The same in processor time, which others on the machine change less. */
static double work(const struct bench *b)
{
    return more(b->with.cpu, b->without.cpu, b->s->repeat);
}

static void print(const struct bench *b)
{
    const struct wf_bench_disk *d = &b->disk;
    uint32_t n = b->s->repeat;
    printf(
        "%s, %u x %u tokens a step, a checkpoint of %.0f MB every %u steps; steps: median of %u,"
        " the disk: best of as many\n",
        b->s->spec, b->s->batch, b->s->seq, d->bytes / 1e6, b->s->steps, n);
    printf(
        "steps   %8.1f ms without, %.1f ms with saving: stall %.1f%% %s (bar %.0f%%); %.1f%% "
        "more processor time; a checkpoint takes %.2f s beside them\n",
        1e3 * wf_bench_median(b->without.seconds, n), 1e3 * wf_bench_median(b->with.seconds, n),
        100 * stall(b), stall(b) <= most_stall ? "ok" : "over", 100 * most_stall, 100 * work(b),
        wf_bench_median(b->saved, n));
    printf("save    %8.0f MB/s, plain write and fsync %.0f MB/s: %.0f%% %s (bar %.0f%%); then "
           "read back at %.0f MB/s\n",
           d->save / 1e6, d->save_plain / 1e6, 100 * d->save_share,
           d->save_share >= least_share ? "ok" : "under", 100 * least_share, d->check / 1e6);
    printf("load    %8.0f MB/s, plain read %.0f MB/s: %.0f%% %s (bar %.0f%%); %s\n",
           d->load / 1e6, d->load_plain / 1e6, 100 * d->load_share,
           d->load_share >= least_share ? "ok" : "under", 100 * least_share,
           d->cached < 0.1 ? "from the disk" : "from memory: the files stayed cached");
}

static void print_json(const struct bench *b)
{
    const struct wf_bench_disk *d = &b->disk;
    struct wf_json j = {.out = stdout};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "spec", b->s->spec);
    wf_json_uint(&j, "batch", b->s->batch);
    wf_json_uint(&j, "seq", b->s->seq);
    wf_json_uint(&j, "every", b->s->steps);
    wf_json_number(&j, "bytes", d->bytes);
    wf_json_number(&j, "step_ms", 1e3 * wf_bench_median(b->without.seconds, b->s->repeat));
    wf_json_number(&j, "saving_step_ms", 1e3 * wf_bench_median(b->with.seconds, b->s->repeat));
    wf_json_number(&j, "stall", stall(b));
    wf_json_number(&j, "processor_time", work(b));
    wf_json_number(&j, "checkpoint_s", wf_bench_median(b->saved, b->s->repeat));
    wf_json_number(&j, "save_bytes_s", d->save);
    wf_json_number(&j, "plain_write_bytes_s", d->save_plain);
    wf_json_number(&j, "save_share", d->save_share);
    wf_json_number(&j, "check_bytes_s", d->check);
    wf_json_number(&j, "load_bytes_s", d->load);
    wf_json_number(&j, "plain_read_bytes_s", d->load_plain);
    wf_json_number(&j, "load_share", d->load_share);
    wf_json_number(&j, "cached", d->cached);
    wf_json_end(&j, '}');
    putchar('\n');
}

/* -- all of it ------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

/* The directory is ours, with all that is in it: also what a signal or an error left half done. */
static void clean_up(struct bench *b)
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

enum weft_status wf_bench_checkpoint(const struct wf_bench_compute *s, struct weft_error *err)
{
    struct wf_bench_compute own = *s;
    own.repeat = own.repeat < MAX_ROUNDS ? own.repeat : MAX_ROUNDS;
    struct bench b = {.s = &own};
    wf_train_catch_signals();
    enum weft_status st = make_directory(&b, err);
    if (st == WEFT_OK)
        st = run_steps(&b, err);
    if (st == WEFT_OK)
        st = wf_bench_store(&own, b.dir, &b.disk, err);
    if (st == WEFT_OK && own.json)
        print_json(&b);
    else if (st == WEFT_OK)
        print(&b);
    clean_up(&b);
    if (wf_train_stop_signal() != 0) {
        fflush(stdout);
        exit(128 + wf_train_stop_signal());
    }
    return st;
}
