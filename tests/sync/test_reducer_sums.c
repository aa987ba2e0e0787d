/* Compares reductions of random steps with exact sums, and checks the limits of the sums, large
 * inputs, and the cost in operations, messages and memory. */
#include "weft/sync.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* -- random steps ----------------------------------------------------------------------------- */

enum { MAX_RANKS = 6, N_STEPS = 4, N_PARAMS = 10 };

static const size_t sizes[N_PARAMS] = {1, 7, 0, 300, 4096, 70000, 2, 32768, 1, 100};

/* A random run.  The seed determines all values, and which rank registers which parameters when. */
struct world {
    uint64_t seed, timing; /* the timing must not change any bit */
    uint32_t n_ranks;
    enum weft_sync_op op;
    float *expected[N_STEPS][N_PARAMS];
};

enum what { DRAW_LAST, DRAW_SKIP, DRAW_SET, DRAW_VALUE, DRAW_ORDER, DRAW_NAP, DRAW_AHEAD };

static uint64_t draw(uint64_t seed, enum what what, uint64_t a, uint64_t b, uint64_t c)
{
    return wf_random_u64(seed, what * 64 + a, b * 1000003 + c);
}

static bool has_step(const struct world *w, uint32_t rank, uint32_t step)
{
    uint32_t last = (uint32_t)(draw(w->seed, DRAW_LAST, rank, 0, 0) % 8); /* some leave early */
    return step <= last && draw(w->seed, DRAW_SKIP, rank, step, 0) % 8 != 0;
}

static bool registers(const struct world *w, uint32_t rank, uint32_t step, uint32_t param)
{
    bool none = draw(w->seed, DRAW_SET, rank, step, 999) % 8 == 0;
    return has_step(w, rank, step) && !none &&
           draw(w->seed, DRAW_SET, rank, step, param) % 4 != 0;
}

/* Returns a value from 2^-60 (which is lost by rounding) to 2^8, of either sign. */
static float value(const struct world *w, uint32_t rank, uint32_t step, uint32_t param,
                   size_t i)
{
    uint64_t x = draw(w->seed, DRAW_VALUE, rank, step * N_PARAMS + param, i);
    float fraction = (float)(x & 0xffffff) * 0x1p-24F;
    int exponent = (int)(x >> 24 & 0xff) % 69 - 60;
    return ldexpf((x >> 40 & 1) != 0 ? fraction : -fraction, exponent);
}

static float expected_value(const struct world *w, uint32_t step, uint32_t param, size_t i)
{
    int64_t sum = 0;
    int n = 0;
    for (uint32_t r = 0; r < w->n_ranks; r++)
        if (registers(w, r, step, param)) {
            sum += (int64_t)rint((double)value(w, r, step, param, i) * 0x1p50);
            n++;
        }
    if (w->op == WEFT_SYNC_MEAN)
        return (float)((double)sum * 0x1p-50 / n);
    return (float)sum * 0x1p-50F; /* the conversion rounds once; the factor does not */
}

static void expect_world(struct world *w)
{
    for (uint32_t k = 0; k < N_STEPS; k++)
        for (uint32_t p = 0; p < N_PARAMS; p++) {
            bool any = false;
            for (uint32_t r = 0; r < w->n_ranks; r++)
                any |= registers(w, r, k, p);
            w->expected[k][p] = malloc((sizes[p] + 1) * sizeof(float));
            assert_non_null(w->expected[k][p]);
            for (size_t i = 0; any && i < sizes[p]; i++)
                w->expected[k][p][i] = expected_value(w, k, p, i);
        }
}

static void free_world(struct world *w)
{
    for (uint32_t k = 0; k < N_STEPS; k++)
        for (uint32_t p = 0; p < N_PARAMS; p++)
            free(w->expected[k][p]);
}

struct own {
    const struct world *w;
    struct weft_sync *sync;
    uint32_t rank;
    float *grad[N_STEPS][N_PARAMS];
};

static enum weft_status register_step(struct own *o, uint32_t step, struct weft_error *err)
{
    uint32_t ids[N_PARAMS];
    size_t size[N_PARAMS], n = 0;
    for (uint32_t p = 0; p < N_PARAMS; p++)
        if (registers(o->w, o->rank, step, p)) {
            ids[n] = p * 1000000007U; /* ids are arbitrary numbers */
            size[n++] = sizes[p];
        }
    return weft_sync_register(o->sync, 10 * step + 3, ids, size, n, err);
}

