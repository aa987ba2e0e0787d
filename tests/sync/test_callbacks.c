/* Checks the callbacks of the reducer: what they may call, in which order they come, and what
 * happens if one fails. */
#include "weft/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

enum { STEPS = 50, PARAMS = 3 };

/* -- a run that callbacks drive ------------------------------------------------------------ */

struct driven {
    struct weft_sync *sync;
    uint32_t rank, n_ranks;
    uint64_t next; /* the next step to register */
    uint64_t n_params, n_steps;
    float x[STEPS][PARAMS][2];
};

static enum weft_status start_step(struct driven *d, struct weft_error *err)
{
    uint64_t step = d->next++;
    const uint32_t ids[PARAMS] = {4, 5, 6};
    const size_t sizes[PARAMS] = {2, 2, 2};
    WEFT_TRY(weft_sync_register(d->sync, step, ids, sizes, PARAMS, err));
    for (uint32_t i = PARAMS; i-- > 0;) {
        d->x[step][i][0] = (float)(step * (d->rank + 1));
        d->x[step][i][1] = (float)i;
        WEFT_TRY(weft_sync_push(d->sync, step, ids[i], d->x[step][i], err));
    }
    return WEFT_OK;
}

static enum weft_status driven_param(void *arg, uint64_t step, uint32_t id,
                                     struct weft_error *err)
{
    struct driven *d = arg;
    const float *x = d->x[step][id - 4];
    uint32_t all = d->n_ranks * (d->n_ranks + 1) / 2;
    if (x[0] != (float)(step * all) || x[1] != (float)(d->n_ranks * (id - 4)))
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: %g", d->rank, (unsigned)step,
                         (double)x[0]);
    d->n_params++;
    return WEFT_OK;
}

/* Ends the step and starts the next one. */
static enum weft_status driven_step(void *arg, uint64_t step, struct weft_error *err)
{
    struct driven *d = arg;
    bool done = false;
    if (d->n_steps != step || d->n_params != (step + 1) * PARAMS)
        return WEFT_FAIL(err, WEFT_INTERNAL, "rank %u, step %u: out of order", d->rank,
                         (unsigned)step);
    d->n_steps++;
    WEFT_TRY(weft_sync_test(d->sync, step, &done, err));
    if (!done)
        return WEFT_FAIL(err, WEFT_INTERNAL, "the step is reported but not complete");
    WEFT_TRY(weft_sync_wait(d->sync, step, err));
    return d->next < STEPS ? start_step(d, err) : weft_sync_leave(d->sync, err);
}

static enum weft_status all_done(void *arg, bool *yes, struct weft_error *err)
{
    const struct driven *d = arg;
    (void)err;
    *yes = d->n_steps == STEPS;
    return WEFT_OK;
}

/* Two steps are open at the beginning, so a rank is always one step ahead. */
static enum weft_status run_driven(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct driven d = {.rank = weft_comm_rank(comm), .n_ranks = weft_comm_size(comm)};
    (void)arg;
    weft_comm_set_timeout(comm, 60);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &d.sync, err));
    weft_sync_on_complete(d.sync, driven_param, driven_step, &d);
    enum weft_status st = start_step(&d, err);
    if (st == WEFT_OK)
        st = weft_comm_wait_until(comm, (d.rank + 1) % d.n_ranks, all_done, &d, err);
    weft_sync_free(d.sync);
    if (st == WEFT_OK && (d.n_steps != STEPS || d.n_params != (uint64_t)STEPS * PARAMS))
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%u steps", (unsigned)d.n_steps);
    return st;
}

