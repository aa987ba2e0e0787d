/* The thread pool: workers, their binding to cores, and the distribution of tasks. */
#include "compute/kern/pool.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sysmem.h"

/* A worker without work checks for a new run this many times before it sleeps: products follow
 * each other within microseconds, and waking a thread takes longer. */
enum { SPINS = 20000 };

struct wf_pool {
    unsigned threads;
    bool bound;                 /* each thread is bound to a core */
    int spins;                  /* 0 if there are more threads than cores */
    hwloc_topology_t topology;  /* owned */
    hwloc_cpuset_t caller_mask; /* owned: the caller's previous binding */
    hwloc_cpuset_t *cores;      /* owned; the core of each thread if `bound` is set */

    wf_pool_hook_fn *hook; /* or NULL */
    void *hook_arg;

    /* The current run.  Written by the caller before `round` is incremented. */
    wf_task_fn *fn;
    void *arg;
    size_t n_tasks;
    atomic_size_t next_task;
    atomic_uint working; /* threads that have not finished this run */

    atomic_uint round; /* incremented by every run */
    atomic_bool stop;
    atomic_uint sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool has_mutex, has_wake;

    unsigned n_started;
    struct worker {
        struct wf_pool *pool;
        unsigned index;
        pthread_t thread;
    } * workers; /* owned; [0] is the caller */
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void after_task(struct wf_pool *pool, unsigned worker)
{
    if (pool->hook != NULL)
        pool->hook(pool->hook_arg, worker);
}

static void take_tasks(struct wf_pool *pool, unsigned worker)
{
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&pool->next_task, 1, memory_order_relaxed);
        if (task >= pool->n_tasks)
            return;
        pool->fn(pool->arg, task, worker);
        after_task(pool, worker);
    }
}

/* Returns once `round` differs from `seen`. */
static void wait_for_round(struct wf_pool *pool, unsigned seen)
{
    for (int i = 0; i < pool->spins; i++) {
        if (atomic_load_explicit(&pool->round, memory_order_acquire) != seen)
            return;
        relax();
    }

    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
}

