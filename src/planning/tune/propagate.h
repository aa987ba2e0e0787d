/* Narrowing when actions can run: from "not before" and "not after" of each action to more of
 * the same, until nothing changes or one cannot run at all.
 *
 *     struct wf_windows w;
 *     wf_windows_init(&w, &x, err);
 *     ... fill w.est and w.lct ...
 *     if (!wf_windows_narrow(&w, rounds))  // no schedule keeps to these windows
 */
#ifndef PLANNING_TUNE_PROPAGATE_H
#define PLANNING_TUNE_PROPAGATE_H

#include "planning/tune/instance.h"

/* "Any time": far beyond all sums, far from overflow. */
#define WF_FAR ((int64_t)1 << 57)

struct wf_windows {
    const struct wf_instance *x; /* borrowed */
    int64_t *est, *lct;          /* owned: (n_ops), earliest start, latest end */
    /* Ranks that run within this much time from their opening on, or 0: no such demand. */
    int64_t span;
    double work, max_work;    /* visits of an action so far; when to give up, 0: never */
    bool use_memory;          /* look at memory as well, beyond what the instance says */
    uint32_t *before, *after; /* owned: as in the instance, and what these windows imply; NULL
                                 when they cannot be looked at */

    bool *dirty;                        /* owned: (ranks), windows have changed */
    uint32_t most;                      /* actions of a rank at most */
    int64_t *e, *l, *p, *now;           /* owned: (most), of the rank at work */
    uint32_t *slot, *by_a, *by_b, *row; /* owned: (most) */
    uint32_t *cursor;                   /* owned: (rows of a rank) */
    struct wf_theta *tree;              /* owned: (2 * leaves) */
    uint32_t leaves;
};

enum weft_status wf_windows_init(struct wf_windows *w, const struct wf_instance *x,
                                 struct weft_error *err);
void wf_windows_release(struct wf_windows *w);

/* False when it was found that nothing fits the windows.  At most `rounds` over all ranks; the
 * ranks that are dirty are looked at first. */
bool wf_windows_narrow(struct wf_windows *w, uint32_t rounds);

/* Windows were filled anew: all ranks are to be looked at. */
void wf_windows_invalidate(struct wf_windows *w);

/* Memory within the windows of one rank: room.c.  False: impossible. */
bool wf_windows_memory(struct wf_windows *w, uint32_t rank, bool *changed);

/* Only along precedences.  False: impossible. */
bool wf_windows_precedence(struct wf_windows *w);

/* The least T for which each rank alone, if it could interrupt its actions, keeps to est and to
 * ends T + lct: the longest of Jackson's preemptive schedules. */
int64_t wf_windows_preemptive(struct wf_windows *w);

#endif
