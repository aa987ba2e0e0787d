/* Tunes the order of a schedule's actions: tries generators, the exact search and local
 * improvement, and compares the best order with lower bounds. */
#include "weft/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "planning/sched/gen/search.h"
#include "planning/tune/exact.h"
#include "planning/tune/list_schedule.h"
#include "weft/timing.h"
#include "weft/verify.h"

enum {
    /* action visits per slice of the local search: tens of milliseconds */
    SLICE_WORK = 4000000,
    DEFAULT_ITERATIONS = 100000,
    EXACT_WORK = 2000000, /* maximum number of action visits of the exact search */
    MAX_MOVES = 12        /* maximum number of random moves per perturbation */
};

struct tuner {
    const struct weft_tune_problem *problem;
    const struct weft_tune_options *options;
    struct wf_search s;
    struct weft_bounds bounds;
    int64_t start_ns;
    uint64_t n_drawn; /* number of random numbers drawn */
    bool proven;      /* true if score.first is optimal */
    bool stopped;     /* true if the progress callback stopped the search */
    char origin[WF_N_FAMILIES][32];
    char start[32]; /* name of the best generator */
    struct wf_score start_score;
    uint32_t *order;     /* owned: (ranks, per_rank), scratch */
    uint32_t n_stagnant; /* number of slices since the last improvement */
};

/* -- checks ------------------------------------------------------------------------------- */

static enum weft_status check(const struct weft_tune_problem *p, uint32_t *chunks,
                              struct weft_error *err)
{
    bool one = p->placement == WEFT_PLACEMENT_LINEAR;
    *chunks = p->chunks != 0 ? p->chunks : one ? 1 : 2;
    if (p->ranks == 0 || p->micros == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "tuning needs at least one rank and one micro (got %u and %u)",
                         p->ranks, p->micros);

    switch (p->placement) {
    case WEFT_PLACEMENT_LINEAR:
        if (*chunks != 1)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "a linear placement has 1 chunk per rank (got %u); use loop, v or "
                             "wave",
                             *chunks);
        break;
    case WEFT_PLACEMENT_V:
        if (*chunks != 2)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "a V placement has 2 chunks per rank (got %u); use wave", *chunks);
        break;
    case WEFT_PLACEMENT_LOOP:
    case WEFT_PLACEMENT_WAVE:
        break;
    case WEFT_PLACEMENT_BIDIRECTIONAL:
    case WEFT_PLACEMENT_EXPLICIT:
        return WEFT_FAIL(err, WEFT_USAGE,
                         "cannot tune this placement (expected linear, loop, v or wave)");
    }

    if ((uint64_t)p->ranks * *chunks > WEFT_MAX_STAGES)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "too many stages (%u rank%s x %u chunk%s; maximum %d)", p->ranks,
                         wf_plural(p->ranks), *chunks, wf_plural(*chunks), WEFT_MAX_STAGES);
    return WEFT_OK;
}

/* -- starting points ---------------------------------------------------------------------- */

static void name_origin(struct tuner *t, enum wf_family family, const char *name)
{
    snprintf(t->origin[family], sizeof t->origin[family], "%s", name);
}

static bool is_better(struct wf_score a, struct wf_score b)
{
    return wf_score_compare(a, b) < 0;
}

/* Tries an order in WF_FAMILY_FIXED.  Records the name if the order is the best of this
 * family. */
static void submit_order(struct tuner *t, const uint32_t *order, const char *name,
                         bool generator)
{
    struct wf_search *s = &t->s;
    const struct wf_incumbent *best = &s->best[WF_FAMILY_FIXED];
    struct wf_score before = best->score;
    if (!is_better(wf_search_try(s, WF_FAMILY_FIXED, order), WF_SCORE_INFEASIBLE))
        return;
    struct wf_score score = wf_search_score(s);
    if (is_better(best->score, before))
        name_origin(t, WF_FAMILY_FIXED, name);
    score.peak = t->start_score.peak; /* makes is_better() compare times only */
    if (generator && is_better(score, t->start_score)) {
        t->start_score = score;
        snprintf(t->start, sizeof t->start, "%s", name);
    }
}

/* Converts a schedule to an order of the search.  Micros are renumbered in the order in
 * which they run.  If the search splits backwards, a whole backward is replaced by I and W.
 * Otherwise a split backward is replaced by B at the position of its I.  Sets *fits to false if
 * the schedule has another shape. */
