/* Prints the figures of weft bench. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "bench/bench.h"

void wf_bench_print_train(const struct wf_bench_params *p, const struct wf_bench_train *f,
                          bool json);
void wf_bench_print_generate(const struct wf_bench_params *p, const struct wf_bench_generate *f,
                             bool json);
void wf_bench_print_checkpoint(const struct wf_bench_params *p,
                               const struct wf_bench_checkpoint *f, bool json);

/* Each of these functions runs a benchmark and prints each row as soon as it is measured. */
enum weft_status wf_bench_show_plan(uint32_t repeat, bool large, bool json,
                                    struct weft_error *err);
enum weft_status wf_bench_show_sim(uint32_t repeat, bool large, bool json,
                                   struct weft_error *err);
enum weft_status wf_bench_show_kernels(const struct wf_bench_params *p, bool json,
                                       struct weft_error *err);

/* Runs and prints the pipeline benchmark: either with threads and under each MPI, or on the
 * ranks that mpirun launched. */
enum weft_status wf_bench_show_pipeline(const struct wf_bench_params *p, bool json,
                                        struct weft_error *err);

#endif
