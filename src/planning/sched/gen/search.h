/* The search for an order of actions, shared by the generators that use times and memory.
 *
 * A search has the problem (placement, costs, memory limits) and the best orders found so far.  A
 * generator sets the limits, may try its own orders, and then runs the common strategy:
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
    WF_PASS_I, /* or B if backwards are whole */
    WF_PASS_W,
};

enum { WF_OP_NONE = UINT32_MAX };

/* One action.  Its id is (pass * stages + stage) * micros + micro. */
struct wf_op {
    double time;       /* duration */
    double delta;      /* change of the rank's memory when it starts */
    double hop;        /* delay of its input from `from`; 0 on the same rank */
    uint32_t from, to; /* ids of the action whose result it needs, and of the one that needs its
                          result; or WF_OP_NONE */
    uint32_t rank;
    uint32_t row; /* pass * stages + stage: actions of a row stay in micro order */
};

/* Compared lexicographically: span and makespan, or makespan and span; then the highest peak of all
 * ranks. */
struct wf_score {
    double first, second, peak;
};

/* The score of an order that deadlocks or exceeds a limit. */
#define WF_SCORE_INFEASIBLE ((struct wf_score){1e300, 1e300, 1e300})

/* The origin of an order.  The best order of each family is kept and improved, because the best of
 * all may be a dead end. */
enum wf_family {
    WF_FAMILY_FIXED,       /* a closed rule */
    WF_FAMILY_LIST,        /* the list scheduler with its rules */
    WF_FAMILY_ROUND_ROBIN, /* the list scheduler, passes in rotation */
    WF_FAMILY_GUIDED,      /* the list scheduler in the order of a pattern's times */
    WF_FAMILY_PATTERN,     /* a repeated pattern with filled gaps */
    WF_N_FAMILIES
};

struct wf_search_setup {
    const char *name;
    uint32_t chunks; /* stages per rank */
    bool whole;      /* backwards are not split */
    /* Loop, V or wave.  Linear means: linear with one chunk, V with two.  The list scheduler and the
     * patterns support at most two chunks. */
    enum weft_placement_kind place;
    uint64_t seed; /* of the random numbers that break ties */
};

struct wf_search {
    struct wf_search_setup setup;
    enum weft_minimize minimize;
    uint32_t n_ranks, n_stages, n_micros, n_chunks, n_passes;
    size_t per_rank, n_ops; /* actions per rank, and in total */
    double hop;
    uint32_t *rank_of;     /* owned: (stages) */
    uint32_t *stage_of;    /* owned: (ranks, chunks) */
    double *limit;         /* owned: (ranks) */
    struct wf_op *ops;     /* owned: (passes, stages, micros) */
    struct wf_score bound; /* lower bound of all orders */
    struct wf_incumbent {
        struct wf_score score;
        uint32_t *order; /* owned: (ranks, per_rank) */
    } best[WF_N_FAMILIES];

    /* Results of the last wf_search_time(). */
    double *start, *end;           /* owned: (n_ops) */
    uint32_t *topo;                /* owned: (n_ops), a topological order */
    double *rank_start, *rank_end; /* owned: (ranks) */
    uint64_t n_timed;              /* orders timed so far */

    uint32_t *order;                  /* owned: (ranks, per_rank), scratch for a new order */
    uint32_t *pc, *waits_for, *ready; /* owned: (ranks), scratch of wf_search_time() */
};

/* Sets up a problem.  Memory limits are the given ones; the default is no limit.  On success the
 * caller calls wf_search_release(). */
enum weft_status wf_search_init(struct wf_search *s, const struct wf_search_setup *setup,
                                const struct weft_gen_params *params, struct weft_error *err);

/* Frees what the search owns and empties it. */
void wf_search_release(struct wf_search *s);

/* Lowers the limit of every rank to `chunks` times its largest forward, or to what one micro needs
 * if that is more. */
void wf_search_cap_memory(struct wf_search *s, double chunks);

/* Tries the order that runs one micro after the other.  Returns WEFT_USAGE if even that exceeds a
 * limit.  Call it once, when the limits are final. */
enum weft_status wf_search_check_limits(struct wf_search *s, struct weft_error *err);

/* Computes start, end and topo.  Returns false if the order deadlocks.  The order must list F, I
 * and W of a (stage, micro) in this order. */
bool wf_search_time(struct wf_search *s, const uint32_t *order);

/* Returns the score of the order that was timed last, with peak 0. */
struct wf_score wf_search_score(const struct wf_search *s);

/* Returns the peak memory of a rank's list. */
double wf_search_peak(const struct wf_search *s, const uint32_t *row);

/* Times an order, and keeps a copy if it is within the limits and the best of its family.  Returns
 * its score. */
struct wf_score wf_search_try(struct wf_search *s, enum wf_family family,
                              const uint32_t *order);

/* Returns a negative number if a is better, a positive one if b is better, or else 0. */
int wf_score_compare(struct wf_score a, struct wf_score b);

/* Returns true if a score reaches the bound. */
bool wf_search_is_optimal(const struct wf_search *s, struct wf_score score);

/* Returns the family with the best order. */
enum wf_family wf_search_best_family(const struct wf_search *s);