static enum weft_status order_from_schedule(const struct tuner *t,
                                            const struct weft_schedule *schedule,
                                            uint32_t *order, bool *fits, struct weft_error *err)
{
    const struct wf_search *s = &t->s;
    const struct weft_placement *place = weft_schedule_placement(schedule);
    if (place->n_pipes != 1 || place->n_ranks != s->n_ranks || place->n_stages != s->n_stages ||
        place->n_micros != s->n_micros ||
        memcmp(place->rank_of, s->rank_of, sizeof *s->rank_of * s->n_stages) != 0) {
        *fits = false;
        return WEFT_OK;
    }

    uint32_t *seen = calloc((size_t)s->n_passes * s->n_stages, sizeof *seen);
    if (seen == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to tune %zu actions", s->n_ops);
    bool ok = true;
    for (uint32_t r = 0; ok && r < s->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(schedule, r);
        size_t n = 0;
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            bool f = a.kind == WEFT_ACT_F, b = a.kind == WEFT_ACT_B;
            uint32_t first = f ? WF_PASS_F : a.kind == WEFT_ACT_W ? WF_PASS_W : WF_PASS_I;
            uint32_t last = b && s->n_passes == 3 ? WF_PASS_W : first;
            if (!weft_act_is_compute(a.kind) || first >= s->n_passes)
                continue;
            for (uint32_t p = first; p <= last; p++)
                order[r * s->per_rank + n++] =
                    wf_search_op_id(s, p, a.stage, seen[p * s->n_stages + a.stage]++);
        }
        ok = n == s->per_rank;
    }
    free(seen);
    *fits = ok;
    return WEFT_OK;
}

static double seconds_since(const struct tuner *t)
{
    return (double)(wf_clock_ns() - t->start_ns) * 1e-9;
}

/* Tries the schedule of a generator, unless the generator does not support the problem.  Without
 * memory the search fails: its result must not depend on the memory of the machine. */
static enum weft_status try_generator(struct tuner *t, const struct weft_generator *g,
                                      struct weft_error *err)
{
    const struct weft_tune_problem *p = t->problem;
    bool any_chunks = g->flags & WEFT_GEN_USES_CHUNKS;
    struct weft_gen_params params = {.ranks = p->ranks,
                                     .micros = p->micros,
                                     .chunks = any_chunks ? t->s.n_chunks : 0,
                                     .cost = p->cost,
                                     .memory = p->memory,
                                     .minimize = p->minimize};
    struct weft_schedule *schedule = NULL;

    bool fits = false;

    if (!any_chunks && g->default_chunks != t->s.n_chunks)
        return WEFT_OK;
    enum weft_status st = weft_schedule_generate(g->name, &params, &schedule, err);
    if (st != WEFT_OK)
        return st == WEFT_NOMEM ? st : WEFT_OK;
    st = order_from_schedule(t, schedule, t->order, &fits, err);
    if (st == WEFT_OK && fits)
        submit_order(t, t->order, g->name, true);
    weft_schedule_free(schedule);
    return st;
}

/* Tries every generator whose schedule has the shape of the problem.  Generators that search
 * are tried last, and only if time allows. */
static enum weft_status try_generators(struct tuner *t, struct weft_error *err)
{
    size_t n;
    const struct weft_generator *all = weft_generator_list(&n);
    for (unsigned searches = 0; searches < 2; searches++)
        for (size_t i = 0; i < n; i++) {
            bool timed_out = t->options->seconds > 0 && seconds_since(t) > t->options->seconds;
            if (!!(all[i].flags & WEFT_GEN_USES_COST) == searches && !(searches && timed_out))
                WEFT_TRY(try_generator(t, &all[i], err));
        }
    return WEFT_OK;
}

/* Tries list schedules, which support more chunks than the generators that search. */
static enum weft_status try_lists(struct tuner *t, struct weft_error *err)
{
    static const double in_flight[] = {1, 2, 4, 1e9}, slope[] = {0, 0.5, 1, 2};
    for (uint32_t i = 0; i < 4 * 4 * 8; i++) {
        struct wf_score score;
        struct wf_list_rule rule = {
            .in_flight = i % 4 == 2 ? t->s.n_ranks : in_flight[i % 4],
            .in_flight_slope = slope[i / 4 % 4],
            .w_slack = i / 16 % 2,
            .forward_first = i / 32 % 2,
            .oldest_first = i / 64 % 2,
        };
        if (rule.in_flight == 1e9 && rule.in_flight_slope > 0)
            continue;
        WEFT_TRY(wf_list_try(&t->s, &rule, &score, err));
    }
    return WEFT_OK;
}

