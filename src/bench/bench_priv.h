/* Helpers of the benchmarks: set settings by name, write random tokens, compute medians, detect
 * a request to stop. */
#ifndef BENCH_BENCH_PRIV_H
#define BENCH_BENCH_PRIV_H

#include "bench/bench.h"
#include "training/settings/settings.h"

/* Sets one setting of a training run by its name. */
enum weft_status wf_bench_set(struct wf_train_settings *s, const char *key, const char *value,
                              struct weft_error *err);
enum weft_status wf_bench_set_number(struct wf_train_settings *s, const char *key,
                                     uint32_t value, struct weft_error *err);

/* Writes a token shard with n random tokens of the model's vocabulary. */
enum weft_status wf_bench_write_tokens(const char *path, const char *spec, size_t n,
                                       struct weft_error *err);

/* Returns the median of n numbers without changing them; n is from 1 to WF_BENCH_MAX_VALUES. */
enum { WF_BENCH_MAX_VALUES = 2000 };
double wf_bench_median(const double *x, size_t n);

/* Returns WEFT_USAGE once p->is_stopped() returns true. */
enum weft_status wf_bench_check_stop(const struct wf_bench_params *p, struct weft_error *err);

/* Measures the second part of wf_bench_checkpoint(), checkpoints and plain files, in `dir`. */
enum weft_status wf_bench_disk(const struct wf_bench_params *p, const char *dir,
                               struct wf_bench_disk *out, struct weft_error *err);

#endif
