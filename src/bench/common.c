/* Defaults and targets of the benchmarks, and their helpers: set settings by name, write random tokens, compute medians, detect
 * a request to stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/random.h"
#include "bench/bench_priv.h"
#include "training/data/shard.h"
#include "weft/spec.h"

const struct wf_bench_targets wf_bench_targets = {
    .max_stall = 0.05, .min_disk_share = 0.7, .min_memory_share = 0.6};

struct wf_bench_params wf_bench_defaults(const char *benchmark)
{
    struct wf_bench_params p = {
        .spec = "gpt2-124m",
        .precision = "fp32",
        .schedule = "1f1b",
        .dir = ".",
        .batch = 4,
        .seq = 256,
        .micros = 1,
        .ranks = 2,
        .repeat = 5,
        .steps = 10,
    };
    if (strcmp(benchmark, "checkpoint") == 0)
        p.repeat = 3;
    if (strcmp(benchmark, "pipeline") == 0) {
        p.repeat = 2;
        p.batch = 1;
        p.micros = 16;
    }
    return p;
}

enum weft_status wf_bench_set(struct wf_train_settings *s, const char *key, const char *value,
                              struct weft_error *err)
{
    return wf_settings_set(wf_train_setting_list(), key, value, s, err);
}

enum weft_status wf_bench_set_number(struct wf_train_settings *s, const char *key,
                                     uint32_t value, struct weft_error *err)
{
    char text[24];
    snprintf(text, sizeof text, "%u", value);
    return wf_bench_set(s, key, text, err);
}

enum weft_status wf_bench_write_tokens(const char *path, const char *spec, size_t n,
                                       struct weft_error *err)
{
    struct weft_model model;
    WEFT_TRY(weft_model_find(spec, &model, err));
    int32_t *tokens = malloc(n * sizeof *tokens);
    if (tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)wf_random_below(7, 0, i, model.vocab);
    enum weft_status st = wf_shard_write(path, model.vocab, tokens, n, err);
    free(tokens);
    return st;
}

double wf_bench_median(const double *x, size_t n)
{
    double sorted[WF_BENCH_MAX_VALUES];
    memcpy(sorted, x, n * sizeof *x);
    return wf_median(sorted, n);
}

enum weft_status wf_bench_check_stop(const struct wf_bench_params *p, struct weft_error *err)
{
    bool stopped = p->is_stopped != NULL && p->is_stopped();
    return stopped ? WEFT_FAIL(err, WEFT_USAGE, "the benchmark was stopped") : WEFT_OK;
}
