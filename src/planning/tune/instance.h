/* A scheduling problem in integers, the input of the bounds and the exact search.
 *
 * A chain is one stage of one pipe.  A row is one pass (F, I or W) of a chain.  It has one
 * action per micro of the pipe, and all actions of a row have the same time and memory.
 *
 * Why rows may be assumed to run in micro order: take any schedule, and rename the k-th action
 * that runs in each row to "micro k".  When the k-th forward of stage s + 1 starts, forwards of
 * k micros have started on stage s + 1.  So at least k forwards have ended on stage s, and the
 * k-th of them has ended by then.  So the renamed forward still follows the renamed forward
 * that it depends on.  The same argument applies to gradients.  Times and memory are
 * properties of the row, so renaming does not change them.  Hence every bound for schedules
 * whose rows run in micro order is a bound for all schedules.
 *
 * Times are in ticks.  If the times are decimal fractions, the tick is chosen to divide all of
 * them.  Otherwise the times are rounded down.  A schedule for the true times is also a
 * schedule for the rounded times, so the bounds remain valid.
 */
#ifndef PLANNING_TUNE_INSTANCE_H
#define PLANNING_TUNE_INSTANCE_H

#include "weft/bound.h"

enum { WF_ROW_F, WF_ROW_I, WF_ROW_W };

#define WF_NO_ROW UINT32_MAX

struct wf_row {
    uint32_t chain, pass, rank, n; /* n: number of actions */
    uint32_t local;                /* index of this row among the rows of its rank */
    /* `from` is the row whose results this row needs, `to` is the row that needs the results
     * of this row; WF_NO_ROW if there is no such row */
    uint32_t from, to;
    size_t first;      /* id of the row's first action */
    int64_t time, hop; /* time of an action; time of the hop from the row `from` */
    double delta;      /* change of memory when an action starts */
};

struct wf_instance {
    uint32_t n_ranks, n_stages, n_pipes, n_chains, n_passes, n_rows;
    size_t n_ops;
    double tick;          /* length of a tick, in units of the costs */
    bool exact;           /* true if no time was rounded */
    bool impossible;      /* true if no schedule is within the limits */
    double *limit;        /* owned: (ranks), memory limit */
    struct wf_row *rows;  /* owned: (chains, passes) */
    uint32_t *row_of;     /* owned: (n_ops), row of each action */
    uint32_t *rank_first; /* owned: (ranks + 1), index of each rank's first row in rank_rows */
    uint32_t *rank_rows;  /* owned: (n_rows), rows of each rank, in ascending order */
    uint32_t *rank_ops;   /* owned: (ranks), number of actions */

    /* The number of I and of W of the same chain that must end before the action starts,
     * because of the memory limit alone. */
    uint32_t *need_i, *need_w; /* owned: (n_ops) */

    /* For each pair (x, y) of a rank's rows: the number of actions of y that must run before
     * the k-th action of x, and the number that must run after it.  x and y are local
     * indices.  The index of an entry is need_first[rank] + (x * rows + y) * need_n[rank] +
     * k.  NULL if the tables would be too large. */
    uint32_t *need_before, *need_after; /* owned: (n_needs) */
    /* owned: (ranks), index of each rank's first entry; size of each table */
    size_t *need_first, n_needs;
    uint32_t *need_n; /* owned: (ranks), number of entries per pair of rows */
};

/* Builds the instance of a problem.  On success the caller must call wf_instance_release(). */
enum weft_status wf_instance_init(struct wf_instance *x, const struct weft_bound_input *in,
                                  struct weft_error *err);

/* Frees the arrays of the instance and zeroes *x. */
void wf_instance_release(struct wf_instance *x);

/* Returns the index of the row of a chain and a pass. */
static inline uint32_t wf_instance_row(const struct wf_instance *x, uint32_t chain,
                                       uint32_t pass)
{
    return chain * x->n_passes + pass;
}

/* Returns the number of rows of a rank. */
static inline uint32_t wf_instance_n_rows(const struct wf_instance *x, uint32_t rank)
{
    return x->rank_first[rank + 1] - x->rank_first[rank];
}

/* Returns the index in need_before and need_after of the first entry for the rows a and b of
 * a rank. */
static inline size_t wf_instance_need(const struct wf_instance *x, uint32_t rank, uint32_t a,
                                      uint32_t b)
{
    size_t rows = wf_instance_n_rows(x, rank);
    return x->need_first[rank] + (a * rows + b) * x->need_n[rank];
}

/* Computes the transitive closure of a rank's needs in `before` after some needs were
 * raised.  Then computes `after` from `before`. */
void wf_instance_close(const struct wf_instance *x, uint32_t rank, uint32_t *before,
                       uint32_t *after);

/* Returns the forward row of a rank's first stage.  The first action of this row is the
 * first action of the rank.  Returns WF_NO_ROW if the rank has no rows or several pipes. */
uint32_t wf_instance_first_row(const struct wf_instance *x, uint32_t rank);

#endif
