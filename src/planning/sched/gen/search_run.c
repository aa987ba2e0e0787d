#include "planning/sched/gen/search.h"

/* The strategy that all generators which search have in common.
 *
 * Every family of orders has a few knobs with a few values each.  All combinations are too
 * many, so each family goes from a few starting points, turns one knob at a time, and stays
 * with what was best, until no single knob helps (descent).  Then weight gradients are put
 * anew, and what came out best in each family is improved.  The number of actions alone bounds
 * the work.
 */

enum { MAX_KNOBS = 6 };

/* How many orders are tried, and actions visited when improving: about 60 ms for 8 ranks and 24
 * micros.  Large plans get fewer of both; too few steps would improve nothing. */
enum {
    MIN_TRIES = 24,
    MAX_TRIES = 240,
    TRY_WORK = 6000000,
    IMPROVE_WORK = 8000000,
    MIN_STEPS = 100,
};

struct context {
    struct weft_search *s;
    struct weft_lister *lister;
    struct weft_blocks *blocks;
    uint32_t tries; /* orders that may still be made */
};

/* Makes and tries an order with each knob at the value of that index. */
typedef struct weft_score (*try_fn)(struct context *x, const uint32_t at[MAX_KNOBS]);

struct family {
    try_fn try;
    uint32_t n_values[MAX_KNOBS]; /* 0 after the last knob */
};

/* The values of the knobs; what they are is said at weft_knobs and weft_block_style. */
static const double aheads[] = {0.5, 0.75, 1, 1.15, 1.3, 1.5, 2, 1e9};
static const double slopes[] = {0, 0.5, 1, 1.5, 2, 3};
static const double parts[] = {0, 0.5, 1};
static const double steps[] = {0, 1, 1.5, 2, 2.5, 3, 4, 5};

/* Micros in flight.  With one chunk the last rank needs one, and each rank before it some more;
 * with two, all ranks need about as many as there are ranks. */
static double ahead(const struct weft_search *s, uint32_t i)
{
    return s->n_chunks == 1 ? 2 * aheads[i] : aheads[i] * s->n_ranks;
}

static struct weft_score try_list(struct context *x, const uint32_t at[MAX_KNOBS])
{
    return weft_lister_try(x->lister, x->s,
                           &(struct weft_knobs){
                               .ahead = ahead(x->s, at[0]),
                               .ahead_slope = slopes[at[1]],
                               .patience = parts[at[2]],
                               .hold = parts[at[3]],
                               .forward_first = at[4] == 1,
                               .deep_first = at[5] == 1,
                           });
}

static struct weft_score try_turn(struct context *x, const uint32_t at[MAX_KNOBS])
{
    return weft_lister_try(x->lister, x->s,
                           &(struct weft_knobs){
                               .ahead = ahead(x->s, at[0]),
                               .ahead_slope = slopes[at[1]],
                               .patience = parts[at[2]],
                               .hold = parts[at[3]],
                               .in_turn = true,
                           });
}

static struct weft_block_style block_style(const uint32_t at[MAX_KNOBS])
{
    return (struct weft_block_style){.step = {steps[at[0]], 0, steps[at[1]], 0}};
}

static struct weft_score try_steer(struct context *x, const uint32_t at[MAX_KNOBS])
{
    struct weft_block_style style = block_style(at);
    struct weft_knobs knobs = {
        .ahead = aheads[at[2]] * x->s->n_ranks,
        .patience = parts[at[3]],
        .hold = parts[at[4]],
    };
    knobs.offset = weft_blocks_lay(x->blocks, x->s, &style, &knobs.period);
    return weft_lister_try(x->lister, x->s, &knobs);
}

static struct weft_score try_block(struct context *x, const uint32_t at[MAX_KNOBS])
{
    struct weft_block_style style = block_style(at);
    style.unit = at[2] == 1;
    style.pin = at[3] == 1;
    style.late_w = at[4] == 1;
    return weft_blocks_try(x->blocks, x->s, &style);
}

static const struct family list = {
    try_list, {WEFT_LEN(aheads), WEFT_LEN(slopes), WEFT_LEN(parts), WEFT_LEN(parts), 2, 2}};
static const struct family turn = {
    try_turn, {WEFT_LEN(aheads), WEFT_LEN(slopes), WEFT_LEN(parts), WEFT_LEN(parts)}};
static const struct family steer = {
    try_steer,
    {WEFT_LEN(steps), WEFT_LEN(steps), WEFT_LEN(aheads), WEFT_LEN(parts), WEFT_LEN(parts)}};
static const struct family block = {try_block, {WEFT_LEN(steps), WEFT_LEN(steps), 2, 2, 2}};

static bool is_done(const struct weft_search *s)
{
    return weft_search_is_perfect(s, weft_search_best(s)->score);
}

