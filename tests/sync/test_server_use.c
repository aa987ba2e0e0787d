/* Gradient sync: random steps against exact sums made here, limits, misuse, lost ranks, costs. */
#include "weft/sync.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

static void nap_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* -- random steps ----------------------------------------------------------------------------- */

enum { MOST_RANKS = 6, N_STEPS = 4, N_PARAMS = 10 };

static const size_t sizes[N_PARAMS] = {1, 7, 0, 300, 4096, 70000, 2, 32768, 1, 100};

/* All of it is a function of the seed: which rank has which parameters when, and all values. */
struct world {
    uint64_t seed, timing; /* other timings must not change a bit */
    uint32_t n_ranks;
    enum weft_sync_op op;
    float *expected[N_STEPS][N_PARAMS];
};

enum what { DRAW_LAST, DRAW_SKIP, DRAW_SET, DRAW_VALUE, DRAW_ORDER, DRAW_NAP, DRAW_AHEAD };

static uint64_t draw(uint64_t seed, enum what what, uint64_t a, uint64_t b, uint64_t c)
{
    return weft_random_u64(seed, what * 64 + a, b * 1000003 + c);
}

static bool takes_part(const struct world *w, uint32_t rank, uint32_t step)
{
    uint32_t last = (uint32_t)(draw(w->seed, DRAW_LAST, rank, 0, 0) % 8); /* some leave early */
    return step <= last && draw(w->seed, DRAW_SKIP, rank, step, 0) % 8 != 0;
}

static bool registers(const struct world *w, uint32_t rank, uint32_t step, uint32_t param)
{
    bool none = draw(w->seed, DRAW_SET, rank, step, 999) % 8 == 0;
    return takes_part(w, rank, step) && !none &&
           draw(w->seed, DRAW_SET, rank, step, param) % 4 != 0;
}

/* From 2^-60 (which the rounding loses) to 2^8, both signs. */
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
            ids[n] = p * 1000000007U; /* ids are any numbers */
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
            nap_ms(1);
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

/* A rank that is ahead registers and pushes all of the next step before it waits for this one. */
static enum weft_status run_steps(struct own *o, struct weft_error *err)
{
    uint32_t waiting =
        N_STEPS; /* a step that was pushed and is not waited for; N_STEPS: none */
    for (uint32_t k = 0; k < N_STEPS; k++) {
        if (!takes_part(o->w, o->rank, k))
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

static enum weft_status live(struct weft_comm *comm, void *arg, struct weft_error *err)
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
                          .n_ranks = i % MOST_RANKS + 1,
                          .op = i % 4 < 2 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN};
        expect_world(&w);
        for (w.timing = 0; w.timing < 3; w.timing++)
            if (weft_comm_run_threads(w.n_ranks, live, &w, &err) != WEFT_OK)
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
    const char *said;
} limits[] = {
    {"sums that leave the range and come back", 4, {3000, 3000, -3000, -2999}, WEFT_OK, 1, ""},
    {"far", 8, {4000, 4000, 4000, 4000, -4000, -4000, -4000, -4000}, WEFT_OK, 0, ""},
    {"the largest", 2, {4095, 0.999F}, WEFT_OK, 4095.999F, ""},
    {"the smallest", 2, {-4095, -0.999F}, WEFT_OK, -4095.999F, ""},
    {"a sum beyond", 3, {3000, 0, 1096}, WEFT_NUMERIC, 0, "step 7, parameter 5: a sum"},
    {"a sum below", 3, {-3000, 0, -1096}, WEFT_NUMERIC, 0, "step 7, parameter 5: a sum"},
    {"a sum far beyond", 6, {4000, 4000, 4000, 4000, 384, 0}, WEFT_NUMERIC, 0, "a sum"},
    {"too large", 3, {1, 4096, 1}, WEFT_NUMERIC, 0, "the gradient of rank 1 is out of range"},
    {"not a number", 2, {NAN, 1}, WEFT_NUMERIC, 0, "parameter 5: the gradient of rank 0"},
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
    nap_ms(weft_random_below(a->timing, rank, 0, 4)); /* in any order */
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
            if (st != limits[i].status || strstr(err.msg, limits[i].said) == NULL)
                fail_msg("%s: %d, %s", limits[i].name, st, err.msg);
        }
}

/* -- misuse ----------------------------------------------------------------------------------- */

struct rank_state {
    struct weft_sync *s;
    float x[4];
};

static const uint32_t two_ids[] = {8, 9};
static const size_t two_sizes[] = {1, 3};

