/* Internal interface of the balanced partition.
 *
 *     problem   the items as prefix sums, and the budgets of the ranks
 *     reach     the possible ends of each stage under a time limit and the budgets, and the
 *               dynamic program that minimizes the sum of squares among them
 *     search    the search for the case that a budget couples several stages
 *
 * A partition is an array of ends: stage s has the layers ends[s - 1] .. ends[s] - 1.  The
 * first and the last of several stages may be empty, all others have at least one layer.  The
 * stages before s therefore have at least base(s) layers, and s starts at one of W positions;
 * tables are (stage, position - base).  With S = 4 and L = 5, W is 4:
 *
 *     stage         0          1          2          3        (end)
 *     position   0 . . .    0 1 2 3    1 2 3 4    2 3 4 5    . . . 5
 */
#ifndef PLANNING_PART_BALANCE_PRIV_H
#define PLANNING_PART_BALANCE_PRIV_H

#include "planning/part/owners.h"
#include "weft/part.h"

/* Times with a smaller relative difference count as equal.  The same applies to sums of squared
 * times. */
#define WF_BALANCE_TOL 1e-9
#define WF_BALANCE_SQUARES_TOL 1e-12

/* The cost of an empty stage, as a fraction of the sum of squares.  This cost only breaks ties:
 * it is larger than WF_BALANCE_SQUARES_TOL, but too small to outweigh a real difference in
 * time. */
#define WF_BALANCE_EMPTY_TOL 1e-11

#define WF_UNREACHABLE UINT32_MAX

struct wf_problem {
    uint32_t n_layers, n_stages;
    uint32_t width;             /* W: number of possible start positions of a stage */
    double *time;               /* owned: (L + 1) prefix sums; the mean time of a stage is 1 */
    double time_first;          /* time of the embedding */
    double time_last;           /* time of the head */
    int64_t *state, *act;       /* owned: (L + 1) prefix sums of bytes */
    int64_t min_state, min_act; /* minimum bytes of a layer */
    struct wf_owners owners;
    bool limited;       /* true if memory limits are given */
    bool shared_budget; /* true if a rank with a budget has several stages */
    int64_t *budget;    /* owned: (ranks) the limit minus embedding and head */
    int64_t *min_bytes; /* owned: (ranks) bytes of the rank's stages with the smallest layers */
    int64_t *bytes;     /* owned: (ranks) scratch memory of wf_problem_excess() */
};

/* Checks the items and the limits and creates the problem.  The caller releases *pr, even after
 * an error. */
enum weft_status wf_problem_init(struct wf_problem *pr, const struct weft_items *items,
                                 uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                                 struct weft_error *err);

/* Frees a problem.  The problem may be all zeros. */
void wf_problem_release(struct wf_problem *pr);

/* Adds `more` bytes to all budgets. */
void wf_problem_relax(struct wf_problem *pr, int64_t more);

/* Returns the minimum number of layers of stage s. */
static inline uint32_t wf_problem_min_layers(const struct wf_problem *pr, uint32_t s)
{
    return pr->n_stages == 1 || (s > 0 && s < pr->n_stages - 1);
}

/* Returns the minimum number of layers before stage s, s <= n_stages.  This number is the first
 * possible position of the stage. */
static inline uint32_t wf_problem_base(const struct wf_problem *pr, uint32_t s)
{
    if (pr->n_stages == 1 || s == 0)
        return s;
    return s < pr->n_stages ? s - 1 : s - 2;
}

/* Returns the time of stage s with layers first .. end - 1. */
static inline double wf_problem_time(const struct wf_problem *pr, uint32_t s, uint32_t first,
                                     uint32_t end)
{
    return pr->time[end] - pr->time[first] + (s == 0 ? pr->time_first : 0) +
           (s == pr->n_stages - 1 ? pr->time_last : 0);
}

/* Returns the bytes of layers first .. end - 1 on the rank of the owner `h`. */
static inline int64_t wf_problem_bytes(const struct wf_problem *pr, const struct wf_owner *h,
                                       uint32_t first, uint32_t end)
{
    return pr->state[end] - pr->state[first] +
           (int64_t)h->in_flight * (pr->act[end] - pr->act[first]);
}

