/* Estimates the step time of all layouts of a run from the measured costs, and chooses one
 * layout. */
#include "training/layout/auto.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/planner/choice.h"
#include "planning/sim/reduction.h"
#include "training/layout/topology.h"
#include "weft/bound.h"
#include "weft/timing.h"

enum { MAX_CHUNKS = 4, ALL_RANK_COUNTS = 16, MAX_SEARCHED = 3 };

struct layout_enumeration {
    const struct wf_train_settings *settings;
    const struct weft_model *model;
    const struct wf_auto_machine *machine;
    struct wf_auto_candidates list;
    size_t cap;
    /* true: try only schedules made by search, which is slow; false: try all other schedules */
    bool searching;
    struct weft_error rejection; /* why the first layout that cannot run was rejected */
    /* minimum number of micros with which a rejected layout could run; 0: none */
    uint32_t min_micros;
};

void wf_auto_candidates_release(struct wf_auto_candidates *list)
{
    free(list->at);
    *list = (struct wf_auto_candidates){0};
}

/* -- time of one layout
 * ---------------------------------------------------------------------- */

static void add_times(struct wf_auto_times *sum, const struct wf_auto_times *t, double n)
{
    sum->f += n * t->f;
    sum->i += n * t->i;
    sum->w += n * t->w;
    sum->b += n * t->b;
}

static struct wf_auto_times stage_times(const struct weft_stage_range *r,
                                        const struct wf_auto_profile *profile)
{
    struct wf_auto_times sum = {0};
    add_times(&sum, &profile->layer, r->end_layer - r->first_layer);
    if (r->embedding)
        add_times(&sum, &profile->embedding, 1);
    if (r->head)
        add_times(&sum, &profile->head, 1);
    return sum;
}

/* Returns the factor by which a rank slows down if there are more threads than cores. */
static double oversubscription(const struct wf_auto_machine *m,
                               const struct wf_auto_candidate *c)
{
    double threads = (double)c->pp * c->dp * c->threads;
    return threads > m->cores ? threads / m->cores : 1;
}

/* Computes the costs of the stages of a layout.  All lists of *out share one allocation, which
 * the caller frees as out->f.at. */
static enum weft_status make_cost(const struct layout_enumeration *x,
                                  const struct wf_topology *l,
                                  const struct wf_auto_profile *profile,
                                  const struct wf_auto_candidate *c, struct weft_cost *out,
                                  struct weft_error *err)
{
    uint32_t n = l->n_stages;
    double *at = calloc(4 * (size_t)n, sizeof *at), slower = oversubscription(x->machine, c);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the times of %u stages", n);
    for (uint32_t s = 0; s < n; s++) {
        struct wf_auto_times t = stage_times(&l->partition.at[s], profile);
        at[s] = slower * t.f;
        at[n + s] = slower * t.i;
        at[2 * n + s] = slower * t.w;
        at[3 * n + s] = slower * t.b;
    }
    double bytes = (double)l->max_rows * l->seq * l->model.dim * sizeof(float);
    *out = (struct weft_cost){.f = {at, n},
                              .i = {at + n, n},
                              .w = {at + 2 * n, n},
                              .b = {at + 3 * n, n},
                              .hop = x->machine->hop + bytes * x->machine->link};
    return WEFT_OK;
}

static enum weft_status time_pipeline(const struct layout_enumeration *x,
                                      const struct wf_topology *l,
                                      const struct wf_auto_profile *profile,
                                      struct wf_auto_candidate *c, struct weft_error *err)
{
    struct weft_metrics m;
    struct weft_cost cost;
    WEFT_TRY(make_cost(x, l, profile, c, &cost, err));
    enum weft_status st = weft_metrics_init(&m, wf_topology_schedule(l, 0), &cost, NULL, err);
    if (st == WEFT_OK) {
        c->pipeline = m.makespan;
        c->bubble = m.bubble;
        weft_metrics_release(&m);
    }
    free((void *)(uintptr_t)cost.f.at);
    return st;
}

/* Returns the seconds that a rank needs after its last micro: for every group, the rank sums
 * the gradients of its shard, updates the shard, and receives the shards of the other
 * members. */
static double rank_update(const struct layout_enumeration *x, const struct wf_topology *l,
                          uint32_t rank, const struct wf_auto_profile *profile)
{
    const struct weft_link link = {.latency_seconds = x->machine->hop,
                                   .bytes_per_second =
                                       x->machine->link > 0 ? 1 / x->machine->link : 0};
    double seconds = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t h = wf_topology_member(g, rank);
        if (h == g->n_members)
            continue;
        double share = (double)(g->cuts[h + 1] - g->cuts[h]), rest = (double)g->n - share;
        double others = g->n_members - 1.0;
        seconds +=
            share * profile->update + rest * profile->pack + others * share * profile->sum;
        seconds += wf_reduction_seconds(g->n_members, share * sizeof(int64_t),
                                        others > 0 ? rest * sizeof(float) / others : 0, link);
    }
    return seconds;
}

