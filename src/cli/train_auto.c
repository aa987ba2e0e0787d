/* parallel.auto: measures a few micros, chooses a layout by them, and says why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/numbers.h"
#include "base/sysmem.h"
#include "base/text.h"
#include "cli/train.h"
#include "runtime/comm/background.h"
#include "training/data/shard.h"
#include "training/layout/auto.h"
#include "training/trainer/handshake.h"
#include "training/trainer/load.h"

enum { ROUNDS = 2, SHOWN = 6, MOST_COPIES = 16, NAME = 64 };

/* Nothing but this program should need the rest. */
#define MEMORY_SHARE 0.9
#define ENOUGH_NS 2000000000

/* What one start measures. */
struct measurement {
    struct wf_auto_probe probe;
    struct wf_auto_machine machine;
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
    int64_t begin_ns;
};

/* One round is enough then. */
static bool is_long(const struct measurement *m)
{
    return wf_clock_ns() - m->begin_ns > ENOUGH_NS;
}

/* -- figures -------------------------------------------------------------------------------- */

enum { N_FIGURES = 15 };

static void list_times(struct wf_auto_times *t, double **out)
{
    double *const all[] = {&t->f, &t->i, &t->w, &t->b};
    memcpy(out, all, sizeof all);
}

/* All numbers of a speed, to be worked at alike. */
static void list_figures(struct wf_auto_profile *v, double *out[N_FIGURES])
{
    list_times(&v->embedding, out);
    list_times(&v->layer, out + 4);
    list_times(&v->head, out + 8);
    out[12] = &v->update;
    out[13] = &v->pack;
    out[14] = &v->sum;
}

/* The mean of several ranks' figures with the same threads, which lie `stride` bytes apart. */
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

/* Of two measurements the lesser figures: what others do on the machine only adds. */
static void take_least(struct wf_auto_profile *v, struct wf_auto_profile *other)
{
    double *to[N_FIGURES], *from[N_FIGURES];
    list_figures(v, to);
    list_figures(other, from);
    for (int k = 0; k < N_FIGURES; k++)
        *to[k] = v->threads == 0 || *from[k] < *to[k] ? *from[k] : *to[k];
    v->threads = other->threads;
}

static void scale_passes(struct wf_auto_profile *v, double by)
{
    double *all[N_FIGURES];
    list_figures(v, all);
    for (int k = 0; k < 12; k++)
        *all[k] *= by;
}

/* -- a plain start: this process is all there is -------------------------------------------- */

struct job {
    const struct wf_auto_probe *probe;
    uint32_t threads;
    struct wf_auto_profile each[MOST_COPIES];
    double hop, link;
};

