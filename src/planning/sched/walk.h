/* The walk simulates a schedule without computing: it visits every action once, after all
 * dependencies of the action.  The walk stops when all actions are done or when no rank can
 * continue.  In the second case the schedule deadlocks.
 *
 * Time and memory are linear in the number of actions.  A blocked rank waits for one event of
 * one (stage, micro).  Only one rank can wait for an event (the rank of the neighbouring
 * stage), so a wake-up needs only one comparison.
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
    /* sends and receives are skipped; results are available at once on all ranks */
    WF_WALK_MODE_COMPUTE,
    WF_WALK_MODE_MESSAGES, /* sends and receives are executed over channels of a given depth */
};

/* Special values of the channel depth.  The depth is the number of messages that a channel can
 * hold before a send has to wait.  WEFT_CHANNEL_BUFFERED has the same value as
 * WF_DEPTH_UNLIMITED. */
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
    size_t depth;                       /* depth of every channel, in messages */
    size_t n_done, n_total;
    uint8_t *cells; /* owned: (stages, micros), bits of enum wf_done */
    size_t *pc;     /* owned: (ranks), position of each rank's next action */
    /* owned: (ranks), wait key of a blocked rank, or 0 if the rank is not blocked */
    uint64_t *wait;
    uint32_t *ready; /* owned: (ranks), stack of the ranks that can run */
    uint32_t n_ready;
    struct wf_channel_state *flows; /* owned: (channels) */
};

/* The messages of one channel so far. */
struct wf_channel_state {
    uint32_t sent, received;
};

/* Starts a walk.  Every (stage, micro) in the schedule must be within the schedule's sizes, and
 * messages must match the placement.  `channels` is used with WF_WALK_MODE_MESSAGES only.
 * After success, the caller must call wf_walk_release(). */
enum weft_status wf_walk_init(struct wf_walk *w, const struct weft_schedule *s,
                              enum wf_walk_mode mode, const struct wf_channels *channels,
                              size_t depth, struct weft_error *err);

/* Runs the next rank as far as possible and stores the range of executed actions in *run.
 * Returns false when no rank can run. */
bool wf_walk_next(struct wf_walk *w, struct wf_walk_run *run);

/* Frees the memory of the walk and resets the walk to empty. */
void wf_walk_release(struct wf_walk *w);

/* The reason why a rank is blocked. */
struct wf_walk_stall {
    struct weft_action action;     /* the blocked action */
    uint32_t for_rank;             /* the rank that has to run `for_action` */
    struct weft_action for_action; /* the action that the blocked action waits for */
    size_t position;               /* position of the blocked action in the list of its rank */
    /* true if the action is a send and its channel is full, or no receiver waits
     * (rendezvous) */
    bool full;
};

/* Describes why a rank is blocked.  Returns false if the rank has finished. */
bool wf_walk_get_stall(const struct wf_walk *w, uint32_t rank, struct wf_walk_stall *out);

#endif
