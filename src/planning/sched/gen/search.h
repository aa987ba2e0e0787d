/* The search for an order of actions.  All generators that optimize for given times and memory
 * limits use it.
 *
 * The search object stores the problem (placement, costs, memory limits) and the best orders
 * found so far.  A generator sets the limits, may try its own orders, and then runs the common
 * strategy:
 *
 *     struct wf_search s;
 *     WEFT_TRY(wf_search_init(&s, &setup, params, err));
 *     s.limit[rank] = ...;
 *     st = wf_search_check_limits(&s, err);
 *     wf_search_try(&s, WF_FAMILY_FIXED, s.order);
 *     st = wf_search_run(&s, NULL, err);
 *     st = wf_search_finish(&s, out, err);
 *     wf_search_release(&s);
 *
 * The search does not depend on the clock, and the random numbers that break ties have a fixed
 * seed, so results are reproducible.
 */
#ifndef PLANNING_SCHED_GEN_SEARCH_H
#define PLANNING_SCHED_GEN_SEARCH_H

#include "base/size.h"
#include "planning/sched/gen/gen.h"

/* -- the problem and the best orders: search.c --------------------------------------------- */

/* The passes of a (stage, micro), in the order in which they can run. */
enum wf_pass {
    WF_PASS_F,
    WF_PASS_I, /* input gradient, or B if backwards are whole */
    WF_PASS_W,
};

enum { WF_OP_NONE = UINT32_MAX };

/* One action.  The id of an action is (pass * stages + stage) * micros + micro. */
struct wf_op {
    double time;  /* duration */
    double delta; /* change of the rank's memory when the action starts */
    /* delay of the input from action `from`; 0 if `from` is on the same rank */
    double hop;
    /* from: id of the action whose result this action needs; to: id of the action that needs
     * the result of this action; WF_OP_NONE if there is none */
    uint32_t from, to;
    uint32_t rank;
    uint32_t row; /* pass * stages + stage; actions with the same row run in micro order */
};

/* The score of an order.  Scores are compared lexicographically.  The first two values are span
 * and makespan, or makespan and span, depending on the objective.  The third value is the
 * highest peak memory of all ranks. */
struct wf_score {
    double first, second, peak;
};

/* The score of an order that deadlocks or exceeds a limit. */
#define WF_SCORE_INFEASIBLE ((struct wf_score){1e300, 1e300, 1e300})

/* The family of an order is the method that produced it.  The search keeps and improves the
 * best order of each family, because the best order overall may be a local optimum. */
enum wf_family {
    WF_FAMILY_FIXED,       /* orders given by a fixed rule */
    WF_FAMILY_LIST,        /* list scheduler with priority rules */
    WF_FAMILY_ROUND_ROBIN, /* list scheduler with passes in rotation */
    WF_FAMILY_GUIDED,      /* list scheduler that follows the times of a pattern */
    WF_FAMILY_PATTERN,     /* repeated pattern with filled gaps */
    WF_N_FAMILIES
};

struct wf_search_setup {
    const char *name;
    uint32_t chunks; /* stages per rank */
    bool whole;      /* true: backwards are not split into I and W */
    /* The placement: loop, V or wave.  The value linear means linear with one chunk and V with
     * two chunks.  The list scheduler and the patterns support at most two chunks. */
    enum weft_placement_kind place;
    uint64_t seed; /* seed of the random numbers that break ties */
};

struct wf_search {
    struct wf_search_setup setup;
    enum weft_minimize minimize;
    uint32_t n_ranks, n_stages, n_micros, n_chunks, n_passes;
    size_t per_rank, n_ops; /* number of actions per rank and in total */
    uint32_t *rank_of;      /* owned: (stages), the rank of each stage */
    uint32_t *stage_of;     /* owned: (ranks, chunks), the stage of each chunk */
    double *limit;          /* owned: (ranks), memory limit of each rank */
    struct wf_op *ops;      /* owned: (passes, stages, micros) */
    struct wf_score bound;  /* lower bound of the scores of all orders */
    struct wf_incumbent {
        struct wf_score score;
        uint32_t *order; /* owned: (ranks, per_rank) */
    } best[WF_N_FAMILIES];

