/* A scheduling problem in whole numbers, as the bounds and the exact search take it.
 *
 * A chain is a stage in a pipe, a row is one pass (F, I, W) of a chain: as many actions as the
 * pipe has micros, all alike.  WHY THE ORDER WITHIN A ROW IS FREE TO CHOOSE: take any schedule,
 * and in each row call the k-th action that runs "micro k".  When the k-th forward of stage s + 1
 * starts, k forwards have started there, of k micros, so k forwards have ended on stage s: the
 * k-th end there was not later.  So the renamed forward still comes after the renamed one that it
 * needs; gradients likewise.  Times and memory are those of the row, so they do not change.
 * Hence every bound for schedules in which rows run in order of micros holds for all.
 *
 * Times are in ticks.  If they are decimal fractions, a tick divides them all.  Otherwise they are
 * rounded down, and a schedule for the true times is one for those too, so that bounds hold.
 */
#ifndef PLANNING_TUNE_INSTANCE_H
#define PLANNING_TUNE_INSTANCE_H

#include "weft/bound.h"

enum { WF_ROW_F, WF_ROW_I, WF_ROW_W };

#define WF_NO_ROW UINT32_MAX

struct wf_row {
    uint32_t chain, pass, rank, n; /* n actions */
    uint32_t local;                /* which of its rank's rows it is */
    uint32_t from, to; /* the rows whose actions these need, and that need these; or NO_ROW */
    size_t first;      /* number of its first action */
    int64_t time, hop; /* of an action; from `from` to here */
    double delta;      /* of memory, at the start */
};

struct wf_instance {
    uint32_t n_ranks, n_stages, n_pipes, n_chains, n_passes, n_rows;
    size_t n_ops;
    double tick; /* in units of the costs */
    bool exact;  /* no time was rounded */
    bool impossible;
    double *limit;        /* owned: (ranks) */
    struct wf_row *rows;  /* owned: (chains, passes) */
    uint32_t *row_of;     /* owned: (n_ops) */
    uint32_t *rank_first; /* owned: (ranks + 1), into rank_rows */
    uint32_t *rank_rows;  /* owned: (n_rows), ascending on each rank */
    uint32_t *rank_ops;   /* owned: (ranks) */

    /* What memory alone implies: so many I and W of its own chain must have been started before
     * the action does. */
    uint32_t *need_i, *need_w; /* owned: (n_ops) */

    /* Of all rows of a rank (local x, local y): so many actions of y must run before x's k-th,
     * and so many after.  At need + need_first[rank] + (x * rows + y) * need_n[rank] + k.  NULL
     * when that would be too large. */
    uint32_t *need_before, *need_after; /* owned */
    size_t *need_first, n_needs;        /* owned: (ranks); of each table */
    uint32_t *need_n;                   /* owned: (ranks) */
};

enum weft_status wf_instance_init(struct wf_instance *x, const struct weft_bound_input *in,
                                  struct weft_error *err);
void wf_instance_release(struct wf_instance *x);

static inline uint32_t wf_instance_row(const struct wf_instance *x, uint32_t chain,
                                       uint32_t pass)
{
    return chain * x->n_passes + pass;
}

static inline uint32_t wf_instance_n_rows(const struct wf_instance *x, uint32_t rank)
{
    return x->rank_first[rank + 1] - x->rank_first[rank];
}

/* Where the needs of a rank's rows a and b are in such a table. */
static inline size_t wf_instance_need(const struct wf_instance *x, uint32_t rank, uint32_t a,
                                      uint32_t b)
{
    size_t rows = wf_instance_n_rows(x, rank);
    return x->need_first[rank] + (a * rows + b) * x->need_n[rank];
}

/* After some of a rank's needs in `before` were raised: what follows from them, and `after`. */
void wf_instance_close(const struct wf_instance *x, uint32_t rank, uint32_t *before,
                       uint32_t *after);

/* The first stage's forwards on a rank, whose first action is the rank's first; NO_ROW for a rank
 * without one, or when pipes make it uncertain. */
uint32_t wf_instance_first_row(const struct wf_instance *x, uint32_t rank);

#endif
