#include "compute/kern/peak.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "compute/kern/isa.h"
#include "compute/kern/peak_priv.h"

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

/* -- beside work ---------------------------------------------------------------------------- */

enum {
    TURN_EVERY_NS = 20000000,
    TURN_NS = 100000,
    WARM_SHARE = 16, /* of a turn, before it: what the task left in flight must not count */
};

struct turns { /* of one thread */
    alignas(64) int64_t next;
    int64_t ns; /* of all turns, and the part that counts */
    int64_t counted_ns;
    double flops;
    float kept;
};

struct weft_beside {
    struct weft_pool *pool;
    const struct weft_peak_loop *loop;
    size_t rounds;
    struct turns *of; /* owned, one for each thread */
};

static void take_turn(void *arg, unsigned worker)
{
    struct weft_beside *b = arg;
    struct turns *t = &b->of[worker];
    int64_t begin = weft_clock_ns();
    if (begin < t->next)
        return;
    t->kept += b->loop->run(b->rounds / WARM_SHARE);
    int64_t warm = weft_clock_ns();
    t->kept += b->loop->run(b->rounds);
    int64_t end = weft_clock_ns();
    t->ns += end - begin;
    t->counted_ns += end - warm;
    t->flops += (double)b->rounds * (double)b->loop->flops;
    t->next = end + TURN_EVERY_NS;
}

enum weft_status weft_beside_new(struct weft_pool *pool, enum weft_type type,
                                 struct weft_beside **out, struct weft_error *err)
{
    unsigned threads = weft_pool_threads(pool);
    struct weft_beside *b = calloc(1, sizeof *b);
    struct turns *of = aligned_alloc(alignof(struct turns), threads * sizeof *of);
    if (b == NULL || of == NULL) {
        free(b);
        free(of);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for measuring the peak");
    }
    *b = (struct weft_beside){.pool = pool, .loop = loop_for(type), .of = of};
    for (unsigned w = 0; w < threads; w++)
        of[w] = (struct turns){0};
    double rate = weft_peak_flops(pool, type) / threads;
    b->rounds = (size_t)(rate * TURN_NS * 1e-9 / (double)b->loop->flops) + 1;
    weft_pool_between(pool, take_turn, b);
    *out = b;
    return WEFT_OK;
}

void weft_beside_free(struct weft_beside *b)
{
    if (b == NULL)
        return;
    weft_pool_between(b->pool, NULL, NULL);
    free(b->of);
    free(b);
}

struct weft_beside_peak weft_beside_take(struct weft_beside *b)
{
    unsigned threads = weft_pool_threads(b->pool);
    struct weft_beside_peak sum = {0};
    bool all = true;
    for (unsigned w = 0; w < threads; w++) {
        struct turns *t = &b->of[w];
        all = all && t->counted_ns > 0;
        sum.flops += t->counted_ns > 0 ? t->flops / ((double)t->counted_ns * 1e-9) : 0;
        sum.seconds += (double)t->ns * 1e-9 / threads;
        t->ns = t->counted_ns = 0;
        t->flops = 0;
    }
    if (!all)
        sum.flops = 0;
    return sum;
}