static double time_update(const struct layout_enumeration *x, const struct wf_topology *l,
                          const struct wf_auto_profile *profile,
                          const struct wf_auto_candidate *c)
{
    double max = 0;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        double seconds = rank_update(x, l, r, profile);
        max = seconds > max ? seconds : max;
    }
    return max * oversubscription(x->machine, c);
}

/* -- memory of one layout
 * -------------------------------------------------------------------- */

/* Counts the bytes of memory that the layout needs.  Neighbouring ranks are on the same
 * host. */
static enum weft_status count_bytes(const struct layout_enumeration *x,
                                    const struct wf_topology *l, struct wf_auto_candidate *c,
                                    bool *fits, struct weft_error *err)
{
    const struct wf_auto_machine *m = x->machine;
    uint32_t a_host = m->ranks_per_host == 0 ? l->n_ranks : m->ranks_per_host;
    size_t host = 0;
    *fits = true;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        size_t bytes;
        WEFT_TRY(wf_topology_rank_bytes(l, r, m->copies, &bytes, err));
        c->rank_bytes = wf_size_max(c->rank_bytes, bytes);
        c->total_bytes += bytes;
        host = r % a_host == 0 ? bytes : host + bytes;
        *fits = *fits && (m->bytes == 0 || host <= m->bytes);
    }
    return WEFT_OK;
}

/* -- one candidate
 * -------------------------------------------------------------------------- */