static enum weft_status push_both(struct rank_state *r, uint64_t step, struct weft_error *err)
{
    for (size_t i = 0; i < 4; i++)
        r->x[i] = 1;
    WEFT_TRY(weft_sync_push(r->s, step, 9, r->x + 1, err));
    return weft_sync_push(r->s, step, 8, r->x, err);
}

static enum weft_status whole_step(struct rank_state *r, uint64_t step, struct weft_error *err)
{
    WEFT_TRY(weft_sync_register(r->s, step, two_ids, two_sizes, 2, err));
    WEFT_TRY(push_both(r, step, err));
    return weft_sync_wait(r->s, step, err);
}

/* Step 4 is over, step 5 is registered and parameter 9 of it pushed.  Each is wrong now. */
static enum weft_status misuse(struct rank_state *r, int what, struct weft_error *err)
{
    static const uint32_t twice[] = {1, 2, 1};
    static const size_t three[] = {1, 1, 1}, huge[] = {SIZE_MAX / 4, 1, 1};
    bool done;
    switch (what) {
    case 0:
        return weft_sync_push(r->s, 5, 7, r->x, err);
    case 1:
        return weft_sync_push(r->s, 5, 9, r->x, err);
    case 2:
        return weft_sync_push(r->s, 6, 9, r->x, err);
    case 3:
        return weft_sync_push(r->s, 4, 9, r->x, err);
    case 4:
        return weft_sync_wait(r->s, 5, err);
    case 5:
        return weft_sync_wait(r->s, 6, err);
    case 6:
        return weft_sync_wait(r->s, 4, err);
    case 7:
        return weft_sync_register(r->s, 5, two_ids, two_sizes, 2, err);
    case 8:
        return weft_sync_register(r->s, 4, two_ids, two_sizes, 2, err);
    case 9:
        return weft_sync_register(r->s, 6, twice, three, 3, err);
    case 10:
        return weft_sync_register(r->s, 6, twice + 1, huge, 1, err);
    case 11:
        return weft_sync_push(r->s, 5, 8, NULL, err);
    case 12:
        return weft_sync_test(r->s, 77, &done, err);
    default:
        return weft_sync_register(r->s, UINT64_MAX, NULL, NULL, 0, err);
    }
}

static const char *const misuse_said[] = {
    "rank 0, step 5: pushes parameter 7, which is not registered",
    "rank 0, step 5: pushes parameter 9 twice",
    "rank 0 pushes a gradient of step 6, which it has not registered",
    "rank 0 pushes a gradient of step 4, which it has waited for already",
    "rank 0 waits for step 5 but has not pushed what it registered: parameter 8",
    "rank 0 waits for step 6, which it has not registered",
    "rank 0 waits for step 4, which it has waited for already",
    "rank 0 registers step 5 twice",
    "rank 0 registers step 4 after step 5: steps must ascend",
    "rank 0, step 6: parameter 1 is twice in the set",
    "no memory can hold",
    "pushes NULL for parameter 8",
    "rank 0 asks for step 77, which it has not registered",
    "is no step's number",
};

struct misuse_run {
    int what;      /* -1: all of them, and then it goes on as if nothing were */
    bool returned; /* rank 0 gives up by returning its error; else it only frees, and says OK */
    char heard[480];
};

static enum weft_status all_misuses(struct rank_state *r, struct weft_error *err)
{
    for (int i = 0; i < (int)WEFT_LEN(misuse_said); i++) {
        enum weft_status st = misuse(r, i, err);
        if (st != WEFT_USAGE || strstr(err->msg, misuse_said[i]) == NULL)
            return WEFT_FAIL(err, WEFT_INTERNAL, "misuse %d gives %d", i, st);
    }
    WEFT_TRY(weft_sync_push(r->s, 5, 8, r->x, err));
    WEFT_TRY(weft_sync_wait(r->s, 5, err));
    WEFT_TRY(weft_sync_leave(r->s, err));
    if (weft_sync_leave(r->s, NULL) != WEFT_USAGE ||
        weft_sync_register(r->s, 9, NULL, NULL, 0, NULL) != WEFT_USAGE)
        return WEFT_FAIL(err, WEFT_INTERNAL, "a rank that has left goes on");
    return WEFT_OK;
}

static enum weft_status be_wrong(struct rank_state *r, const struct misuse_run *run,
                                 struct weft_error *err)
{
    r->x[0] = r->x[1] = r->x[2] = r->x[3] = 1;
    WEFT_TRY(weft_sync_register(r->s, 5, two_ids, two_sizes, 2, err));
    WEFT_TRY(weft_sync_push(r->s, 5, 9, r->x + 1, err));
    if (run->what < 0)
        return all_misuses(r, err);
    enum weft_status st = misuse(r, run->what, err);
    return run->returned ? st : WEFT_OK;
}