    /* Results of the last wf_search_time(). */
    double *start, *end;           /* owned: (n_ops), start and end time of each action */
    uint32_t *topo;                /* owned: (n_ops), a topological order */
    double *rank_start, *rank_end; /* owned: (ranks), first start and last end per rank */
    uint64_t n_timed;              /* number of orders timed so far */

    /* owned: (ranks, per_rank), scratch memory for a new order */
    uint32_t *order;
    uint32_t *pc, *waits_for, *ready; /* owned: (ranks), scratch memory of wf_search_time() */
};

/* Sets up the problem of a search.  Uses the memory limits in `params`; by default there is no
 * limit.  After success, the caller must call wf_search_release(). */
enum weft_status wf_search_init(struct wf_search *s, const struct wf_search_setup *setup,
                                const struct weft_gen_params *params, struct weft_error *err);

/* Frees the memory of the search and resets the search to empty. */
void wf_search_release(struct wf_search *s);

/* Lowers the memory limit of every rank to `chunks` times the memory of its largest forward, or
 * to the memory that one micro needs if this is larger. */
void wf_search_cap_memory(struct wf_search *s, double chunks);

/* Tries the order that runs one micro after the other.  Returns WEFT_USAGE if even this order
 * exceeds a memory limit.  The caller must call this function once, after setting all
 * limits. */
enum weft_status wf_search_check_limits(struct wf_search *s, struct weft_error *err);

/* Computes start, end and topo.  Returns false if the order deadlocks.  For each (stage,
 * micro), the order must list F before I and I before W. */
bool wf_search_time(struct wf_search *s, const uint32_t *order);

/* Returns the score of the order that was timed last.  The peak in this score is 0. */
struct wf_score wf_search_score(const struct wf_search *s);

/* Returns the peak memory of a rank's list. */
double wf_search_peak(const struct wf_search *s, const uint32_t *row);

/* Times an order and returns its score.  Keeps a copy of the order if it is within the memory
 * limits and is the best order of its family so far. */
struct wf_score wf_search_try(struct wf_search *s, enum wf_family family,
                              const uint32_t *order);

/* Returns a negative number if a is better, a positive number if b is better, and 0 if both are
 * equal. */
int wf_score_compare(struct wf_score a, struct wf_score b);

/* Returns true if a score reaches the lower bound, so that no order is better. */
bool wf_search_is_optimal(const struct wf_search *s, struct wf_score score);

/* Returns the family with the best order. */
enum wf_family wf_search_best_family(const struct wf_search *s);

/* Returns the best order of all families. */
const struct wf_incumbent *wf_search_best(const struct wf_search *s);

/* Tries the order of the schedule that another generator produces.  That schedule must have
 * split backwards and the same placement as the search. */
enum weft_status
wf_search_try_generator(struct wf_search *s,
                        enum weft_status (*make)(const struct weft_gen_params *,
                                                 struct weft_schedule **, struct weft_error *),
                        const struct weft_gen_params *params, struct weft_error *err);

/* Creates a schedule from the best order.  The caller owns *out. */
enum weft_status wf_search_finish(const struct wf_search *s, struct weft_schedule **out,
                                  struct weft_error *err);

/* Returns the stage of a rank's chunk. */
static inline uint32_t wf_search_stage(const struct wf_search *s, uint32_t rank, uint32_t chunk)
{
    return s->stage_of[(size_t)rank * s->n_chunks + chunk];
}

/* Returns the id of an action. */
static inline uint32_t wf_search_op_id(const struct wf_search *s, enum wf_pass pass,
                                       uint32_t stage, uint32_t micro)
{
    return (uint32_t)(((size_t)pass * s->n_stages + stage) * s->n_micros + micro);
}

/* Returns the action of a stage for micro 0.  All micros have the same costs. */
static inline const struct wf_op *wf_search_stage_op(const struct wf_search *s,
                                                     enum wf_pass pass, uint32_t stage)
{
    return &s->ops[wf_search_op_id(s, pass, stage, 0)];
}

/* Returns true if action b must not run before action a.  Both actions must be on the same
 * rank. */
static inline bool wf_search_must_follow(const struct wf_search *s, uint32_t a, uint32_t b)
{
    return s->ops[a].row == s->ops[b].row || s->ops[b].from == a ||
           /* b is the next pass of the same (stage, micro) */
           b - a == s->n_stages * s->n_micros;
}

/* Returns true if an amount of memory is within a rank's limit, with a tolerance for
 * rounding. */
