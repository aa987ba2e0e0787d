/* Searching for a schedule: what the generators that look at times and memory share.
 *
 * A search knows the problem (which rank holds which stage, what each action costs, how much
 * memory a rank has) and keeps the best orders that it was shown.  A generator sets the limits,
 * may show orders of its own, and then runs the common strategy:
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
 * Nothing looks at a clock, and ties are broken by numbers that are the same every time, so a
 * plan can be made again.
 */
#ifndef PLANNING_SCHED_GEN_SEARCH_H
#define PLANNING_SCHED_GEN_SEARCH_H

#include "base/size.h"
#include "planning/sched/gen/gen.h"

/* -- the problem and the best orders: search.c --------------------------------------------- */

/* The passes of a (stage, micro), in the order in which they can run. */
enum wf_pass {
    WF_PASS_F,
    WF_PASS_I, /* or B, when backwards are whole */
    WF_PASS_W,
};

enum { WF_OP_NONE = UINT32_MAX };

/* One action.  Its number is (pass * stages + stage) * micros + micro. */
struct wf_op {
    double time, delta; /* of the clock, and of the rank's memory when it starts */
    double hop;         /* from `from` to here: 0 on the same rank */
    uint32_t from, to;  /* the neighbour whose output it needs, and who needs its own */
    uint32_t rank;
    uint32_t row; /* pass * stages + stage: actions of a row stay in micro order */
};

/* What is compared, most important first: span and makespan, or makespan and span; then the
 * highest peak of all ranks. */
struct wf_score {
    double first, second, peak;
};

/* The score of an order that cannot run or does not fit. */
#define WF_SCORE_INFEASIBLE ((struct wf_score){1e300, 1e300, 1e300})

/* Where an order came from.  The best of each family is kept and improved: the best of all may
 * be a dead end. */
enum wf_family {
    WF_FAMILY_FIXED,       /* by a closed rule */
    WF_FAMILY_LIST,        /* the list scheduler by its own rules */
    WF_FAMILY_ROUND_ROBIN, /* the list scheduler, the passes taking turns */
    WF_FAMILY_GUIDED,      /* the list scheduler by the times of a block */
    WF_FAMILY_PATTERN,     /* a block repeated, its gaps filled */
    WF_N_FAMILIES
};

struct wf_search_setup {
    const char *name;
    uint32_t chunks; /* stages a rank */
    bool whole;      /* backwards are not split */
    /* Loop, V or wave; otherwise linear with one chunk and the V with two.  The list scheduler and
     * the blocks are for at most two chunks. */
    enum weft_placement_kind place;
    uint64_t seed; /* of the random numbers that break ties */
};

struct wf_search {
    struct wf_search_setup setup;
    enum weft_minimize minimize;
    uint32_t n_ranks, n_stages, n_micros, n_chunks, n_passes;
    size_t per_rank, n_ops; /* actions of a rank, and of all */
    double hop;
    uint32_t *rank_of;     /* owned: (stages) */
    uint32_t *stage_of;    /* owned: (ranks, chunks) */
    double *limit;         /* owned: (ranks) */
    struct wf_op *ops;     /* owned: (passes, stages, micros) */
    struct wf_score bound; /* no order can be better */
    struct wf_incumbent {
        struct wf_score score;
        uint32_t *order; /* owned: (ranks, per_rank) */
    } best[WF_N_FAMILIES];

    /* What the last timing left behind. */
    double *start, *end;           /* owned: (n_ops) */
    uint32_t *topo;                /* owned: (n_ops), every action after what it waits for */
    double *rank_start, *rank_end; /* owned: (ranks) */
    uint64_t n_timed;              /* orders timed so far */

    uint32_t *order;                  /* owned: (ranks, per_rank), for whoever makes an order */
    uint32_t *pc, *waits_for, *ready; /* owned: (ranks), for timing */
};

/* Limits are the given ones; a rank without one has none. */
enum weft_status wf_search_init(struct wf_search *s, const struct wf_search_setup *setup,
                                const struct weft_gen_params *params, struct weft_error *err);
void wf_search_release(struct wf_search *s);

/* No rank may hold more than `chunks` times its dearest forward, or what one micro needs if that
 * is more. */
void wf_search_cap_memory(struct wf_search *s, double chunks);

/* WEFT_USAGE when a rank cannot even run one micro after the other; otherwise that is the first
 * order found.  To be called once, when the limits are final. */
enum weft_status wf_search_check_limits(struct wf_search *s, struct weft_error *err);

/* Fills start, end and topo.  False when the order deadlocks.  The order must list F, I and W
 * of a (stage, micro) in this order. */
bool wf_search_time(struct wf_search *s, const uint32_t *order);

/* Of the order that was timed last, peak left 0. */
struct wf_score wf_search_score(const struct wf_search *s);

/* The most memory that a rank's list needs. */
double wf_search_peak(const struct wf_search *s, const uint32_t *row);

/* Times an order and keeps it when it fits and is the best of its family. */
struct wf_score wf_search_try(struct wf_search *s, enum wf_family family,
                              const uint32_t *order);

/* Negative when a is the better one. */
int wf_score_compare(struct wf_score a, struct wf_score b);

/* Nothing can be better in time. */
bool wf_search_is_optimal(const struct wf_search *s, struct wf_score score);

