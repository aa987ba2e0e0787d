/* A rank's threads, which take tasks as they become free.  What a task computes does not depend on
 * who does it, nor on where the tasks before and after it begin: so no result depends on how many
 * threads there are.
 *
 *     wf_pool_run(pool, n_tiles, multiply_tile, &product);   returns when all are done
 *
 * The calling thread works too: a pool of one starts no thread. */
#ifndef COMPUTE_KERN_POOL_H
#define COMPUTE_KERN_POOL_H

#include <stddef.h>

#include "weft/status.h"

struct wf_pool;

enum { WF_MAX_THREADS = 1024 };

/* Does task `task`; `worker`, 0 .. threads-1, is the same for no two tasks at one time and picks
 * scratch memory. */
typedef void wf_task_fn(void *arg, size_t task, unsigned worker);

/* `threads` workers, the caller included; 0 takes one for each core that the caller may use.
 * With just as many threads as such cores each is bound to one of them, the caller, too, until
 * the pool is freed; otherwise the kernel places them.  wf_pool_free() frees. */
enum weft_status wf_pool_new(unsigned threads, struct wf_pool **out, struct weft_error *err);
void wf_pool_free(struct wf_pool *pool); /* NULL is allowed */

unsigned wf_pool_threads(const struct wf_pool *pool);

/* Runs every task once, in no set order.  Only the thread that made the pool may call it, and no
 * task may. */
void wf_pool_run(struct wf_pool *pool, size_t n_tasks, wf_task_fn *fn, void *arg);

/* Called by each thread after each task that it did; worker 0 is the thread that runs the pool.
 * For what cannot wait until long work is over, or is to be seen in its midst.  NULL: nothing.
 * Not to be set while the pool runs. */
typedef void wf_pool_hook_fn(void *arg, unsigned worker);
void wf_pool_set_hook(struct wf_pool *pool, wf_pool_hook_fn *fn, void *arg);

#endif
