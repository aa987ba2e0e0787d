/* Many scenarios in one pass.  Which action runs after which does not depend on times, so the order
 * of one walk serves all: it is found once, then every action is computed for sixteen scenarios at
 * a time, side by side in vector registers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "planning/sched/walk.h"
#include "planning/sim/hops.h"

typedef float lanes __attribute__((vector_size(WEFT_SCENARIOS * sizeof(float))));

/* An action, ready to be computed: what it adds and where it takes from and gives to. */
struct stage_cost {
    float time[WEFT_ACT_W + 1];
    float hop_next, hop_prev;
    uint32_t rank;
};

enum { NOISE_ROWS = 1024 }; /* more than a rank's actions differ in practice; stays in cache */

struct many {
    const struct weft_schedule *s;
    const struct weft_placement *place;
    const struct weft_sim_options *options;
    struct stage_cost *stage_costs; /* owned: (pipes, stages) */
    size_t n_runs;
    struct wf_walk_run *runs; /* owned: the order */
    lanes *there; /* owned: (stages + 2, micros): when a cell's input or gradient is there */
    lanes *rank_time; /* owned: (ranks) */
    lanes *slowdown;  /* owned: (ranks), how many times longer actions take */
    lanes *noise;     /* owned: (NOISE_ROWS), factors; NULL: none */
};

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static void fill_stage_cost(struct many *m, const struct wf_hops *hops, uint32_t pipe,
                            uint32_t stage)
{
    const struct weft_placement *p = m->place;
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages + stage;
    struct stage_cost *st = &m->stage_costs[(size_t)pipe * p->n_stages + stage];
    struct weft_stage_cost t = weft_cost_stage(m->options->cost, stage);
    size_t border = (size_t)pipe * (p->n_stages - 1) + stage;
    float hop = m->options->cost == NULL ? 0 : (float)m->options->cost->hop;
    *st = (struct stage_cost){.time = {(float)t.f, (float)t.b, (float)t.i, (float)t.w},
                              .rank = rank_of[0]};
    if (stage + 1 < p->n_stages && rank_of[1] != rank_of[0])
        st->hop_next =
            hops->forward == NULL
                ? hop
                : (float)(hops->forward[border].latency + hops->forward[border].transfer);
    if (stage > 0 && rank_of[-1] != rank_of[0])
        st->hop_prev = hops->backward == NULL ? hop
                                              : (float)(hops->backward[border - 1].latency +
                                                        hops->backward[border - 1].transfer);
}

static enum weft_status find_order(struct many *m, struct weft_error *err)
{
    struct wf_walk w;
    struct wf_walk_run run;
    size_t cap = 0;
    enum weft_status st = WEFT_OK;
    WEFT_TRY(wf_walk_init(&w, m->s, WF_WALK_MODE_COMPUTE, NULL, WF_DEPTH_UNLIMITED, err));
    while (st == WEFT_OK && wf_walk_next(&w, &run)) {
        if (m->n_runs == cap) {
            cap = cap == 0 ? 1024 : 2 * cap;
            struct wf_walk_run *more = realloc(m->runs, cap * sizeof *more);
            if (more == NULL) {
                st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the order of a schedule");
                break;
            }
            m->runs = more;
        }
        m->runs[m->n_runs++] = run;
    }
    if (st == WEFT_OK && w.n_done < w.n_total)
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "the schedule deadlocks: weft check shows where");
    wf_walk_release(&w);
    return st;
}

static void many_release(struct many *m)
{
    free(m->stage_costs);
    free(m->runs);
    free(m->there);
    free(m->rank_time);
    free(m->slowdown);
    free(m->noise);
}

/* Vectors want their own alignment. */
static lanes *lanes_alloc(size_t n)
{
    void *at = NULL;
    return posix_memalign(&at, 2 * sizeof(lanes), sizeof(lanes) * (n + 1)) == 0 ? at : NULL;
}