static void test_driven(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 4; n++)
        if (weft_comm_run_threads(n, run_driven, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
}

/* -- misuse and failure -------------------------------------------------------------------- */

enum fault {
    WAIT_IN_PARAM, /* waits for the incomplete step */
    WAIT_TWICE,    /* the caller waits for the step already */
    PARAM_FAILS,
    STEP_FAILS,
    FAILS_SILENTLY, /* returns a status without an error message */
    IGNORED_MISUSE, /* the callback ignores the error of a wait; nothing changes */
};

struct faulty {
    struct weft_sync *sync;
    enum fault fault;
    bool first;
    int n_calls;
};

static const struct fault_case {
    enum fault fault;
    enum weft_status status;
    const char *message;
} fault_cases[] = {
    {WAIT_IN_PARAM, WEFT_USAGE, "waits for step 1 in a callback, but the step is not complete"},
    {WAIT_TWICE, WEFT_USAGE,
     "waits for step 1 in a callback, but the step is waited for already"},
    {PARAM_FAILS, WEFT_DATA, "parameter 8 is unwelcome"},
    {STEP_FAILS, WEFT_DATA, "step 1 is unwelcome"},
    {FAILS_SILENTLY, WEFT_DATA, "rank 0, step 1: a callback failed"},
    {IGNORED_MISUSE, WEFT_OK, ""},
};

static enum weft_status faulty_param(void *arg, uint64_t step, uint32_t id,
                                     struct weft_error *err)
{
    struct faulty *f = arg;
    f->n_calls++;
    if (f->first && f->fault == WAIT_IN_PARAM)
        return weft_sync_wait(f->sync, step, err);
    if (f->first && f->fault == PARAM_FAILS)
        return WEFT_FAIL(err, WEFT_DATA, "parameter %u is unwelcome", id);
    if (f->first && f->fault == IGNORED_MISUSE &&
        weft_sync_wait(f->sync, step, NULL) != WEFT_USAGE)
        return WEFT_FAIL(err, WEFT_INTERNAL, "a wait in a callback");
    return f->first && f->fault == FAILS_SILENTLY ? WEFT_DATA : WEFT_OK;
}

static enum weft_status faulty_step(void *arg, uint64_t step, struct weft_error *err)
{
    struct faulty *f = arg;
    f->n_calls++;
    if (f->first && f->fault == WAIT_TWICE)
        return weft_sync_wait(f->sync, step, err);
    if (f->first && f->fault == STEP_FAILS)
        return WEFT_FAIL(err, WEFT_DATA, "step %u is unwelcome", (unsigned)step);
    return WEFT_OK;
}

static atomic_bool first_waits; /* rank 0 makes no progress any more before its wait */

static enum weft_status run_faulty(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct fault_case *c = arg;
    struct faulty f = {.fault = c->fault, .first = weft_comm_rank(comm) == 0};
    const uint32_t id = 8;
    const size_t size = 1;
    float x = 1;

    weft_comm_set_timeout(comm, 60);
    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_SUM, &f.sync, err));
    weft_sync_on_complete(f.sync, faulty_param, faulty_step, &f);
    enum weft_status st = weft_sync_register(f.sync, 1, &id, &size, 1, err);

    while (st == WEFT_OK && !f.first && !atomic_load(&first_waits))
        st = weft_comm_progress(comm, err);
    if (st == WEFT_OK)
        st = weft_sync_push(f.sync, 1, id, &x, err);

    if (f.first) /* the step is not complete: the others have not pushed */
        atomic_store(&first_waits, true);

    if (st == WEFT_OK)
        st = weft_sync_wait(f.sync, 1, err);

    if (st == WEFT_OK && (x != (float)weft_comm_size(comm) || f.n_calls != 2))
        st = WEFT_FAIL(err, WEFT_INTERNAL, "%g after %d calls", (double)x, f.n_calls);

    weft_sync_free(f.sync);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(fault_cases); i++) {
        const struct fault_case *c = &fault_cases[i];
        struct weft_error err = {0};
        atomic_store(&first_waits, false);
        enum weft_status st = weft_comm_run_threads(3, run_faulty, (void *)c, &err);
        if (st != c->status || (st != WEFT_OK && strstr(err.msg, c->message) == NULL))
            fail_msg("case %zu: %d, %s", i, st, err.msg);
    }
}

/* -- empty things -------------------------------------------------------------------------- */

static enum weft_status count_param(void *arg, uint64_t step, uint32_t id,
                                    struct weft_error *err)
{
    (void)step;
    (void)id;
    (void)err;
    ((int *)arg)[0]++;
    return WEFT_OK;
}

static enum weft_status count_step(void *arg, uint64_t step, struct weft_error *err)
{
    (void)step;
    (void)err;
    ((int *)arg)[1]++;
    return WEFT_OK;
}

/* Reduces a step without parameters, and a parameter without elements that has two gradients.
 * Callbacks that are removed are not called. */
static enum weft_status run_empty(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct weft_sync *s = NULL;
    const struct weft_sync_param p = {.id = 3, .n_grads = 2, .type = WEFT_SYNC_F64};
    int counts[2] = {0, 0}, at_once;
    (void)arg;

    WEFT_TRY(weft_sync_new(comm, WEFT_SYNC_MEAN, &s, err));
    weft_sync_on_complete(s, count_param, count_step, counts);
    enum weft_status st = weft_sync_register_params(s, 0, NULL, 0, err);
    at_once = counts[1];
    if (st == WEFT_OK)
        st = weft_sync_wait(s, 0, err);

    for (uint64_t k = 1; k < 3 && st == WEFT_OK; k++) {
        st = weft_sync_register_params(s, k, &p, 1, err);
        for (int i = 0; i < 2 && st == WEFT_OK; i++)
            st = weft_sync_push(s, k, 3, NULL, err);

        if (st == WEFT_OK)
            st = weft_sync_wait(s, k, err);
        if (k == 1)
            weft_sync_on_complete(s, NULL, NULL, NULL);
    }

    weft_sync_free(s);
    if (st == WEFT_OK && (at_once != 1 || counts[0] != 1 || counts[1] != 2))
        st =
            WEFT_FAIL(err, WEFT_INTERNAL, "%d, %d and %d calls", at_once, counts[0], counts[1]);
    return st;
}

static void test_empty(void **state)
{
    struct weft_error err;
    (void)state;
    for (uint32_t n = 1; n <= 3; n++)
        if (weft_comm_run_threads(n, run_empty, NULL, &err) != WEFT_OK)
            fail_msg("%u ranks: %s", n, err.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driven),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
