/* Searching for a schedule: what the generators that look at times and memory share.
 *
 * A search knows the problem (which rank holds which stage, what each action costs, how much
 * memory a rank has) and keeps the best orders that it was shown.  A generator sets the limits,
 * may show orders of its own, and then runs the common strategy:
 *
 *     struct weft_search s;
 *     WEFT_TRY(weft_search_init(&s, &setup, params, err));
 *     s.limit[rank] = ...;
 *     st = weft_search_check_limits(&s, err);
 *     weft_search_try(&s, WEFT_FAMILY_HAND, s.order);
 *     st = weft_search_run(&s, NULL, err);
 *     st = weft_search_finish(&s, out, err);
 *     weft_search_release(&s);
 *
 * Nothing looks at a clock, and ties are broken by numbers that are the same every time, so a
 * plan can be made again.
 */
#ifndef PLANNING_SCHED_GEN_SEARCH_H
#define PLANNING_SCHED_GEN_SEARCH_H

#include "planning/sched/gen/gen.h"

/* -- the problem and the best orders: search.c --------------------------------------------- */

/* The passes of a (stage, micro), in the order in which they can run. */
enum weft_pass {
    WEFT_PASS_F,
    WEFT_PASS_I, /* or B, when backwards are whole */
    WEFT_PASS_W,
};

enum { WEFT_NO_OP = UINT32_MAX };

/* One action.  Its number is (pass * stages + stage) * micros + micro. */
struct weft_op {
    double time, delta; /* of the clock, and of the rank's memory when it starts */
    double hop;         /* from `from` to here: 0 on the same rank */
    uint32_t from, to;  /* the neighbour whose output it needs, and who needs its own */
    uint32_t rank;
    uint32_t row; /* pass * stages + stage: actions of a row stay in micro order */
};

/* What is compared, most important first: span and makespan, or makespan and span; then the
 * highest peak of all ranks. */
struct weft_score {
    double first, second, peak;
};

/* The score of an order that cannot run or does not fit. */
#define WEFT_NO_SCORE ((struct weft_score){1e300, 1e300, 1e300})

/* Where an order came from.  The best of each family is kept and improved: the best of all may
 * be a dead end. */
enum weft_family {
    WEFT_FAMILY_HAND,  /* by a closed rule */
    WEFT_FAMILY_LIST,  /* the list scheduler by its own rules */
    WEFT_FAMILY_TURN,  /* the list scheduler, the passes taking turns */
    WEFT_FAMILY_STEER, /* the list scheduler by the times of a block */
    WEFT_FAMILY_BLOCK, /* a block repeated, its gaps filled */
    WEFT_N_FAMILIES
};

struct weft_search_setup {
    const char *name;
    uint32_t chunks; /* stages a rank */
    bool whole;      /* backwards are not split */
    /* Loop, V or wave; otherwise linear with one chunk and the V with two.  The list scheduler and
     * the blocks are for at most two chunks. */
    enum weft_placement_kind place;
    uint64_t seed; /* of the random numbers that break ties */
};

struct weft_search {
    struct weft_search_setup setup;
    enum weft_minimize minimize;
    uint32_t n_ranks, n_stages, n_micros, n_chunks, n_passes;
    size_t per_rank, n_ops; /* actions of a rank, and of all */
    double hop;
    uint32_t *rank_of;       /* owned: (stages) */
    uint32_t *stage_of;      /* owned: (ranks, chunks) */
    double *limit;           /* owned: (ranks) */
    struct weft_op *ops;     /* owned: (passes, stages, micros) */
    struct weft_score bound; /* no order can be better */
    struct weft_found {
        struct weft_score score;
        uint32_t *order; /* owned: (ranks, per_rank) */
    } best[WEFT_N_FAMILIES];

    /* What the last timing left behind. */
    double *start, *end;           /* owned: (n_ops) */
    uint32_t *topo;                /* owned: (n_ops), every action after what it waits for */
    double *rank_start, *rank_end; /* owned: (ranks) */
    uint64_t n_timed;              /* orders timed so far */

    uint32_t *order;                  /* owned: (ranks, per_rank), for whoever makes an order */
    uint32_t *pc, *waits_for, *ready; /* owned: (ranks), for timing */
};

/* Limits are the given ones; a rank without one has none. */
enum weft_status weft_search_init(struct weft_search *s, const struct weft_search_setup *setup,
                                  const struct weft_params *params, struct weft_error *err);
void weft_search_release(struct weft_search *s);

/* No rank may hold more than `chunks` times its dearest forward, or what one micro needs if that
 * is more. */
void weft_search_cap(struct weft_search *s, double chunks);

/* WEFT_USAGE when a rank cannot even run one micro after the other; otherwise that is the first
 * order found.  To be called once, when the limits are final. */
enum weft_status weft_search_check_limits(struct weft_search *s, struct weft_error *err);

/* Fills start, end and topo.  False when the order deadlocks.  The order must list F, I and W
 * of a (stage, micro) in this order. */
bool weft_search_time(struct weft_search *s, const uint32_t *order);

/* Of the order that was timed last, peak left 0. */
struct weft_score weft_search_score(const struct weft_search *s);

/* The most memory that a rank's list needs. */
double weft_search_peak(const struct weft_search *s, const uint32_t *row);

/* Times an order and keeps it when it fits and is the best of its family. */
struct weft_score weft_search_try(struct weft_search *s, enum weft_family family,
                                  const uint32_t *order);

/* Negative when a is the better one. */
int weft_score_compare(struct weft_score a, struct weft_score b);