/* Returns the minimum bytes of stage s on the rank of the owner `h`. */
static inline int64_t wf_problem_min_bytes(const struct wf_problem *pr, uint32_t s,
                                           const struct wf_owner *h)
{
    return wf_problem_min_layers(pr, s) * (pr->min_state + (int64_t)h->in_flight * pr->min_act);
}

/* Returns the time of the slowest stage. */
double wf_problem_bottleneck(const struct wf_problem *pr, const uint32_t *ends);

/* Returns the sum of the squared times of all stages. */
double wf_problem_squares(const struct wf_problem *pr, const uint32_t *ends);

/* Returns the number of stages without a layer. */
uint32_t wf_problem_n_empty(const struct wf_problem *pr, const uint32_t *ends);

/* Returns the maximum over all ranks of bytes minus budget.  The partition is within the
 * budgets if the result is 0 or less. */
int64_t wf_problem_excess(const struct wf_problem *pr, const uint32_t *ends);

/* -- reach --------------------------------------------------------------------------------- */

struct wf_reach {
    const struct wf_problem *pr; /* borrowed */

    bool infeasible;   /* true if the minimum bytes of a rank exceed its budget */
    double empty_cost; /* cost of each empty stage, added to the sum of squares */

    uint32_t *by_memory;  /* owned: (S, W) maximum end by memory; NULL without limits */
    uint32_t *by_time[3]; /* owned: (L + 1) maximum end by time: first, middle, last stage */
    uint32_t *end;        /* owned: (S, W) maximum end by time, memory and later stages */
    uint32_t *last;     /* owned: (S + 1, W) last position <= this one that can be completed */
    uint32_t *furthest; /* owned: (S) maximum start of each stage */
    double *cost;       /* owned: (S + 1, W) minimum cost of this and all later stages */
    uint32_t *choice;   /* owned: (S, W) the end that has the minimum cost */
    double *scratch;    /* owned: (W) cost of the later stages for each end */
    double *min_after;  /* owned: (W) minimum of `scratch` over this and all later ends */
};

/* Allocates the tables.  The caller releases *r, even after an error. */
enum weft_status wf_reach_init(struct wf_reach *r, const struct wf_problem *pr,
                               struct weft_error *err);

/* Frees the tables. */
void wf_reach_release(struct wf_reach *r);

/* Updates the tables after a change of the budgets. */
void wf_reach_update(struct wf_reach *r);

/* Sets `end` and `last` for stages that take at most `limit`, and returns true if such a
 * partition exists.  Checks each stage alone: the stages of a rank together may exceed its
 * budget. */
bool wf_reach_within(struct wf_reach *r, double limit);

/* Writes the partition that the last call of wf_reach_within() found. */
void wf_reach_pick(const struct wf_reach *r, uint32_t *ends);

/* Returns the next possible time of a stage above `limit`, or INFINITY if there is none. */
double wf_reach_next_limit(const struct wf_reach *r, double limit);

/* Minimizes a cost over all partitions within reach.  The cost is the sum over all stages of
 * squared time + a[s] * state bytes + k[s] * activation bytes, plus empty_cost per empty stage.
 * If a and k are NULL, bytes have no cost.  Sets `cost` and `choice`, and writes the partition.
 * Of several partitions with equal cost, chooses the one with more layers on the first
 * stages. */
void wf_reach_minimize(struct wf_reach *r, const double *a, const double *k, uint32_t *ends);

/* -- search -------------------------------------------------------------------------------- */

struct wf_balance_search; /* opaque */

/* Creates a search, which borrows `r`.  The caller owns *out. */
enum weft_status wf_balance_search_new(struct wf_reach *r, struct wf_balance_search **out,
                                       struct weft_error *err);

/* Frees a search.  NULL is allowed. */
void wf_balance_search_free(struct wf_balance_search *s);

/* Searches for the partition with the minimum sum of squares among all partitions whose stages
 * take at most `limit` and whose ranks are within their budgets.  With `any`, searches for any
 * such partition.  Returns true if a partition was found.  Sets *proven to false if the search
 * stopped before the result was certain. */
bool wf_balance_search_run(struct wf_balance_search *s, double limit, bool any, uint32_t *ends,
                           bool *proven);

#endif