static void start_round(struct wf_pool *pool)
{
    atomic_fetch_add(&pool->round, 1);
    /* A worker increments `sleepers` before it checks the round for the last time, so a worker
     * that is not counted here has seen the new round. */
    if (atomic_load(&pool->sleepers) != 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void bind_thread(struct wf_pool *pool, unsigned index)
{
    if (pool->bound) /* best effort: an unbound thread works as well */
        hwloc_set_cpubind(pool->topology, pool->cores[index], HWLOC_CPUBIND_THREAD);
}

static void *work(void *arg)
{
    struct worker *self = arg;
    struct wf_pool *pool = self->pool;
    bind_thread(pool, self->index);
    for (unsigned seen = 0;;) {
        wait_for_round(pool, seen);
        seen++;
        if (atomic_load(&pool->stop))
            return NULL;
        take_tasks(pool, self->index);
        atomic_fetch_sub_explicit(&pool->working, 1, memory_order_release);
    }
}

enum { HWLOC_BYTES = 8 << 20 }; /* what hwloc needs on a large machine, generously */

/* Chooses the number of threads and finds the cores in the caller's CPU mask. */
static enum weft_status find_cores(struct wf_pool *pool, unsigned threads,
                                   struct weft_error *err)
{
    /* hwloc dereferences the results of failed allocations. */
    if (!wf_sysmem_can_allocate(HWLOC_BYTES))
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "thread pool: no memory to detect the cores of this machine (%d MiB)",
                         HWLOC_BYTES >> 20);
    if (hwloc_topology_init(&pool->topology) != 0) {
        pool->topology = NULL;
        return WEFT_FAIL(err, WEFT_INTERNAL, "thread pool: hwloc cannot be initialized");
    }

    pool->caller_mask = hwloc_bitmap_alloc();
    if (hwloc_topology_load(pool->topology) != 0 || pool->caller_mask == NULL)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "thread pool: hwloc cannot detect the cores of this machine");
    if (hwloc_get_cpubind(pool->topology, pool->caller_mask, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(pool->caller_mask, hwloc_topology_get_allowed_cpuset(pool->topology));

    int n = hwloc_get_nbobjs_inside_cpuset_by_type(pool->topology, pool->caller_mask,
                                                   HWLOC_OBJ_CORE);
    unsigned cores = n > 0 ? (unsigned)n : 1;
    pool->threads = threads != 0 ? threads : cores;
    if (pool->threads > WF_MAX_THREADS)
        return WEFT_FAIL(err, WEFT_USAGE, "thread pool: %u threads requested (maximum %d)",
                         pool->threads, WF_MAX_THREADS);

    pool->spins = pool->threads <= cores ? SPINS : 0;
    /* With fewer threads than cores, the operating system places them better, since it sees the
     * other load. */
    pool->bound = pool->threads == cores && cores > 1;
    if (!pool->bound)
        return WEFT_OK;

    pool->cores = calloc(pool->threads, sizeof(hwloc_cpuset_t));
    if (pool->cores == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "thread pool: out of memory (%u threads)",
                         pool->threads);
    for (unsigned i = 0; i < pool->threads; i++) {
        hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(
            pool->topology, pool->caller_mask, HWLOC_OBJ_CORE, (int)i);
        pool->cores[i] = hwloc_bitmap_dup(core->cpuset);
        if (pool->cores[i] == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "thread pool: out of memory (%u threads)",
                             pool->threads);
        hwloc_bitmap_and(pool->cores[i], pool->cores[i], pool->caller_mask);
    }
    return WEFT_OK;
}

static enum weft_status start_threads(struct wf_pool *pool, struct weft_error *err)
{
    pool->workers = calloc(pool->threads, sizeof *pool->workers);
    if (pool->workers == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "thread pool: out of memory (%u threads)",
                         pool->threads);

    pool->has_mutex = pthread_mutex_init(&pool->mutex, NULL) == 0;
    pool->has_wake = pthread_cond_init(&pool->wake, NULL) == 0;
    if (!pool->has_mutex || !pool->has_wake)
        return WEFT_FAIL(err, WEFT_NOMEM, "thread pool: no lock available");

    for (unsigned i = 1; i < pool->threads; i++) {
        struct worker *w = &pool->workers[i];
        *w = (struct worker){.pool = pool, .index = i};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            return WEFT_FAIL(
                err, WEFT_NOMEM,
                "thread pool: thread %u of %u cannot be started; use fewer threads", i + 1,
                pool->threads);
        pool->n_started++;
    }
    return WEFT_OK;
}

enum weft_status wf_pool_new(unsigned threads, struct wf_pool **out, struct weft_error *err)
{
    struct wf_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "thread pool: out of memory");
    enum weft_status st = find_cores(pool, threads, err);
    if (st == WEFT_OK)
        st = start_threads(pool, err);
    if (st != WEFT_OK) {
        wf_pool_free(pool);
        return st;
    }

    bind_thread(pool, 0);
    *out = pool;
    return WEFT_OK;
}

void wf_pool_free(struct wf_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->n_started != 0) {
        atomic_store(&pool->stop, true);
        start_round(pool);
        for (unsigned i = 1; i <= pool->n_started; i++)
            pthread_join(pool->workers[i].thread, NULL);
    }

    if (pool->bound && pool->workers != NULL)
        hwloc_set_cpubind(pool->topology, pool->caller_mask, HWLOC_CPUBIND_THREAD);
    if (pool->has_wake)
        pthread_cond_destroy(&pool->wake);
    if (pool->has_mutex)
        pthread_mutex_destroy(&pool->mutex);
    for (unsigned i = 0; pool->cores != NULL && i < pool->threads; i++)
        hwloc_bitmap_free(pool->cores[i]);
    free(pool->cores);
    hwloc_bitmap_free(pool->caller_mask);
    if (pool->topology != NULL)
        hwloc_topology_destroy(pool->topology);
    free(pool->workers);
    free(pool);
}

unsigned wf_pool_threads(const struct wf_pool *pool)
{
    return pool->threads;
}

void wf_pool_set_hook(struct wf_pool *pool, wf_pool_hook_fn *fn, void *arg)
{
    pool->hook = fn;
    pool->hook_arg = arg;
}

void wf_pool_run(struct wf_pool *pool, size_t n_tasks, wf_task_fn *fn, void *arg)
{
    if (pool->threads == 1 || n_tasks <= 1) {
        for (size_t i = 0; i < n_tasks; i++) {
            fn(arg, i, 0);
            after_task(pool, 0);
        }
        return;
    }

    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store_explicit(&pool->next_task, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->working, pool->threads - 1, memory_order_relaxed);

    start_round(pool);
    take_tasks(pool, 0);
    for (int i = 0; atomic_load_explicit(&pool->working, memory_order_acquire) != 0; i++) {
        if (i < pool->spins)
            relax();
        else
            sched_yield();
    }
}