/* Nothing can be better in time. */
bool weft_search_is_perfect(const struct weft_search *s, struct weft_score score);

/* The best order of all families. */
const struct weft_found *weft_search_best(const struct weft_search *s);

/* Tries the order of another generator, one with split backwards and the same placement. */
enum weft_status weft_search_try_made(struct weft_search *s,
                                      enum weft_status (*make)(const struct weft_params *,
                                                               struct weft_schedule **,
                                                               struct weft_error *),
                                      const struct weft_params *params, struct weft_error *err);

/* The best order as a schedule. */
enum weft_status weft_search_finish(const struct weft_search *s, struct weft_schedule **out,
                                    struct weft_error *err);

static inline uint32_t weft_search_stage(const struct weft_search *s, uint32_t rank,
                                         uint32_t chunk)
{
    return s->stage_of[(size_t)rank * s->n_chunks + chunk];
}

static inline uint32_t weft_search_op(const struct weft_search *s, enum weft_pass pass,
                                      uint32_t stage, uint32_t micro)
{
    return (uint32_t)(((size_t)pass * s->n_stages + stage) * s->n_micros + micro);
}

/* A stage's action for micro 0, to ask what all micros have in common. */
static inline const struct weft_op *weft_search_first(const struct weft_search *s,
                                                      enum weft_pass pass, uint32_t stage)
{
    return &s->ops[weft_search_op(s, pass, stage, 0)];
}

/* fmin() and fmax() care for NaN, which never happens here, and cost a call. */
static inline double weft_min(double a, double b)
{
    return a < b ? a : b;
}

static inline double weft_max(double a, double b)
{
    return a > b ? a : b;
}

/* Limits are met up to rounding: sums of the same numbers in another order differ. */
static inline bool weft_search_fits(const struct weft_search *s, uint32_t rank, double mem)
{
    return weft_memory_fits(mem, s->limit[rank]);
}

/* -- the list scheduler: search_list.c ----------------------------------------------------- */

/* How to choose when a rank has a choice. */
struct weft_knobs {
    double ahead;       /* forwards of chunk 0 in flight on the last rank, */
    double ahead_slope; /* and how many more on each rank before it */
    double patience;    /* a W may delay what is known to arrive by this much of its own time */
    double hold;        /* a rank waits this much of an action's time for a better one */
    bool forward_first; /* a forward goes before a gradient */
    bool deep_first;    /* of two gradients the deeper chunk's, not that which lags behind */
    bool in_turn;       /* the pass and chunk that ran longest ago goes first */
    const double
        *offset;   /* borrowed, may be NULL: (2, stages), when a block runs micro 0's F and
                             I: what is earlier there goes first, whatever it is */
    double period; /* and how much later each further micro is */
};

struct weft_lister; /* opaque: room for the scheduler, reused */

struct weft_lister *weft_lister_new(const struct weft_search *s); /* NULL: no memory */
void weft_lister_free(struct weft_lister *l);                     /* NULL is allowed */

/* Makes an order under these knobs in s->order and tries it. */
struct weft_score weft_lister_try(struct weft_lister *l, struct weft_search *s,
                                  const struct weft_knobs *knobs);

/* Keeps the forwards and gradients of a family's best order and puts its weight gradients anew:
 * into waits, or before what would not fit the limit without them.  With `drain`, the gradients
 * after a rank's last forward are put anew too.  Tries that. */
struct weft_score weft_lister_refill(struct weft_lister *l, struct weft_search *s,
                                     enum weft_family family, double patience, bool drain);

/* -- building blocks: search_block.c ------------------------------------------------------- */

struct weft_block_style {
    double step[4]; /* the least time from rank to rank in sixths of a period: forwards down
                            and up, gradients down and up */
    const double *given; /* borrowed, may be NULL: (2, stages), the block's own times for micro
                            0's F and I, in units; `unit` is then to be true */
    bool unit;           /* lay the block as if F, I and W took one unit each, and hops none */
    bool pin;            /* fill gaps at both ends only, keep the block's times in between */
    bool late_w;         /* in the drain, weight gradients come after all gradients */
};

struct weft_blocks; /* opaque: room for making them, reused */

struct weft_blocks *weft_blocks_new(const struct weft_search *s); /* NULL: no memory */
void weft_blocks_free(struct weft_blocks *b);                     /* NULL is allowed */

/* When each pass of micro 0 would run, (passes, stages).  Borrowed: until the next call. */
const double *weft_blocks_lay(struct weft_blocks *b, const struct weft_search *s,
                              const struct weft_block_style *style, double *period);

/* Makes an order from a block in s->order and tries it. */
struct weft_score weft_blocks_try(struct weft_blocks *b, struct weft_search *s,
                                  const struct weft_block_style *style);

/* -- local improvement: search_tabu.c ------------------------------------------------------ */

/* Improves the best order of a family, which must have one, with about `work` visits of an
 * action. */
enum weft_status weft_search_improve(struct weft_search *s, enum weft_family family,
                                     double work, struct weft_error *err);

/* The same from any order that runs and fits; what comes out belongs to the family. */
enum weft_status weft_search_improve_from(struct weft_search *s, enum weft_family family,
                                          const uint32_t *order, struct weft_score score,
                                          double work, struct weft_error *err);

/* -- the strategy: search_run.c ------------------------------------------------------------ */

/* Tries many settings of all that is above and improves what came out best.  `given` is a block
 * to try as well, as in weft_block_style, or NULL. */
enum weft_status weft_search_run(struct weft_search *s, const double *given,
                                 struct weft_error *err);

#endif
