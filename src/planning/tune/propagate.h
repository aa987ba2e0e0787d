/* Constraint propagation over time windows: narrows the earliest start and the latest end of
 * each action until nothing changes or an action cannot run.
 *
 *     struct wf_windows w;
 *     wf_windows_init(&w, &x, err);
 *     ... fill w.est and w.lct ...
 *     if (!wf_windows_narrow(&w, rounds))  // no schedule is within these windows
 */
#ifndef PLANNING_TUNE_PROPAGATE_H
#define PLANNING_TUNE_PROPAGATE_H

#include "planning/tune/instance.h"

/* A time that is far greater than all sums of times and far from overflow.  It means that
 * there is no constraint. */
#define WF_FAR ((int64_t)1 << 57)

struct wf_windows {
    const struct wf_instance *x; /* borrowed */
    int64_t *est, *lct;          /* owned: (n_ops), earliest start and latest end */
    int64_t span;                /* maximum span of every rank; 0 if there is no constraint */
    /* number of action visits so far, and its limit; limit 0 means no limit */
    double work, max_work;
    bool use_memory; /* true to apply the memory rule, too */
    /* owned: the needs of the instance, raised by what the windows imply; NULL if the
     * instance has none */
    uint32_t *before, *after;

    bool *dirty; /* owned: (ranks), true if a window of the rank has changed */

    /* Scratch arrays for one rank. max_ops is the maximum number of actions per rank. */
    uint32_t max_ops;
    int64_t *e, *l, *p, *now;           /* owned: (max_ops), est, lct, time and new est */
    uint32_t *slot, *by_a, *by_b, *row; /* owned: (max_ops) */
    uint32_t *cursor;                   /* owned: (rows of a rank) */
    struct wf_theta *tree;              /* owned: (2 * leaves) */
    uint32_t leaves;
};

/* Allocates windows.  The caller must fill est and lct.  On success the caller must call
 * wf_windows_release(). */
enum weft_status wf_windows_init(struct wf_windows *w, const struct wf_instance *x,
                                 struct weft_error *err);

/* Frees the arrays of the windows and zeroes *w. */
void wf_windows_release(struct wf_windows *w);

/* Narrows the windows of dirty ranks in at most `rounds` rounds.  Returns false if no
 * schedule is within the windows. */
bool wf_windows_narrow(struct wf_windows *w, uint32_t rounds);

/* Marks all ranks as dirty, and resets the needs to those of the instance.  Must be called
 * after est and lct were filled. */
void wf_windows_invalidate(struct wf_windows *w);

/* Applies the memory rule to one rank (propagate_memory.c).  Sets *changed if a window changed.
 * Returns false if no schedule is within the windows. */
bool wf_windows_memory(struct wf_windows *w, uint32_t rank, bool *changed);

/* Narrows the windows by the precedence rule only.  Returns false if no schedule is within
 * the windows. */
bool wf_windows_precedence(struct wf_windows *w);

/* Returns the minimum T such that each rank alone, with preemption, can respect all earliest
 * starts est and all latest ends T + lct.  This is the length of the longest of Jackson's
 * preemptive schedules. */
int64_t wf_windows_preemptive(struct wf_windows *w);

#endif
