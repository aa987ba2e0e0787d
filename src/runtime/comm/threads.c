/* Starts ranks as threads, divides the cores among them, and collects their results. */
#include <hwloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "runtime/comm/comm_priv.h"

struct shares {
    hwloc_topology_t topology; /* owned; NULL: ranks are not bound */
    hwloc_cpuset_t before; /* owned: the cores to which the calling thread was bound before */
    /* Owned: the cores of each rank; NULL if there are fewer cores than ranks. */
    hwloc_cpuset_t *at;
    uint32_t n;
};

struct rank {
    struct wf_inproc *group;
    const struct shares *shares;
    weft_rank_fn *fn;
    void *arg;
    uint32_t rank;
    pthread_t thread;
    bool started;
    enum weft_status status;
    struct weft_error err;
};

/* -- cores --------------------------------------------------------------------------------- */

static void shares_release(struct shares *s)
{
    for (uint32_t i = 0; s->at != NULL && i < s->n; i++)
        hwloc_bitmap_free(s->at[i]);
    free(s->at);
    hwloc_bitmap_free(s->before);
    if (s->topology != NULL)
        hwloc_topology_destroy(s->topology);
}

/* Assigns core c of `cores` to rank c * n / cores, so that neighbouring cores stay together. */
static void divide_cores(struct shares *s, int cores)
{
    s->at = calloc(s->n, sizeof *s->at);
    for (uint32_t r = 0; s->at != NULL && r < s->n; r++)
        s->at[r] = hwloc_bitmap_alloc();
    for (int c = 0; s->at != NULL && c < cores; c++) {
        hwloc_obj_t core = hwloc_get_obj_inside_cpuset_by_type(s->topology, s->before,
                                                               HWLOC_OBJ_CORE, (unsigned)c);
        hwloc_cpuset_t share = s->at[(size_t)c * s->n / (size_t)cores];
        if (core == NULL || share == NULL)
            continue;
        hwloc_bitmap_or(share, share, core->cpuset);
        hwloc_bitmap_and(share, share, s->before);
    }
}

/* Binds ranks to cores.  Errors are ignored: without binding, ranks only run slower. */
static struct shares init_core_shares(uint32_t n)
{
    struct shares s = {.n = n};
    if (n < 2 || hwloc_topology_init(&s.topology) != 0) {
        s.topology = NULL;
        return s;
    }
    s.before = hwloc_bitmap_alloc();
    if (s.before == NULL || hwloc_topology_load(s.topology) != 0 ||
        hwloc_get_cpubind(s.topology, s.before, HWLOC_CPUBIND_THREAD) != 0)
        return s;
    int cores = hwloc_get_nbobjs_inside_cpuset_by_type(s.topology, s.before, HWLOC_OBJ_CORE);
    if (cores > 0 && (uint32_t)cores >= n)
        divide_cores(&s, cores);
    return s;
}

static void bind_rank(const struct shares *s, uint32_t rank)
{
    if (s->at != NULL && s->at[rank] != NULL && !hwloc_bitmap_iszero(s->at[rank]))
        (void)hwloc_set_cpubind(s->topology, s->at[rank], HWLOC_CPUBIND_THREAD);
}

static void unbind_caller(const struct shares *s)
{
    if (s->at != NULL)
        (void)hwloc_set_cpubind(s->topology, s->before, HWLOC_CPUBIND_THREAD);
}

/* -- ranks --------------------------------------------------------------------------------- */

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct weft_comm *comm = NULL;
    bind_rank(r->shares, r->rank);
    r->status = wf_inproc_open(r->group, r->rank, &comm, &r->err);
    if (r->status != WEFT_OK) {
        wf_inproc_cancel(r->group, 1, &r->err);
        return NULL;
    }
    r->status = r->fn(comm, r->arg, &r->err);
    r->status = wf_comm_finish(comm, r->status, &r->err);
    return NULL;
}

/* Starts the threads of ranks 1 to n - 1 and returns how many were started. */
static uint32_t start_ranks(struct rank *ranks, uint32_t n)
{
    uint32_t r = 1;
    while (r < n && pthread_create(&ranks[r].thread, NULL, run_rank, &ranks[r]) == 0)
        ranks[r++].started = true;
    return r - 1;
}

static enum weft_status run_all(struct rank *ranks, uint32_t n, struct wf_inproc *group,
                                struct weft_error *err)
{
    struct weft_error own;
    enum weft_status st = WEFT_OK;
    uint32_t started = start_ranks(ranks, n);

    if (started + 1 == n) {
        run_rank(&ranks[0]);
    } else { /* cancel: the started ranks would wait for the missing ranks */
        st = WEFT_FAIL(&own, WEFT_NOMEM, "cannot start the thread of rank %u", started + 1);
        wf_inproc_cancel(group, n - started, &own);
        if (err != NULL)
            *err = own;
    }

    for (uint32_t r = 1; r < n; r++)
        if (ranks[r].started)
            pthread_join(ranks[r].thread, NULL);

    for (uint32_t r = 0; st == WEFT_OK && r < n; r++)
        if (ranks[r].status != WEFT_OK) {
            st = ranks[r].err.status;
            if (err != NULL)
                *err = ranks[r].err;
        }
    return st;
}

enum weft_status weft_comm_run_threads(uint32_t n, weft_rank_fn *fn, void *arg,
                                       struct weft_error *err)
{
    struct wf_inproc *group = NULL;
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "the number of ranks is 0; expected at least 1");

    WEFT_TRY(wf_inproc_new(n, &group, err));
    struct rank *ranks = calloc(n, sizeof *ranks);
    struct shares shares = init_core_shares(n);
    enum weft_status st;

    if (ranks == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", n);
    } else {
        for (uint32_t r = 0; r < n; r++)
            ranks[r] = (struct rank){
                .group = group, .shares = &shares, .fn = fn, .arg = arg, .rank = r};
        st = run_all(ranks, n, group, err);
    }

    unbind_caller(&shares);
    shares_release(&shares);
    free(ranks);
    wf_inproc_free(group);
    return st;
}
