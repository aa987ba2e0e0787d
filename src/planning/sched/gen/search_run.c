/* The common strategy of all generators that use the search.
 *
 * Every family of orders has a few knobs with a few values each.  There are too many
 * combinations to try all of them.  So the search of a family starts at a few points and sets
 * one knob at a time to its best value, until no change of a single knob improves the score
 * (coordinate descent).  Then the weight gradients are placed again, and the best order of each
 * family is improved by tabu search.  The amount of work depends only on the number of actions.
 */
#include "planning/sched/gen/search.h"

enum { MAX_KNOBS = 6 };

/* Limits of the search: the number of orders to try, and the number of action visits during the
 * improvement of orders.  8 ranks and 24 micros take about 60 ms.  Both limits are lower for
 * large plans.  If fewer than MIN_STEPS steps are possible, the search does not improve the
 * orders. */
enum {
    MIN_TRIES = 24,
    MAX_TRIES = 240,
    TRY_WORK = 6000000,
    IMPROVE_WORK = 8000000,
    MIN_STEPS = 100,
};

struct context {
    struct wf_search *s;
    struct wf_list_sched *list_sched;
    struct wf_pattern *patterns;
    uint32_t tries; /* number of orders that may still be tried */
};

/* Generates and tries an order.  at[k] is the index of the value of knob k. */
typedef struct wf_score (*try_fn)(struct context *x, const uint32_t at[MAX_KNOBS]);

struct family {
    try_fn try;
    /* number of values of each knob; 0 marks the end of the knobs */
    uint32_t n_values[MAX_KNOBS];
};

/* The values to try for each knob.  wf_list_knobs and wf_pattern_options describe the knobs. */
static const double in_flights[] = {0.5, 0.75, 1, 1.15, 1.3, 1.5, 2, 1e9};
static const double slopes[] = {0, 0.5, 1, 1.5, 2, 3};
static const double parts[] = {0, 0.5, 1};
static const double steps[] = {0, 1, 1.5, 2, 2.5, 3, 4, 5};

/* Returns the maximum number of micros in flight on the last rank.  With one chunk, the last
 * rank needs about one micro in flight, and each rank before it needs more.  With two chunks,
 * every rank needs about P micros in flight. */
static double in_flight(const struct wf_search *s, uint32_t i)
{
    return s->n_chunks == 1 ? 2 * in_flights[i] : in_flights[i] * s->n_ranks;
}

static struct wf_score try_list(struct context *x, const uint32_t at[MAX_KNOBS])
{
    return wf_list_sched_try(x->list_sched, x->s,
                             &(struct wf_list_knobs){
                                 .in_flight = in_flight(x->s, at[0]),
                                 .in_flight_slope = slopes[at[1]],
                                 .w_slack = parts[at[2]],
                                 .max_wait = parts[at[3]],
                                 .forward_first = at[4] == 1,
                                 .deep_first = at[5] == 1,
                             });
}

static struct wf_score try_round_robin(struct context *x, const uint32_t at[MAX_KNOBS])
{
    return wf_list_sched_try(x->list_sched, x->s,
                             &(struct wf_list_knobs){
                                 .in_flight = in_flight(x->s, at[0]),
                                 .in_flight_slope = slopes[at[1]],
                                 .w_slack = parts[at[2]],
                                 .max_wait = parts[at[3]],
                                 .round_robin = true,
                             });
}

static struct wf_pattern_options pattern_options(const uint32_t at[MAX_KNOBS])
{
    return (struct wf_pattern_options){.step = {steps[at[0]], 0, steps[at[1]], 0}};
}

static struct wf_score try_guided(struct context *x, const uint32_t at[MAX_KNOBS])
{
    struct wf_pattern_options options = pattern_options(at);
    struct wf_list_knobs knobs = {
        .in_flight = in_flights[at[2]] * x->s->n_ranks,
        .w_slack = parts[at[3]],
        .max_wait = parts[at[4]],
    };
    knobs.offset = wf_pattern_place(x->patterns, x->s, &options, &knobs.period);
    return wf_list_sched_try(x->list_sched, x->s, &knobs);
}

static struct wf_score try_pattern(struct context *x, const uint32_t at[MAX_KNOBS])
{
    struct wf_pattern_options options = pattern_options(at);
    options.unit = at[2] == 1;
    options.pin = at[3] == 1;
    options.late_w = at[4] == 1;
    return wf_pattern_try(x->patterns, x->s, &options);
}

static const struct family list = {
    try_list, {WEFT_LEN(in_flights), WEFT_LEN(slopes), WEFT_LEN(parts), WEFT_LEN(parts), 2, 2}};
static const struct family round_robin = {
    try_round_robin,
    {WEFT_LEN(in_flights), WEFT_LEN(slopes), WEFT_LEN(parts), WEFT_LEN(parts)}};
static const struct family guided = {
    try_guided,
    {WEFT_LEN(steps), WEFT_LEN(steps), WEFT_LEN(in_flights), WEFT_LEN(parts), WEFT_LEN(parts)}};
static const struct family pattern = {try_pattern, {WEFT_LEN(steps), WEFT_LEN(steps), 2, 2, 2}};