static inline bool wf_search_fits(const struct wf_search *s, uint32_t rank, double mem)
{
    return weft_memory_fits(mem, s->limit[rank]);
}

/* -- the list scheduler: search_list.c ----------------------------------------------------- */

/* Parameters of the rule by which the list scheduler chooses among ready actions. */
struct wf_list_knobs {
    double in_flight;       /* maximum number of micros in flight in chunk 0 on the last rank */
    double in_flight_slope; /* increase of that maximum per rank before the last rank */
    /* how long a W may delay an action with a known arrival, in units of the W's duration */
    double w_slack;
    /* how long a rank waits for a better action, in units of the ready action's duration */
    double max_wait;
    bool forward_first; /* prefer forwards to gradients */
    /* prefer the gradient of the deeper chunk, even if the other chunk lags behind */
    bool deep_first;
    bool round_robin; /* prefer the pass and chunk that ran longest ago */
    /* borrowed, may be NULL: (2, stages), start times of F and I of micro 0 in a pattern.  If
     * set, the scheduler prefers the action with the earliest time in the pattern. */
    const double *offset;
    double period; /* time between consecutive micros in the pattern */
};

struct wf_list_sched; /* opaque: reusable working memory of the list scheduler */

/* Returns NULL if there is no memory. */
struct wf_list_sched *wf_list_sched_new(const struct wf_search *s);
void wf_list_sched_free(struct wf_list_sched *l); /* NULL is allowed */

/* Generates an order with the given knobs in s->order and tries this order. */
struct wf_score wf_list_sched_try(struct wf_list_sched *l, struct wf_search *s,
                                  const struct wf_list_knobs *knobs);

/* Starts from the best order of a family.  Keeps the order of its forwards and input gradients,
 * and places its weight gradients again: in idle times, or earlier if memory has to be freed.
 * With `cool_down`, also reorders the input gradients after a rank's last forward.  Tries the
 * resulting order. */
struct wf_score wf_list_sched_refill_w(struct wf_list_sched *l, struct wf_search *s,
                                       enum wf_family family, double w_slack, bool cool_down);

/* -- repeated patterns: search_pattern.c --------------------------------------------------- */

struct wf_pattern_options {
    /* minimum time from one rank to the next, in sixths of a period, for: forwards down,
     * forwards up, gradients down, gradients up */
    double step[4];
    /* borrowed, may be NULL: (2, stages), given start times of F and I of micro 0, in units;
     * requires `unit` */
    const double *given;
    bool unit; /* F, I and W take one unit each, and hops take no time */
    /* fill gaps only at both ends of the plan, and keep the pattern in between */
    bool pin;
    bool late_w; /* in the cool-down, weight gradients follow all input gradients */
};

struct wf_pattern; /* opaque: reusable working memory for patterns */

/* Returns NULL if there is no memory. */
struct wf_pattern *wf_pattern_new(const struct wf_search *s);
void wf_pattern_free(struct wf_pattern *b); /* NULL is allowed */

/* Returns the start times of the passes of micro 0, (passes, stages).  The array is borrowed
 * and valid until the next call. */
const double *wf_pattern_place(struct wf_pattern *b, const struct wf_search *s,
                               const struct wf_pattern_options *options, double *period);

/* Generates an order from a pattern in s->order and tries this order. */
struct wf_score wf_pattern_try(struct wf_pattern *b, struct wf_search *s,
                               const struct wf_pattern_options *options);

/* -- local improvement: search_tabu.c ------------------------------------------------------ */

/* Improves the best order of a family.  The family must have an order.  `work` limits the
 * effort: it is the approximate number of action visits. */
enum weft_status wf_search_improve(struct wf_search *s, enum wf_family family, double work,
                                   struct weft_error *err);

/* Improves a given feasible order.  The result is stored as an order of `family`. */
enum weft_status wf_search_improve_from(struct wf_search *s, enum wf_family family,
                                        const uint32_t *order, struct wf_score score,
                                        double work, struct weft_error *err);

/* -- the strategy: search_run.c ------------------------------------------------------------ */

/* Tries many settings of the list scheduler and the patterns, and improves the best results.
 * `given` is an additional pattern to try (see wf_pattern_options), or NULL. */
enum weft_status wf_search_run(struct wf_search *s, const double *given,
                               struct weft_error *err);

#endif