static enum weft_status keep(struct layout_enumeration *x, const struct wf_auto_candidate *c,
                             struct weft_error *err)
{
    struct wf_auto_candidates *list = &x->list;
    if (list->n == x->cap) {
        size_t cap = 2 * x->cap + 64;
        struct wf_auto_candidate *at = realloc(list->at, cap * sizeof *at);
        if (at == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu layouts", cap);
        list->at = at;
        x->cap = cap;
    }
    list->at[list->n++] = *c;
    if (list->fastest == 0 || c->seconds < list->fastest)
        list->fastest = c->seconds;
    return WEFT_OK;
}

static enum weft_status evaluate(struct layout_enumeration *x, const struct wf_topology *l,
                                 const struct wf_auto_profile *profile,
                                 struct wf_auto_candidate *c, struct weft_error *err)
{
    bool fits;
    WEFT_TRY(time_pipeline(x, l, profile, c, err));
    c->update = time_update(x, l, profile, c);
    c->seconds = c->pipeline + c->update;
    WEFT_TRY(count_bytes(x, l, c, &fits, err));
    x->list.n_tried++;
    if (fits)
        return keep(x, c, err);
    x->list.n_over_limit++;
    if (x->list.least_bytes == 0 || c->total_bytes < x->list.least_bytes)
        x->list.least_bytes = c->total_bytes;
    return WEFT_OK;
}

static enum weft_status build_topology(const struct layout_enumeration *x,
                                       const struct wf_auto_candidate *c,
                                       struct wf_topology *out, struct weft_error *err)
{
    struct wf_train_settings s = *x->settings; /* a shallow copy: the strings are borrowed */
    s.parallel.pp = c->pp;
    s.parallel.dp = c->dp;
    s.parallel.chunks = c->chunks;
    s.parallel.schedule = (char *)(uintptr_t)c->schedule;
    return wf_topology_init(out, &s, x->model, err);
}

/* -- raising the number of micros
 * ------------------------------------------------------------ */

/* Returns true if the layout can run with this number of micros per replica, whatever the batch
 * size. */
static bool can_run(const struct layout_enumeration *x, const struct wf_auto_candidate *c,
                    uint64_t micros)
{
    struct wf_train_settings s = *x->settings;
    struct layout_enumeration other = *x;
    struct wf_topology l;
    if (micros * c->dp > UINT32_MAX)
        return false;
    other.settings = &s;
    s.parallel.micros = (uint32_t)(micros * c->dp);
    s.data.batch = s.data.batch > s.parallel.micros ? s.data.batch : s.parallel.micros;
    if (build_topology(&other, c, &l, NULL) != WEFT_OK)
        return false;
    wf_topology_release(&l);
    return true;
}

/* Returns the number of micros of the schedule in a file, or 0 if the file cannot be read. */
static uint32_t micros_of_file(const char *path)
{
    struct weft_schedule *s = NULL;
    if (wf_schedule_read(path, false, &s, NULL) != WEFT_OK)
        return 0;
    uint32_t n = weft_schedule_placement(s)->n_micros;
    weft_schedule_free(s);
    return n;
}

/* Returns the smallest number of micros per replica with which a rejected layout can run, or 0
 * if no number helps.  A schedule may require a multiple of the ranks, an even number, or at
 * least twice the ranks.  A multiple of twice the ranks satisfies all three, so a layout that
 * fails with such a number never runs. */
static uint32_t micros_needed(const struct layout_enumeration *x,
                              const struct wf_auto_candidate *c)
{
    const struct weft_generator *g = weft_generator_find(c->schedule);
    uint64_t set = x->settings->parallel.micros, unit = 2 * (uint64_t)c->pp;
    if (g == NULL) {
        uint32_t n = micros_of_file(c->schedule);
        return n > 0 && can_run(x, c, n) ? n : 0;
    }
    /* Any number of micros works.  can_run() is not called, since it would start a search. */
    if ((g->flags & WEFT_GEN_USES_COST) != 0)
        return c->dp > set && c->pp <= x->model->layers ? 1 : 0;
    uint64_t first = (set + c->dp - 1) / c->dp, last = (first + unit - 1) / unit * unit;
    if ((uint64_t)c->dp * first > x->settings->data.batch || !can_run(x, c, last))
        return 0;
    while (first < last && !can_run(x, c, first))
        first++;
    return (uint32_t)first;
}

static void note_micros(struct layout_enumeration *x, const struct wf_auto_candidate *c)
{
    uint32_t set = x->settings->parallel.micros;
    if (x->list.n_tried > 0 || (x->min_micros != 0 && c->dp >= x->min_micros))
        return;
    uint64_t n = (uint64_t)micros_needed(x, c) * c->dp;
    if (n > set && n <= x->settings->data.batch && (x->min_micros == 0 || n < x->min_micros))
        x->min_micros = (uint32_t)n;
}

/* Tries one layout.  A layout that cannot run is not an error. */
static enum weft_status try_one(struct layout_enumeration *x, struct wf_auto_candidate c,
                                const struct wf_auto_profile *profile, struct weft_error *err)
{
    struct wf_topology l;
    struct weft_error why = {0};
    enum weft_status st = build_topology(x, &c, &l, &why);
    if (st == WEFT_OK) {
        c.threads = profile->threads;
        st = evaluate(x, &l, profile, &c, err);
        wf_topology_release(&l);
        return st;
    }
    if (st == WEFT_NOMEM) {
        *err = why;
        return st;
    }
    if (x->rejection.status == WEFT_OK)
        x->rejection = why;
    if (!x->settings->parallel.given.micros)
        note_micros(x, &c);
    return WEFT_OK;
}

/* -- all candidates
 * -------------------------------------------------------------------------- */

static enum weft_status try_chunks(struct layout_enumeration *x, struct wf_auto_candidate c,
                                   const struct wf_auto_profile *profile,
                                   struct weft_error *err)
{
    const struct weft_generator *g = weft_generator_find(c.schedule);
    uint32_t set = x->settings->parallel.chunks;
    c.chunks = set;
    if (set != 0 || g == NULL || (g->flags & WEFT_GEN_USES_CHUNKS) == 0)
        return try_one(x, c, profile, err);
    for (c.chunks = g->default_chunks; c.chunks <= MAX_CHUNKS; c.chunks++)
        if ((uint64_t)c.chunks * c.pp <= x->model->layers)
            WEFT_TRY(try_one(x, c, profile, err));
    return WEFT_OK;
}

static enum weft_status try_schedules(struct layout_enumeration *x, struct wf_auto_candidate c,
                                      const struct wf_auto_profile *profile,
                                      struct weft_error *err)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    c.schedule = x->settings->parallel.schedule;
    /* With one rank, every schedule runs the micros one after the other. */
    bool plain = c.pp == 1 && x->settings->parallel.chunks == 0;
    if (x->settings->parallel.given.schedule || plain)
        return x->searching ? WEFT_OK : try_chunks(x, c, profile, err);
    for (size_t i = 0; i < n; i++) {
        bool searches = (all[i].flags & WEFT_GEN_USES_COST) != 0;
        c.schedule = all[i].name;
        if ((all[i].flags & WEFT_GEN_UNIT_TICKS) == 0 && searches == x->searching)
            WEFT_TRY(try_chunks(x, c, profile, err));
    }
    return WEFT_OK;
}