static enum weft_status push_step(struct own *o, uint32_t step, struct weft_error *err)
{
    uint32_t order[N_PARAMS];
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        uint32_t k = (uint32_t)(draw(o->w->timing, DRAW_ORDER, o->rank, step, i) % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < N_PARAMS; i++) {
        uint32_t p = order[i];
        if (!registers(o->w, o->rank, step, p))
            continue;
        o->grad[step][p] = malloc((sizes[p] + 1) * sizeof(float));
        if (o->grad[step][p] == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory");
        for (size_t k = 0; k < sizes[p]; k++)
            o->grad[step][p][k] = value(o->w, o->rank, step, p, k);
        if (draw(o->w->timing, DRAW_NAP, o->rank, step, p) % 8 == 0)
            pause_ms(1);
        WEFT_TRY(
            weft_sync_push(o->sync, 10 * step + 3, p * 1000000007U, o->grad[step][p], err));
    }
    return WEFT_OK;
}

static enum weft_status finish_step(struct own *o, uint32_t step, struct weft_error *err)
{
    bool done = false;
    if (draw(o->w->timing, DRAW_NAP, o->rank, step, 99) % 2 == 0)
        for (int i = 0; i < 100 && !done; i++)
            WEFT_TRY(weft_sync_test(o->sync, 10 * step + 3, &done, err));
    WEFT_TRY(weft_sync_wait(o->sync, 10 * step + 3, err));
    for (uint32_t p = 0; p < N_PARAMS; p++)
        if (o->grad[step][p] != NULL &&
            memcmp(o->grad[step][p], o->w->expected[step][p], sizes[p] * sizeof(float)) != 0)
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u, parameter %u: wrong bits",
                             o->rank, step, p);
    return WEFT_OK;
}

/* Runs all steps of a rank.  A rank that is ahead registers and pushes the next step before it waits
 * for the current one. */
static enum weft_status run_steps(struct own *o, struct weft_error *err)
{
    uint32_t waiting = N_STEPS; /* a pushed step that is not yet waited for; N_STEPS: none */
    for (uint32_t k = 0; k < N_STEPS; k++) {
        if (!has_step(o->w, o->rank, k))
            continue;
        WEFT_TRY(register_step(o, k, err));
        WEFT_TRY(push_step(o, k, err));
        if (waiting < N_STEPS)
            WEFT_TRY(finish_step(o, waiting, err));
        waiting = k;
        if (draw(o->w->timing, DRAW_AHEAD, o->rank, k, 0) % 2 == 0) {
            WEFT_TRY(finish_step(o, k, err));
            waiting = N_STEPS;
        }
    }
    WEFT_TRY(weft_sync_leave(o->sync, err));
    return waiting < N_STEPS ? finish_step(o, waiting, err) : WEFT_OK;
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct own o = {.w = arg, .rank = weft_comm_rank(comm)};
    weft_comm_set_timeout(comm, 20);
    WEFT_TRY(weft_sync_new(comm, o.w->op, &o.sync, err));
    enum weft_status st = run_steps(&o, err);
    if (st != WEFT_OK)
        weft_comm_abort(comm, err);
    weft_sync_free(o.sync);
    for (uint32_t k = 0; k < N_STEPS; k++)
        for (uint32_t p = 0; p < N_PARAMS; p++)
            free(o.grad[k][p]);
    return st;
}

static void test_random(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t i = 0; i < 18; i++) {
        struct world w = {.seed = i / 2,
                          .n_ranks = i % MAX_RANKS + 1,
                          .op = i % 4 < 2 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN};
        expect_world(&w);
        for (w.timing = 0; w.timing < 3; w.timing++)
            if (weft_comm_run_threads(w.n_ranks, run_rank, &w, &err) != WEFT_OK)
                fail_msg("world %u, timing %u: %s", i, (unsigned)w.timing, err.msg);
        free_world(&w);
    }
}

/* -- limits of the sums ----------------------------------------------------------------------- */

