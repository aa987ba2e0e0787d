/* Benchmarks of computing: training steps, kernels, pipelines, generation, checkpoints.  Each
 * function measures and returns figures; none prints.  Functions *_write_json() write figures as
 * JSON.  bench/plan.h has the benchmarks of planning. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/model/stage.h"
#include "weft/comm.h"
#include "weft/status.h"

struct wf_json; /* base/json.h */

enum { WF_BENCH_MAX_REPEAT = 1000 };

/* Target values of the project, as shares. */
extern const struct wf_bench_targets {
    double max_stall;        /* of a step, by saving */
    double min_disk_share;   /* of the speed of plain files, for checkpoints */
    double min_memory_share; /* of the memory bandwidth, for generation */
} wf_bench_targets;

struct wf_bench_params {
    const char *spec;      /* name of the model */
    const char *precision; /* "fp32" or "bf16" */
    const char *schedule;  /* pipeline benchmark: name of the schedule */
    const char *dir;       /* checkpoint benchmark: directory on the measured disk */
    uint32_t batch,
        seq;          /* sequences per step (pipeline: per micro-batch); tokens per sequence */
    uint32_t micros;  /* micro-batches per step */
    uint32_t threads; /* number of threads; 0: one per core */
    uint32_t ranks;   /* pipeline benchmark: number of one-thread ranks */
    uint32_t repeat;  /* number of rounds, 1 to WF_BENCH_MAX_REPEAT */
    uint32_t steps;   /* checkpoint benchmark: steps between two checkpoints */
    bool (*is_stopped)(void); /* returns true to stop the checkpoint benchmark; may be NULL */
};

/* Returns the parameters that a benchmark has by default: "plan", "sim", "train", "kernels",
 * "pipeline", "generate" or "checkpoint".  The strings are literals. */
struct wf_bench_params wf_bench_defaults(const char *benchmark);

/* -- training steps --------------------------------------------------------------------------- */

enum { WF_BENCH_N_TIMES = WF_N_TIMERS + 1 };

/* Medians over the steps that use one kind of gradient sum, exact or fast. */
struct wf_bench_train_mode {
    double tok_s, seconds; /* tokens per second; seconds per step */
    double share;          /* achieved FLOP/s as a share of the peak */
    double peak, burst;    /* peak FLOP/s, sampled during the steps; between the steps */
    double times[WF_BENCH_N_TIMES]; /* time of each part as a share of the step time */
    double loss;
    struct wf_tstage_bytes memory;
    size_t moment_bytes;
};

struct wf_bench_train {
    uint32_t threads;
    double flops;       /* FLOP per step */
    bool bf16_emulated; /* bf16 products run as fp32: no bf16 instructions */
    struct wf_bench_train_mode exact, fast;
    double exact_cost; /* extra time of exact sums, relative to a step with fast sums */
};

/* Runs training steps with random weights and tokens, alternately with exact and fast sums. */
enum weft_status wf_bench_train(const struct wf_bench_params *p, struct wf_bench_train *out,
                                struct weft_error *err);

void wf_bench_train_write_json(struct wf_json *j, const struct wf_bench_params *p,
                               const struct wf_bench_train *f);

/* Returns the name of entry i of `times` in struct wf_bench_train_mode. */
const char *wf_bench_time_name(size_t i);

/* -- kernels ---------------------------------------------------------------------------------- */

/* Figures of the best of several runs of one kernel. */
struct wf_bench_kernel {
    const char *name;
    char shape[40];
    double flops, bytes; /* FLOP and bytes per run; one of the two is 0 */
    double seconds;
    double rate;  /* FLOP/s or bytes/s */
    double share; /* rate as a share of the peak; 0 if `flops` is 0 */
    uint32_t threads;
};

typedef void wf_bench_kernel_fn(void *ctx, const struct wf_bench_kernel *k);

/* Runs each kernel at the shapes of the model and calls `each` with its figures. */
enum weft_status wf_bench_kernels(const struct wf_bench_params *p, wf_bench_kernel_fn *each,
                                  void *ctx, struct weft_error *err);

void wf_bench_kernel_write_json(struct wf_json *j, const struct wf_bench_kernel *k);

/* -- pipelines -------------------------------------------------------------------------------- */

/* Figures of the fastest step of one layout. */
struct wf_bench_layout {
    double tok_s;
    double rest; /* share of the step outside the pipeline: gradient sums and update */
    double bubble, bubble_sim; /* measured bubble; bubble simulated with the measured costs */
    double share; /* throughput relative to one rank's throughput with the simulated bubble */
    double eval_tok_s; /* throughput of an evaluation, which has forwards only */
};

