/* Compares reductions of random steps with exact sums, and checks recorded sums, elements that
 * are not finite, large inputs, and the cost in operations, messages and memory. */
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
#include "exact_sum.h"
#include "reduction.h"

static void pause_ms(int64_t ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* -- random steps -------------------------------------------------------------------------- */

static void test_random(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t i = 0; i < 18; i++) {
        struct reduction w = {.seed = i / 2,
                              .n_ranks = i % REDUCTION_RANKS + 1,
                              .op = i % 4 < 2 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN};
        assert_true(reduction_init(&w));
        for (w.timing = 0; w.timing < 3; w.timing++)
            if (weft_comm_run_threads(w.n_ranks, reduction_rank, &w, &err) != WEFT_OK)
                fail_msg("run %u, timing %u: %s", i, (unsigned)w.timing, err.msg);
        reduction_release(&w);
    }
}

/* -- recorded sums ------------------------------------------------------------------------- */

enum { MAX_PARTS = 4 }; /* ranks that share the terms of a sum */

struct recorded {
    const struct exact_case *c;
    uint32_t n_ranks;
    uint64_t timing;
};

/* Pushes the terms i of a sum with i % n_ranks equal to the rank, in random order, as elements
 * 1 of gradients of three elements.  The other elements are ordinary. */
static enum weft_status push_terms(struct weft_sync *s, const struct recorded *a, uint32_t rank,
                                   double (*x)[3], struct weft_error *err)
{
    uint32_t mine = (a->c->n - rank + a->n_ranks - 1) / a->n_ranks;
    uint32_t first = wf_random_below(a->timing, rank, 1, mine);
    struct weft_sync_param p = {.id = 5, .n_grads = mine, .size = 3, .type = a->c->type};

    WEFT_TRY(weft_sync_register_params(s, 7, &p, 1, err));

    for (uint32_t i = 0; i < mine; i++) {
        uint32_t k = (first + i) % mine;
        exact_sum_put(x[k], p.type, 0, 0.5);
        exact_sum_put(x[k], p.type, 1, a->c->terms[rank + k * a->n_ranks]);
        exact_sum_put(x[k], p.type, 2, 0.5);
        WEFT_TRY(weft_sync_push(s, 7, 5, x[k], err));
    }

    WEFT_TRY(weft_sync_wait(s, 7, err));
    double side = 0.5 * (a->c->op == WEFT_SYNC_MEAN ? 1 : a->c->n);
    for (uint32_t i = 0; i < mine; i++) {
        double got = exact_sum_get(x[i], p.type, 1);
        if (memcmp(&got, &a->c->result, sizeof got) != 0 ||
            exact_sum_get(x[i], p.type, 0) != side || exact_sum_get(x[i], p.type, 2) != side)
            return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u has %a, expected %a", rank, got,
                             a->c->result);
    }
    return WEFT_OK;
}

static enum weft_status run_recorded(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct recorded *a = arg;
    double x[16][3];
    struct weft_sync *s = NULL;
    WEFT_TRY(weft_sync_new(comm, a->c->op, &s, err));
    enum weft_status st = push_terms(s, a, weft_comm_rank(comm), x, err);
    weft_sync_free(s);
    return st;
}

/* Divides every recorded sum among ranks and pushes its terms in several orders.  A result that
 * is out of range is an error that names the parameter and the element. */
static void test_recorded(void **state)
{
    static const char *const names[] = {"fp32", "bf16", "fp64"};
    struct exact_case c;
    int n = 0, n_overflows = 0;

    (void)state;
    FILE *f = fopen(WEFT_TEST_DATA "/sync/sums.txt", "r");
    assert_non_null(f);

    for (; exact_case_read(f, &c); n++)
        for (uint32_t ranks = 1; ranks <= MAX_PARTS && ranks <= c.n;
             ranks += 1 + (uint32_t)n % 2) {
            struct recorded a = {&c, ranks, (uint64_t)n};
            struct weft_error err = {0};
            char want[100];
            enum weft_status st = weft_comm_run_threads(ranks, run_recorded, &a, &err);

            if (!isinf(c.result)) {
                if (st != WEFT_OK)
                    fail_msg("case %d, %u ranks: %s", n, ranks, err.msg);
                continue;
            }

            n_overflows++;
            snprintf(want, sizeof want,
                     "step 7, parameter 5: the %s of element 1 is out of the range of %s",
                     c.op == WEFT_SYNC_MEAN ? "mean" : "sum", names[c.type]);
            if (st != WEFT_NUMERIC || strstr(err.msg, want) == NULL)
                fail_msg("case %d, %u ranks: %d, %s", n, ranks, st, err.msg);
        }

    fclose(f);
    assert_int_equal(n, 468);
    assert_true(n_overflows > 20);
}