/* -- bounds and the exact search ---------------------------------------------------------- */

static struct weft_bound_input bound_input(const struct tuner *t,
                                           const struct weft_placement *place)
{
    struct wf_score best = wf_search_best(&t->s)->score;
    bool by_span = t->s.minimize == WEFT_MINIMIZE_SPAN;
    return (struct weft_bound_input){
        .placement = place,
        .cost = t->problem->cost,
        .memory = t->problem->memory,
        .backwards = t->problem->whole ? WEFT_BACKWARD_WHOLE : WEFT_BACKWARD_SPLIT,
        .known_makespan = by_span ? best.second : best.first,
        .known_span = by_span ? best.first : best.second,
    };
}

static enum weft_status find_bounds(struct tuner *t, const struct weft_placement *place,
                                    struct weft_error *err)
{
    struct wf_search *s = &t->s;
    struct weft_bound_input in = bound_input(t, place);
    WEFT_TRY(weft_bounds_compute(&in, &t->bounds, err));

    bool by_span = s->minimize == WEFT_MINIMIZE_SPAN;
    double first = by_span ? t->bounds.span : t->bounds.makespan;
    double second = by_span ? t->bounds.makespan : t->bounds.span;
    s->bound.first = wf_double_max(s->bound.first, first);
    s->bound.second = wf_double_max(s->bound.second, second);
    return WEFT_OK;
}

static void update_proof(struct tuner *t)
{
    double best = wf_search_best(&t->s)->score.first;
    if (best <= t->s.bound.first * (1 + 1e-9))
        t->proven = true;
}

/* Runs the exact search if the problem is small enough. */
static enum weft_status solve(struct tuner *t, const struct weft_placement *place,
                              struct weft_error *err)
{
    struct wf_search *s = &t->s;
    struct weft_bound_input in = bound_input(t, place);
    struct wf_instance x;
    if (s->minimize != WEFT_MINIMIZE_MAKESPAN || s->n_ops > WF_EXACT_MAX_OPS || s->n_chunks > 8)
        return WEFT_OK;

    uint64_t nodes = EXACT_WORK / s->n_ops;
    if (t->options->iterations > 0 && t->options->iterations / 2 < nodes)
        nodes = t->options->iterations / 2;

    WEFT_TRY(wf_instance_init(&x, &in, err));
    struct wf_exact e = {.order = t->order};
    e.makespan = (int64_t)llround(wf_search_best(s)->score.first / x.tick);
    enum weft_status st = WEFT_OK;
    if (x.exact && !x.impossible)
        st = wf_exact_search(&x, nodes, &e, err);

    for (size_t i = 0; st == WEFT_OK && e.found && i < s->n_ops; i++) {
        const struct wf_row *row = &x.rows[x.row_of[e.order[i]]];
        e.order[i] =
            wf_search_op_id(s, row->pass, row->chain, (uint32_t)(e.order[i] - row->first));
    }
    if (st == WEFT_OK && e.found)
        submit_order(t, e.order, "exact search", false);

    if (e.proven) {
        t->proven = true;
        double minimum = (double)e.makespan * x.tick;
        s->bound.first = wf_double_max(s->bound.first, minimum);
        t->bounds.makespan = wf_double_max(t->bounds.makespan, minimum);
        t->bounds.each_makespan[WEFT_BOUND_DESTRUCTIVE] = t->bounds.makespan;
    }

    s->n_timed += e.nodes;
    wf_instance_release(&x);
    return st;
}

/* -- improving ---------------------------------------------------------------------------- */

static bool report_progress(struct tuner *t)
{
    if (t->options->progress == NULL)
        return true;
    struct wf_score best = wf_search_best(&t->s)->score;
    bool by_span = t->s.minimize == WEFT_MINIMIZE_SPAN;
    struct weft_tune_progress p = {
        .seconds = seconds_since(t),
        .evaluations = t->s.n_timed,
        .makespan = by_span ? best.second : best.first,
        .span = by_span ? best.first : best.second,
        .bound = t->s.bound.first,
        .origin = t->origin[wf_search_best_family(&t->s)],
    };
    return t->options->progress(&p, t->options->user);
}