static enum weft_status many_init(struct many *m, const struct weft_schedule *s,
                                  const struct weft_sim_options *options,
                                  struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t cells = ((size_t)p->n_stages + 2) * p->n_micros;
    struct wf_hops hops;
    *m = (struct many){.s = s, .place = p, .options = options};
    WEFT_TRY(weft_sim_check(s, options, err));
    if (options->contention != WEFT_CONTENTION_NONE)
        return WEFT_FAIL(err, WEFT_USAGE, "many scenarios know transfers that only delay");
    WEFT_TRY(wf_hops_init(&hops, p, options, err));
    m->stage_costs = malloc(sizeof *m->stage_costs * p->n_pipes * p->n_stages);
    m->there = lanes_alloc(cells);
    m->rank_time = lanes_alloc(p->n_ranks);
    m->slowdown = lanes_alloc(p->n_ranks);
    enum weft_status st = WEFT_OK;
    if (m->stage_costs == NULL || m->there == NULL || m->rank_time == NULL ||
        m->slowdown == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu cells of %d scenarios", cells,
                       WEFT_SCENARIOS);
    for (uint32_t pipe = 0; st == WEFT_OK && pipe < p->n_pipes; pipe++)
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            fill_stage_cost(m, &hops, pipe, stage);
    wf_hops_release(&hops);
    if (st == WEFT_OK)
        memset(m->there, 0, sizeof(lanes) * cells);
    return st == WEFT_OK ? find_order(m, err) : st;
}

/* A stage's row is one further down: rows 0 and S + 1 lie outside the model, are read as 0 by the
 * first and last stage, and take what those give away. */
static inline lanes *cell_of(const struct many *m, uint32_t stage, uint32_t micro)
{
    return &m->there[((size_t)stage + 1) * m->place->n_micros + micro];
}

typedef int32_t lane_bits __attribute__((vector_size(sizeof(lanes))));

/* to = the larger of to and other, element by element. */
#define VECTOR_MAX(to, other)                                                                  \
    do {                                                                                       \
        lane_bits raise_keep = (to) >= (other);                                                \
        (to) = (lanes)((raise_keep & (lane_bits)(to)) | (~raise_keep & (lane_bits)(other)));   \
    } while (0)

/* The stages on which an action's input depends and to which its result goes are neighbours; with
 * rows beyond both ends no stage is a special case. */
__attribute__((always_inline)) static inline void run_action(const struct many *m,
                                                             const struct weft_action *a,
                                                             size_t unit, uint32_t rank,
                                                             uint64_t noise_row)
{
    lanes rank_time = m->rank_time[rank], took = m->slowdown[rank];
    float time = 0;
    for (size_t k = 0; k < unit; k++) {
        const struct stage_cost *st =
            &m->stage_costs[(size_t)weft_placement_pipe(m->place, a[k].micro) *
                                m->place->n_stages +
                            a[k].stage];
        time += st->time[a[k].kind];
        if (a[k].kind != WEFT_ACT_W) {
            lanes there = *cell_of(m, a[k].stage, a[k].micro);
            VECTOR_MAX(rank_time, there);
        }
    }
    if (unit == 2 && m->options->cost != NULL && m->options->cost->fb.n != 0)
        time = (float)weft_values_get(m->options->cost->fb,
                                      a[0].kind == WEFT_ACT_F ? a[0].stage : a[1].stage, 0);
    took *= time;
    if (m->noise != NULL)
        took *= m->noise[noise_row];
    rank_time += took;
    m->rank_time[rank] = rank_time;
    for (size_t k = 0; k < unit; k++) {
        const struct stage_cost *st =
            &m->stage_costs[(size_t)weft_placement_pipe(m->place, a[k].micro) *
                                m->place->n_stages +
                            a[k].stage];
        if (a[k].kind == WEFT_ACT_F)
            m->there[((size_t)a[k].stage + 2) * m->place->n_micros + a[k].micro] =
                rank_time + st->hop_next;
        else if (a[k].kind != WEFT_ACT_W)
            m->there[(size_t)a[k].stage * m->place->n_micros + a[k].micro] =
                rank_time + st->hop_prev;
    }
}

