/* Measures the speed of ranks with different numbers of threads, on this machine or on the
 * machines of an MPI run. */
#define _DEFAULT_SOURCE /* gethostname */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sysmem.h"
#include "training/layout/choose_priv.h"

enum { ROUNDS = 2, MAX_COPIES = 16, ENOUGH_NS = 2000000000 };

/* Fraction of the memory that a run may use. */
#define MEMORY_SHARE 0.9

/* Returns true if the measurement has taken so long that one round is enough. */
static bool took_long(const struct wf_layout_measurement *m)
{
    return wf_clock_ns() - m->begin_ns > ENOUGH_NS;
}

/* -- figures ------------------------------------------------------------------------------- */

enum { N_PASSES = 12, N_FIGURES = 15 };

static void list_times(struct wf_auto_times *t, double **out)
{
    double *const all[] = {&t->f, &t->i, &t->w, &t->b};
    memcpy(out, all, sizeof all);
}

/* Lists pointers to all numbers of a profile: first the times of passes, then the seconds per
 * element. */
static void list_figures(struct wf_auto_profile *v, double *out[N_FIGURES])
{
    list_times(&v->embedding, out);
    list_times(&v->layer, out + 4);
    list_times(&v->head, out + 8);
    out[12] = &v->update;
    out[13] = &v->pack;
    out[14] = &v->sum;
}

/* Returns the mean of n profiles with the same number of threads, `stride` bytes apart. */
static struct wf_auto_profile mean(struct wf_auto_profile *first, size_t n, size_t stride)
{
    struct wf_auto_profile sum = {.threads = first->threads};
    double *to[N_FIGURES], *from[N_FIGURES];
    list_figures(&sum, to);
    for (size_t i = 0; i < n; i++) {
        list_figures((void *)((char *)first + i * stride), from);
        for (int k = 0; k < N_FIGURES; k++)
            *to[k] += *from[k] / (double)n;
    }
    return sum;
}

/* Keeps the smaller value of each figure in two measurements, because other load on the machine
 * can only increase times. */
static void keep_minimum(struct wf_auto_profile *v, struct wf_auto_profile *other)
{
    double *to[N_FIGURES], *from[N_FIGURES];
    list_figures(v, to);
    list_figures(other, from);
    for (int k = 0; k < N_FIGURES; k++)
        *to[k] = v->threads == 0 || *from[k] < *to[k] ? *from[k] : *to[k];
    v->threads = other->threads;
}

void wf_layout_scale_passes(struct wf_auto_profile *profile, double factor)
{
    double *all[N_FIGURES];
    list_figures(profile, all);
    for (int k = 0; k < N_PASSES; k++)
        *all[k] *= factor;
}

/* -- ranks as threads of this process ------------------------------------------------------ */

struct measure_job {
    const struct wf_auto_probe *probe;
    uint32_t threads;
    struct wf_auto_profile each[MAX_COPIES];
    double hop, link;
};

static enum weft_status measure_copy(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct measure_job *job = arg;
    uint32_t rank = weft_comm_rank(comm);
    double hop, link;
    WEFT_TRY(wf_auto_measure(comm, job->probe, job->threads, &job->each[rank], err));
    WEFT_TRY(wf_auto_measure_hops(comm, &hop, &link, err));
    if (rank == 0) {
        job->hop = hop;
        job->link = link;
    }
    return WEFT_OK;
}

/* Returns the number of ranks that measure at the same time: as many as cores and memory
 * allow. */
static uint32_t n_copies(const struct wf_layout_measurement *m, uint32_t threads)
{
    size_t max_by_memory = wf_sysmem_bytes() / 4 / (m->probe.bytes + 1);
    uint32_t n = m->machine.cores / threads;
    n = n > max_by_memory ? (uint32_t)max_by_memory : n;
    n = n > MAX_COPIES ? MAX_COPIES : n;
    return n == 0 ? 1 : n;
}

static enum weft_status measure_process(struct wf_layout_measurement *m,
                                        const uint32_t *threads, struct weft_error *err)
{
    size_t n_profiles = m->machine.n_profiles;
    for (size_t i = 0; i < ROUNDS * n_profiles; i++) {
        size_t k = i % n_profiles;
        if (i >= n_profiles && took_long(m))
            break;

        struct measure_job job = {.probe = &m->probe, .threads = threads[k]};
        uint32_t n = n_copies(m, threads[k]);
        WEFT_TRY(weft_comm_run_threads(n, measure_copy, &job, err));

        struct wf_auto_profile all = mean(job.each, n, sizeof job.each[0]);
        keep_minimum(&m->profiles[k], &all);
        if (job.hop > 0) {
            m->machine.hop = job.hop;
            m->machine.link = job.link;
        }
    }
    return WEFT_OK;
}

/* -- ranks as MPI processes ---------------------------------------------------------------- */

struct rank_figures {
    uint64_t host, bytes;
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
};

static uint64_t host_hash(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return wf_hash(0, name, strlen(name));
}

/* Combines the figures of all ranks: the mean of times, the minimum memory, and the ranks of
 * the host that has most ranks. */