static enum weft_status misuse_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct misuse_run *run = arg;
    struct rank_state r = {0};
    bool wrong = weft_comm_rank(comm) == 0;
    weft_comm_set_timeout(comm, 5);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_MEAN, &r.s, err));
    enum weft_status st = whole_step(&r, 4, err);
    if (st == WEFT_OK)
        st = wrong ? be_wrong(&r, run, err) : whole_step(&r, 5, err);
    if (st == WEFT_OK && run->what < 0)
        for (size_t i = 0; i < 4; i++)
            if (r.x[i] != 1)
                st = WEFT_FAIL(err, WEFT_INTERNAL, "a misuse changed a result");
    if (weft_comm_rank(comm) == 1 && st != WEFT_OK)
        snprintf(run->heard, sizeof run->heard, "%s", err->msg);
    weft_sync_free(r.s);
    return st;
}

static void test_misuse(void **state)
{
    (void)state;
    for (int i = 0; i < (int)WEFT_LEN(misuse_said); i++)
        for (int returned = 0; returned < 2; returned++) {
            struct misuse_run run = {.what = i, .returned = returned != 0};
            struct weft_error err = {0};
            int64_t begin = weft_clock_ns();
            enum weft_status st = weft_comm_run_threads(3, misuse_rank, &run, &err);
            if (st != WEFT_USAGE || strstr(err.msg, misuse_said[i]) == NULL)
                fail_msg("misuse %d: %d, %s", i, st, err.msg);
            if (strstr(run.heard, misuse_said[i]) == NULL)
                fail_msg("misuse %d: rank 1 only hears %s", i, run.heard);
            assert_true(weft_clock_ns() - begin < INT64_C(4000000000)); /* nobody timed out */
        }
}

static void test_misuse_changes_nothing(void **state)
{
    struct misuse_run run = {.what = -1};
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 4; n++)
        if (weft_comm_run_threads(n, misuse_rank, &run, &err) != WEFT_OK)
            fail_msg("%s", err.msg);
}

/* -- ranks that do not fit together, or do not come -------------------------------------------- */

enum trouble {
    OTHER_SIZE,
    OTHER_OP,
    NEVER_REGISTERS,
    NEVER_PUSHES,
    NO_SYNC,
    TWO_SYNCS,
    WAITS_OTHERWISE
};

struct trouble_case {
    enum trouble trouble;
    enum weft_status status;
    const char *said, *also;
};

static enum weft_status trouble_rank(struct weft_comm *comm, struct weft_sync *s,
                                     enum trouble trouble, struct weft_error *err)
{
    struct rank_state r = {.s = s};
    static const size_t others[] = {1, 4};
    bool first = weft_comm_rank(comm) == 0;
    if (first && trouble == NEVER_REGISTERS) {
        nap_ms(1200);
        return WEFT_OK;
    }
    if (first && trouble == WAITS_OTHERWISE)
        return weft_comm_barrier(comm, err);
    WEFT_TRY(weft_sync_register(s, 2, two_ids,
                                first && trouble == OTHER_SIZE ? others : two_sizes, 2, err));
    if (first && trouble == NEVER_PUSHES) {
        nap_ms(1200);
        return WEFT_OK;
    }
    WEFT_TRY(push_both(&r, 2, err));
    return weft_sync_wait(s, 2, err);
}

static enum weft_status troubled(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct trouble_case *c = arg;
    struct weft_sync *s = NULL;
    bool first = weft_comm_rank(comm) == 0;
    enum weft_sync_op op = first && c->trouble == OTHER_OP ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN;
    weft_comm_set_timeout(comm, 0.4);
    if (first && c->trouble == NO_SYNC) {
        nap_ms(1200);
        return WEFT_OK;
    }
    WEFT_TRY(weft_sync_new(comm, op, &s, err));
    enum weft_status st;
    if (first && c->trouble == TWO_SYNCS) {
        struct weft_sync *another = NULL;
        st = weft_sync_new(comm, op, &another, err);
    } else {
        st = trouble_rank(comm, s, c->trouble, err);
    }
    weft_sync_free(s);
    return st;
}

