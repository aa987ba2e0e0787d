/* Measures the peak rate of multiply-adds and of memory reads. */
#include "compute/kern/peak.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/size.h"
#include "compute/kern/isa.h"
#include "compute/kern/peak_priv.h"

enum {
    /* The minimum duration of a measurement, long enough that the start-up of threads is
     * negligible. */
    SHORTEST_NS = 1000000,
    /* The fastest attempt counts, since other programs can only slow an attempt down. */
    ATTEMPTS = 12,
};

static const struct wf_peak_loop *loop_for(enum wf_dtype type)
{
#if defined(__x86_64__)
    if (type == WF_DTYPE_BF16 && wf_isa() >= WF_ISA_AVX512_BF16 &&
        wf_peak_loop_bf16.run != NULL)
        return &wf_peak_loop_bf16;
    return WF_ISA_PICK(&wf_peak_loop_portable, &wf_peak_loop_avx2, &wf_peak_loop_avx512);
#else
    (void)type;
    return &wf_peak_loop_portable;
#endif
}

struct peak_run {
    const struct wf_peak_loop *loop;
    size_t rounds;
    float results[WF_MAX_THREADS]; /* per worker: keeps the compiler from removing the loop */
    int64_t ns[WF_MAX_THREADS];    /* CPU time per task */
};

static void run_loop(void *arg, size_t task, unsigned worker)
{
    struct peak_run *m = arg;
    int64_t begin = wf_clock_cpu_ns();
    m->results[worker] = m->loop->run(m->rounds);
    m->ns[task] = wf_clock_cpu_ns() - begin;
}

static int64_t time_once(struct wf_pool *pool, struct peak_run *m)
{
    int64_t begin = wf_clock_ns();
    wf_pool_run(pool, wf_pool_threads(pool), run_loop, m);
    int64_t took = wf_clock_ns() - begin;
    return took > 0 ? took : 1;
}

/* Returns the best of several attempts, by wall time or by the CPU time of the fastest
 * thread. */
static double measure(struct wf_pool *pool, enum wf_dtype type, bool cpu_time)
{
    struct peak_run m = {.loop = loop_for(type), .rounds = 1000};
    unsigned threads = wf_pool_threads(pool);
    while (time_once(pool, &m) < SHORTEST_NS)
        m.rounds *= 2;

    int64_t best = INT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        int64_t took = time_once(pool, &m);
        for (unsigned t = 0; cpu_time && t < threads; t++)
            took = m.ns[t] > 0 && m.ns[t] < took ? m.ns[t] : took;
        best = took < best ? took : best;
    }
    return (double)m.rounds * (double)m.loop->flops * threads / ((double)best * 1e-9);
}

double wf_peak_flops(struct wf_pool *pool, enum wf_dtype type)
{
    return measure(pool, type, false);
}

double wf_peak_flops_cpu_time(struct wf_pool *pool, enum wf_dtype type)
{
    return measure(pool, type, true);
}

/* -- sampling during other work ------------------------------------------------------------ */

enum {
    SAMPLE_PERIOD_NS = 20000000,
    SAMPLE_NS = 100000,
    /* The warm-up before a sample has 1 / WARMUP_DIVISOR of its rounds.  Unfinished
     * instructions of the previous task complete during the warm-up. */
    WARMUP_DIVISOR = 16,
};

struct thread_samples {
    alignas(64) int64_t next;
    int64_t ns; /* total time of samples, including warm-up */
    int64_t measured_ns;
    double flops;
    float results;
};

struct wf_peak_sampler {
    struct wf_pool *pool;
    const struct wf_peak_loop *loop;
    size_t rounds;
    struct thread_samples *of; /* owned, one per thread */
};

static void take_sample(void *arg, unsigned worker)
{
    struct wf_peak_sampler *b = arg;
    struct thread_samples *t = &b->of[worker];
    int64_t begin = wf_clock_ns();
    if (begin < t->next)
        return;
    t->results += b->loop->run(b->rounds / WARMUP_DIVISOR);
    int64_t warm_up_end = wf_clock_ns();
    t->results += b->loop->run(b->rounds);
    int64_t end = wf_clock_ns();

    t->ns += end - begin;
    t->measured_ns += end - warm_up_end;
    t->flops += (double)b->rounds * (double)b->loop->flops;
    t->next = end + SAMPLE_PERIOD_NS;
}

enum weft_status wf_peak_sampler_new(struct wf_pool *pool, enum wf_dtype type,
                                     struct wf_peak_sampler **out, struct weft_error *err)
{
    unsigned threads = wf_pool_threads(pool);
    struct wf_peak_sampler *b = calloc(1, sizeof *b);
    struct thread_samples *of =
        aligned_alloc(alignof(struct thread_samples), threads * sizeof *of);
    if (b == NULL || of == NULL) {
        free(b);
        free(of);
        return WEFT_FAIL(err, WEFT_NOMEM, "peak measurement: out of memory");
    }

    *b = (struct wf_peak_sampler){.pool = pool, .loop = loop_for(type), .of = of};
    for (unsigned w = 0; w < threads; w++)
        of[w] = (struct thread_samples){0};

    double rate = wf_peak_flops(pool, type) / threads;
    b->rounds = (size_t)(rate * SAMPLE_NS * 1e-9 / (double)b->loop->flops) + 1;
    wf_pool_set_hook(pool, take_sample, b);
    *out = b;
    return WEFT_OK;
}

void wf_peak_sampler_free(struct wf_peak_sampler *b)
{
    if (b == NULL)
        return;
    wf_pool_set_hook(b->pool, NULL, NULL);
    free(b->of);
    free(b);
}

struct wf_peak_sample wf_peak_sampler_read(struct wf_peak_sampler *b)
{
    unsigned threads = wf_pool_threads(b->pool);
    struct wf_peak_sample sum = {0};
    bool all = true;
    for (unsigned w = 0; w < threads; w++) {
        struct thread_samples *t = &b->of[w];
        all = all && t->measured_ns > 0;
        sum.flops += t->measured_ns > 0 ? t->flops / ((double)t->measured_ns * 1e-9) : 0;
        sum.seconds += (double)t->ns * 1e-9 / threads;
        t->ns = t->measured_ns = 0;
        t->flops = 0;
    }
    if (!all)
        sum.flops = 0;
    return sum;
}

/* -- memory bandwidth ---------------------------------------------------------------------- */

enum { READ_FLOATS = 1 << 16 }; /* floats per task */

struct read_job {
    const struct wf_peak_loop *loop;
    const float *at;
    size_t n;
    float results[WF_MAX_THREADS]; /* per worker: keeps the compiler from removing the sums */
};

static void read_piece(void *arg, size_t task, unsigned worker)
{
    struct read_job *j = arg;
    size_t from = task * READ_FLOATS;
    j->results[worker] += j->loop->sum(j->at + from, wf_size_min(READ_FLOATS, j->n - from));
}

double wf_read_bandwidth(struct wf_pool *pool, const float *at, size_t n)
{
    struct read_job job = {.loop = loop_for(WF_DTYPE_F32), .at = at, .n = n};
    int64_t begin = wf_clock_ns();
    wf_pool_run(pool, (n + READ_FLOATS - 1) / READ_FLOATS, read_piece, &job);
    int64_t took = wf_clock_ns() - begin;
    return (double)n * sizeof *at / ((double)(took > 0 ? took : 1) * 1e-9);
}
