/* Chooses the layout of a run.  planning/tune/layout_space.c enumerates and scores the layouts;
 * this file supplies their topologies, with times and memory from auto_cost.c. */
#include "training/layout/auto.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "planning/planner/choice.h"
#include "planning/tune/layout_space.h"
#include "training/layout/auto_cost.h"
#include "weft/bound.h"

enum { MAX_CHUNKS = 4, ALL_RANK_COUNTS = 16, MAX_SEARCHED = 3 };

/* The search. */
struct auto_search {
    const struct wf_train_settings *settings;
    const struct weft_model *model;
    const struct wf_auto_machine *machine;
    struct wf_auto_candidates list;
    size_t cap;
    struct weft_error rejection; /* why the first layout that cannot run was rejected */
    /* minimum number of micros with which a rejected layout could run; 0: none */
    uint32_t min_micros;

    struct wf_auto_candidate now; /* the layout that is being scored */
    struct wf_topology topology;
    struct weft_cost cost; /* all lists share one allocation, cost.f.at */
};

void wf_auto_candidates_release(struct wf_auto_candidates *list)
{
    free(list->at);
    *list = (struct wf_auto_candidates){0};
}

/* -- one candidate ------------------------------------------------------------------------- */

static enum weft_status append(struct auto_search *x, const struct wf_auto_candidate *c,
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

static enum weft_status build_topology(const struct auto_search *x,
                                       const struct wf_auto_candidate *c,
                                       struct wf_topology *out, struct weft_error *err)
{
    struct wf_train_settings s = *x->settings; /* a shallow copy: the strings are borrowed */
    s.parallel.pp = c->pp;
    s.parallel.dp = c->dp;
    s.parallel.chunks = c->chunks;
    s.parallel.schedule = (char *)(uintptr_t)c->schedule;
    if (c->threads != 0)
        s.parallel.threads = c->threads;
    if (x->machine->bytes != 0) /* the limit for recomputation */
        s.train.memory_limit = x->machine->bytes;
    return wf_topology_init(out, &s, x->model, err);
}

/* -- raising the number of micros ---------------------------------------------------------- */

/* Returns true if the layout can run with this number of micros per replica, whatever the batch
 * size. */
static bool can_run(const struct auto_search *x, const struct wf_auto_candidate *c,
                    uint64_t micros)
{
    struct wf_train_settings s = *x->settings;
    struct auto_search other = *x;
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
    if (wf_schedule_read(path, &s, NULL) != WEFT_OK)
        return 0;
    uint32_t n = weft_schedule_placement(s)->n_micros;
    weft_schedule_free(s);
    return n;
}

/* Returns the smallest number of micros per replica with which a rejected layout can run, or 0
 * if no number helps.  A schedule may require a multiple of the ranks, an even number, or at
 * least twice the ranks.  A multiple of twice the ranks satisfies all three, so a layout that
 * fails with such a number never runs. */
static uint32_t micros_needed(const struct auto_search *x, const struct wf_auto_candidate *c)
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

static void note_micros(struct auto_search *x, const struct wf_auto_candidate *c)
{
    uint32_t set = x->settings->parallel.micros;
    if (x->list.n_tried > 0 || (x->min_micros != 0 && c->dp >= x->min_micros))
        return;
    uint64_t n = (uint64_t)micros_needed(x, c) * c->dp;
    if (n > set && n <= x->settings->data.batch && (x->min_micros == 0 || n < x->min_micros))
        x->min_micros = (uint32_t)n;
}

/* -- the source of layouts ----------------------------------------------------------------- */

/* Variant 0 has the most threads per rank. */
static const struct wf_auto_profile *profile_of(const struct auto_search *x, uint32_t variant)
{
    return &x->machine->profiles[x->machine->n_profiles - 1 - variant];
}

/* Converts a candidate of the enumeration, still without times and memory. */
static struct wf_auto_candidate convert(const struct auto_search *x,
                                        const struct wf_layout_candidate *c)
{
    return (struct wf_auto_candidate){.pp = c->ranks,
                                      .dp = c->replicas,
                                      .chunks = c->chunks,
                                      .threads = profile_of(x, c->variant)->threads,
                                      .schedule = c->schedule};
}

/* Returns true if this number of ranks is tried.  With many cores, only divisors of the number
 * of cores and multiples of the given pp or dp are. */
static bool has_total(void *user, uint32_t ranks)
{
    const struct auto_search *x = user;
    const struct wf_train_settings *s = x->settings;
    uint32_t cores = x->machine->cores;
    return x->machine->ranks != 0 || cores <= ALL_RANK_COUNTS || cores % ranks == 0 ||
           (s->parallel.given.pp && ranks % s->parallel.pp == 0) ||
           (s->parallel.given.dp && ranks % s->parallel.dp == 0);
}

/* Returns a lower bound of the step time: all ranks are always busy, and the update takes no
 * time. */
static double time_lower_bound(const struct auto_search *x, const struct wf_layout_candidate *c)
{
    const struct weft_stage_range whole = {
        .end_layer = x->model->layers, .embedding = true, .head = true};
    struct wf_auto_times all = wf_auto_stage_times(&whole, profile_of(x, c->variant));
    double back = all.b < all.i + all.w ? all.b : all.i + all.w;
    return (all.f + back) * x->settings->parallel.micros / ((double)c->replicas * c->ranks);
}

/* Skips more threads than cores, unless there is no smaller number of threads, and divisions
 * into ranks that would take at least twice as long as the fastest. */
static enum weft_status begin(void *user, const struct wf_layout_candidate *c, bool *skip,
                              struct weft_error *err)
{
    struct auto_search *x = user;
    const struct wf_auto_machine *m = x->machine;
    uint64_t threads = (uint64_t)c->ranks * c->replicas * profile_of(x, c->variant)->threads;
    (void)err;
    *skip = threads > m->cores && c->variant + 1 < m->n_profiles;
    if (*skip || x->list.n == 0 || time_lower_bound(x, c) <= 2 * x->list.fastest)
        return WEFT_OK;
    x->list.n_pruned++;
    *skip = true;
    return WEFT_OK;
}

/* With one rank, every schedule runs the micros one after the other. */
static const char *only_schedule(void *user, const struct wf_layout_candidate *c)
{
    const struct auto_search *x = user;
    bool plain = c->ranks == 1 && x->settings->parallel.chunks == 0;
    return x->settings->parallel.given.schedule || plain ? x->settings->parallel.schedule
                                                         : NULL;
}

/* Builds the topology.  A layout that cannot run is not an error. */
static enum weft_status build(void *user, const struct wf_layout_candidate *c,
                              struct wf_layout_built *out, bool *found, struct weft_error *err)
{
    struct auto_search *x = user;
    struct weft_error why = {0};
    const struct weft_generator *g = weft_generator_find(c->schedule);
    bool chosen = g != NULL && (g->flags & WEFT_GEN_USES_CHUNKS) != 0 &&
                  x->settings->parallel.chunks == 0;
    *found = !chosen || (uint64_t)c->chunks * c->ranks <= x->model->layers;
    if (!*found)
        return WEFT_OK;

    x->now = convert(x, c);
    enum weft_status st = build_topology(x, &x->now, &x->topology, &why);
    *found = st == WEFT_OK;
    if (st == WEFT_NOMEM) {
        *err = why;
        return st;
    }
    if (!*found) {
        if (x->rejection.status == WEFT_OK)
            x->rejection = why;
        if (!x->settings->parallel.given.micros)
            note_micros(x, &x->now);
        return WEFT_OK;
    }
    st = wf_auto_make_cost(x->machine, &x->topology, profile_of(x, c->variant), &x->now,
                           &x->cost, err);
    /* The topology owns its schedules; a score only reads them. */
    out->schedule = (struct weft_schedule *)(uintptr_t)wf_topology_schedule(&x->topology, 0);
    out->cost = &x->cost;
    if (st != WEFT_OK)
        wf_topology_release(&x->topology);
    return st;
}

static enum weft_status measure(void *user, const struct wf_layout_candidate *c,
                                const struct wf_layout_built *built,
                                struct wf_layout_score *score, struct weft_error *err)
{
    struct auto_search *x = user;
    (void)built;
    WEFT_TRY(wf_auto_count_bytes(x->machine, &x->topology, &x->now, &score->fits, err));
    score->peak_bytes = x->now.rank_bytes;
    score->reduction =
        wf_auto_time_update(x->machine, &x->topology, profile_of(x, c->variant), &x->now);
    return WEFT_OK;
}

static enum weft_status keep(void *user, const struct wf_layout_candidate *c,
                             struct wf_layout_built *built, const struct wf_layout_score *score,
                             struct weft_error *err)
{
    struct auto_search *x = user;
    struct wf_auto_candidate *a = &x->now;
    (void)c;
    (void)built;
    x->list.n_tried++;
    if (!score->fits) {
        x->list.n_over_limit++;
        if (x->list.least_bytes == 0 || a->total_bytes < x->list.least_bytes)
            x->list.least_bytes = a->total_bytes;
        return WEFT_OK;
    }
    a->pipeline = score->makespan;
    a->update = score->reduction;
    a->seconds = score->time;
    a->bubble = score->bubble;
    return append(x, a, err);
}

static void release(void *user, struct wf_layout_built *built)
{
    struct auto_search *x = user;
    (void)built;
    free((void *)(uintptr_t)x->cost.f.at);
    wf_topology_release(&x->topology);
}

static struct wf_layout_source make_source(struct auto_search *x)
{
    return (struct wf_layout_source){.user = x,
                                     .minimize = WEFT_MINIMIZE_MAKESPAN,
                                     .has_total = has_total,
                                     .begin = begin,
                                     .schedule = only_schedule,
                                     .build = build,
                                     .measure = measure,
                                     .keep = keep,
                                     .release = release};
}

static struct wf_layout_space make_space(const struct auto_search *x)
{
    const struct wf_train_settings *s = x->settings;
    uint32_t pp = s->parallel.given.pp ? s->parallel.pp : 0;
    uint32_t dp = s->parallel.given.dp ? s->parallel.dp : 0;
    uint64_t given = (uint64_t)(pp != 0 ? pp : 1) * (dp != 0 ? dp : 1);
    uint64_t max = given > x->machine->cores ? given : x->machine->cores;
    if (x->machine->ranks != 0)
        max = x->machine->ranks;
    return (struct wf_layout_space){.min_total = x->machine->ranks != 0 ? x->machine->ranks : 1,
                                    .max_total = max > UINT32_MAX ? UINT32_MAX : (uint32_t)max,
                                    .ranks = pp,
                                    .replicas = dp,
                                    .n_variants = (uint32_t)x->machine->n_profiles,
                                    .generators = WF_LAYOUT_NOT_SEARCHING,
                                    .chunks = s->parallel.chunks,
                                    .max_chunks = MAX_CHUNKS};
}

/* -- choosing the best --------------------------------------------------------------------- */

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

/* -- schedules made by search -------------------------------------------------------------- */

/* Returns the variant of a number of threads. */
static uint32_t find_variant(const struct auto_search *x, uint32_t threads)
{
    uint32_t v = 0;
    while (profile_of(x, v)->threads != threads)
        v++;
    return v;
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
static enum weft_status search_best(struct auto_search *x, const struct wf_layout_space *space,
                                    struct weft_error *err)
{
    const struct wf_layout_source source = make_source(x);
    size_t n = x->list.n, searched = 0;
    struct wf_auto_candidate *list = malloc((n + 1) * sizeof *list);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu layouts", n);
    qsort(x->list.at, n, sizeof *x->list.at, by_time);
    memcpy(list, x->list.at, n * sizeof *list);

    enum weft_status st = WEFT_OK;
    for (size_t i = 0; st == WEFT_OK && i < n && searched < MAX_SEARCHED; i++) {
        const struct wf_layout_candidate c = {.ranks = list[i].pp,
                                              .replicas = list[i].dp,
                                              .variant = find_variant(x, list[i].threads)};
        double lowest = list[i].pipeline * (1 - list[i].bubble) + list[i].update;
        if (c.ranks == 1 || lowest * WF_AUTO_TOLERANCE >= x->list.fastest ||
            is_repeated(list, i))
            continue;
        searched++;
        st = wf_layout_space_try(space, &source, c, err);
    }

    free(list);
    return st;
}

/* Computes an upper bound of the time that another order of actions could save in the chosen
 * layout. */
static enum weft_status bound_choice(struct auto_search *x, struct weft_error *err)
{
    struct wf_auto_candidate *c = &x->list.at[0];
    struct wf_topology l;
    struct weft_cost cost;
    struct weft_bounds bounds;
    WEFT_TRY(build_topology(x, c, &l, err));
    enum weft_status st = wf_auto_make_cost(
        x->machine, &l, profile_of(x, find_variant(x, c->threads)), c, &cost, err);
    if (st == WEFT_OK) {
        st = weft_bounds_of(wf_topology_schedule(&l, 0), &cost, NULL, -1, &bounds, err);
        free((void *)(uintptr_t)cost.f.at);
    }
    if (st == WEFT_OK)
        c->gap = weft_gap(c->pipeline, bounds.makespan);
    wf_topology_release(&l);
    return st;
}

static enum weft_status nothing_found(const struct auto_search *x, struct weft_error *err)
{
    char memory[WF_NUMBER_CHARS], least[WF_NUMBER_CHARS];
    if (x->list.n_over_limit > 0)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "parallel.auto: none of %zu layouts fits into the memory of %s (the "
                         "smallest needs %s in total); use more micros",
                         x->list.n_over_limit, wf_bytes_text(memory, x->machine->bytes),
                         wf_bytes_text(least, x->list.least_bytes));
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
    struct auto_search x = {.settings = s, .model = model, .machine = machine};
    const struct wf_layout_source source = make_source(&x);
    struct wf_layout_space space = make_space(&x);
    enum weft_status st = wf_layout_space_search(&space, &source, err);

    space.generators = WF_LAYOUT_SEARCHING; /* which is slow */
    if (st == WEFT_OK)
        st = x.list.n > 0 ? search_best(&x, &space, err)
                          /* Schedules made by search may need less memory. */
                          : wf_layout_space_search(&space, &source, err);

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
