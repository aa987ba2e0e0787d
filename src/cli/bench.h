/* The benchmarks of computing; cmd_bench.c has those of planning. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

struct wf_bench_compute {
    const char *spec;      /* a model by its name */
    const char *precision; /* "fp32" or "bf16" */
    const char *schedule;  /* of a pipeline */
    const char *dir;       /* a directory on the disk that is to be measured */
    uint32_t batch, seq, micros, threads, ranks, repeat;
    uint32_t steps; /* from one checkpoint to the next */
    bool json;
};

struct wf_train_settings;

/* Settings of a training run, by their names. */
enum weft_status wf_bench_set(struct wf_train_settings *s, const char *key, const char *value,
                              struct weft_error *err);
enum weft_status wf_bench_set_number(struct wf_train_settings *s, const char *key,
                                     uint32_t value, struct weft_error *err);
/* n random tokens of a model's vocabulary. */
enum weft_status wf_bench_write_tokens(const char *path, const char *spec, size_t n,
                                       struct weft_error *err);

/* Of n numbers, 1 to WF_BENCH_MOST. */
enum { WF_BENCH_MOST = 2000 };
double wf_bench_median(const double *x, size_t n);

/* An error once a signal has asked for an end (wf_train_catch_signals()): for the time between two
 * steps, so that what was written can be removed. */
enum weft_status wf_bench_go_on(struct weft_error *err);

/* Whole training steps on random weights and tokens, with exact and with fast sums in turn. */
enum weft_status wf_bench_train(const struct wf_bench_compute *s, struct weft_error *err);

/* Each kernel at the shapes of a model. */
enum weft_status wf_bench_kernels(const struct wf_bench_compute *s, struct weft_error *err);

/* Ranks in a pipeline, and as replicas, against one rank with as many threads; how long a message
 * takes.  Under mpirun: the same with its ranks. */
enum weft_status wf_bench_pipeline(const struct wf_bench_compute *s, struct weft_error *err);

/* Tokens one at a time, in fp32 and bf16, against how fast memory can be read. */
enum weft_status wf_bench_generate(const struct wf_bench_compute *s, struct weft_error *err);

/* What checkpoints cost: a training run that saves against one that does not, and how fast a
 * checkpoint is written and read against plain files of the same size. */
enum weft_status wf_bench_checkpoint(const struct wf_bench_compute *s, struct weft_error *err);

/* The second half of it: how fast numbers go to the disk and come back, at best. */
struct wf_bench_disk {
    double bytes;                        /* of a checkpoint */
    double save, save_plain, save_share; /* bytes a second, and the share of plain */
    double check;                        /* reading it back, before older ones are removed */
    double load, load_plain,
        load_share; /* with all hashes compared, as a run that goes on does it */
    double cached;  /* part of a plain file that was still in memory when it was read */
};
enum weft_status wf_bench_store(const struct wf_bench_compute *s, const char *dir,
                                struct wf_bench_disk *out, struct weft_error *err);

#endif
