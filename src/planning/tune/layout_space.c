/* Enumerates the candidates of a search for layouts and scores them. */
#include "planning/tune/layout_space.h"

#include "base/error.h"
#include "weft/timing.h"

/* The enumeration in progress. */
struct walk_over {
    const struct wf_layout_space *space;
    const struct wf_layout_source *source;
    bool counting; /* only counts the calls of begin() */
    bool stopped;
    size_t n;
};

/* -- one candidate ------------------------------------------------------------------------- */

static enum weft_status measure_time(const struct wf_layout_source *source,
                                     const struct wf_layout_built *built,
                                     struct wf_layout_score *score, struct weft_error *err)
{
    struct weft_metrics m;
    bool by_span = source->minimize == WEFT_MINIMIZE_SPAN;
    WEFT_TRY(weft_metrics_init(&m, built->schedule, built->cost, NULL, err));
    score->makespan = m.makespan;
    score->span = m.span;
    score->bubble = by_span ? m.bubble_span : m.bubble;
    score->time = (by_span ? m.span : m.makespan) + score->reduction;
    weft_metrics_release(&m);
    return WEFT_OK;
}

enum weft_status wf_layout_score(const struct wf_layout_source *source,
                                 const struct wf_layout_candidate *c,
                                 struct wf_layout_built *built, struct weft_error *err)
{
    struct wf_layout_score score = {0};
    enum weft_status st = source->measure(source->user, c, built, &score, err);
    if (st == WEFT_OK && score.fits)
        st = measure_time(source, built, &score, err);
    if (st == WEFT_OK)
        st = source->keep(source->user, c, built, &score, err);
    source->release(source->user, built);
    return st;
}

static enum weft_status try_one(const struct wf_layout_source *source,
                                const struct wf_layout_candidate *c, struct weft_error *err)
{
    struct wf_layout_built built = {0};
    bool found = true;
    WEFT_TRY(source->build(source->user, c, &built, &found, err));
    return found ? wf_layout_score(source, c, &built, err) : WEFT_OK;
}

/* -- schedules, partitions and chunks ------------------------------------------------------ */

static bool is_too_large(const struct wf_layout_space *space,
                         const struct wf_layout_candidate *c, uint32_t chunks)
{
    uint64_t cells = (uint64_t)c->micros * c->ranks;
    return space->max_cells != 0 && cells * chunks > space->max_cells;
}

static enum weft_status try_chunks(const struct wf_layout_space *space,
                                   const struct wf_layout_source *source,
                                   struct wf_layout_candidate c, struct weft_error *err)
{
    const struct weft_generator *g = weft_generator_find(c.schedule);
    c.chunks = space->chunks;
    if (space->chunks != 0 || g == NULL)
        return try_one(source, &c, err);
    if ((g->flags & WEFT_GEN_USES_CHUNKS) == 0)
        return g->default_chunks > space->max_chunks ||
                       is_too_large(space, &c, g->default_chunks)
                   ? WEFT_OK
                   : try_one(source, &c, err);
    uint32_t first = space->min_chunks != 0 ? space->min_chunks : g->default_chunks;
    for (c.chunks = first; c.chunks <= space->max_chunks && !is_too_large(space, &c, c.chunks);
         c.chunks++)
        WEFT_TRY(try_one(source, &c, err));
    return WEFT_OK;
}

static bool is_tried(const struct wf_layout_space *space, const struct weft_generator *g)
{
    bool searches = (g->flags & WEFT_GEN_USES_COST) != 0;
    if (g->flags & WEFT_GEN_UNIT_TICKS)
        return false;
    return space->generators == WF_LAYOUT_ALL ||
           searches == (space->generators == WF_LAYOUT_SEARCHING);
}

static enum weft_status try_partitions(struct walk_over *w, struct wf_layout_candidate c,
                                       double share, struct weft_error *err)
{
    const struct wf_layout_source *source = w->source;
    for (int balanced = !w->space->even; balanced < 2 && !w->stopped; balanced++) {
        c.balanced = balanced;
        w->stopped = source->continues != NULL && !source->continues(source->user, &c, share);
        if (!w->stopped)
            WEFT_TRY(try_chunks(w->space, source, c, err));
    }
    return WEFT_OK;
}