/* The best order of all families. */
const struct wf_incumbent *wf_search_best(const struct wf_search *s);

/* Tries the order of another generator, one with split backwards and the same placement. */
enum weft_status
wf_search_try_generator(struct wf_search *s,
                        enum weft_status (*make)(const struct weft_gen_params *,
                                                 struct weft_schedule **, struct weft_error *),
                        const struct weft_gen_params *params, struct weft_error *err);

/* The best order as a schedule. */
enum weft_status wf_search_finish(const struct wf_search *s, struct weft_schedule **out,
                                  struct weft_error *err);

static inline uint32_t wf_search_stage(const struct wf_search *s, uint32_t rank, uint32_t chunk)
{
    return s->stage_of[(size_t)rank * s->n_chunks + chunk];
}

static inline uint32_t wf_search_op_id(const struct wf_search *s, enum wf_pass pass,
                                       uint32_t stage, uint32_t micro)
{
    return (uint32_t)(((size_t)pass * s->n_stages + stage) * s->n_micros + micro);
}

/* A stage's action for micro 0, to ask what all micros have in common. */
static inline const struct wf_op *wf_search_stage_op(const struct wf_search *s,
                                                     enum wf_pass pass, uint32_t stage)
{
    return &s->ops[wf_search_op_id(s, pass, stage, 0)];
}

/* Limits are met up to rounding: sums of the same numbers in another order differ. */
static inline bool wf_search_fits(const struct wf_search *s, uint32_t rank, double mem)
{
    return weft_memory_fits(mem, s->limit[rank]);
}

/* -- the list scheduler: search_list.c ----------------------------------------------------- */

/* How to choose when a rank has a choice. */
struct wf_list_knobs {
    double in_flight;       /* forwards of chunk 0 in flight on the last rank, */
    double in_flight_slope; /* and how many more on each rank before it */
    double w_slack;     /* a W may delay what is known to arrive by this much of its own time */
    double hold;        /* a rank waits this much of an action's time for a better one */
    bool forward_first; /* a forward goes before a gradient */
    bool deep_first;    /* of two gradients the deeper chunk's, not that which lags behind */
    bool round_robin;   /* the pass and chunk that ran longest ago goes first */
    const double
        *offset;   /* borrowed, may be NULL: (2, stages), when a block runs micro 0's F and
                             I: what is earlier there goes first, whatever it is */
    double period; /* and how much later each further micro is */
};

struct wf_list_sched; /* opaque: room for the scheduler, reused */

struct wf_list_sched *wf_list_sched_new(const struct wf_search *s); /* NULL: no memory */
void wf_list_sched_free(struct wf_list_sched *l);                   /* NULL is allowed */

/* Makes an order under these knobs in s->order and tries it. */
struct wf_score wf_list_sched_try(struct wf_list_sched *l, struct wf_search *s,
                                  const struct wf_list_knobs *knobs);

/* Keeps the forwards and gradients of a family's best order and puts its weight gradients anew:
 * into waits, or before what would not fit the limit without them.  With `drain`, the gradients
 * after a rank's last forward are put anew too.  Tries that. */
struct wf_score wf_list_sched_refill_w(struct wf_list_sched *l, struct wf_search *s,
                                       enum wf_family family, double w_slack, bool drain);

/* -- building blocks: search_block.c ------------------------------------------------------- */

struct wf_pattern_options {
    double step[4]; /* the least time from rank to rank in sixths of a period: forwards down
                            and up, gradients down and up */
    const double *given; /* borrowed, may be NULL: (2, stages), the block's own times for micro
                            0's F and I, in units; `unit` is then to be true */
    bool unit;           /* lay the block as if F, I and W took one unit each, and hops none */
    bool pin;            /* fill gaps at both ends only, keep the block's times in between */
    bool late_w;         /* in the drain, weight gradients come after all gradients */
};

struct wf_pattern; /* opaque: room for making them, reused */

struct wf_pattern *wf_pattern_new(const struct wf_search *s); /* NULL: no memory */
void wf_pattern_free(struct wf_pattern *b);                   /* NULL is allowed */

/* When each pass of micro 0 would run, (passes, stages).  Borrowed: until the next call. */
const double *wf_pattern_place(struct wf_pattern *b, const struct wf_search *s,
                               const struct wf_pattern_options *style, double *period);

/* Makes an order from a block in s->order and tries it. */
struct wf_score wf_pattern_try(struct wf_pattern *b, struct wf_search *s,
                               const struct wf_pattern_options *style);

/* -- local improvement: search_tabu.c ------------------------------------------------------ */

/* Improves the best order of a family, which must have one, with about `work` visits of an
 * action. */
enum weft_status wf_search_improve(struct wf_search *s, enum wf_family family, double work,
                                   struct weft_error *err);

/* The same from any order that runs and fits; what comes out belongs to the family. */
enum weft_status wf_search_improve_from(struct wf_search *s, enum wf_family family,
                                        const uint32_t *order, struct wf_score score,
                                        double work, struct weft_error *err);

/* -- the strategy: search_run.c ------------------------------------------------------------ */

/* Tries many settings of all that is above and improves what came out best.  `given` is a block
 * to try as well, as in wf_pattern_options, or NULL. */
enum weft_status wf_search_run(struct wf_search *s, const double *given,
                               struct weft_error *err);

#endif