static struct limit {
    const char *name;
    uint32_t n;
    float x[8];
    enum weft_status status;
    float sum;
    const char *message;
} limits[] = {
    {"partial sums out of range", 4, {3000, 3000, -3000, -2999}, WEFT_OK, 1, ""},
    {"partial sums far out of range",
     8,
     {4000, 4000, 4000, 4000, -4000, -4000, -4000, -4000},
     WEFT_OK,
     0,
     ""},
    {"the maximum", 2, {4095, 0.999F}, WEFT_OK, 4095.999F, ""},
    {"the minimum", 2, {-4095, -0.999F}, WEFT_OK, -4095.999F, ""},
    {"a sum above the maximum",
     3,
     {3000, 0, 1096},
     WEFT_NUMERIC,
     0,
     "step 7, parameter 5: a sum"},
    {"a sum below the minimum",
     3,
     {-3000, 0, -1096},
     WEFT_NUMERIC,
     0,
     "step 7, parameter 5: a sum"},
    {"a sum far above the maximum",
     6,
     {4000, 4000, 4000, 4000, 384, 0},
     WEFT_NUMERIC,
     0,
     "a sum"},
    {"an input out of range",
     3,
     {1, 4096, 1},
     WEFT_NUMERIC,
     0,
     "the gradient of rank 1 is out of range"},
    {"a NaN", 2, {NAN, 1}, WEFT_NUMERIC, 0, "parameter 5: the gradient of rank 0"},
    {"infinite", 1, {-INFINITY}, WEFT_NUMERIC, 0, "parameter 5: the gradient of rank 0"},
};

struct attempt {
    const struct limit *limit;
    uint64_t timing;
};

static enum weft_status add_limits(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct attempt *a = arg;
    uint32_t rank = weft_comm_rank(comm), id = 5;
    size_t size = 3;
    float x[3] = {0.5F, a->limit->x[rank], 0.5F};
    struct weft_sync *s = NULL;
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &s, err));
    enum weft_status st = weft_sync_register(s, 7, &id, &size, 1, err);
    pause_ms(wf_random_below(a->timing, rank, 0, 4)); /* in any order */
    if (st == WEFT_OK)
        st = weft_sync_push(s, 7, id, x, err);
    if (st == WEFT_OK)
        st = weft_sync_wait(s, 7, err);
    if (st == WEFT_OK && (x[1] != a->limit->sum || x[0] != 0.5F * (float)a->limit->n))
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%g", (double)x[1]);
    weft_sync_free(s);
    return st;
}

static void test_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(limits); i++)
        for (uint64_t timing = 0; timing < 5; timing++) {
            struct attempt a = {&limits[i], timing};
            struct weft_error err = {0};
            enum weft_status st = weft_comm_run_threads(limits[i].n, add_limits, &a, &err);
            if (st != limits[i].status || strstr(err.msg, limits[i].message) == NULL)
                fail_msg("%s: %d, %s", limits[i].name, st, err.msg);
        }
}

/* -- cost -------------------------------------------------------------------------------------- */

enum { COST_STEPS = 6, MAX_COST_PARAMS = 2048 };

struct cost {
    uint32_t n_params;
    struct weft_sync_counts at[4][COST_STEPS]; /* after each step */
};

