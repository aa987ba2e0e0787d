/* Running a schedule without doing any work: every action once, each after all that it waits
 * for.  It ends when all is done, or when no rank can go on: then the schedule deadlocks.
 *
 * Time and memory are linear.  A rank that cannot go on waits for one event of one (stage,
 * micro), and an event has one possible waiter (the rank of the neighbouring stage), so waking
 * costs nothing to search for.
 *
 *     struct wf_walk w;
 *     WEFT_TRY(wf_walk_init(&w, s, WF_WALK_MODE_COMPUTE, NULL, WEFT_CHANNEL_BUFFERED, err));
 *     struct wf_walk_run run;
 *     while (wf_walk_next(&w, &run))
 *         for (size_t i = run.begin; i < run.end; i++) ...   // of rank run.rank
 *     if (w.n_done < w.n_total) ...                            // stuck: ask wf_walk_get_stall()
 *     wf_walk_release(&w);
 */
#ifndef PLANNING_SCHED_WALK_H
#define PLANNING_SCHED_WALK_H

#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "weft/verify.h" /* WEFT_CHANNEL_BUFFERED */

enum wf_walk_mode {
    WF_WALK_MODE_COMPUTE,  /* messages in the list are passed over: data arrives by itself */
    WF_WALK_MODE_MESSAGES, /* sends and receives are actions, over channels of a given depth */
};

/* How many messages a channel holds before a send has to wait: WEFT_CHANNEL_BUFFERED, or a
 * number, of which none at all is special. */
enum { WF_DEPTH_RENDEZVOUS = 0 };

/* Consecutive actions of one rank that ran in one go. */
struct wf_walk_run {
    uint32_t rank;
    size_t begin, end; /* positions in the rank's list */
};

struct wf_walk {
    const struct weft_schedule *schedule; /* borrowed */
    struct wf_dep_rules rules;
    const struct wf_channels *channels; /* borrowed; NULL when computing only */
    size_t depth;
    size_t n_done, n_total;
    uint8_t *cells;  /* owned: (stages, micros), events as bits */
    size_t *pc;      /* owned: (ranks), next position */
    uint64_t *wait;  /* owned: (ranks), the event that would wake it, or 0 */
    uint32_t *ready; /* owned: ranks to look at, a stack */
    uint32_t n_ready;
    struct wf_channel_state *flows; /* owned: (channels) */
};

/* What is under way in one channel. */
struct wf_channel_state {
    uint32_t sent, received;
};

/* Every (stage, micro) in the schedule must lie inside its sizes, and messages must agree with
 * the placement.  `channels` only with WF_WALK_MODE_MESSAGES. */
enum weft_status wf_walk_init(struct wf_walk *w, const struct weft_schedule *s,
                              enum wf_walk_mode mode, const struct wf_channels *channels,
                              size_t depth, struct weft_error *err);
bool wf_walk_next(struct wf_walk *w, struct wf_walk_run *run);
void wf_walk_release(struct wf_walk *w);

/* Why a rank stands still. */
struct wf_walk_stall {
    struct weft_action action; /* what it cannot do */
    uint32_t for_rank;         /* who would have to go on first */
    struct weft_action for_action;
    size_t position; /* in its list */
    bool full;       /* it is a send into a full channel (or nobody receives) */
};

/* False when the rank has finished. */
bool wf_walk_get_stall(const struct wf_walk *w, uint32_t rank, struct wf_walk_stall *out);

#endif