/* Returns true if tuning must end.  Once score.first is optimal, only a few more slices try
 * to improve score.second. */
static bool is_finished(struct tuner *t)
{
    enum { MAX_POLISH_SLICES = 4 };
    const struct weft_tune_options *o = t->options;
    uint64_t iterations = o->iterations;
    if (iterations == 0 && o->seconds == 0)
        iterations = DEFAULT_ITERATIONS;
    update_proof(t);
    if (t->stopped || wf_search_is_optimal(&t->s, wf_search_best(&t->s)->score) ||
        (t->proven && t->n_stagnant >= MAX_POLISH_SLICES))
        return true;
    return (iterations > 0 && t->s.n_timed >= iterations) ||
           (o->seconds > 0 && seconds_since(t) >= o->seconds);
}

static uint32_t draw_below(struct tuner *t, uint32_t n)
{
    return wf_random_below(t->options->seed, 7, t->n_drawn++, n);
}

/* Moves a random action of t->order by some positions without violating precedences on its
 * rank.  The caller must check memory and deadlock. */
static void move_random(struct tuner *t)
{
    const struct wf_search *s = &t->s;
    uint32_t *row = t->order + draw_below(t, s->n_ranks) * s->per_rank;
    uint32_t at = draw_below(t, (uint32_t)s->per_rank), distance = 1 + draw_below(t, 8);
    uint32_t id = row[at];
    bool left = draw_below(t, 2) == 0;

    for (uint32_t i = 0; i < distance; i++) {
        uint32_t to = left ? at - 1 : at + 1;
        if (to >= s->per_rank) /* also true below 0, because the unsigned value wraps around */
            break;
        uint32_t a = left ? row[to] : id, b = left ? id : row[to];
        if (wf_search_must_follow(s, a, b))
            break;
        row[at] = row[to];
        row[to] = id;
        at = to;
    }
}

/* Applies random moves to the best order of a family and improves the result. */
static enum weft_status perturb(struct tuner *t, enum wf_family family, struct weft_error *err)
{
    struct wf_search *s = &t->s;
    const uint32_t *best = s->best[family].order;
    uint32_t n_moves = 2 + draw_below(t, MAX_MOVES);
    struct wf_score score = s->best[family].score;

    memcpy(t->order, best, sizeof *best * s->n_ops);
    memcpy(s->order, best, sizeof *best * s->n_ops);
    for (uint32_t i = 0; i < n_moves; i++) {
        move_random(t);
        struct wf_score now = wf_search_try(s, family, t->order);
        if (is_better(now, WF_SCORE_INFEASIBLE)) {
            score = now;
            memcpy(s->order, t->order, sizeof *best * s->n_ops);
        } else {
            memcpy(t->order, s->order, sizeof *best * s->n_ops);
        }
    }
    return wf_search_improve_from(s, family, t->order, score, SLICE_WORK, err);
}

/* Runs slices of local search.  A slice starts from the best order with other random
 * numbers, from the best order after a few random moves, or sometimes from the best order of
 * another family. */
static enum weft_status improve(struct tuner *t, struct weft_error *err)
{
    struct wf_search *s = &t->s;
    for (uint32_t slice = 0; !is_finished(t); slice++) {
        enum wf_family family = wf_search_best_family(s);
        struct wf_score before = wf_search_best(s)->score;
        s->setup.seed = t->options->seed + slice + 1;
        if (slice % 4 == 3) {
            family = (enum wf_family)(slice / 4 % WF_N_FAMILIES);
            if (!is_better(s->best[family].score, WF_SCORE_INFEASIBLE))
                family = wf_search_best_family(s);
        }

        if (slice % 2 == 0)
            WEFT_TRY(perturb(t, family, err));
        else
            WEFT_TRY(wf_search_improve(s, family, SLICE_WORK, err));

        t->n_stagnant = is_better(wf_search_best(s)->score, before) ? 0 : t->n_stagnant + 1;
        t->stopped = !report_progress(t);
    }
    return WEFT_OK;
}

/* -- tuning ---------------------------------------------------------------------------------- */