/* Which row of noise an action gets: as good as drawn with replacement. */
__attribute__((always_inline)) static inline uint64_t noise_row_of(size_t at, uint32_t rank,
                                                                   uint64_t seed)
{
    uint64_t x =
        seed ^ (at * UINT64_C(0x9e3779b97f4a7c15)) ^ (rank * UINT64_C(0xc2b2ae3d27d4eb4f));
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x >> 32) % NOISE_ROWS;
}

/* One pass for sixteen scenarios.  A cell's time is first that of its input, then that of its
 * gradient: both are written before they are read.  Compiled for each kind of vector unit; not so
 * under the thread sanitizer, which is not ready when the loader would choose one. */
#if !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
run_lanes(const struct many *m, uint64_t seed)
{
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        m->rank_time[r] = (lanes){0};
    for (uint32_t micro = 0; micro < m->place->n_micros; micro++)
        *cell_of(m, 0, micro) = (lanes){0}; /* the first stage waits for nobody */
    for (size_t i = 0; i < m->n_runs; i++) {
        const struct wf_walk_run *run = &m->runs[i];
        const struct weft_action *row = weft_schedule_rank(m->s, run->rank).at;
        size_t unit;
        for (size_t at = run->begin; at < run->end; at += unit) {
            unit = row[at].paired ? 2 : 1;
            if (weft_act_is_compute(row[at].kind))
                run_action(m, &row[at], unit, run->rank, noise_row_of(at, run->rank, seed));
        }
    }
}

static void makespans(const struct many *m, float *out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        out[k] = 0;
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        for (size_t k = 0; k < n; k++)
            out[k] = larger(out[k], m->rank_time[r][k]);
}

static void set_speed(struct many *m)
{
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        for (size_t k = 0; k < WEFT_SCENARIOS; k++)
            m->slowdown[r][k] = (float)weft_values_get(m->options->speed, r, 1);
}