/* Returns the best order of all families. */
const struct wf_incumbent *wf_search_best(const struct wf_search *s);

/* Tries the order of another generator, which must have split backwards and the same placement. */
enum weft_status
wf_search_try_generator(struct wf_search *s,
                        enum weft_status (*make)(const struct weft_gen_params *,
                                                 struct weft_schedule **, struct weft_error *),
                        const struct weft_gen_params *params, struct weft_error *err);

/* Makes a schedule of the best order.  The caller owns *out. */
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

/* Returns a stage's action for micro 0, which has the costs of all micros. */
static inline const struct wf_op *wf_search_stage_op(const struct wf_search *s,
                                                     enum wf_pass pass, uint32_t stage)
{
    return &s->ops[wf_search_op_id(s, pass, stage, 0)];
}

/* Returns true if action b must not run before a, both on one rank. */
static inline bool wf_search_must_follow(const struct wf_search *s, uint32_t a, uint32_t b)
{
    return s->ops[a].row == s->ops[b].row || s->ops[b].from == a ||
           b - a == s->n_stages * s->n_micros; /* the next pass of the same (stage, micro) */
}

/* Returns true if an amount is within a rank's limit, up to rounding. */
static inline bool wf_search_fits(const struct wf_search *s, uint32_t rank, double mem)
{
    return weft_memory_fits(mem, s->limit[rank]);
}

/* -- the list scheduler: search_list.c ----------------------------------------------------- */

/* Parameters of the choice among ready actions. */
struct wf_list_knobs {
    double in_flight;       /* maximum forwards of chunk 0 in flight on the last rank */
    double in_flight_slope; /* additional ones per rank before it */
    double w_slack;  /* delay that a W may cause to a known arrival, in units of its own time */
    double max_wait; /* how long a rank waits for a better action, in units of an action */
    bool forward_first; /* prefer forwards to gradients */
    bool deep_first;    /* prefer the deeper chunk's gradient, not the one that lags behind */
    bool round_robin;   /* prefer the pass and chunk that ran longest ago */
    /* borrowed, may be NULL: (2, stages), times of micro 0's F and I in a pattern.  Prefer the
     * action with the earliest time in the pattern. */
    const double *offset;
    double period; /* time from a micro to the next one in the pattern */
};

struct wf_list_sched; /* opaque: reusable working memory of the scheduler */

/* Returns NULL if there is no memory. */
struct wf_list_sched *wf_list_sched_new(const struct wf_search *s);
void wf_list_sched_free(struct wf_list_sched *l); /* NULL is allowed */

/* Makes an order with these knobs in s->order and tries it. */
struct wf_score wf_list_sched_try(struct wf_list_sched *l, struct wf_search *s,
                                  const struct wf_list_knobs *knobs);

/* Keeps the forwards and input gradients of a family's best order and places its weight gradients
 * again: into idle times, or where memory requires them.  With `cool_down`, also reorders the input
 * gradients after a rank's last forward.  Tries the result. */
struct wf_score wf_list_sched_refill_w(struct wf_list_sched *l, struct wf_search *s,
                                       enum wf_family family, double w_slack, bool cool_down);

/* -- repeated patterns: search_pattern.c --------------------------------------------------- */

struct wf_pattern_options {
    double step[4]; /* minimum time from rank to rank in sixths of a period: forwards down and
                       up, gradients down and up */
    const double *given; /* borrowed, may be NULL: (2, stages), given times of micro 0's F and
                            I in units; requires `unit` */
    bool unit;           /* F, I and W take one unit each, and hops take no time */
    bool pin;            /* fill gaps at both ends only and keep the pattern in between */
    bool late_w;         /* in the cool-down, weight gradients follow all input gradients */
};

struct wf_pattern; /* opaque: reusable working memory */

/* Returns NULL if there is no memory. */
struct wf_pattern *wf_pattern_new(const struct wf_search *s);
void wf_pattern_free(struct wf_pattern *b); /* NULL is allowed */

/* Returns the start times of micro 0's passes, (passes, stages).  Borrowed: until the next call. */
const double *wf_pattern_place(struct wf_pattern *b, const struct wf_search *s,
                               const struct wf_pattern_options *options, double *period);

/* Makes an order from a pattern in s->order and tries it. */
struct wf_score wf_pattern_try(struct wf_pattern *b, struct wf_search *s,
                               const struct wf_pattern_options *options);

/* -- local improvement: search_tabu.c ------------------------------------------------------ */

/* Improves the best order of a family, which must have one.  `work` is the approximate number of
 * visits of actions. */
enum weft_status wf_search_improve(struct wf_search *s, enum wf_family family, double work,
                                   struct weft_error *err);

/* Improves any feasible order.  The result belongs to the family. */
enum weft_status wf_search_improve_from(struct wf_search *s, enum wf_family family,
                                        const uint32_t *order, struct wf_score score,
                                        double work, struct weft_error *err);

/* -- the strategy: search_run.c ------------------------------------------------------------ */

/* Tries many settings of the list scheduler and the patterns, and improves the best results.
 * `given`, as in wf_pattern_options, is an additional pattern to try, or NULL. */
enum weft_status wf_search_run(struct wf_search *s, const double *given,
                               struct weft_error *err);

#endif
