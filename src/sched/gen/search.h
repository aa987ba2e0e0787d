/* Searching for a schedule: what the generators that look at times and memory share.
 *
 * A search knows the problem (which rank holds which stage, what each action costs, how much
 * memory a rank has) and keeps the best order that it was shown.  A generator shows it orders:
 * rules of its own, the list scheduler's (search_list.c) under many settings, and then lets the
 * best be improved (search_tabu.c).
 *
 *     struct weft_search s;
 *     WEFT_TRY(weft_search_init(&s, &setup, params, err));
 *     st = weft_search_check_limits(&s, err);
 *     weft_search_try(&s, order);  ...
 *     weft_search_improve(&s, work);
 *     st = weft_search_finish(&s, out, err);
 *     weft_search_release(&s);
 *
 * Nothing looks at a clock and nothing is random, so a plan can be made again.
 */
#ifndef SCHED_GEN_SEARCH_H
#define SCHED_GEN_SEARCH_H

#include "sched/gen/gen.h"

/* The passes of a (stage, micro), in the order in which they can run. */
enum weft_pass {
    WEFT_PASS_F,
    WEFT_PASS_I, /* or B, when backwards are whole */
    WEFT_PASS_W,
};

enum { WEFT_NO_OP = UINT32_MAX };

/* How many orders are kept to be improved: the best one may be a dead end. */
enum { WEFT_SEARCH_POOL = 4 };

/* One action.  Its number is (pass * stages + stage) * micros + micro. */
struct weft_op {
    double time, delta;
    double hop;        /* from `from` to here: 0 on the same rank */
    uint32_t from, to; /* the neighbour whose output it needs, and who needs its own */
    uint32_t rank;
    uint32_t row; /* pass * stages + stage: actions of a row stay in micro order */
};

/* What is compared, most important first; see weft_search.minimize. */
struct weft_score {
    double first, second, peak;
};

struct weft_search_setup {
    const char *name;
    uint32_t chunks; /* stages a rank: 1 (linear) or 2 (down the ranks and back up) */
    bool whole;      /* backwards are not split */
};

struct weft_search {
    struct weft_search_setup setup;
    enum weft_minimize minimize;
    uint32_t n_ranks, n_stages, n_micros, n_chunks, n_passes;
    size_t per_rank, n_ops; /* actions of a rank, and of all */
    double hop;
    double *limit;       /* owned: (ranks) */
    struct weft_op *ops; /* owned: (passes, stages, micros) */
    double *bound;       /* owned: (2), no order's span and makespan can be less */

    /* The best orders so far, best first, no two of the same score. */
    uint32_t n_best;
    struct {
        struct weft_score score;
        uint32_t *order; /* owned: (ranks, per_rank) */
    } best[WEFT_SEARCH_POOL];

    /* What the last timing left behind. */
    double *start, *end; /* owned: (n_ops) */
    uint32_t *topo;      /* owned: (n_ops), every action after what it waits for */
    double *rank_start;  /* owned: (ranks) */
    double *rank_end;    /* owned: (ranks) */
    uint32_t *order;     /* owned: (ranks, per_rank), for whoever makes an order */

    uint32_t *pc, *waits_for, *ready; /* owned: (ranks), for timing */
};

/* Limits are the given ones; a rank without one gets `otherwise` times its dearest forward, or
 * no limit when that is 0. */
enum weft_status weft_search_init(struct weft_search *s, const struct weft_search_setup *setup,
                                  const struct weft_params *params, double otherwise,
                                  struct weft_error *err);
void weft_search_release(struct weft_search *s);

/* WEFT_USAGE when a rank cannot even run one micro after the other. */
enum weft_status weft_search_check_limits(struct weft_search *s, struct weft_error *err);

/* Fills start, end and topo.  False when the order deadlocks. */
bool weft_search_time(struct weft_search *s, const uint32_t *order);

/* Of the order that was timed last, peak left 0. */
struct weft_score weft_search_score(const struct weft_search *s);

/* The most memory that a rank's list needs. */
double weft_search_peak(const struct weft_search *s, const uint32_t *row);

/* Times an order and keeps it when it fits and is good enough.  True when it is the best. */
bool weft_search_try(struct weft_search *s, const uint32_t *order);

