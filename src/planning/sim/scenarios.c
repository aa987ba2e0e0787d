/* Simulates many scenarios in one pass.  The order in which actions can be computed does not
 * depend on their times.  So the schedule is walked once to find this order, and then each
 * action is computed for sixteen scenarios at once in vector registers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "planning/sched/walk.h"
#include "planning/sim/hops.h"

typedef float lanes __attribute__((vector_size(WEFT_SCENARIOS * sizeof(float))));

/* Times of one stage of one pipe: the times of its passes and of the hops to its neighbours. */
struct stage_cost {
    float time[WEFT_ACT_W + 1];
    float hop_next, hop_prev;
    uint32_t rank;
};

/* enough rows to vary the actions of a rank, and few enough for the CPU cache */
enum { NOISE_ROWS = 1024 };

struct batch {
    const struct weft_schedule *s;
    const struct weft_placement *place;
    const struct weft_sim_options *options;
    struct stage_cost *stage_costs; /* owned: (pipes, stages) */
    size_t n_runs;
    struct wf_walk_run *runs; /* owned: (n_runs), actions in the order of computation */
    /* owned: (stages + 2, micros), time at which the input or the gradient of a cell arrives */
    lanes *available;
    lanes *rank_time; /* owned: (ranks), end time of the last action of each rank */
    lanes *slowdown;  /* owned: (ranks), factor by which each rank's actions take longer */
    lanes *noise;     /* owned: (NOISE_ROWS), random factors; NULL if times do not vary */
};

static float larger(float a, float b)
{
    return a > b ? a : b;
}

static void fill_stage_cost(struct batch *m, const struct wf_hops *hops, uint32_t pipe,
                            uint32_t stage)
{
    const struct weft_placement *p = m->place;
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages + stage;
    struct stage_cost *st = &m->stage_costs[(size_t)pipe * p->n_stages + stage];
    struct weft_stage_cost t = weft_cost_stage(m->options->cost, stage);
    const struct weft_cost *cost = m->options->cost;

    *st = (struct stage_cost){.time = {(float)t.f, (float)t.b, (float)t.i, (float)t.w},
                              .rank = rank_of[0]};
    if (stage + 1 < p->n_stages && rank_of[1] != rank_of[0])
        st->hop_next = (float)wf_hop_time(hops, p, cost, pipe, stage, false);
    if (stage > 0 && rank_of[-1] != rank_of[0])
        st->hop_prev = (float)wf_hop_time(hops, p, cost, pipe, stage - 1, true);
}

static enum weft_status find_order(struct batch *m, struct weft_error *err)
{
    struct wf_walk w;
    struct wf_walk_run run;
    size_t cap = 0;
    enum weft_status st = WEFT_OK;

    WEFT_TRY(wf_walk_init(&w, m->s, WF_WALK_MODE_COMPUTE, NULL, WF_DEPTH_UNLIMITED, err));
    while (st == WEFT_OK && wf_walk_next(&w, &run)) {
        if (m->n_runs == cap) {
            cap = cap == 0 ? 1024 : 2 * cap;
            struct wf_walk_run *grown = realloc(m->runs, cap * sizeof *grown);
            if (grown == NULL) {
                st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the order of a schedule");
                break;
            }
            m->runs = grown;
        }
        m->runs[m->n_runs++] = run;
    }

    if (st == WEFT_OK && w.n_done < w.n_total)
        st = WEFT_FAIL(err, WEFT_SCHEDULE, "the schedule deadlocks");
    wf_walk_release(&w);
    return st;
}

static void batch_release(struct batch *m)
{
    free(m->stage_costs);
    free(m->runs);
    free(m->available);
    free(m->rank_time);
    free(m->slowdown);
    free(m->noise);
}

/* Allocates n vectors with the alignment that vectors need. */
static lanes *lanes_alloc(size_t n)
{
    void *at = NULL;
    return posix_memalign(&at, 2 * sizeof(lanes), sizeof(lanes) * (n + 1)) == 0 ? at : NULL;
}

static enum weft_status batch_init(struct batch *m, const struct weft_schedule *s,
                                   const struct weft_sim_options *options,
                                   struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    size_t cells = ((size_t)p->n_stages + 2) * p->n_micros;
    struct wf_hops hops;
    *m = (struct batch){.s = s, .place = p, .options = options};
    WEFT_TRY(weft_sim_check(s, options, err));
    if (options->contention != WEFT_CONTENTION_NONE)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "contention of transfers is not supported for many scenarios");
    WEFT_TRY(wf_hops_init(&hops, p, options, err));

    m->stage_costs = malloc(sizeof *m->stage_costs * p->n_pipes * p->n_stages);
    m->available = lanes_alloc(cells);
    m->rank_time = lanes_alloc(p->n_ranks);
    m->slowdown = lanes_alloc(p->n_ranks);
    enum weft_status st = WEFT_OK;
    if (m->stage_costs == NULL || m->available == NULL || m->rank_time == NULL ||
        m->slowdown == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu cells of %d scenarios", cells,
                       WEFT_SCENARIOS);

    for (uint32_t pipe = 0; st == WEFT_OK && pipe < p->n_pipes; pipe++)
        for (uint32_t stage = 0; stage < p->n_stages; stage++)
            fill_stage_cost(m, &hops, pipe, stage);
    wf_hops_release(&hops);
    if (st == WEFT_OK)
        memset(m->available, 0, sizeof(lanes) * cells);
    return st == WEFT_OK ? find_order(m, err) : st;
}

