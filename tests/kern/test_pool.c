/* Checks that every task runs once with any number of threads, and that concurrent tasks have
 * different workers. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "compute/kern/pool.h"

enum { MAX_TASKS = 5000 };

struct counts {
    atomic_int runs[MAX_TASKS];
    atomic_int busy[16];
    atomic_int clashes;
};

static void count(void *arg, size_t task, unsigned worker)
{
    struct counts *c = arg;
    if (atomic_fetch_add(&c->busy[worker], 1) != 0)
        atomic_fetch_add(&c->clashes, 1);
    atomic_fetch_add(&c->runs[task], 1);
    atomic_fetch_sub(&c->busy[worker], 1);
}

static void check_tasks(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, MAX_TASKS};
    struct counts *c = calloc(1, sizeof *c);
    assert_non_null(c);

    for (unsigned threads = 1; threads <= 5; threads++) {
        struct wf_pool *pool = NULL;
        assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
        assert_int_equal(wf_pool_threads(pool), threads);

        for (int round = 0; round < 20; round++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                for (size_t i = 0; i < MAX_TASKS; i++)
                    atomic_store(&c->runs[i], 0);
                wf_pool_run(pool, sizes[s], count, c);
                for (size_t i = 0; i < MAX_TASKS; i++)
                    assert_int_equal(atomic_load(&c->runs[i]), i < sizes[s]);
            }
        wf_pool_free(pool);
    }

    assert_int_equal(atomic_load(&c->clashes), 0);
    free(c);
}

/* Expected and actual calls of the hook. */
struct calls {
    pthread_t caller;
    atomic_bool caller_had_one;
    size_t tasks; /* tasks that the caller ran; only the caller writes this field */
    atomic_size_t own, others; /* calls by the caller and by other threads */
    atomic_bool wrong_worker;  /* a call had the wrong worker */
};

static void add_one(void *arg, unsigned worker)
{
    struct calls *c = arg;
    bool own = pthread_equal(pthread_self(), c->caller);
    atomic_fetch_add(own ? &c->own : &c->others, 1);
    if (own != (worker == 0))
        atomic_store(&c->wrong_worker, true);
}

/* Runs a task.  The other threads wait until the caller has run one, so that they cannot run
 * all of them. */
static void after_caller(void *arg, size_t task, unsigned worker)
{
    struct calls *c = arg;
    (void)task;
    (void)worker;
    if (pthread_equal(pthread_self(), c->caller)) {
        c->tasks++;
        atomic_store(&c->caller_had_one, true);
    }
    while (!atomic_load(&c->caller_had_one))
        sched_yield();
}

/* Checks that the thread of a task calls the hook after it. */
static void check_hook(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct wf_pool *pool = NULL;
        struct calls c = {.caller = pthread_self()};

        assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
        wf_pool_set_hook(pool, add_one, &c);
        wf_pool_run(pool, 1, after_caller, &c);
        assert_int_equal(c.tasks, 1);
        assert_int_equal(atomic_load(&c.own), 1);

        atomic_store(&c.caller_had_one, false);
        wf_pool_run(pool, MAX_TASKS, after_caller, &c);
        assert_in_range(c.tasks, threads == 1 ? 1 + MAX_TASKS : 2, 1 + MAX_TASKS);
        assert_int_equal(atomic_load(&c.own), c.tasks);
        assert_int_equal(atomic_load(&c.others), 1 + MAX_TASKS - c.tasks);
        assert_false(atomic_load(&c.wrong_worker));

        size_t before = atomic_load(&c.own), others = atomic_load(&c.others);
        wf_pool_set_hook(pool, NULL, NULL);
        wf_pool_run(pool, 10, after_caller, &c);
        assert_int_equal(atomic_load(&c.own), before);
        assert_int_equal(atomic_load(&c.others), others);

        wf_pool_free(pool);
    }
}

static void check_limits(void **state)
{
    (void)state;
    struct wf_pool *pool = NULL;
    struct weft_error err = {0};
    assert_int_equal(wf_pool_new(WF_MAX_THREADS + 1, &pool, &err), WEFT_USAGE);
    assert_null(pool);
    assert_int_equal(wf_pool_new(0, &pool, &err), WEFT_OK);
    assert_true(wf_pool_threads(pool) >= 1);
    wf_pool_free(pool);
    wf_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_tasks),
                                       cmocka_unit_test(check_hook),
                                       cmocka_unit_test(check_limits)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL) != 0;
}
