/* A scheduling problem in integers, the input of the bounds and the exact search.
 *
 * A chain is a stage of a pipe.  A row is one pass (F, I, W) of a chain: one action per micro of the
 * pipe, all alike.  WHY ROWS MAY BE ASSUMED TO RUN IN MICRO ORDER: take any schedule, and rename the
 * k-th action that runs in each row to "micro k".  When the k-th forward of stage s + 1 starts, k
 * forwards have started there, of k micros.  So k forwards have ended on stage s, and the k-th end
 * there was not later.  So the renamed forward still follows the renamed one that it depends on;
 * gradients likewise.  Times and memory belong to the row, so they do not change.  Hence every bound
 * for schedules whose rows run in micro order holds for all schedules.
 *
 * Times are in ticks.  If they are decimal fractions, a tick divides them all.  Otherwise they are
 * rounded down.  A schedule for the true times is also one for the rounded times, so bounds hold.
 */
#ifndef PLANNING_TUNE_INSTANCE_H
#define PLANNING_TUNE_INSTANCE_H

#include "weft/bound.h"

enum { WF_ROW_F, WF_ROW_I, WF_ROW_W };

#define WF_NO_ROW UINT32_MAX

struct wf_row {
    uint32_t chain, pass, rank, n; /* n actions */
    uint32_t local;                /* its index among the rows of its rank */
    uint32_t from, to; /* the row whose results it needs, and the one that needs its results; or
                          WF_NO_ROW */
    size_t first;      /* id of its first action */
    int64_t time, hop; /* of an action; of its input from `from` */
    double delta;      /* change of memory when an action starts */
};

struct wf_instance {
    uint32_t n_ranks, n_stages, n_pipes, n_chains, n_passes, n_rows;
    size_t n_ops;
    double tick;          /* in units of the costs */
    bool exact;           /* no time was rounded */
    bool impossible;      /* no schedule is within the limits */
    double *limit;        /* owned: (ranks) */
    struct wf_row *rows;  /* owned: (chains, passes) */
    uint32_t *row_of;     /* owned: (n_ops) */
    uint32_t *rank_first; /* owned: (ranks + 1), into rank_rows */
    uint32_t *rank_rows;  /* owned: (n_rows), ascending on each rank */
    uint32_t *rank_ops;   /* owned: (ranks) */

    /* The number of I and of W of the same chain that must end before the action starts,
     * because of the memory limit alone. */
    uint32_t *need_i, *need_w; /* owned: (n_ops) */

    /* For each pair (x, y) of a rank's rows: the number of actions of y that must run before
     * the k-th action of x, and the number that must run after it.  x and y are local
     * indices.  The index of an entry is need_first[rank] + (x * rows + y) * need_n[rank] +
     * k.  NULL if the tables would be too large. */
    uint32_t *need_before, *need_after; /* owned: (n_needs) */
    size_t *need_first, n_needs;        /* owned: (ranks); size of each table */
    uint32_t *need_n;                   /* owned: (ranks) */
};

/* Builds the instance of a problem.  On success the caller calls wf_instance_release(). */
enum weft_status wf_instance_init(struct wf_instance *x, const struct weft_bound_input *in,
                                  struct weft_error *err);

/* Frees what the instance owns and empties it. */
void wf_instance_release(struct wf_instance *x);

/* Returns the index of a row. */
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

/* Returns the index of the first need of a rank's rows a and b in need_before and need_after. */
static inline size_t wf_instance_need(const struct wf_instance *x, uint32_t rank, uint32_t a,
                                      uint32_t b)
{
    size_t rows = wf_instance_n_rows(x, rank);
    return x->need_first[rank] + (a * rows + b) * x->need_n[rank];
}

/* Computes the closure of a rank's needs in `before` after some were raised, and then `after`. */
void wf_instance_close(const struct wf_instance *x, uint32_t rank, uint32_t *before,
                       uint32_t *after);

/* Returns the forward row of a rank's first stage, whose first action is the first of the rank.
 * Returns WF_NO_ROW for a rank without rows or with several pipes. */
uint32_t wf_instance_first_row(const struct wf_instance *x, uint32_t rank);

#endif