/* Returns a lower bound of the step time: all ranks are always busy, and the update takes no
 * time. */
static double time_lower_bound(const struct layout_enumeration *x,
                               const struct wf_auto_candidate *c,
                               const struct wf_auto_profile *profile)
{
    const struct weft_stage_range whole = {
        .end_layer = x->model->layers, .embedding = true, .head = true};
    struct wf_auto_times all = stage_times(&whole, profile);
    double back = all.b < all.i + all.w ? all.b : all.i + all.w;
    return (all.f + back) * x->settings->parallel.micros / ((double)c->dp * c->pp);
}

static bool is_prunable(const struct layout_enumeration *x, const struct wf_auto_candidate *c,
                        const struct wf_auto_profile *profile)
{
    return x->list.n > 0 && time_lower_bound(x, c, profile) > 2 * x->list.fastest;
}

static enum weft_status try_threads(struct layout_enumeration *x, struct wf_auto_candidate c,
                                    struct weft_error *err)
{
    const struct wf_auto_machine *m = x->machine;
    uint64_t ranks = (uint64_t)c.pp * c.dp;
    bool any = false;
    for (size_t i = m->n_profiles; i-- > 0;) {
        const struct wf_auto_profile *profile = &m->profiles[i];
        /* If no profile fits the cores, use the smallest one with more threads than cores. */
        bool last = i == 0 && !any;
        if (ranks * profile->threads > m->cores && !last)
            continue;
        any = true;
        if (is_prunable(x, &c, profile))
            x->list.n_pruned++;
        else
            WEFT_TRY(try_schedules(x, c, profile, err));
    }
    return WEFT_OK;
}

/* Returns true if the enumeration tries this number of ranks.  With many cores it tries only
 * divisors of the number of cores, and multiples of the given pp or dp. */
static bool is_rank_count(const struct layout_enumeration *x, uint64_t ranks)
{
    const struct wf_train_settings *s = x->settings;
    uint32_t cores = x->machine->cores;
    if (x->machine->ranks != 0)
        return ranks == x->machine->ranks;
    return cores <= ALL_RANK_COUNTS || cores % ranks == 0 ||
           (s->parallel.given.pp && ranks % s->parallel.pp == 0) ||
           (s->parallel.given.dp && ranks % s->parallel.dp == 0);
}

static enum weft_status try_ranks(struct layout_enumeration *x, uint32_t ranks,
                                  struct weft_error *err)
{
    const struct wf_train_settings *s = x->settings;
    for (uint32_t pp = 1; pp <= ranks; pp++) {
        struct wf_auto_candidate c = {.pp = pp, .dp = ranks / pp};
        if (ranks % pp != 0 || (s->parallel.given.pp && pp != s->parallel.pp) ||
            (s->parallel.given.dp && c.dp != s->parallel.dp))
            continue;
        WEFT_TRY(try_threads(x, c, err));
    }
    return WEFT_OK;
}

static uint64_t max_ranks(const struct layout_enumeration *x)
{
    const struct wf_train_settings *s = x->settings;
    uint64_t pp = s->parallel.given.pp ? s->parallel.pp : 1;
    uint64_t dp = s->parallel.given.dp ? s->parallel.dp : 1;
    if (x->machine->ranks != 0)
        return x->machine->ranks;
    return pp * dp > x->machine->cores ? pp * dp : x->machine->cores;
}

static enum weft_status try_all(struct layout_enumeration *x, struct weft_error *err)
{
    uint64_t max = max_ranks(x);
    for (uint64_t n = 1; n <= max && n <= UINT32_MAX; n++)
        if (is_rank_count(x, n))
            WEFT_TRY(try_ranks(x, (uint32_t)n, err));
    return WEFT_OK;
}

/* -- choosing the best
 * ----------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    const struct wf_auto_candidate *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->pp * x->dp != y->pp * y->dp)
        return x->pp * x->dp < y->pp * y->dp ? -1 : 1;
    if (x->rank_bytes != y->rank_bytes)
        return x->rank_bytes < y->rank_bytes ? -1 : 1;
    if (x->threads != y->threads)
        return x->threads < y->threads ? -1 : 1;
    int names = strcmp(x->schedule, y->schedule);
    return names != 0 ? names : (x->chunks > y->chunks) - (x->chunks < y->chunks);
}

static bool is_simpler(const struct wf_auto_candidate *x, const struct wf_auto_candidate *y)
{
    uint32_t a = x->pp * x->dp, b = y->pp * y->dp;
    return a != b ? a < b : x->rank_bytes < y->rank_bytes;
}

static void move_best_first(struct wf_auto_candidates *list)
{
    qsort(list->at, list->n, sizeof *list->at, by_time);
    size_t best = 0;
    for (size_t i = 1; i < list->n && list->at[i].seconds <= WF_AUTO_TOLERANCE * list->fastest;
         i++)
        if (is_simpler(&list->at[i], &list->at[best]))
            best = i;
    struct wf_auto_candidate choice = list->at[best];
    memmove(list->at + 1, list->at, best * sizeof *list->at);
    list->at[0] = choice;
}

/* -- schedules made by search
 * ---------------------------------------------------------------- */