/* A normal number from two uniform ones (Box and Muller), a pure function of its position. */
static double normal(uint64_t seed, uint64_t position)
{
    double u = ((double)(wf_random_u64(seed, 1, position) >> 11) + 1) * 0x1p-53;
    double v = (double)(wf_random_u64(seed, 2, position) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static enum weft_status fill_noise(struct many *m, const struct weft_jitter *jitter,
                                   uint64_t batch, struct weft_error *err)
{
    if (m->noise == NULL)
        m->noise = lanes_alloc(NOISE_ROWS);
    if (m->noise == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %d rows of noise", NOISE_ROWS);
    for (uint64_t row = 0; row < NOISE_ROWS; row++)
        for (uint64_t k = 0; k < WEFT_SCENARIOS; k++)
            m->noise[row][k] = (float)exp(
                jitter->sigma *
                    normal(jitter->seed, (batch * NOISE_ROWS + row) * WEFT_SCENARIOS + k) -
                jitter->sigma * jitter->sigma / 2);
    lanes sum = {0}; /* a table this small has a mean of its own: set it right */
    for (size_t row = 0; row < NOISE_ROWS; row++)
        sum += m->noise[row];
    for (size_t row = 0; row < NOISE_ROWS; row++)
        m->noise[row] *= (float)NOISE_ROWS / sum;
    return WEFT_OK;
}

static int by_size(const void *pa, const void *pb)
{
    float a = *(const float *)pa, b = *(const float *)pb;
    return (a > b) - (a < b);
}

static void summarize(struct weft_samples *out)
{
    double sum = 0;
    qsort(out->makespan, out->n, sizeof *out->makespan, by_size);
    for (size_t i = 0; i < out->n; i++)
        sum += out->makespan[i];
    out->mean = sum / (double)out->n;
    out->p5 = out->makespan[(size_t)(0.05 * (double)(out->n - 1) + 0.5)];
    out->p50 = out->makespan[(size_t)(0.50 * (double)(out->n - 1) + 0.5)];
    out->p95 = out->makespan[(size_t)(0.95 * (double)(out->n - 1) + 0.5)];
}

/* What a tenth more on one rank does to the makespan, sixteen ranks at a time. */
static void measure_sensitivity(struct many *m, float *out)
{
    float plain, slower[WEFT_SCENARIOS];
    free(m->noise);
    m->noise = NULL;
    set_speed(m);
    run_lanes(m, 0);
    makespans(m, &plain, 1);
    for (uint32_t first = 0; first < m->place->n_ranks; first += WEFT_SCENARIOS) {
        uint32_t n = m->place->n_ranks - first;
        n = n < WEFT_SCENARIOS ? n : WEFT_SCENARIOS;
        set_speed(m);
        for (uint32_t k = 0; k < n; k++)
            m->slowdown[first + k][k] *= 1.1f;
        run_lanes(m, 0);
        makespans(m, slower, n);
        for (uint32_t k = 0; k < n; k++)
            out[first + k] = slower[k] - plain;
    }
}

enum weft_status weft_samples_init(struct weft_samples *out, const struct weft_schedule *s,
                                   const struct weft_sim_options *options,
                                   const struct weft_jitter *jitter, size_t n,
                                   struct weft_error *err)
{
    struct weft_samples samples = {.n = n};
    struct many m;
    if (n == 0 || n > 100000000)
        return WEFT_FAIL(err, WEFT_USAGE, "%zu samples: give 1 to 100000000", n);
    if (jitter != NULL && !(jitter->sigma >= 0 && jitter->sigma <= 4))
        return WEFT_FAIL(err, WEFT_USAGE, "a jitter of %g is out of range: 0 to 4",
                         jitter->sigma);
    enum weft_status st = many_init(&m, s, options, err);
    if (st == WEFT_OK) {
        samples.makespan = malloc(sizeof *samples.makespan * (n + WEFT_SCENARIOS));
        samples.slow_rank = malloc(sizeof *samples.slow_rank * m.place->n_ranks);
        if (samples.makespan == NULL || samples.slow_rank == NULL)
            st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu samples", n);
    }
    if (st == WEFT_OK)
        set_speed(&m);
    for (size_t at = 0; st == WEFT_OK && at < n; at += WEFT_SCENARIOS) {
        uint64_t batch = at / WEFT_SCENARIOS;
        if (jitter != NULL && batch % 64 == 0) /* rows are dealt anew for every batch */
            st = fill_noise(&m, jitter, batch / 64, err);
        if (st == WEFT_OK) {
            run_lanes(&m, wf_random_u64(jitter == NULL ? 0 : jitter->seed, 3, batch));
            makespans(&m, samples.makespan + at, WEFT_SCENARIOS);
        }
    }
    if (st == WEFT_OK) {
        summarize(&samples);
        measure_sensitivity(&m, samples.slow_rank);
        *out = samples;
        samples = (struct weft_samples){0};
    }
    weft_samples_release(&samples);
    many_release(&m);
    return st;
}

void weft_samples_release(struct weft_samples *samples)
{
    free(samples->makespan);
    free(samples->slow_rank);
    *samples = (struct weft_samples){0};
}

enum weft_status weft_fleet_run(const struct weft_schedule *s,
                                const struct weft_sim_options *options, const float *speeds,
                                size_t n_pipelines, float *out, struct weft_error *err)
{
    struct many m;
    enum weft_status st = many_init(&m, s, options, err);
    for (size_t first = 0; st == WEFT_OK && first < n_pipelines; first += WEFT_SCENARIOS) {
        size_t n = n_pipelines - first < WEFT_SCENARIOS ? n_pipelines - first : WEFT_SCENARIOS;
        for (uint32_t r = 0; r < m.place->n_ranks; r++)
            for (size_t k = 0; k < WEFT_SCENARIOS; k++)
                m.slowdown[r][k] = k < n ? speeds[(first + k) * m.place->n_ranks + r] : 1;
        run_lanes(&m, 0);
        makespans(&m, out + first, n);
    }
    many_release(&m);
    return st;
}