static enum weft_status try_schedules(struct walk_over *w, struct wf_layout_candidate c,
                                      struct weft_error *err)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    const struct wf_layout_source *source = w->source;
    c.schedule = source->schedule != NULL ? source->schedule(source->user, &c) : NULL;
    if (c.schedule != NULL)
        return w->space->generators == WF_LAYOUT_SEARCHING ? WEFT_OK
                                                           : try_partitions(w, c, 0, err);
    for (size_t i = 0; i < n && !w->stopped; i++) {
        c.schedule = all[i].name;
        if (is_tried(w->space, &all[i]))
            WEFT_TRY(try_partitions(w, c, (double)i / (double)n, err));
    }
    return WEFT_OK;
}

enum weft_status wf_layout_space_try(const struct wf_layout_space *space,
                                     const struct wf_layout_source *source,
                                     struct wf_layout_candidate c, struct weft_error *err)
{
    struct walk_over w = {.space = space, .source = source};
    return try_schedules(&w, c, err);
}

/* -- ranks, micros and variants ------------------------------------------------------------ */

static enum weft_status try_variants(struct walk_over *w, struct wf_layout_candidate c,
                                     struct weft_error *err)
{
    for (c.variant = 0; c.variant < w->space->n_variants && !w->stopped; c.variant++) {
        bool skip = false;
        w->n++;
        if (w->counting)
            continue;
        WEFT_TRY(w->source->begin(w->source->user, &c, &skip, err));
        if (!skip)
            WEFT_TRY(try_schedules(w, c, err));
    }
    return WEFT_OK;
}

/* Returns the smallest divisor of n that is greater than `after`, or 0 if there is none.  Divisors
 * above the root of n are n / q for the divisors q below it. */
static uint32_t next_divisor(uint32_t n, uint32_t after)
{
    uint64_t d = (uint64_t)after + 1;
    for (; d * d <= n; d++)
        if (n % d == 0)
            return (uint32_t)d;
    for (uint64_t q = n / d; q >= 1; q--)
        if (n % q == 0)
            return (uint32_t)(n / q);
    return 0;
}

/* Tries all numbers of micros, starting with the largest.  The largest number is often the
 * best, so the other numbers can then be pruned. */
static enum weft_status try_micros(struct walk_over *w, struct wf_layout_candidate c,
                                   struct weft_error *err)
{
    uint32_t batch = w->space->global_batch / c.replicas;
    if (w->space->global_batch == 0)
        return try_variants(w, c, err);
    if (w->space->global_batch % c.replicas != 0)
        return WEFT_OK;
    for (c.rows = next_divisor(batch, 0); c.rows != 0 && !w->stopped;
         c.rows = next_divisor(batch, c.rows)) {
        c.micros = batch / c.rows;
        WEFT_TRY(try_variants(w, c, err));
    }
    return WEFT_OK;
}

/* Tries all divisions of a number of ranks into pipelines and replicas. */
static enum weft_status try_total(struct walk_over *w, uint32_t total, struct weft_error *err)
{
    const struct wf_layout_space *s = w->space;
    for (uint32_t ranks = 1; ranks <= total && !w->stopped; ranks++) {
        struct wf_layout_candidate c = {.ranks = ranks, .replicas = total / ranks};
        if (total % ranks != 0 || (s->ranks != 0 && ranks != s->ranks) ||
            (s->replicas != 0 && c.replicas != s->replicas))
            continue;
        WEFT_TRY(try_micros(w, c, err));
        /* without replicas or stages both arrangements are the same */
        c.replicas_adjacent = true;
        if (s->adjacent && ranks > 1 && ranks < total)
            WEFT_TRY(try_micros(w, c, err));
    }
    return WEFT_OK;
}

static enum weft_status try_totals(struct walk_over *w, struct weft_error *err)
{
    const struct wf_layout_source *source = w->source;
    for (uint64_t n = w->space->min_total; n <= w->space->max_total && !w->stopped; n++)
        if (source->has_total == NULL || source->has_total(source->user, (uint32_t)n))
            WEFT_TRY(try_total(w, (uint32_t)n, err));
    return WEFT_OK;
}

enum weft_status wf_layout_space_search(const struct wf_layout_space *space,
                                        const struct wf_layout_source *source,
                                        struct weft_error *err)
{
    struct walk_over w = {.space = space, .source = source};
    return try_totals(&w, err);
}

size_t wf_layout_space_count(const struct wf_layout_space *space,
                             const struct wf_layout_source *source)
{
    struct walk_over w = {.space = space, .source = source, .counting = true};
    return try_totals(&w, NULL) == WEFT_OK ? w.n : 0;
}
