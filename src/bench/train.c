/* Measures training steps: tokens per second, and the share of the machine's peak.  The peak is
 * sampled during the steps, since it changes on a shared machine. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "bench/bench_priv.h"
#include "compute/kern/isa.h"
#include "compute/kern/peak.h"
#include "compute/model/stage.h"
#include "compute/optim/adamw.h"
#include "compute/optim/stage_optim.h"

enum { MAX_STEPS = WF_BENCH_MAX_REPEAT };

/* A model in training. */
struct runner {
    struct wf_tstage *stage;
    struct wf_optim *optim;
    uint64_t steps;
    /* Figures per step, without the time that was spent on sampling the peak.  `peak` is
     * sampled during the step; `burst` is the mean of short measurements before and after the
     * step. */
    double seconds[MAX_STEPS], share[MAX_STEPS], peak[MAX_STEPS], burst[MAX_STEPS];
    uint64_t times[WF_N_TIMERS];
    uint64_t optim_ns, all_ns;
    double loss;
};

struct train_bench {
    const struct wf_bench_params *s;
    struct weft_model model;
    enum wf_dtype precision;
    struct wf_pool *pool;
    struct wf_peak_sampler *sampler;
    int32_t *tokens; /* batch * seq + 1 tokens */
    double flops;    /* FLOP per step */
    struct runner exact, fast;
};

static enum weft_status make_optim(struct train_bench *b, struct runner *r,
                                   struct weft_error *err)
{
    static const struct wf_optim_settings how = {0.9, 0.95, 1e-8, 0.1};
    return wf_optim_new_stage(r->stage, &how, b->pool, &r->optim, err);
}

static enum weft_status make_runner(struct train_bench *b, struct runner *r, bool fast,
                                    struct weft_error *err)
{
    uint32_t rows = b->s->batch / b->s->micros;
    struct wf_tstage_spec spec = {.model = b->model,
                                  .item1 = b->model.layers + 2,
                                  .seq = b->s->seq,
                                  .row_counts = {rows},
                                  .n_row_counts = 1,
                                  .slots = 1,
                                  .precision = b->precision,
                                  .fast_sums = fast,
                                  .one_micro = b->s->micros == 1,
                                  .pool = b->pool};
    WEFT_TRY(wf_tstage_new(&spec, &r->stage, err));
    wf_tstage_init_weights(r->stage, 1);
    return make_optim(b, r, err);
}

static void release_runner(struct runner *r)
{
    wf_optim_free(r->optim);
    wf_tstage_free(r->stage);
}

static void pack_rows(void *arg, size_t tensor, size_t row0, size_t row1)
{
    struct wf_tstage *stage = arg;
    size_t n;
    wf_tstage_pack_rows(stage, &wf_tstage_params(stage, &n)[tensor], row0, row1);
}

static enum weft_status run_micros(struct train_bench *b, struct runner *r,
                                   struct weft_error *err)
{
    struct weft_stage stage = wf_tstage_stage(r->stage);
    size_t tokens = (size_t)b->s->batch * b->s->seq, each = tokens / b->s->micros;
    r->loss = 0;
    for (uint32_t m = 0; m < b->s->micros; m++) {
        double loss = 0;
        struct weft_stage_call call = {.micro = m,
                                       .rows = b->s->batch / b->s->micros,
                                       .in = b->tokens + m * each,
                                       .targets = b->tokens + m * each + 1,
                                       .scale = 1.0F / (float)tokens,
                                       .loss = &loss,
                                       .train = true};
        WEFT_TRY(stage.ops->forward(stage.self, &call, err));
        WEFT_TRY(weft_stage_backward(&stage, &call, err));
        r->loss += loss / (double)tokens;
    }
    return WEFT_OK;
}

static enum weft_status step(struct train_bench *b, struct runner *r, struct weft_error *err)
{
    wf_peak_sampler_read(b->sampler);
    int64_t start = wf_clock_ns();
    wf_tstage_begin_step(r->stage);
    WEFT_TRY(run_micros(b, r, err));
    int64_t computed = wf_clock_ns();
    double norm = sqrt(wf_optim_norm_squared(r->optim));
    struct wf_optim_step how = {
        .t = r->steps + 1, .lr = 1e-4, .scale = norm > 1 ? 1 / norm : 1};
    wf_optim_update(r->optim, &how, pack_rows, r->stage);
    int64_t end = wf_clock_ns();
    struct wf_peak_sample peak = wf_peak_sampler_read(b->sampler);
    r->optim_ns += (uint64_t)(end - computed);
    r->all_ns += (uint64_t)(end - start);
    r->seconds[r->steps] = (double)(end - start) / 1e9 - peak.seconds;
    r->peak[r->steps] = peak.flops;
    r->steps++;
    return WEFT_OK;
}