/* Returns the cell of a stage, which is in row stage + 1.  Rows 0 and S + 1 are outside the
 * model.  The first and the last stage read the value 0 from these rows, and write results
 * to them that nothing reads. */
static inline lanes *cell_of(const struct batch *m, uint32_t stage, uint32_t micro)
{
    return &m->available[((size_t)stage + 1) * m->place->n_micros + micro];
}

typedef int32_t lane_bits __attribute__((vector_size(sizeof(lanes))));

/* to = max(to, other), element by element. */
#define VECTOR_MAX(to, other)                                                                  \
    do {                                                                                       \
        lane_bits raise_keep = (to) >= (other);                                                \
        (to) = (lanes)((raise_keep & (lane_bits)(to)) | (~raise_keep & (lane_bits)(other)));   \
    } while (0)

/* Computes one action or pair.  The rows outside the model make special cases for the first
 * and the last stage unnecessary. */
__attribute__((always_inline)) static inline void run_action(const struct batch *m,
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
            lanes available = *cell_of(m, a[k].stage, a[k].micro);
            VECTOR_MAX(rank_time, available);
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
            m->available[((size_t)a[k].stage + 2) * m->place->n_micros + a[k].micro] =
                rank_time + st->hop_next;
        else if (a[k].kind != WEFT_ACT_W)
            m->available[(size_t)a[k].stage * m->place->n_micros + a[k].micro] =
                rank_time + st->hop_prev;
    }
}

/* Returns the index of the noise row for an action.  Rows are drawn pseudo-randomly with
 * replacement. */
__attribute__((always_inline)) static inline uint64_t noise_row_of(size_t at, uint32_t rank,
                                                                   uint64_t seed)
{
    uint64_t x =
        seed ^ (at * UINT64_C(0x9e3779b97f4a7c15)) ^ (rank * UINT64_C(0xc2b2ae3d27d4eb4f));
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x >> 32) % NOISE_ROWS;
}

/* Computes sixteen scenarios.  A cell first contains the arrival time of its input and later
 * that of its gradient.  Both values are written before they are read.  The function is
 * compiled for several vector instruction sets.  The exception is the thread sanitizer,
 * which is not yet initialized when the loader selects a version. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
run_lanes(const struct batch *m, uint64_t seed)
{
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        m->rank_time[r] = (lanes){0};
    for (uint32_t micro = 0; micro < m->place->n_micros; micro++)
        *cell_of(m, 0, micro) = (lanes){0}; /* the first stage has no input to wait for */

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

static void makespans(const struct batch *m, float *out, size_t n)
{
    for (size_t k = 0; k < n; k++)
        out[k] = 0;
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        for (size_t k = 0; k < n; k++)
            out[k] = larger(out[k], m->rank_time[r][k]);
}

static void set_speed(struct batch *m)
{
    for (uint32_t r = 0; r < m->place->n_ranks; r++)
        for (size_t k = 0; k < WEFT_SCENARIOS; k++)
            m->slowdown[r][k] = (float)weft_values_get(m->options->speed, r, 1);
}

/* Returns a normally distributed random number (Box-Muller transform) that depends on seed
 * and position only. */
static double normal(uint64_t seed, uint64_t position)
{
    double u = ((double)(wf_random_u64(seed, 1, position) >> 11) + 1) * 0x1p-53;
    double v = (double)(wf_random_u64(seed, 2, position) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static enum weft_status fill_noise(struct batch *m, const struct weft_jitter *jitter,
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

    /* The mean of a table this small is not exactly 1, so divide all factors by the mean. */
    lanes sum = {0};
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

/* Computes how much the makespan increases if one rank is 10 % slower.  Each pass computes
 * this for sixteen ranks. */
static void measure_sensitivity(struct batch *m, float *out)
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
    struct batch m;
    if (n == 0 || n > 100000000)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the number of samples is out of range (%zu; expected 1 to 100000000)",
                         n);
    if (jitter != NULL && !(jitter->sigma >= 0 && jitter->sigma <= 4))
        return WEFT_FAIL(err, WEFT_USAGE, "the jitter is out of range (%g; expected 0 to 4)",
                         jitter->sigma);

    enum weft_status st = batch_init(&m, s, options, err);
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
        /* for other batches, the seed selects different rows */
        if (jitter != NULL && batch % 64 == 0)
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
    batch_release(&m);
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
    struct batch m;
    enum weft_status st = batch_init(&m, s, options, err);
    for (size_t first = 0; st == WEFT_OK && first < n_pipelines; first += WEFT_SCENARIOS) {
        size_t n = n_pipelines - first < WEFT_SCENARIOS ? n_pipelines - first : WEFT_SCENARIOS;
        for (uint32_t r = 0; r < m.place->n_ranks; r++)
            for (size_t k = 0; k < WEFT_SCENARIOS; k++)
                m.slowdown[r][k] = k < n ? speeds[(first + k) * m.place->n_ranks + r] : 1;
        run_lanes(&m, 0);
        makespans(&m, out + first, n);
    }
    batch_release(&m);
    return st;
}
