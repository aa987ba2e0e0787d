/* The balanced partition's inside.
 *
 *     problem   the items as prefix sums, the ranks' budgets
 *     reach     which stage may end where, under a time limit and the budgets; who can finish
 *     even out  the most even of the partitions that reach allows, by dynamic programming
 *     couple    the search for when budgets tie stages together
 *
 * A partition is an array of ends: stage s has the layers ends[s - 1] .. ends[s] - 1.  The
 * first and the last of several stages may be empty, all others have a layer.  So the stages
 * before s have at least base(s) layers, and s starts at one of W positions; tables are (stage,
 * position - base).  With S = 4 and L = 5, W is 4:
 *
 *     stage         0          1          2          3        (end)
 *     position   0 . . .    0 1 2 3    1 2 3 4    2 3 4 5    . . . 5
 */
#ifndef PLANNING_PART_BALANCE_PRIV_H
#define PLANNING_PART_BALANCE_PRIV_H

#include "planning/part/owners.h"
#include "weft/part.h"

/* Times, and sums of squared times, that differ by less than this part are equal. */
#define WF_BALANCE_TOL 1e-9
#define WF_BALANCE_SQUARES_TOL 1e-12

/* The price of an empty stage, as a part of the sum of squares, that breaks such ties: more
 * than what counts as equal, less than what counts. */
#define WF_BALANCE_EMPTY_TOL 1e-11

#define WF_UNREACHABLE UINT32_MAX

struct wf_problem {
    uint32_t n_layers, n_stages;
    uint32_t width;       /* W: positions a stage may start at */
    double *time;         /* owned: (L + 1) sums before each layer; the mean stage takes 1 */
    double time_first;    /* of the embedding */
    double time_last;     /* of the head */
    int64_t *state, *act; /* owned: (L + 1) sums of bytes */
    int64_t min_state, min_act; /* of a layer */
    struct wf_owners owners;
    bool limited;       /* there are budgets */
    bool shared_budget; /* a rank with a budget owners more than one stage */
    int64_t *budget;    /* owned: (ranks) for layers: the limit without embedding and head */
    int64_t *least; /* owned: (ranks) no less than this: its stages with the smallest layers */
    int64_t *bytes; /* owned: (ranks) scratch of wf_problem_excess() */
};

/* Items and rank_limits are checked here.  release() takes zeroed and half-built ones. */
enum weft_status wf_problem_init(struct wf_problem *pr, const struct weft_items *items,
                                 uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                                 struct weft_error *err);
void wf_problem_release(struct wf_problem *pr);

/* Moves all budgets by this much. */
void wf_problem_relax(struct wf_problem *pr, int64_t more);

/* How many layers stage s needs. */
static inline uint32_t wf_problem_least_layers(const struct wf_problem *pr, uint32_t s)
{
    return pr->n_stages == 1 || (s > 0 && s < pr->n_stages - 1);
}

/* How many the stages before s need, s <= n_stages: its first position. */
static inline uint32_t wf_problem_base(const struct wf_problem *pr, uint32_t s)
{
    if (pr->n_stages == 1 || s == 0)
        return s;
    return s < pr->n_stages ? s - 1 : s - 2;
}

/* Time of stage s with layers first .. end - 1. */
static inline double wf_problem_time(const struct wf_problem *pr, uint32_t s, uint32_t first,
                                     uint32_t end)
{
    return pr->time[end] - pr->time[first] + (s == 0 ? pr->time_first : 0) +
           (s == pr->n_stages - 1 ? pr->time_last : 0);
}

static inline int64_t wf_problem_bytes(const struct wf_problem *pr, const struct wf_owner *h,
                                       uint32_t first, uint32_t end)
{
    return pr->state[end] - pr->state[first] +
           (int64_t)h->in_flight * (pr->act[end] - pr->act[first]);
}

/* What stage s takes at least on the rank of `h`. */
static inline int64_t wf_problem_least_bytes(const struct wf_problem *pr, uint32_t s,
                                             const struct wf_owner *h)
{
    return wf_problem_least_layers(pr, s) *
           (pr->min_state + (int64_t)h->in_flight * pr->min_act);
}

double wf_problem_bottleneck(const struct wf_problem *pr, const uint32_t *ends);
double wf_problem_squares(const struct wf_problem *pr, const uint32_t *ends);
uint32_t wf_problem_n_empty(const struct wf_problem *pr, const uint32_t *ends);

/* By how many bytes the worst rank is over its budget; 0 or less: it fits. */
int64_t wf_problem_excess(const struct wf_problem *pr, const uint32_t *ends);

/* -- reach --------------------------------------------------------------------------------- */

struct wf_reach {
    const struct wf_problem *pr; /* borrowed */

    bool infeasible;   /* a rank cannot even hold the least that its stages take */
    double empty_cost; /* added to the squares for each empty stage */

    uint32_t *by_memory;  /* owned: (S, W) the last end that a stage's bytes allow; or NULL */
    uint32_t *by_time[3]; /* owned: (L + 1) the same by time: first, middle, last stage */
    uint32_t *end;        /* owned: (S, W) both; leaves a layer to all that need one */
    uint32_t *last;       /* owned: (S + 1, W) the last position up to here that can finish */
    uint32_t *furthest;   /* owned: (S) no partition within reach has the stage start later */
    double *cost;         /* owned: (S + 1, W) least cost from here on */
    uint32_t *choice;     /* owned: (S, W) the end that gives it */
    double *scratch;      /* owned: (W) cost after each end of the stage at hand, */
    double *least_after;  /* owned: (W) and the least from each end on */
};

enum weft_status wf_reach_init(struct wf_reach *r, const struct wf_problem *pr,
                               struct weft_error *err);
void wf_reach_release(struct wf_reach *r);

/* To be called when the budgets have changed. */
void wf_reach_update(struct wf_reach *r);

/* Sets end and last for stages of at most `limit`; true when there is such a partition.  Looks
 * at each stage alone: a rank's stages together may be too much. */
bool wf_reach_within(struct wf_reach *r, double limit);

/* One that wf_reach_within() has found. */
void wf_reach_pick(const struct wf_reach *r, uint32_t *ends);

/* The least time above `limit` that any stage can take; INFINITY when there is none. */
double wf_reach_next_limit(const struct wf_reach *r, double limit);

/* Sets cost and choice, within reach, for the least sum of squared times + a[s] * state bytes +
 * k[s] * activation bytes over all stages (NULL: squared times alone) + empty_cost for each
 * empty stage, and writes the partition.  The first stages get the more layers where it is
 * equal. */
void wf_reach_minimize(struct wf_reach *r, const double *a, const double *k, uint32_t *ends);

/* -- search -------------------------------------------------------------------------------- */

struct wf_balance_search; /* opaque */

enum weft_status wf_balance_search_new(struct wf_reach *r, struct wf_balance_search **out,
                                       struct weft_error *err);
void wf_balance_search_free(struct wf_balance_search *s); /* NULL is allowed */

/* Looks for the partition with the least sum of squares among those with stages of at most
 * `limit` and all ranks within their budgets, or with `any` for one such partition.  Returns
 * whether it found one.  *proven turns false when it gave up before it was sure. */
bool wf_balance_search_run(struct wf_balance_search *s, double limit, bool any, uint32_t *ends,
                           bool *proven);

#endif