/* Discards the figures of the warm-up step. */
static void discard_figures(struct runner *r)
{
    uint64_t ns[WF_N_TIMERS];
    wf_tstage_times(r->stage, ns);
    r->steps = 0;
    r->optim_ns = r->all_ns = 0;
}

/* Alternates steps with exact and with fast sums, with a burst before and after each step.  If
 * a step is too short for every thread to be sampled, the bursts are used as the peak. */
static enum weft_status measure(struct train_bench *b, struct weft_error *err)
{
    struct runner *both[] = {&b->exact, &b->fast};
    for (int i = 0; i < 2; i++) { /* the first step warms up caches and pages */
        WEFT_TRY(step(b, both[i], err));
        discard_figures(both[i]);
    }
    double before = wf_peak_flops(b->pool, b->precision);
    for (uint32_t n = 0; n < b->s->repeat; n++)
        for (int i = 0; i < 2; i++) {
            struct runner *r = both[i];
            uint64_t at = r->steps;
            WEFT_TRY(step(b, r, err));
            double after = wf_peak_flops(b->pool, b->precision);
            r->burst[at] = (before + after) / 2;
            if (r->peak[at] <= 0)
                r->peak[at] = r->burst[at];
            r->share[at] = b->flops / r->seconds[at] / r->peak[at];
            before = after;
        }
    for (int i = 0; i < 2; i++)
        wf_tstage_times(both[i]->stage, both[i]->times);
    return WEFT_OK;
}

static const char *const timer_names[WF_BENCH_N_TIMES] = {
    "products", "weight gradients", "attention", "attention backward", "norms", "loss",
    "other",    "norm and update"};

const char *wf_bench_time_name(size_t i)
{
    return timer_names[i];
}

static struct wf_bench_train_mode summarize(const struct train_bench *b, const struct runner *r)
{
    double tokens = (double)b->s->batch * b->s->seq;
    struct wf_bench_train_mode out = {
        .seconds = wf_bench_median(r->seconds, r->steps),
        .share = wf_bench_median(r->share, r->steps),
        .peak = wf_bench_median(r->peak, r->steps),
        .burst = wf_bench_median(r->burst, r->steps),
        .loss = r->loss,
        .memory = wf_tstage_memory(r->stage),
        .moment_bytes = wf_optim_bytes(r->optim),
    };
    out.tok_s = tokens / out.seconds;
    for (int i = 0; i < WF_BENCH_N_TIMES; i++)
        out.times[i] =
            (double)(i < WF_N_TIMERS ? r->times[i] : r->optim_ns) / (double)r->all_ns;
    return out;
}

static enum weft_status prepare(struct train_bench *b, struct weft_error *err)
{
    const struct wf_bench_params *s = b->s;
    size_t tokens = (size_t)s->batch * s->seq;
    WEFT_TRY(weft_model_find(s->spec, &b->model, err));
    if (s->micros > s->batch || s->batch % s->micros != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "batch: %u sequences cannot be divided into %u micro-batches",
                         s->batch, s->micros);
    WEFT_TRY(wf_pool_new(s->threads, &b->pool, err));
    b->precision = strcmp(s->precision, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    WEFT_TRY(wf_peak_sampler_new(b->pool, b->precision, &b->sampler, err));
    b->tokens = malloc((tokens + 1) * sizeof *b->tokens);
    if (b->tokens == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu tokens", tokens);
    for (size_t i = 0; i <= tokens; i++)
        b->tokens[i] = (int32_t)wf_random_below(7, 0, i, b->model.vocab);
    WEFT_TRY(weft_model_token_flops(&b->model, s->seq, &b->flops, err));
    b->flops *= (double)tokens;
    WEFT_TRY(make_runner(b, &b->exact, false, err));
    return make_runner(b, &b->fast, true, err);
}

enum weft_status wf_bench_train(const struct wf_bench_params *p, struct wf_bench_train *out,
                                struct weft_error *err)
{
    struct train_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a benchmark");
    b->s = p;
    enum weft_status st = prepare(b, err);
    if (st == WEFT_OK)
        st = measure(b, err);

    if (st == WEFT_OK) {
        *out = (struct wf_bench_train){
            .threads = wf_pool_threads(b->pool),
            .flops = b->flops,
            .bf16_emulated = b->precision == WF_DTYPE_BF16 && wf_isa() < WF_ISA_AVX512_BF16,
            .exact = summarize(b, &b->exact),
            .fast = summarize(b, &b->fast),
        };
        out->exact_cost = out->exact.seconds / out->fast.seconds - 1;
    }

    release_runner(&b->exact);
    release_runner(&b->fast);
    wf_peak_sampler_free(b->sampler);
    wf_pool_free(b->pool);
    free(b->tokens);
    free(b);
    return st;
}
