/* Benchmarks of computing: training steps, kernels, pipelines, generation, checkpoints.  Each
 * function measures and returns figures; none prints.  bench/plan.h has the benchmarks of
 * planning. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/model/stage.h"
#include "weft/comm.h"
#include "weft/status.h"

enum { WF_BENCH_MAX_REPEAT = 1000 };

struct wf_bench_params {
    const char *spec;      /* name of a model */
    const char *precision; /* "fp32" or "bf16" */
    const char *schedule;  /* pipeline: its schedule */
    const char *dir;       /* checkpoint: a directory on the disk to be measured */
    uint32_t batch,
        seq;          /* sequences per step (pipeline: per micro-batch), tokens per sequence */
    uint32_t micros;  /* per step */
    uint32_t threads; /* 0: one per core */
    uint32_t ranks;   /* pipeline: ranks of one thread */
    uint32_t repeat;  /* rounds, 1 to WF_BENCH_MAX_REPEAT */
    uint32_t steps;   /* checkpoint: steps from one checkpoint to the next */
    bool (*is_stopped)(void); /* true ends the checkpoint benchmark early; or NULL */
};

/* -- training steps --------------------------------------------------------------------------- */

enum { WF_BENCH_N_TIMES = WF_N_TIMERS + 1 };

/* Medians over the steps of one way to sum gradients. */
struct wf_bench_train_mode {
    double tok_s, seconds;          /* seconds per step */
    double share;                   /* of the peak */
    double peak, burst;             /* FLOP/s, sampled during the steps and between them */
    double times[WF_BENCH_N_TIMES]; /* shares of the step */
    double loss;
    struct wf_tstage_bytes memory;
    size_t moment_bytes;
};

struct wf_bench_train {
    uint32_t threads;
    double flops;       /* per step */
    bool bf16_emulated; /* bf16 on a machine without bf16 dot products: fp32 ones run */
    struct wf_bench_train_mode exact, fast;
    double exact_cost; /* extra time of exact sums, as a share of a step with fast sums */
};

/* Runs training steps with random weights and tokens, alternately with exact and fast sums. */
enum weft_status wf_bench_train(const struct wf_bench_params *p, struct wf_bench_train *out,
                                struct weft_error *err);

/* Returns the name of entry i of `times`. */
const char *wf_bench_time_name(size_t i);

/* -- kernels ---------------------------------------------------------------------------------- */

/* The best of several runs of one kernel. */
struct wf_bench_kernel {
    const char *name;
    char shape[40];
    double flops, bytes; /* per run; one of the two is 0 */
    double seconds;
    double rate;  /* FLOP/s or bytes/s */
    double share; /* of the peak; 0 if `flops` is 0 */
    uint32_t threads;
};

typedef void wf_bench_kernel_fn(void *ctx, const struct wf_bench_kernel *k);

/* Runs each kernel at the shapes of the model and calls `each` with its figures. */
enum weft_status wf_bench_kernels(const struct wf_bench_params *p, wf_bench_kernel_fn *each,
                                  void *ctx, struct weft_error *err);

/* -- pipelines -------------------------------------------------------------------------------- */

/* The fastest step of one layout. */
struct wf_bench_layout {
    double tok_s;
    double rest;               /* share of the step outside of the pipeline: sums and update */
    double bubble, bubble_sim; /* measured; simulated with the measured costs */
    double share;              /* of the rate that one rank and the simulated bubble allow */
};

/* The time of one message, one way. */
struct wf_bench_ping {
    size_t bytes;
    uint32_t rounds;
    double seconds, plain_seconds; /* medians; plain: the transport's own send, 0 if none */
};

struct wf_bench_mpi {
    const char *launcher; /* borrowed: "openmpi" or "mpich" */
    bool ran;
    struct wf_bench_layout pipeline;
    struct wf_bench_ping ping; /* 1 MB */
};

struct wf_bench_pipeline {
    struct wf_bench_ping small, large; /* 64 bytes, 64 MiB */
    struct wf_bench_layout one, pipeline, replicas;
    struct wf_bench_mpi mpi[2];
};

/* Runs wf_bench_pipeline_mpi() in ranks started by out->launcher and fills *out.  Returns false if
 * that is not possible. */
typedef bool wf_bench_launch_fn(const struct wf_bench_params *p, struct wf_bench_mpi *out);

/* Launches `weft bench pipeline` of this program with mpirun and reads the figures that it prints. */
wf_bench_launch_fn wf_bench_launch;

/* Compares a pipeline of one-thread ranks, and replicas, with one rank of as many threads; measures
 * how long messages take.  `launch` measures the same pipeline under each MPI. */
enum weft_status wf_bench_pipeline(const struct wf_bench_params *p, wf_bench_launch_fn *launch,
                                   struct wf_bench_pipeline *out, struct weft_error *err);

/* Measures a pipeline of the ranks of `comm`; *out is filled on rank 0.  Collective. */
enum weft_status wf_bench_pipeline_mpi(struct weft_comm *comm, const struct wf_bench_params *p,
                                       struct wf_bench_mpi *out, struct weft_error *err);

/* -- generation ------------------------------------------------------------------------------- */

struct wf_bench_generate_type {
    enum wf_dtype type;
    size_t token_bytes; /* of weights, read once per token */
    double prompt_tok_s, tok_s;
    double read_bytes_s; /* of memory, by the same threads */
    double share;        /* of that bandwidth */
};

struct wf_bench_generate {
    uint32_t threads;
    uint32_t prompt;                        /* tokens */
    struct wf_bench_generate_type types[2]; /* fp32, bf16 */
};

/* Feeds a model with random weights one token at a time. */
enum weft_status wf_bench_generate(const struct wf_bench_params *p,
                                   struct wf_bench_generate *out, struct weft_error *err);

/* -- checkpoints ------------------------------------------------------------------------------ */

/* The best rates of writing and reading a checkpoint and a plain file of the same size. */
struct wf_bench_disk {
    double bytes;                        /* of a checkpoint */
    double save, save_plain, save_share; /* bytes/s, and the share of plain */
    double check;                        /* reading back after writing */
    double load, load_plain, load_share; /* with all hashes compared, as a resumed run does */
    double cached; /* part of the plain file that was still in memory when it was read */
};

struct wf_bench_checkpoint {
    uint32_t repeat;          /* rounds that were measured */
    double without_s, with_s; /* seconds per step, medians */
    double stall;             /* extra time per step, as a share */
    double cpu;               /* extra processor time per step, as a share */
    double checkpoint_s;      /* duration of one checkpoint beside the steps */
    struct wf_bench_disk disk;
};

/* Compares steps with and without saving, and checkpoints with plain files.  Leaves no file
 * behind.  Returns WEFT_USAGE if it was stopped. */
enum weft_status wf_bench_checkpoint(const struct wf_bench_params *p,
                                     struct wf_bench_checkpoint *out, struct weft_error *err);

#endif