/* The same for an order that fits and was timed last, whose peak is known. */
bool weft_search_keep(struct weft_search *s, const uint32_t *order, double peak);

/* Negative when a is the better one. */
int weft_score_compare(struct weft_score a, struct weft_score b);

/* Nothing can be better than the best found. */
bool weft_search_is_perfect(const struct weft_search *s);

/* The best order as a schedule. */
enum weft_status weft_search_finish(const struct weft_search *s, struct weft_schedule **out,
                                    struct weft_error *err);

static inline uint32_t weft_search_stage(const struct weft_search *s, uint32_t rank,
                                         uint32_t chunk)
{
    return chunk == 0 ? rank : 2 * s->n_ranks - 1 - rank;
}

static inline uint32_t weft_search_op(const struct weft_search *s, enum weft_pass pass,
                                      uint32_t stage, uint32_t micro)
{
    return (uint32_t)(((size_t)pass * s->n_stages + stage) * s->n_micros + micro);
}

/* Limits are met up to rounding: sums of the same numbers in another order differ. */
static inline bool weft_search_fits(const struct weft_search *s, uint32_t rank, double mem)
{
    double limit = s->limit[rank];
    return mem <= limit + 1e-9 * (limit > 1 ? limit : 1);
}

/* -- the list scheduler: search_list.c -------------------------------------------------------- */

/* How to choose when a rank has a choice. */
struct weft_knobs {
    double ahead;       /* forwards of chunk 0 in flight on the last rank */
    double ahead_slope; /* and how many more on each rank before it */
    double patience;    /* a W may delay what is known to arrive by this much of its own time */
    double hold;        /* a forward waits for a gradient that arrives within this much of it */
    bool forward_first; /* a forward goes before a gradient while fewer are in flight */
    bool deep_first;    /* gradients: the chunk that was waiting longest, or the deeper one */
    const double *offset; /* borrowed, may be NULL: (2, stages), when micro 0's F and I would run
                             in a steady state, by which all choices are then made */
    double period;        /* and how much later each further micro would */
};

struct weft_lister; /* opaque: room for the scheduler, reused */

struct weft_lister *weft_lister_new(const struct weft_search *s); /* NULL: no memory */
void weft_lister_free(struct weft_lister *l);

/* Makes an order under these knobs in s->order and tries it. */
bool weft_lister_try(struct weft_lister *l, struct weft_search *s,
                     const struct weft_knobs *knobs);

/* -- local improvement: search_tabu.c --------------------------------------------------------- */

/* Improves the best order, doing about `work` visits of an action. */
enum weft_status weft_search_improve(struct weft_search *s, double work, struct weft_error *err);

/* Keeps the forwards and gradients of an order, which must not be s->order, and puts its weight
 * gradients anew: into waits, or before what would not fit the limit without them.  Tries that. */
bool weft_lister_refill(struct weft_lister *l, struct weft_search *s, const uint32_t *order,
                        double patience);

/* -- building blocks: search_block.c ---------------------------------------------------------- */

struct weft_block_style {
    double step[4]; /* the least time from rank to rank in sixths of a period: forwards down and
                       up, gradients down and up */
    const double *given; /* borrowed, may be NULL: (2, stages), when micro 0's F and I run: the
                            block is then this one, made for unit times */
    bool unit;      /* lay the block as if all passes took the same time */
    bool pin;       /* fill gaps at both ends only, keep the block's times in between */
    bool late_w;    /* in the drain, weight gradients come after all gradients */
};

struct weft_blocks; /* opaque: room for making them, reused */

struct weft_blocks *weft_blocks_new(const struct weft_search *s); /* NULL: no memory */
void weft_blocks_free(struct weft_blocks *b);

/* When each pass of micro 0 would run, (passes, stages).  Borrowed: until the next call. */
const double *weft_blocks_lay(struct weft_blocks *b, const struct weft_search *s,
                              const struct weft_block_style *style, double *period);

/* Makes an order from a block in s->order and tries it. */
bool weft_blocks_try(struct weft_blocks *b, struct weft_search *s,
                     const struct weft_block_style *style);

/* -- what the generators with two chunks have in common: search_v.c ---------------------------- */

enum weft_status weft_search_v(struct weft_search *s, const double *given, double work,
                               struct weft_error *err);

#endif