/* -- elements that are not finite ---------------------------------------------------------- */

struct invalid {
    enum weft_sync_type type;
    double x;
    uint32_t
        rank; /* which has x; other ranks have the largest finite number and its negative */
    size_t size;
};

static enum weft_status push_invalid(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    static const double largest[] = {0x1.fffffep127, 0x1.fep127, 0x1.fffffffffffffp1023};
    const struct invalid *a = arg;
    uint32_t rank = weft_comm_rank(comm);
    struct weft_sync_param p = {.id = 5, .size = a->size, .type = a->type};
    double *x = calloc(a->size, sizeof *x);
    struct weft_sync *s = NULL;
    enum weft_status st = x == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory")
                                    : weft_sync_new(comm, WEFT_SYNC_SUM, &s, err);

    double v = rank == a->rank ? a->x : rank % 2 == 0 ? largest[a->type] : -largest[a->type];
    if (st == WEFT_OK && a->type == WEFT_SYNC_F64)
        x[a->size - 1] = v;
    else if (st == WEFT_OK && a->type == WEFT_SYNC_F32)
        ((float *)x)[a->size - 1] = (float)v;
    else if (st == WEFT_OK && isfinite(v))
        exact_sum_put(x, a->type, a->size - 1, v);
    else if (st == WEFT_OK)
        ((uint16_t *)x)[a->size - 1] = isnan(v) ? 0x7fc0 : v > 0 ? 0x7f80 : 0xff80;

    if (st == WEFT_OK)
        st = weft_sync_register_params(s, 7, &p, 1, err);
    if (st == WEFT_OK)
        st = weft_sync_push(s, 7, 5, x, err);
    if (st == WEFT_OK)
        st = weft_sync_wait(s, 7, err);

    weft_sync_free(s);
    free(x);
    return st;
}

static void test_invalid(void **state)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (uint32_t i = 0; i < 27; i++) {
        struct invalid a = {(enum weft_sync_type)(i % 3), values[i / 3 % 3], i / 9,
                            i % 2 == 0 ? 3 : 70001};
        struct weft_error err = {0};
        char want[100], element[40];
        snprintf(want, sizeof want,
                 "step 7, parameter 5: the gradient of rank %u is not finite", a.rank);
        snprintf(element, sizeof element, "(element %zu is %s", a.size - 1,
                 isnan(a.x) ? ""
                 : a.x > 0  ? "inf"
                            : "-inf");
        enum weft_status st = weft_comm_run_threads(3, push_invalid, &a, &err);
        if (st != WEFT_NUMERIC || strstr(err.msg, want) == NULL ||
            strstr(err.msg, element) == NULL)
            fail_msg("case %u: %d, %s", i, st, err.msg);
    }
}

/* -- cost ---------------------------------------------------------------------------------- */

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

/* Counts work instead of seconds: twice the parameters take twice the work, and at most one
 * message per piece that is sent.  Memory is that of the largest step, not of all steps. */
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

        /* Look-ups: 1 to register, 3 for the peers' sets, 1 to push, 1 to receive; 3 pieces
         * sent or 3 received; sums and results.  Longer chains in the table may add some. */
        assert_true(work[i] < 40);
    }

    assert_true(work[1] / work[0] < 1.25);
}

/* -- large inputs -------------------------------------------------------------------------- */

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

/* Registers a set that is longer than a message.  Rank 0 has all parameters, rank
 * 1 every third. */
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
        cmocka_unit_test(test_random),  cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_invalid), cmocka_unit_test(test_cost),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
