/* A rank's threads, which process tasks in parallel.  The result of a task depends neither on
 * the thread that runs it nor on how the work is divided, so no result depends on the number of
 * threads.
 *
 *     wf_pool_run(pool, n_tiles, multiply_tile, &product);   returns once all are done
 *
 * The calling thread works, too: a pool of one starts no thread. */
#ifndef COMPUTE_KERN_POOL_H
#define COMPUTE_KERN_POOL_H

#include <stddef.h>

#include "weft/status.h"

struct wf_pool;

enum { WF_MAX_THREADS = 1024 };

/* Runs task `task`.  `worker`, 0 .. threads-1, differs between concurrent tasks and selects
 * scratch memory. */
typedef void wf_task_fn(void *arg, size_t task, unsigned worker);

/* Creates a pool of `threads` workers, including the caller; 0 means one per core that the
 * caller may use.  If there are as many threads as such cores, each thread, including the
 * caller, is bound to a core until the pool is freed.  Otherwise the operating system places
 * the threads.  The caller frees *out with wf_pool_free().  Returns WEFT_USAGE if threads >
 * WF_MAX_THREADS. */
enum weft_status wf_pool_new(unsigned threads, struct wf_pool **out, struct weft_error *err);
void wf_pool_free(struct wf_pool *pool); /* NULL is allowed */

/* Returns the number of threads, including the caller. */
unsigned wf_pool_threads(const struct wf_pool *pool);

/* Runs every task once, in any order, and returns when all are done.  Only the thread that
 * created the pool may call it, and not from a task. */
void wf_pool_run(struct wf_pool *pool, size_t n_tasks, wf_task_fn *fn, void *arg);

/* A function that a worker calls between tasks; worker 0 is the calling thread. */
typedef void wf_pool_hook_fn(void *arg, unsigned worker);

/* Sets a function that each thread calls after each of its tasks.  The hook serves work that
 * cannot wait for the end of a long run.  NULL removes the hook.  The hook must not be changed
 * while the pool runs. */
void wf_pool_set_hook(struct wf_pool *pool, wf_pool_hook_fn *fn, void *arg);

#endif