static enum weft_status run_cost(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct cost *c = arg;
    static uint32_t ids[MAX_COST_PARAMS];
    static size_t ones[MAX_COST_PARAMS];
    uint32_t rank = weft_comm_rank(comm);
    struct weft_sync *s = NULL;
    if (rank == 0)
        for (uint32_t i = 0; i < c->n_params; i++) {
            ids[i] = 7 * i;
            ones[i] = 5;
        }
    WEFT_TRY(weft_comm_barrier(comm, err));
    float(*grad)[5] = calloc(c->n_params, sizeof *grad);
    if (grad == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory");
    enum weft_status st = weft_sync_new(comm, WEFT_SYNC_SUM, &s, err);
    for (uint64_t k = 0; k < COST_STEPS && st == WEFT_OK; k++) {
        st = weft_sync_register(s, k, ids, ones, c->n_params, err);
        for (uint32_t i = 0; i < c->n_params && st == WEFT_OK; i++) {
            grad[i][0] = (float)(i % 100);
            st = weft_sync_push(s, k, ids[i], grad[i], err);
        }
        if (st == WEFT_OK)
            st = weft_sync_wait(s, k, err);
        for (uint32_t i = 0; i < c->n_params && st == WEFT_OK; i++)
            if (grad[i][0] != (float)(i % 100 * weft_comm_size(comm)))
                st = WEFT_FAIL(err, WEFT_INTERNAL, "parameter %u is wrong", i);
        if (st == WEFT_OK)
            c->at[rank][k] = weft_sync_counts(s);
    }
    weft_sync_free(s);
    free(grad);
    return st;
}

/* Counts work instead of seconds: twice the parameters take twice the work, and at most one message
 * per piece that is sent.  Memory is that of the largest step, not of all steps. */
static void test_cost(void **state)
{
    static struct cost c[2] = {{.n_params = 1024}, {.n_params = MAX_COST_PARAMS}};
    struct weft_error err;
    double work[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (weft_comm_run_threads(4, run_cost, &c[i], &err) != WEFT_OK)
            fail_msg("%s", err.msg);
        work[i] = 0;
        for (int r = 0; r < 4; r++) {
            const struct weft_sync_counts *at = c[i].at[r];
            work[i] += (double)at[COST_STEPS - 1].work;
            assert_true(at[COST_STEPS - 1].memory < 64 << 20);
            assert_true(at[COST_STEPS - 1].messages < (uint64_t)COST_STEPS * 2 * c[i].n_params);
        }
        work[i] /= 4.0 * COST_STEPS * c[i].n_params;
        print_message(
            "%u parameters: %.2f operations each per step, %.1f messages per step, %.1f MiB\n",
            c[i].n_params, work[i], (double)c[i].at[0][COST_STEPS - 1].messages / COST_STEPS,
            (double)c[i].at[0][COST_STEPS - 1].memory / (1 << 20));
        /* Look-ups: 1 to register, 3 for the peers' sets, 1 to push, 1 to receive; 3 pieces sent
         * or 3 received; sums and results.  Longer chains in the table may add some. */
        assert_true(work[i] < 40);
    }
    assert_true(work[1] / work[0] < 1.25);
}

/* -- large inputs ------------------------------------------------------------------------------ */

enum { LARGE = 3000017, MANY = 70001 };

/* Pushes more than may be in flight at once; one rank starts late. */
static enum weft_status push_large(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm), id = UINT32_MAX;
    size_t size = LARGE;
    struct weft_sync *s = NULL;
    float *x = malloc(size * sizeof *x);
    (void)arg;
    if (x == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory");
    for (size_t i = 0; i < size; i++)
        x[i] = (float)(i % 1000 * (rank + 1)) / 2;
    enum weft_status st = weft_sync_new(comm, WEFT_SYNC_SUM, &s, err);
    if (st == WEFT_OK)
        st = weft_sync_register(s, 0, &id, &size, 1, err);
    if (rank == 1)
        pause_ms(30);
    if (st == WEFT_OK)
        st = weft_sync_push(s, 0, id, x, err);
    if (st == WEFT_OK)
        st = weft_sync_wait(s, 0, err);
    for (size_t i = 0; i < size && st == WEFT_OK; i++)
        if (x[i] != (float)(i % 1000 * (1 + 2 + 3)) / 2)
            st = WEFT_FAIL(err, WEFT_INTERNAL, "element %zu is %g", i, (double)x[i]);
    weft_sync_free(s);
    free(x);
    return st;
}

/* Registers a set that is longer than a message.  Rank 0 has all parameters, rank 1 every third. */
static enum weft_status register_many(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    uint32_t every = weft_comm_rank(comm) == 0 ? 1 : 3;
    uint32_t *ids = calloc(MANY, sizeof *ids);
    size_t *ones = calloc(MANY, sizeof *ones), n = 0;
    float *x = calloc(MANY, sizeof *x);
    struct weft_sync *s = NULL;
    enum weft_status st = WEFT_OK;
    (void)arg;
    if (ids == NULL || ones == NULL || x == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory");
    for (uint32_t i = 0; i < MANY && st == WEFT_OK; i += every) {
        ids[n] = i;
        ones[n] = 1;
        x[n++] = (float)(i % 7);
    }
    if (st == WEFT_OK)
        st = weft_sync_new(comm, WEFT_SYNC_SUM, &s, err);
    if (st == WEFT_OK)
        st = weft_sync_register(s, 0, ids, ones, n, err);
    for (size_t i = 0; i < n && st == WEFT_OK; i++)
        st = weft_sync_push(s, 0, ids[i], &x[i], err);
    if (st == WEFT_OK)
        st = weft_sync_wait(s, 0, err);
    for (size_t i = 0; i < n && st == WEFT_OK; i++)
        if (x[i] != (float)(ids[i] % 7 * (ids[i] % 3 == 0 ? 2 : 1)))
            st = WEFT_FAIL(err, WEFT_INTERNAL, "parameter %u is %g", ids[i], (double)x[i]);
    weft_sync_free(s);
    free(ids);
    free(ones);
    free(x);
    return st;
}

static void test_large(void **state)
{
    struct weft_error err;
    (void)state;
    if (weft_comm_run_threads(3, push_large, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
    if (weft_comm_run_threads(2, register_many, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