static struct weft_score attempt(struct context *x, const struct family *f,
                                 const uint32_t at[MAX_KNOBS])
{
    if (x->tries == 0 || is_done(x->s))
        return WEFT_NO_SCORE;
    x->tries--;
    return f->try(x, at);
}

/* Turns one knob at a time for as long as that helps. */
static void descend(struct context *x, const struct family *f, const uint32_t start[MAX_KNOBS])
{
    uint32_t at[MAX_KNOBS], kept = 0; /* knobs in a row that stayed as they were */
    for (uint32_t k = 0; k < MAX_KNOBS; k++)
        at[k] = start[k];
    struct weft_score score = attempt(x, f, at);
    for (uint32_t k = 0; kept < MAX_KNOBS && x->tries > 0; k = (k + 1) % MAX_KNOBS) {
        uint32_t best = at[k], was = at[k];
        for (uint32_t v = 0; v < f->n_values[k]; v++) {
            if (v == was)
                continue;
            at[k] = v;
            struct weft_score other = attempt(x, f, at);
            if (weft_score_compare(other, score) < 0) {
                score = other;
                best = v;
            }
        }
        at[k] = best;
        kept = best == was ? kept + 1 : 1;
    }
}

/* Starting points: little and much in flight, short and long blocks. */
static void search_all(struct context *x, uint32_t tries)
{
    static const struct {
        const struct family *family;
        uint32_t at[MAX_KNOBS];
    } starts[] = {
        {&list, {7, 0, 0, 0, 0, 1}},  {&list, {2, 2, 2, 0, 0, 0}},
        {&list, {2, 4, 1, 2, 1, 0}},  {&turn, {6, 2, 2, 1, 0, 0}},
        {&turn, {2, 3, 0, 0, 0, 0}},  {&steer, {0, 0, 7, 0, 0, 0}},
        {&steer, {3, 3, 5, 0, 1, 0}}, {&block, {0, 0, 1, 1, 1, 0}},
        {&block, {3, 3, 0, 1, 1, 0}}, {&block, {7, 7, 0, 0, 0, 0}},
    };
    for (uint32_t i = 0; i < WEFT_LEN(starts); i++) {
        x->tries += tries / WEFT_LEN(starts);
        descend(x, starts[i].family, starts[i].at);
    }
}

static enum weft_family best_family(const struct weft_search *s)
{
    return (enum weft_family)(weft_search_best(s) - s->best);
}

/* Puts weight gradients anew, in the best family first: there may not be tries for all. */
static void refill_all(struct context *x, uint32_t tries)
{
    static const double patience[] = {0, 0.5, 1, 0.25, 0.75};
    enum weft_family first = best_family(x->s);
    if (x->s->n_passes < 3)
        return;
    for (uint32_t f = 0; f < WEFT_N_FAMILIES; f++)
        for (uint32_t i = 0; i < 2 * WEFT_LEN(patience); i++) {
            if (is_done(x->s) || tries-- == 0)
                return;
            weft_lister_refill(x->lister, x->s, (f + first) % WEFT_N_FAMILIES, patience[i / 2],
                               i % 2 == 1);
        }
}

/* Half of the work for all families alike, the other half for the one that is then best. */
static enum weft_status improve_all(struct context *x, double work, struct weft_error *err)
{
    struct weft_search *s = x->s;
    for (uint32_t f = 0; f < WEFT_N_FAMILIES && !is_done(s); f++)
        if (s->best[f].score.first < WEFT_NO_SCORE.first)
            WEFT_TRY(weft_search_improve(s, f, work / 2 / WEFT_N_FAMILIES, err));
    refill_all(x, UINT32_MAX);
    return is_done(s) ? WEFT_OK : weft_search_improve(s, best_family(s), work / 2, err);
}

enum weft_status weft_search_run(struct weft_search *s, const double *given,
                                 struct weft_error *err)
{
    enum weft_status st = WEFT_OK;
    struct context x = {s, weft_lister_new(s), weft_blocks_new(s), 0};
    double n = (double)s->n_ops;
    uint32_t tries = (uint32_t)weft_max(MIN_TRIES, weft_min(MAX_TRIES, TRY_WORK / n));
    if (x.lister == NULL || x.blocks == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to search with %zu actions",
                       s->setup.name, s->n_ops);
        goto done;
    }
    for (uint32_t i = 0; given != NULL && i < 4; i++) {
        struct weft_block_style style = {.given = given, .unit = true};
        style.pin = i / 2 == 1;
        style.late_w = i % 2 == 1;
        weft_blocks_try(x.blocks, s, &style);
    }
    search_all(&x, tries);
    refill_all(&x, tries / 4);
    if (IMPROVE_WORK / n >= MIN_STEPS)
        st = improve_all(&x, IMPROVE_WORK, err);
done:
    weft_lister_free(x.lister);
    weft_blocks_free(x.blocks);
    return st;
}