static void test_trouble(void **state)
{
    static const struct trouble_case cases[] = {
        {OTHER_SIZE, WEFT_USAGE, "step 2, parameter 9 has ", "4 "},
        {OTHER_OP, WEFT_USAGE, "the mean", "the sum"},
        {NEVER_REGISTERS, WEFT_PEER, "rank 0 gives no sign of life", ""},
        {NEVER_PUSHES, WEFT_PEER, "rank 0 gives no sign of life", "at step 2"},
        {NO_SYNC, WEFT_PEER, "rank 0 gives no sign of life", ""},
        {TWO_SYNCS, WEFT_USAGE, "free the other weft_sync first", ""},
        {WAITS_OTHERWISE, WEFT_PEER, "in a circle", "rank 0"},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(cases); i++) {
        struct weft_error err = {0};
        int64_t begin = weft_clock_ns();
        enum weft_status st = weft_comm_run_threads(3, troubled, (void *)&cases[i], &err);
        if (st != cases[i].status || strstr(err.msg, cases[i].said) == NULL ||
            strstr(err.msg, cases[i].also) == NULL)
            fail_msg("case %zu: status %d, %s", i, st, err.msg);
        assert_true(weft_clock_ns() - begin < INT64_C(10000000000));
    }
}

/* -- what it costs ---------------------------------------------------------------------------- */

enum { COST_STEPS = 6, MOST_COST_PARAMS = 2048 };

struct cost {
    uint32_t n_params;
    struct weft_sync_counts at[4][COST_STEPS]; /* after each step */
};

static enum weft_status spend(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct cost *c = arg;
    static uint32_t ids[MOST_COST_PARAMS];
    static size_t ones[MOST_COST_PARAMS];
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

/* Work, not seconds: twice the parameters, twice the work, and at most a message for each piece
 * that must go out.  Memory is that of the largest step, not of all. */
static void test_cost(void **state)
{
    static struct cost c[2] = {{.n_params = 1024}, {.n_params = MOST_COST_PARAMS}};
    struct weft_error err;
    double work[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (weft_comm_run_threads(4, spend, &c[i], &err) != WEFT_OK)
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
            "%u parameters: %.2f operations each a step, %.1f messages a step, %.1f MiB\n",
            c[i].n_params, work[i], (double)c[i].at[0][COST_STEPS - 1].messages / COST_STEPS,
            (double)c[i].at[0][COST_STEPS - 1].memory / (1 << 20));
        /* Look-ups: 1 to register, 3 for the peers' sets, 1 to push, 1 for what comes; 3 pieces
         * out or 3 in; sums and results.  Longer chains in the table may add some. */
        assert_true(work[i] < 40);
    }
    assert_true(work[1] / work[0] < 1.25);
}

/* One sync after the other on the same ranks. */
static enum weft_status again(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct rank_state r = {0};
        WEFT_TRY(weft_sync_new(comm, i % 2 == 0 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN, &r.s, err));
        enum weft_status st = whole_step(&r, 0, err);
        if (st == WEFT_OK && r.x[3] != (float)(i % 2 == 0 ? weft_comm_size(comm) : 1))
            st = WEFT_FAIL(err, WEFT_INTERNAL, "round %d: %g", i, (double)r.x[3]);
        weft_sync_free(r.s);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

static void test_again(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 5; n++)
        if (weft_comm_run_threads(n, again, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
    weft_sync_free(NULL);
}

/* Rank 1 has left and waits for its last step, which rank 0 skips: the first step that rank 0
 * registers tells it so, though it is none of rank 1's. */
static enum weft_status skip_steps(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    bool skips = weft_comm_rank(comm) == 0;
    uint64_t step = skips ? 5 : 0;
    struct rank_state r = {0};
    (void)arg;
    weft_comm_set_timeout(comm, 2);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &r.s, err));
    for (int i = 0; skips && i < 50; i++) { /* until rank 1 has left, and this rank knows */
        nap_ms(1);
        (void)weft_comm_progress(comm, NULL);
    }
    enum weft_status st = weft_sync_register(r.s, step, two_ids, two_sizes, 2, err);
    if (st == WEFT_OK && !skips)
        st = weft_sync_leave(r.s, err);
    if (st == WEFT_OK)
        st = push_both(&r, step, err);
    if (st == WEFT_OK)
        st = weft_sync_wait(r.s, step, err);
    if (st == WEFT_OK && r.x[0] != 1)
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%g is not its own value", (double)r.x[0]);
    weft_sync_free(r.s);
    return st;
}

static void test_skip(void **state)
{
    struct weft_error err;
    (void)state;
    if (weft_comm_run_threads(2, skip_steps, NULL, &err) != WEFT_OK)
        fail_msg("%s", err.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_misuse),  cmocka_unit_test(test_misuse_changes_nothing),
        cmocka_unit_test(test_trouble), cmocka_unit_test(test_cost),
        cmocka_unit_test(test_again),   cmocka_unit_test(test_skip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
