/* Running a schedule without doing any work: every action once, each after all that it waits
 * for.  It ends when all is done, or when no rank can go on: then the schedule deadlocks.
 *
 * Time and memory are linear.  A rank that cannot go on waits for one event of one (stage,
 * micro), and an event has one possible waiter (the rank of the neighbouring stage), so waking
 * costs nothing to search for.
 *
 *     struct weft_walk w;
 *     WEFT_TRY(weft_walk_init(&w, s, WEFT_WALK_COMPUTE, NULL, WEFT_TRANSPORT_BUFFERED, err));
 *     struct weft_run run;
 *     while (weft_walk_next(&w, &run))
 *         for (size_t i = run.begin; i < run.end; i++) ...   // of rank run.rank
 *     if (w.n_done < w.n_all) ...                            // stuck: ask weft_walk_block()
 *     weft_walk_release(&w);
 */
#ifndef PLANNING_SCHED_WALK_H
#define PLANNING_SCHED_WALK_H

#include "planning/sched/channel.h"
#include "planning/sched/deps.h"
#include "weft/verify.h" /* WEFT_TRANSPORT_BUFFERED */

enum weft_walk_mode {
    WEFT_WALK_COMPUTE,  /* messages in the list are passed over: data arrives by itself */
    WEFT_WALK_MESSAGES, /* sends and receives are actions, over channels of a given depth */
};

/* How many messages a channel holds before a send has to wait: WEFT_TRANSPORT_BUFFERED, or a
 * number, of which none at all is special. */
enum { WEFT_DEPTH_RENDEZVOUS = 0 };

/* Consecutive actions of one rank that ran in one go. */
struct weft_run {
    uint32_t rank;
    size_t begin, end; /* positions in the rank's list */
};

struct weft_walk {
    const struct weft_schedule *schedule; /* borrowed */
    struct weft_dep_rules rules;
    const struct weft_channels *channels; /* borrowed; NULL when computing only */
    size_t depth;
    size_t n_done, n_all;
    uint8_t *cells;  /* owned: (stages, micros), events as bits */
    size_t *pc;      /* owned: (ranks), next position */
    uint64_t *wait;  /* owned: (ranks), the event that would wake it, or 0 */
    uint32_t *ready; /* owned: ranks to look at, a stack */
    uint32_t n_ready;
    struct weft_flow *flows; /* owned: (channels) */
};

/* What is under way in one channel. */
struct weft_flow {
    uint32_t sent, got;
};

/* Every (stage, micro) in the schedule must lie inside its sizes, and messages must agree with
 * the placement.  `channels` only with WEFT_WALK_MESSAGES. */
enum weft_status weft_walk_init(struct weft_walk *w, const struct weft_schedule *s,
                                enum weft_walk_mode mode, const struct weft_channels *channels,
                                size_t depth, struct weft_error *err);
bool weft_walk_next(struct weft_walk *w, struct weft_run *run);
void weft_walk_release(struct weft_walk *w);

/* Why a rank stands still. */
struct weft_block {
    struct weft_action action; /* what it cannot do */
    uint32_t for_rank;         /* who would have to go on first */
    struct weft_action for_action;
    size_t position; /* in its list */
    bool full;       /* it is a send into a full channel (or nobody receives) */
};

/* False when the rank has finished. */
bool weft_walk_block(const struct weft_walk *w, uint32_t rank, struct weft_block *out);

#endif