static enum weft_status search_all(struct tuner *t, struct weft_error *err)
{
    struct wf_search *s = &t->s;
    const struct weft_placement place = {s->n_ranks, s->n_stages, s->n_micros,
                                         1,          s->rank_of,  NULL};
    WEFT_TRY(wf_search_check_limits(s, err));
    name_origin(t, WF_FAMILY_FIXED, "sequential");
    name_origin(t, WF_FAMILY_LIST, "list");
    name_origin(t, WF_FAMILY_ROUND_ROBIN, "round-robin list");
    name_origin(t, WF_FAMILY_GUIDED, "list guided by a pattern");
    name_origin(t, WF_FAMILY_PATTERN, "pattern");

    WEFT_TRY(try_generators(t, err));
    WEFT_TRY(find_bounds(t, &place, err));
    t->stopped = !report_progress(t);

    if (!is_finished(t) && s->n_chunks <= 2)
        WEFT_TRY(wf_search_run(s, NULL, err));
    else if (!is_finished(t))
        WEFT_TRY(try_lists(t, err));
    t->stopped = t->stopped || !report_progress(t);
    if (!is_finished(t))
        WEFT_TRY(solve(t, &place, err));
    return improve(t, err);
}

static enum weft_status finish(struct tuner *t, struct weft_tune_result *out,
                               struct weft_error *err)
{
    struct wf_search *s = &t->s;
    struct weft_metrics m;
    struct weft_verify_result report;
    struct weft_tune_result r = {
        .bounds = t->bounds, .proven = t->proven, .evaluations = s->n_timed};
    WEFT_TRY(wf_search_finish(s, &r.schedule, err));

    enum weft_status st = weft_verify(r.schedule, NULL, &report, err);
    if (st == WEFT_OK) {
        if (report.n_findings > 0)
            st = WEFT_FAIL(err, WEFT_INTERNAL, "tuning produced an incorrect schedule: %s",
                           report.findings[0].text);
        weft_verify_result_release(&report);
    }
    if (st == WEFT_OK)
        st = weft_metrics_init(&m, r.schedule, t->problem->cost, t->problem->memory, err);
    if (st != WEFT_OK) {
        weft_schedule_free(r.schedule);
        return st;
    }

    r.makespan = m.makespan;
    r.span = m.span;
    for (uint32_t i = 0; i < m.n_ranks; i++)
        r.peak = m.peak_mem[i] > r.peak ? m.peak_mem[i] : r.peak;
    weft_metrics_release(&m);

    bool by_span = s->minimize == WEFT_MINIMIZE_SPAN;
    r.gap = r.proven  ? 0
            : by_span ? weft_gap(r.span, r.bounds.span)
                      : weft_gap(r.makespan, r.bounds.makespan);

    snprintf(r.origin, sizeof r.origin, "%s", t->origin[wf_search_best_family(s)]);
    snprintf(r.start, sizeof r.start, "%s", t->start);
    if (t->start[0] != '\0') {
        r.start_makespan = by_span ? t->start_score.second : t->start_score.first;
        r.start_span = by_span ? t->start_score.first : t->start_score.second;
    }
    r.seconds = seconds_since(t);
    *out = r;
    return WEFT_OK;
}

enum weft_status weft_tune(const struct weft_tune_problem *problem,
                           const struct weft_tune_options *options,
                           struct weft_tune_result *out, struct weft_error *err)
{
    uint32_t chunks;
    WEFT_TRY(check(problem, &chunks, err));
    WEFT_TRY(weft_cost_check(problem->cost, problem->memory, problem->ranks,
                             problem->ranks * chunks, problem->micros, err));
    struct wf_search_setup setup = {.name = "tuned",
                                    .chunks = chunks,
                                    .whole = problem->whole,
                                    .place = problem->placement};
    struct weft_gen_params params = {.ranks = problem->ranks,
                                     .micros = problem->micros,
                                     .cost = problem->cost,
                                     .memory = problem->memory,
                                     .minimize = problem->minimize};
    struct tuner t = {.problem = problem, .options = options, .start_ns = wf_clock_ns()};
    t.start_score = WF_SCORE_INFEASIBLE;

    WEFT_TRY(wf_search_init(&t.s, &setup, &params, err));
    t.order = malloc(sizeof *t.order * t.s.n_ops);
    enum weft_status st =
        t.order == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to tune %zu actions", t.s.n_ops)
                        : search_all(&t, err);
    if (st == WEFT_OK)
        st = finish(&t, out, err);
    free(t.order);
    wf_search_release(&t.s);
    return st;
}

void weft_tune_result_release(struct weft_tune_result *r)
{
    weft_schedule_free(r->schedule);
    *r = (struct weft_tune_result){0};
}
