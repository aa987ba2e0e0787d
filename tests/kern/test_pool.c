/* Every task runs once, whatever the number of threads; scratch of one worker is never shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kern/pool.h"

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

static void each_task_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 7, 64, MAX_TASKS};
    struct counts *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (unsigned threads = 1; threads <= 5; threads++) {
        struct weft_pool *pool = NULL;
        assert_int_equal(weft_pool_new(threads, &pool, NULL), WEFT_OK);
        assert_int_equal(weft_pool_threads(pool), threads);
        for (int round = 0; round < 20; round++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                for (size_t i = 0; i < MAX_TASKS; i++)
                    atomic_store(&c->runs[i], 0);
                weft_pool_run(pool, sizes[s], count, c);
                for (size_t i = 0; i < MAX_TASKS; i++)
                    assert_int_equal(atomic_load(&c->runs[i]), i < sizes[s]);
            }
        weft_pool_free(pool);
    }
    assert_int_equal(atomic_load(&c->clashes), 0);
    free(c);
}

static void add_one(void *arg)
{
    ++*(size_t *)arg;
}

/* The caller's tasks only, and by the caller: the count needs no lock. */
static void between_tasks(void **state)
{
    (void)state;
    struct counts *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct weft_pool *pool = NULL;
        size_t n = 0;
        assert_int_equal(weft_pool_new(threads, &pool, NULL), WEFT_OK);
        weft_pool_between(pool, add_one, &n);
        weft_pool_run(pool, 1, count, c);
        assert_int_equal(n, 1);
        weft_pool_run(pool, MAX_TASKS, count, c);
        assert_true(threads == 1 ? n == 1 + MAX_TASKS : n <= 1 + MAX_TASKS);
        weft_pool_between(pool, NULL, NULL);
        n = 0;
        weft_pool_run(pool, 10, count, c);
        assert_int_equal(n, 0);
        weft_pool_free(pool);
    }
    free(c);
}

static void limits(void **state)
{
    (void)state;
    struct weft_pool *pool = NULL;
    struct weft_error err = {0};
    assert_int_equal(weft_pool_new(WEFT_MAX_THREADS + 1, &pool, &err), WEFT_USAGE);
    assert_null(pool);
    assert_int_equal(weft_pool_new(0, &pool, &err), WEFT_OK);
    assert_true(weft_pool_threads(pool) >= 1);
    weft_pool_free(pool);
    weft_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_task_once),
                                       cmocka_unit_test(between_tasks),
                                       cmocka_unit_test(limits)};
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL) != 0;
}