static bool is_done(const struct wf_search *s)
{
    return wf_search_is_optimal(s, wf_search_best(s)->score);
}

static struct wf_score attempt(struct context *x, const struct family *f,
                               const uint32_t at[MAX_KNOBS])
{
    if (x->tries == 0 || is_done(x->s))
        return WF_SCORE_INFEASIBLE;
    x->tries--;
    return f->try(x, at);
}

/* Changes one knob at a time until no change of a single knob improves the score. */
static void coordinate_descent(struct context *x, const struct family *f,
                               const uint32_t start[MAX_KNOBS])
{
    /* n_unchanged: number of consecutive knobs without a change */
    uint32_t at[MAX_KNOBS], n_unchanged = 0;
    for (uint32_t k = 0; k < MAX_KNOBS; k++)
        at[k] = start[k];

    struct wf_score score = attempt(x, f, at);
    for (uint32_t k = 0; n_unchanged < MAX_KNOBS && x->tries > 0; k = (k + 1) % MAX_KNOBS) {
        uint32_t best = at[k], was = at[k];
        for (uint32_t v = 0; v < f->n_values[k]; v++) {
            if (v == was)
                continue;
            at[k] = v;
            struct wf_score other = attempt(x, f, at);
            if (wf_score_compare(other, score) < 0) {
                score = other;
                best = v;
            }
        }
        at[k] = best;
        n_unchanged = best == was ? n_unchanged + 1 : 1;
    }
}

/* Runs the coordinate descent from several starting points: few and many micros in flight,
 * short and long patterns. */
static void search_all(struct context *x, uint32_t tries)
{
    static const struct {
        const struct family *family;
        uint32_t at[MAX_KNOBS];
    } starts[] = {
        {&list, {7, 0, 0, 0, 0, 1}},        {&list, {2, 2, 2, 0, 0, 0}},
        {&list, {2, 4, 1, 2, 1, 0}},        {&round_robin, {6, 2, 2, 1, 0, 0}},
        {&round_robin, {2, 3, 0, 0, 0, 0}}, {&guided, {0, 0, 7, 0, 0, 0}},
        {&guided, {3, 3, 5, 0, 1, 0}},      {&pattern, {0, 0, 1, 1, 1, 0}},
        {&pattern, {3, 3, 0, 1, 1, 0}},     {&pattern, {7, 7, 0, 0, 0, 0}},
    };
    for (uint32_t i = 0; i < WEFT_LEN(starts); i++) {
        x->tries += tries / WEFT_LEN(starts);
        coordinate_descent(x, starts[i].family, starts[i].at);
    }
}

/* Places the weight gradients of the best orders again.  Starts with the best family, since the
 * number of tries may not suffice for all families. */
static void refill_all(struct context *x, uint32_t tries)
{
    static const double w_slack[] = {0, 0.5, 1, 0.25, 0.75};
    enum wf_family first = wf_search_best_family(x->s);
    if (x->s->n_passes < 3)
        return;
    for (uint32_t f = 0; f < WF_N_FAMILIES; f++)
        for (uint32_t i = 0; i < 2 * WEFT_LEN(w_slack); i++) {
            if (is_done(x->s) || tries-- == 0)
                return;
            wf_list_sched_refill_w(x->list_sched, x->s, (f + first) % WF_N_FAMILIES,
                                   w_slack[i / 2], i % 2 == 1);
        }
}

/* Improves the best orders.  Half of the work is divided evenly among all families.  The other
 * half is spent on the family that is best after the first half. */
static enum weft_status improve_all(struct context *x, double work, struct weft_error *err)
{
    struct wf_search *s = x->s;
    for (uint32_t f = 0; f < WF_N_FAMILIES && !is_done(s); f++)
        if (s->best[f].score.first < WF_SCORE_INFEASIBLE.first)
            WEFT_TRY(wf_search_improve(s, f, work / 2 / WF_N_FAMILIES, err));
    refill_all(x, UINT32_MAX);
    return is_done(s) ? WEFT_OK : wf_search_improve(s, wf_search_best_family(s), work / 2, err);
}

enum weft_status wf_search_run(struct wf_search *s, const double *given, struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    struct context x = {s, wf_list_sched_new(s), wf_pattern_new(s), 0};
    double n = (double)s->n_ops;
    uint32_t tries = (uint32_t)wf_double_max(MIN_TRIES, wf_double_min(MAX_TRIES, TRY_WORK / n));
    if (x.list_sched == NULL || x.patterns == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                       s->setup.name, s->n_ops);
        goto done;
    }

    for (uint32_t i = 0; given != NULL && i < 4; i++) {
        struct wf_pattern_options options = {.given = given, .unit = true};
        options.pin = i / 2 == 1;
        options.late_w = i % 2 == 1;
        wf_pattern_try(x.patterns, s, &options);
    }
    search_all(&x, tries);
    refill_all(&x, tries / 4);
    if (IMPROVE_WORK / n >= MIN_STEPS)
        st = improve_all(&x, IMPROVE_WORK, err);
done:
    wf_list_sched_free(x.list_sched);
    wf_pattern_free(x.patterns);
    return st;
}
