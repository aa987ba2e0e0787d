/* The walk: runs a schedule without doing any work, every action once and after all of its
 * dependencies.  It stops when all actions are done or when no rank can continue.  In the second
 * case the schedule deadlocks.
 *
 * Time and memory are linear.  A blocked rank waits for one event of one (stage, micro), and an
 * event has one possible waiter (the rank of the neighbouring stage), so a wake-up is one
 * comparison.
 *
 *     struct wf_walk w;
 *     WEFT_TRY(wf_walk_init(&w, s, WF_WALK_MODE_COMPUTE, NULL, WF_DEPTH_UNLIMITED, err));
 *     struct wf_walk_run run;
 *     while (wf_walk_next(&w, &run))
 *         for (size_t i = run.begin; i < run.end; i++) ...   // of rank run.rank
 *     if (w.n_done < w.n_total) ...                            // deadlock: wf_walk_get_stall()
 *     wf_walk_release(&w);
 */
#ifndef PLANNING_SCHED_WALK_H
#define PLANNING_SCHED_WALK_H

#include "planning/sched/channel.h"
#include "planning/sched/deps.h"

enum wf_walk_mode {
    WF_WALK_MODE_COMPUTE,  /* skips sends and receives; data arrives without them */
    WF_WALK_MODE_MESSAGES, /* sends and receives are executed, over channels of a given depth */
};

/* Special values of a channel's depth, which is the number of messages it holds before a send has
 * to wait.  WEFT_CHANNEL_BUFFERED has the same value as WF_DEPTH_UNLIMITED. */
enum { WF_DEPTH_RENDEZVOUS = 0 };
#define WF_DEPTH_UNLIMITED SIZE_MAX

/* Consecutive actions of one rank that ran without a wait. */
struct wf_walk_run {
    uint32_t rank;
    size_t begin, end; /* positions in the rank's list */
};

struct wf_walk {
    const struct weft_schedule *schedule; /* borrowed */
    struct wf_dep_rules rules;
    const struct wf_channels *channels; /* borrowed; NULL with WF_WALK_MODE_COMPUTE */
    size_t depth;                       /* of every channel */
    size_t n_done, n_total;
    uint8_t *cells;  /* owned: (stages, micros), events as bits */
    size_t *pc;      /* owned: (ranks), next position */
    uint64_t *wait;  /* owned: (ranks), the event that wakes the rank, or 0 */
    uint32_t *ready; /* owned: (ranks), stack of ranks to run */
    uint32_t n_ready;
    struct wf_channel_state *flows; /* owned: (channels) */
};

/* Messages of one channel so far. */
struct wf_channel_state {
    uint32_t sent, received;
};

/* Starts a walk.  Every (stage, micro) in the schedule must be within the schedule's sizes, and
 * messages must match the placement.  `channels` is used with WF_WALK_MODE_MESSAGES only.  On
 * success the caller calls wf_walk_release(). */
enum weft_status wf_walk_init(struct wf_walk *w, const struct weft_schedule *s,
                              enum wf_walk_mode mode, const struct wf_channels *channels,
                              size_t depth, struct weft_error *err);

/* Runs the next rank as far as possible and stores its actions in *run.  Returns false when no
 * rank can run. */
bool wf_walk_next(struct wf_walk *w, struct wf_walk_run *run);

/* Frees what the walk owns and empties it. */
void wf_walk_release(struct wf_walk *w);

/* Why a rank is blocked. */
struct wf_walk_stall {
    struct weft_action action;     /* the blocked action */
    uint32_t for_rank;             /* the rank it waits for */
    struct weft_action for_action; /* the action it waits for */
    size_t position;               /* of the blocked action in its rank's list */
    bool full; /* the action is a send into a full channel or one without a receiver */
};

/* Describes why a rank is blocked.  Returns false if the rank has finished. */
bool wf_walk_get_stall(const struct wf_walk *w, uint32_t rank, struct wf_walk_stall *out);

#endif