/* The time of one message in one direction. */
struct wf_bench_ping {
    size_t bytes;
    uint32_t rounds;
    /* Medians.  plain_seconds is for the transport's own send, 0 if there is none. */
    double seconds, plain_seconds;
};

struct wf_bench_mpi {
    const char *launcher; /* borrowed: "openmpi" or "mpich" */
    bool ran;
    struct wf_bench_layout pipeline;
    struct wf_bench_ping ping; /* time of a message of 1 MB */
};

struct wf_bench_pipeline {
    struct wf_bench_ping small, large; /* messages of 64 bytes and of 64 MiB */
    struct wf_bench_layout one, pipeline, replicas;
    struct wf_bench_mpi mpi[2];
};

/* Runs wf_bench_pipeline_mpi() in ranks started by out->launcher and fills *out.  Returns false
 * if the ranks cannot run. */
typedef bool wf_bench_launch_fn(const struct wf_bench_params *p, struct wf_bench_mpi *out);

/* Launches `weft bench pipeline` of this program with mpirun and reads the figures that the
 * launched program prints. */
wf_bench_launch_fn wf_bench_launch;

/* Compares a pipeline of one-thread ranks, and one-thread replicas, with one rank that has the
 * same number of threads.  Also measures the time of messages.  `launch` measures the pipeline
 * under each MPI. */
enum weft_status wf_bench_pipeline(const struct wf_bench_params *p, wf_bench_launch_fn *launch,
                                   struct wf_bench_pipeline *out, struct weft_error *err);

/* Measures a pipeline on the ranks of `comm` and fills *out on rank 0 only.  Collective. */
enum weft_status wf_bench_pipeline_mpi(struct weft_comm *comm, const struct wf_bench_params *p,
                                       struct wf_bench_mpi *out, struct weft_error *err);

void wf_bench_pipeline_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                  const struct wf_bench_pipeline *f);

/* Writes the figures in the form that wf_bench_launch() reads. */
void wf_bench_mpi_write(FILE *out, const struct wf_bench_mpi *f);

/* -- generation ------------------------------------------------------------------------------- */

struct wf_bench_generate_type {
    enum wf_dtype type;
    size_t token_bytes; /* bytes of weights, which are read once per token */
    double prompt_tok_s, tok_s;
    double read_bytes_s; /* memory bandwidth of the same threads in bytes/s */
    double share;        /* bandwidth of generation as a share of read_bytes_s */
    bool reached;        /* the share reaches min_memory_share */
};

struct wf_bench_generate {
    uint32_t threads;
    uint32_t prompt;                        /* number of tokens of the prompt */
    struct wf_bench_generate_type types[2]; /* figures for fp32 and for bf16 weights */
};

/* Measures generation, one token at a time, with a model that has random weights. */
enum weft_status wf_bench_generate(const struct wf_bench_params *p,
                                   struct wf_bench_generate *out, struct weft_error *err);

void wf_bench_generate_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                  const struct wf_bench_generate *f);

/* -- checkpoints ------------------------------------------------------------------------------ */

/* The best rates of writing and reading a checkpoint and a plain file of the same size. */
struct wf_bench_disk {
    double bytes;                        /* size of a checkpoint in bytes */
    double save, save_plain, save_share; /* writing: checkpoint, plain file (bytes/s); ratio */
    double check;                        /* verifying a written checkpoint, bytes/s */
    double load, load_plain, load_share; /* reading, likewise; all hashes are compared */
    bool save_reached, load_reached;     /* the shares reach min_disk_share */
    double cached; /* fraction of the plain file that was in the page cache before reading */
};

struct wf_bench_checkpoint {
    uint32_t repeat;          /* number of measured rounds */
    double without_s, with_s; /* median seconds per step without and with a checkpoint */
    double stall;       /* extra time per step, as a share of a step without a checkpoint */
    bool stall_reached; /* the stall is at most max_stall */
    double cpu; /* extra processor time per step, as a share of a step without a checkpoint */
    double checkpoint_s; /* seconds to write one checkpoint while steps run */
    struct wf_bench_disk disk;
};

/* Compares the time of steps with and without saving, and the speed of checkpoints with that of
 * plain files.  Removes all its files.  Returns WEFT_USAGE if p->is_stopped() returned true. */
enum weft_status wf_bench_checkpoint(const struct wf_bench_params *p,
                                     struct wf_bench_checkpoint *out, struct weft_error *err);

void wf_bench_checkpoint_write_json(struct wf_json *j, const struct wf_bench_params *p,
                                    const struct wf_bench_checkpoint *f);

#endif
