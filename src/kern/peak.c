#include "kern/peak.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "kern/isa.h"
#include "kern/peak_priv.h"

enum {
    SHORTEST_NS = 1000000, /* of a measurement: waking the threads must not count */
    ATTEMPTS = 12,         /* the best one counts: whatever else runs only ever slows it down */
};

static const struct weft_peak_loop *loop_for(enum weft_type type)
{
#if defined(__x86_64__)
    if (type == WEFT_BF16 && weft_isa() >= WEFT_ISA_AVX512_BF16 &&
        weft_peak_loop_bf16.run != NULL)
        return &weft_peak_loop_bf16;
    return WEFT_ISA_PICK(&weft_peak_loop_portable, &weft_peak_loop_avx2,
                         &weft_peak_loop_avx512);
#else
    (void)type;
    return &weft_peak_loop_portable;
#endif
}

struct measurement {
    const struct weft_peak_loop *loop;
    size_t rounds;
    float kept[WEFT_MAX_THREADS]; /* a result for each worker, so that none is left out */
    int64_t ns[WEFT_MAX_THREADS]; /* processor time of each task */
};

static void run_loop(void *arg, size_t task, unsigned worker)
{
    struct measurement *m = arg;
    int64_t begin = weft_clock_cpu_ns();
    m->kept[worker] = m->loop->run(m->rounds);
    m->ns[task] = weft_clock_cpu_ns() - begin;
}

static int64_t time_once(struct weft_pool *pool, struct measurement *m)
{
    int64_t begin = weft_clock_ns();
    weft_pool_run(pool, weft_pool_threads(pool), run_loop, m);
    int64_t took = weft_clock_ns() - begin;
    return took > 0 ? took : 1;
}

/* The best of several attempts counts: by the clock on the wall, or by the processor time of the
 * fastest thread. */
static double measure(struct weft_pool *pool, enum weft_type type, bool alone)
{
    struct measurement m = {.loop = loop_for(type), .rounds = 1000};
    unsigned threads = weft_pool_threads(pool);
    while (time_once(pool, &m) < SHORTEST_NS)
        m.rounds *= 2;
    int64_t best = INT64_MAX;
    for (int i = 0; i < ATTEMPTS; i++) {
        int64_t took = time_once(pool, &m);
        for (unsigned t = 0; alone && t < threads; t++)
            took = m.ns[t] > 0 && m.ns[t] < took ? m.ns[t] : took;
        best = took < best ? took : best;
    }
    return (double)m.rounds * (double)m.loop->flops * threads / ((double)best * 1e-9);
}

double weft_peak_flops(struct weft_pool *pool, enum weft_type type)
{
    return measure(pool, type, false);
}

double weft_peak_flops_alone(struct weft_pool *pool, enum weft_type type)
{
    return measure(pool, type, true);
}