static enum weft_status measure_copy(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct job *job = arg;
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

/* As many ranks of so many threads as there are cores for, unless memory has room for fewer. */
static uint32_t n_copies(const struct measurement *m, uint32_t threads)
{
    size_t room = wf_sysmem_bytes() / 4 / (m->probe.bytes + 1);
    uint32_t n = m->machine.cores / threads;
    n = n > room ? (uint32_t)room : n;
    n = n > MOST_COPIES ? MOST_COPIES : n;
    return n == 0 ? 1 : n;
}

static enum weft_status measure_here(struct measurement *m, const uint32_t *threads,
                                     struct weft_error *err)
{
    for (size_t i = 0; i < ROUNDS * m->machine.n_profiles; i++) {
        size_t k = i % m->machine.n_profiles;
        if (i >= m->machine.n_profiles && is_long(m))
            break;
        struct job job = {.probe = &m->probe, .threads = threads[k]};
        uint32_t n = n_copies(m, threads[k]);
        WEFT_TRY(weft_comm_run_threads(n, measure_copy, &job, err));
        struct wf_auto_profile all = mean(job.each, n, sizeof job.each[0]);
        take_least(&m->profiles[k], &all);
        if (job.hop > 0) {
            m->machine.hop = job.hop;
            m->machine.link = job.link;
        }
    }
    return WEFT_OK;
}

/* -- under MPI: every rank measures ---------------------------------------------------------- */

struct card {
    uint64_t host, bytes;
    struct wf_auto_profile profiles[WF_AUTO_MAX_PROFILES];
};

static uint64_t this_host(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return wf_hash(0, name, strlen(name));
}

/* The means of all ranks' figures, the least memory, the fullest host. */
static void join_cards(struct measurement *m, struct card *cards, uint32_t n)
{
    uint64_t least = cards[0].bytes;
    m->machine.ranks_per_host = 0;
    for (uint32_t r = 0; r < n; r++) {
        uint32_t beside = 0;
        for (uint32_t k = 0; k < n; k++)
            beside += cards[k].host == cards[r].host;
        if (beside > m->machine.ranks_per_host)
            m->machine.ranks_per_host = beside;
        least = cards[r].bytes < least ? cards[r].bytes : least;
    }
    for (size_t i = 0; i < m->machine.n_profiles; i++)
        m->profiles[i] = mean(&cards[0].profiles[i], n, sizeof *cards);
    m->machine.bytes = (size_t)(MEMORY_SHARE * (double)least);
}

static enum weft_status gather_cards(struct weft_comm *comm, struct measurement *m,
                                     const struct card *own, struct weft_error *err)
{
    uint32_t n = weft_comm_size(comm);
    struct card *all = calloc(n, sizeof *all);
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the figures of %u ranks", n)
                    : weft_comm_gather_equal(comm, own, sizeof *own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        join_cards(m, all, n);
    free(all);
    return st;
}

/* The numbers of threads that all ranks measure. */
struct counts {
    uint32_t cores; /* of the rank that has the fewest */
    uint32_t n, threads[WF_AUTO_MAX_PROFILES];
};

/* What one rank says of its threads. */
struct share {
    uint32_t cores, given; /* given 0: it may choose */
};

static void count_threads(const struct share *all, uint32_t n, struct counts *out)
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

/* Ranks may have different numbers of cores: the list is for the one with the fewest, so that all
 * measure the same. */
static enum weft_status agree_on_threads(const struct wf_train_settings *s,
                                         struct weft_comm *comm, struct counts *out,
                                         struct weft_error *err)
{
    uint32_t n = weft_comm_size(comm);
    const struct share own = {.cores = s->parallel.threads != 0 ? s->parallel.threads
                                                                : wf_cores_available(),
                              .given = s->parallel.given.threads ? s->parallel.threads : 0};
    struct share *all = calloc(n, sizeof *all);
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the cores of %u ranks", n)
                    : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        count_threads(all, n, out);
    free(all);
    return st == WEFT_OK ? weft_comm_broadcast(comm, out, sizeof *out, err) : st;
}

static enum weft_status measure_ranks(struct measurement *m, struct weft_comm *comm,
                                      const uint32_t *threads, struct weft_error *err)
{
    struct card own = {.host = this_host(), .bytes = wf_sysmem_bytes()};
    for (size_t i = 0; i < ROUNDS * m->machine.n_profiles; i++) {
        size_t k = i % m->machine.n_profiles;
        struct wf_auto_profile now;
        bool stop = i >= m->machine.n_profiles && is_long(m);
        WEFT_TRY(weft_comm_broadcast(comm, &stop, sizeof stop, err)); /* by rank 0's clock */
        if (stop)
            break;
        WEFT_TRY(wf_auto_measure(comm, &m->probe, threads[k], &now, err));
        take_least(&own.profiles[k], &now);
    }
    WEFT_TRY(wf_auto_measure_hops(comm, &m->machine.hop, &m->machine.link, err));
    return gather_cards(comm, m, &own, err);
}

/* -- either --------------------------------------------------------------------------------- */

static uint32_t given_ranks(const struct wf_train_settings *s)
{
    uint32_t pp = s->parallel.given.pp ? s->parallel.pp : 1;
    return pp * (s->parallel.given.dp ? s->parallel.dp : 1);
}

static enum weft_status measure(struct measurement *m, const struct wf_train_settings *s,
                                const struct weft_model *model, struct weft_comm *comm,
                                struct weft_error *err)
{
    WEFT_TRY(wf_auto_probe_init(&m->probe, s, model, err));
    m->machine = (struct wf_auto_machine){.profiles = m->profiles};
    if (comm == NULL) {
        uint32_t threads[WF_AUTO_MAX_PROFILES];
        uint32_t given = s->parallel.given.threads ? s->parallel.threads : 0;
        m->machine.cores = wf_cores_available();
        m->machine.bytes = (size_t)(MEMORY_SHARE * (double)wf_sysmem_bytes());
        m->machine.n_profiles =
            wf_auto_thread_counts(m->machine.cores, given_ranks(s), given, threads);
        WEFT_TRY(measure_here(m, threads, err));
    } else {
        struct counts all = {0};
        WEFT_TRY(agree_on_threads(s, comm, &all, err));
        m->machine.ranks = weft_comm_size(comm);
        m->machine.cores = all.cores * m->machine.ranks;
        m->machine.copies = true;
        m->machine.n_profiles = all.n;
        WEFT_TRY(measure_ranks(m, comm, all.threads, err));
    }
    return WEFT_OK;
}

/* -- the choice ----------------------------------------------------------------------------- */

static double rows_of_micro(const struct wf_train_settings *s, uint32_t micros)
{
    return (double)((s->data.batch + micros - 1) / micros);
}

/* Times of passes are those of the rows that a micro has. */
static void set_micros(struct wf_train_settings *s, struct measurement *m, uint32_t micros)
{
    double by = rows_of_micro(s, micros) / rows_of_micro(s, s->parallel.micros);
    for (size_t i = 0; i < m->machine.n_profiles; i++)
        scale_passes(&m->profiles[i], by);
    s->parallel.micros = micros;
}

/* Other micros are other results: only where nothing runs with those that are set by default are
 * there more, and no more than must be. */
static enum weft_status rank_all(struct wf_train_settings *s, const struct weft_model *model,
                                 struct measurement *m, struct wf_auto_candidates *out,
                                 struct weft_error *err)
{
    uint32_t set = s->parallel.micros;
    enum weft_status st = wf_auto_choose(s, model, &m->machine, out, err);
    struct weft_error first = *err;
    while (st == WEFT_USAGE && out->min_micros > s->parallel.micros) {
        set_micros(s, m, out->min_micros);
        st = wf_auto_choose(s, model, &m->machine, out, err);
    }
    if (st == WEFT_USAGE) {
        s->parallel.micros = set;
        *err = first;
    }
    return st;
}

/* -- what is printed ------------------------------------------------------------------------ */

static void print_measured(const struct measurement *m)
{
    printf("auto     measured and compared in %.1f s;",
           (double)(wf_clock_ns() - m->begin_ns) * 1e-9);
    for (size_t i = 0; i < m->machine.n_profiles; i++) {
        const struct wf_auto_profile *v = &m->profiles[i];
        printf("%s %.3g + %.3g ms with %u thread%s", i == 0 ? " a layer's F + B:" : ",",
               1e3 * v->layer.f, 1e3 * v->layer.b, v->threads, wf_plural(v->threads));
    }
    printf("\n");
}

/* 812.3, 1.24, 20790: as many digits as say something. */
static const char *ms_text(char out[WF_NUMBER_CHARS], double seconds)
{
    double ms = 1e3 * seconds;
    snprintf(out, WF_NUMBER_CHARS, "%.*f", ms >= 1000 ? 0 : ms >= 10 ? 1 : 3, ms);
    return out;
}

static bool same_ranks(const struct wf_auto_candidate *a, const struct wf_auto_candidate *b)
{
    return a->pp == b->pp && a->dp == b->dp && a->threads == b->threads;
}

/* The best schedule of each division into ranks: other schedules differ little. */
static void print_table(const struct wf_auto_candidates *list)
{
    char bytes[WF_NUMBER_CHARS], ms[WF_NUMBER_CHARS];
    size_t shown = 0;
    printf("           pp   dp  threads  %-18s chunks  ms a step  bubble  bytes a rank"
           "  (predicted from these times)\n",
           "schedule");
    for (size_t i = 0; i < list->n && shown < SHOWN; i++) {
        const struct wf_auto_candidate *c = &list->at[i];
        size_t k = 0;
        while (k < i && !same_ranks(&list->at[k], c))
            k++;
        if (k < i)
            continue;
        char chunks[16] = "-";
        if (c->chunks != 0)
            snprintf(chunks, sizeof chunks, "%u", c->chunks);
        printf("         %c %2u  %3u  %7u  %-18.18s %6s  %9s  %5.1f%%  %12s\n",
               i == 0 ? '>' : ' ', c->pp, c->dp, c->threads, c->schedule, chunks,
               ms_text(ms, c->seconds), 100 * c->bubble, wf_bytes_text(bytes, c->rank_bytes));
        shown++;
    }
}

/* The best of those that divide the work otherwise. */
static const struct wf_auto_candidate *runner_up(const struct wf_auto_candidates *list)
{
    for (size_t i = 1; i < list->n; i++)
        if (!same_ranks(&list->at[i], &list->at[0]))
            return &list->at[i];
    return NULL;
}

static void print_ranks(const struct wf_auto_candidate *c)
{
    if (c->pp == 1 && c->dp == 1)
        printf("1 rank of %u thread%s", c->threads, wf_plural(c->threads));
    else
        printf("pp %u x dp %u, %u thread%s a rank", c->pp, c->dp, c->threads,
               wf_plural(c->threads));
}

static void print_against(const struct wf_auto_candidate *c,
                          const struct wf_auto_candidate *next)
{
    double longer = next->seconds / c->seconds - 1;
    printf("\nauto     the next, ");
    print_ranks(next);
    if (longer < 0)
        printf(", is %.1f%% faster, too little for %s", -100 * longer,
               next->pp * next->dp > c->pp * c->dp ? "more ranks" : "more memory");
    else
        printf(", takes %.1f%% longer", 100 * longer);
    if (next->bubble >= c->bubble + 0.0005)
        printf(" (bubble %.1f%%)", 100 * next->bubble);
}

static void print_why(const struct wf_auto_candidates *list)
{
    const struct wf_auto_candidate *c = &list->at[0], *next = runner_up(list);
    char ms[WF_NUMBER_CHARS];
    printf("auto     ");
    print_ranks(c);
    if (c->bubble < 0.0005)
        printf(": no bubble");
    else
        printf(": %s has a bubble of %.1f%% (within %.1f%% of any order's time)", c->schedule,
               100 * c->bubble, 100 * c->gap);
    if (c->pp * c->dp > 1)
        printf(", sums and update %s ms", ms_text(ms, c->update));
    else
        printf(", nothing to send or to sum");
    if (next == NULL)
        printf("\nauto     %s", list->n_pruned > 0       ? "all others would take twice as long"
                                : list->n_over_limit > 0 ? "nothing else fits the memory"
                                                         : "nothing else can be run");
    else
        print_against(c, next);
    printf("\n");
    if (list->n_over_limit > 0)
        printf("auto     %zu of %zu layouts are too large for this machine's memory\n",
               list->n_over_limit, list->n_tried);
}

static void print_kept(const struct wf_train_settings *s, uint32_t set_micros)
{
    if (s->parallel.micros != set_micros)
        printf("auto     parallel.micros is %u, the fewest that can be run here: give it to "
               "have these bits again\n",
               s->parallel.micros);
    else if (s->parallel.micros == 1)
        printf("auto     replicas and good pipelines need more micros than 1, which are yours "
               "to choose:\n         they change bits (parallel.micros)\n");
    const struct {
        bool given;
        const char *name;
    } keys[] = {
        {s->parallel.given.pp, "pp"},           {s->parallel.given.dp, "dp"},
        {s->parallel.given.chunks, "chunks"},   {s->parallel.given.schedule, "schedule"},
        {s->parallel.given.threads, "threads"},
    };
    const char *before = "auto     as given: parallel.";
    for (size_t i = 0; i < WEFT_LEN(keys); i++)
        if (keys[i].given) {
            printf("%s%s", before, keys[i].name);
            before = ", ";
        }
    if (before[0] == ',')
        printf("; take the lines out to have them chosen, too\n");
}

/* -- taking it ------------------------------------------------------------------------------ */

/* What rank 0 chose, or why it could not. */
struct verdict {
    uint32_t pp, dp, chunks, threads, micros;
    char schedule[NAME]; /* "": as it is set */
    struct weft_error err;
};

struct decision {
    struct wf_train_settings *settings;
    const struct weft_model *model;
    struct measurement *measured;
    struct wf_auto_candidates list;
};

static enum weft_status rank_aside(void *arg, struct weft_error *err)
{
    struct decision *d = arg;
    return rank_all(d->settings, d->model, d->measured, &d->list, err);
}

/* On rank 0, while the others wait: it tells them that it lives. */
static void decide(struct wf_train_settings *s, const struct weft_model *model,
                   struct measurement *m, struct weft_comm *comm, struct verdict *v)
{
    struct decision d = {.settings = s, .model = model, .measured = m};
    uint32_t micros = s->parallel.micros;
    v->err.status = wf_background_run(comm, rank_aside, &d, &v->err);
    if (v->err.status == WEFT_OK) {
        const struct wf_auto_candidate *c = &d.list.at[0];
        *v = (struct verdict){c->pp, c->dp, c->chunks, c->threads, s->parallel.micros, "", {0}};
        if (c->schedule != s->parallel.schedule)
            snprintf(v->schedule, sizeof v->schedule, "%s", c->schedule);
        print_measured(m);
        print_table(&d.list);
        print_why(&d.list);
        print_kept(s, micros);
        fflush(stdout);
    }
    wf_auto_candidates_release(&d.list);
}

static enum weft_status take(struct wf_train_settings *s, const struct verdict *v,
                             struct weft_error *err)
{
    if (v->err.status != WEFT_OK) /* its pointers are rank 0's */
        return WEFT_FAIL(err, v->err.status, "%s", v->err.msg);
    if (v->schedule[0] != '\0') {
        char *copy = strdup(v->schedule);
        if (copy == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a schedule's name");
        free(s->parallel.schedule);
        s->parallel.schedule = copy;
    }
    s->parallel.pp = v->pp;
    s->parallel.dp = v->dp;
    s->parallel.chunks = v->chunks;
    if (!s->parallel.given.threads) /* each rank may have its own */
        s->parallel.threads = v->threads;
    s->parallel.micros = v->micros;
    s->parallel.automatic = false;
    return WEFT_OK;
}

/* "auto" leaves a choice.  And who begins with a printed file, which has every key, has not chosen
 * what it says by default: otherwise nothing would be left to choose. */
static void judge_given(struct wf_train_settings *s)
{
    const struct wf_setting_list list = wf_train_setting_list();
    bool *const given[] = {&s->parallel.given.pp, &s->parallel.given.dp,
                           &s->parallel.given.schedule, &s->parallel.given.chunks,
                           &s->parallel.given.micros};
    static const char *const names[] = {"parallel.pp", "parallel.dp", "parallel.schedule",
                                        "parallel.chunks", "parallel.micros"};
    bool all = true;
    for (size_t i = 0; i < WEFT_LEN(given); i++)
        all = all && *given[i];
    s->parallel.given.chunks = s->parallel.given.chunks && s->parallel.chunks != 0;
    s->parallel.given.threads = s->parallel.given.threads && s->parallel.threads != 0;
    for (size_t i = 0; all && i + 1 < WEFT_LEN(given); i++) /* micros stay given */
        if (wf_setting_is_default(wf_setting_find(list, names[i]), s))
            *given[i] = false;
}

/* Before anyone waits for measurements in vain. */
static enum weft_status check_data(const struct wf_train_settings *s, struct weft_error *err)
{
    struct wf_shards *shards = NULL;
    WEFT_TRY(wf_shards_open_split(s->data.train, "train", &shards, err));
    wf_shards_free(shards);
    return WEFT_OK;
}

enum weft_status wf_train_auto(struct wf_train_settings *s, struct weft_comm *comm,
                               struct weft_error *err)
{
    struct measurement m = {.begin_ns = wf_clock_ns()};
    struct weft_model model;
    struct verdict v = {0};
    if (comm != NULL) {
        weft_comm_set_timeout(comm, s->train.timeout);
        WEFT_TRY(wf_handshake_settings(comm, s, err));
    }
    if (!s->parallel.automatic)
        return WEFT_OK;
    judge_given(s);
    WEFT_TRY(check_data(s, err));
    WEFT_TRY(wf_load_run_model(s, &model, err));
    WEFT_TRY(measure(&m, s, &model, comm, err));
    if (comm == NULL || weft_comm_rank(comm) == 0)
        decide(s, &model, &m, comm, &v);
    if (comm != NULL)
        WEFT_TRY(weft_comm_broadcast(comm, &v, sizeof v, err));
    return take(s, &v, err);
}