static const struct wf_auto_profile *find_profile(const struct layout_enumeration *x,
                                                  uint32_t threads)
{
    size_t i = 0;
    while (x->machine->profiles[i].threads != threads)
        i++;
    return &x->machine->profiles[i];
}

static bool is_repeated(const struct wf_auto_candidate *list, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (list[k].pp == list[i].pp && list[k].dp == list[i].dp &&
            list[k].threads == list[i].threads)
            return true;
    return false;
}

/* Tries schedules made by search where they could win: only for the few divisions into ranks
 * that would be the fastest if they had no bubble. */
static enum weft_status search_best(struct layout_enumeration *x, struct weft_error *err)
{
    size_t n = x->list.n, searched = 0;
    struct wf_auto_candidate *list = malloc((n + 1) * sizeof *list);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu layouts", n);
    qsort(x->list.at, n, sizeof *x->list.at, by_time);
    memcpy(list, x->list.at, n * sizeof *list);
    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < n && searched < MAX_SEARCHED; i++) {
        const struct wf_auto_candidate c = {.pp = list[i].pp, .dp = list[i].dp};
        double lowest = list[i].pipeline * (1 - list[i].bubble) + list[i].update;
        if (c.pp == 1 || lowest * WF_AUTO_TOLERANCE >= x->list.fastest || is_repeated(list, i))
            continue;
        searched++;
        st = try_schedules(x, c, find_profile(x, list[i].threads), err);
    }
    free(list);
    return st;
}

/* Computes an upper bound of the time that another order of actions could save in the chosen
 * layout. */
static enum weft_status bound_choice(struct layout_enumeration *x, struct weft_error *err)
{
    struct wf_auto_candidate *c = &x->list.at[0];
    struct wf_topology l;
    struct weft_cost cost;
    struct weft_bounds bounds;
    WEFT_TRY(build_topology(x, c, &l, err));
    enum weft_status st = make_cost(x, &l, find_profile(x, c->threads), c, &cost, err);
    if (st == WEFT_OK) {
        st = weft_bounds_of(wf_topology_schedule(&l, 0), &cost, NULL, -1, &bounds, err);
        free((void *)(uintptr_t)cost.f.at);
    }
    if (st == WEFT_OK)
        c->gap = weft_gap(c->pipeline, bounds.makespan);
    wf_topology_release(&l);
    return st;
}

static enum weft_status nothing_found(const struct layout_enumeration *x,
                                      struct weft_error *err)
{
    if (x->list.n_over_limit > 0)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "parallel.auto: none of %zu layouts fits into the memory of %zu MiB "
                         "(the smallest needs %zu MiB in total); use more micros",
                         x->list.n_over_limit, x->machine->bytes >> 20,
                         x->list.least_bytes >> 20);
    return WEFT_FAIL(err, WEFT_USAGE, "parallel.auto: no layout can run: %.160s",
                     x->rejection.status != WEFT_OK
                         ? x->rejection.msg
                         : "pp x dp differs from the number of started ranks");
}

enum weft_status wf_auto_choose(const struct wf_train_settings *s,
                                const struct weft_model *model,
                                const struct wf_auto_machine *machine,
                                struct wf_auto_candidates *out, struct weft_error *err)
{
    struct layout_enumeration x = {.settings = s, .model = model, .machine = machine};
    enum weft_status st = try_all(&x, err);
    x.searching = true;
    if (st == WEFT_OK)
        st = x.list.n > 0 ? search_best(&x, err)
                          /* Schedules made by search may need less memory. */
                          : try_all(&x, err);
    if (st == WEFT_OK && x.list.n == 0)
        st = nothing_found(&x, err);
    out->min_micros = st == WEFT_USAGE ? x.min_micros : 0;
    if (st != WEFT_OK) {
        wf_auto_candidates_release(&x.list);
        return st;
    }
    move_best_first(&x.list);
    st = bound_choice(&x, err);
    if (st != WEFT_OK) {
        wf_auto_candidates_release(&x.list);
        return st;
    }
    *out = x.list;
    return WEFT_OK;
}
