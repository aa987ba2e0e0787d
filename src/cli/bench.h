/* The benchmarks of computing; cmd_bench.c has those of planning. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

struct weft_bench_compute {
    const char *spec;      /* a model by its name */
    const char *precision; /* "fp32" or "bf16" */
    const char *schedule;  /* of a pipeline */
    uint32_t batch, seq, micros, threads, ranks, repeat;
    bool json;
};

/* Whole training steps on random weights and tokens, with exact and with fast sums in turn. */
enum weft_status weft_bench_train(const struct weft_bench_compute *s, struct weft_error *err);

/* Each kernel at the shapes of a model. */
enum weft_status weft_bench_kernels(const struct weft_bench_compute *s, struct weft_error *err);

/* Ranks in a pipeline, and as replicas, against one rank with as many threads; how long a message
 * takes.  Under mpirun: the same with its ranks. */
enum weft_status weft_bench_pipeline(const struct weft_bench_compute *s,
                                     struct weft_error *err);

/* Tokens one at a time, in fp32 and bf16, against how fast memory can be read. */
enum weft_status weft_bench_generate(const struct weft_bench_compute *s,
                                     struct weft_error *err);

#endif