static void combine(struct wf_layout_measurement *m, struct rank_figures *ranks, uint32_t n)
{
    uint64_t min_bytes = ranks[0].bytes;
    m->machine.ranks_per_host = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t on_host = 0;
        for (uint32_t k = 0; k < n; k++)
            on_host += ranks[k].host == ranks[r].host;
        if (on_host > m->machine.ranks_per_host)
            m->machine.ranks_per_host = on_host;
        min_bytes = ranks[r].bytes < min_bytes ? ranks[r].bytes : min_bytes;
    }
    for (size_t i = 0; i < m->machine.n_profiles; i++)
        m->profiles[i] = mean(&ranks[0].profiles[i], n, sizeof *ranks);
    m->machine.bytes = (size_t)(MEMORY_SHARE * (double)min_bytes);
}

static enum weft_status gather_figures(struct weft_comm *comm, struct wf_layout_measurement *m,
                                       const struct rank_figures *own, struct weft_error *err)
{
    uint32_t n = weft_comm_size(comm);
    struct rank_figures *all = calloc(n, sizeof *all);
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the figures of %u ranks", n)
                    : weft_comm_gather_equal(comm, own, sizeof *own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        combine(m, all, n);
    free(all);
    return st;
}

static enum weft_status measure_ranks(struct wf_layout_measurement *m, struct weft_comm *comm,
                                      const uint32_t *threads, struct weft_error *err)
{
    struct rank_figures own = {.host = host_hash(), .bytes = wf_sysmem_bytes()};
    size_t n_profiles = m->machine.n_profiles;
    for (size_t i = 0; i < ROUNDS * n_profiles; i++) {
        size_t k = i % n_profiles;
        struct wf_auto_profile now;
        bool stop = i >= n_profiles && took_long(m);
        /* The clock of rank 0 decides. */
        WEFT_TRY(weft_comm_broadcast(comm, &stop, sizeof stop, err));
        if (stop)
            break;
        WEFT_TRY(wf_auto_measure(comm, &m->probe, threads[k], &now, err));
        keep_minimum(&own.profiles[k], &now);
    }
    WEFT_TRY(wf_auto_measure_hops(comm, &m->machine.hop, &m->machine.link, err));
    return gather_figures(comm, m, &own, err);
}

/* -- threads that all ranks measure -------------------------------------------------------- */

struct rank_threads {
    /* given: number of threads per rank from the settings; 0: free choice */
    uint32_t cores, given;
};

struct thread_counts {
    uint32_t cores; /* number of cores of the rank that has the fewest */
    uint32_t n, threads[WF_AUTO_MAX_PROFILES];
};

static void list_thread_counts(const struct rank_threads *all, uint32_t n,
                               struct thread_counts *out)
{
    bool given = false;
    out->cores = all[0].cores;
    for (uint32_t r = 0; r < n; r++) {
        out->cores = all[r].cores < out->cores ? all[r].cores : out->cores;
        given = given || all[r].given != 0;
    }
    out->n =
        (uint32_t)wf_auto_thread_counts(out->cores, 1, given ? out->cores : 0, out->threads);
}

/* Ranks may have different numbers of cores.  All ranks measure the numbers of threads that
 * suit the rank with the fewest cores. */
static enum weft_status agree_on_threads(const struct wf_train_settings *s,
                                         struct weft_comm *comm, struct thread_counts *out,
                                         struct weft_error *err)
{
    uint32_t n = weft_comm_size(comm);
    const struct rank_threads own = {
        .cores = s->parallel.threads != 0 ? s->parallel.threads : wf_cores_available(),
        .given = s->parallel.given.threads ? s->parallel.threads : 0};
    struct rank_threads *all = calloc(n, sizeof *all);
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the cores of %u ranks", n)
                    : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        list_thread_counts(all, n, out);
    free(all);
    return st == WEFT_OK ? weft_comm_broadcast(comm, out, sizeof *out, err) : st;
}

static uint32_t given_ranks(const struct wf_train_settings *s)
{
    uint32_t pp = s->parallel.given.pp ? s->parallel.pp : 1;
    return pp * (s->parallel.given.dp ? s->parallel.dp : 1);
}

enum weft_status wf_layout_measure(struct wf_layout_measurement *m,
                                   const struct wf_train_settings *s,
                                   const struct weft_model *model, struct weft_comm *comm,
                                   struct weft_error *err)
{
    WEFT_TRY(wf_auto_probe_init(&m->probe, s, model, err));
    m->machine = (struct wf_auto_machine){.profiles = m->profiles};

    if (comm == NULL) {
        uint32_t threads[WF_AUTO_MAX_PROFILES];
        uint32_t given = s->parallel.given.threads ? s->parallel.threads : 0;
        m->machine.cores = wf_cores_available();
        m->machine.bytes = s->train.memory_limit != 0
                               ? (size_t)s->train.memory_limit
                               : (size_t)(MEMORY_SHARE * (double)wf_sysmem_bytes());
        m->machine.n_profiles =
            wf_auto_thread_counts(m->machine.cores, given_ranks(s), given, threads);
        return measure_process(m, threads, err);
    }

    struct thread_counts counts = {0};
    WEFT_TRY(agree_on_threads(s, comm, &counts, err));
    m->machine.ranks = weft_comm_size(comm);
    m->machine.cores = counts.cores * m->machine.ranks;
    m->machine.copies = true;
    m->machine.n_profiles = counts.n;
    return measure_ranks(m, comm, counts.threads, err);
}
