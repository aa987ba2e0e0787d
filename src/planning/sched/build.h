/* The schedule builder.  The caller sets the sizes, places the stages, appends actions to the
 * ranks (the ranks may alternate in any order), and finishes the schedule.
 *
 *     struct wf_builder b;
 *     WEFT_TRY(wf_builder_init(&b, "1f1b", wf_shape(params, 1), 2, 0, err));
 *     wf_builder_place(&b, WEFT_PLACEMENT_LINEAR);
 *     wf_builder_add(&b, rank, WEFT_ACT_F, stage, micro);  ...
 *     return wf_builder_finish(&b, out, err);
 */
#ifndef PLANNING_SCHED_BUILD_H
#define PLANNING_SCHED_BUILD_H

#include <assert.h>

#include "weft/schedule.h"

/* The sizes of the schedule to build. */
struct wf_shape {
    uint32_t ranks, stages, micros, pipes;
};

/* Returns the shape of a schedule with one pipe and `chunks` stages per rank. */
struct wf_shape wf_shape(const struct weft_gen_params *params, uint32_t chunks);

struct wf_builder {
    /* owned until wf_builder_finish() or wf_builder_release() */
    struct weft_schedule *schedule;
    /* owned: (ranks), the slot for the next action of each rank */
    struct weft_action **next;
    /* borrowed from the schedule; the caller fills it to set an explicit placement */
    uint32_t *rank_of;
    struct weft_action *end; /* one past the last slot of the array */
    uint32_t per_cell;       /* as given to wf_builder_init() */
    size_t extra;            /* as given to wf_builder_init() */
};

/* Allocates `per_cell` actions for every (stage, micro) that a rank runs, plus `extra` actions
 * per rank.  The initial placement is linear with one stage per rank, and loop otherwise.
 * After a failure there is nothing to release. */
enum weft_status wf_builder_init(struct wf_builder *b, const char *name, struct wf_shape shape,
                                 uint32_t per_cell, size_t extra, struct weft_error *err);

/* Sets the placement: linear, loop, v or wave.  Must precede the first action. */
void wf_builder_place(struct wf_builder *b, enum weft_placement_kind kind);

/* Assigns the slots again, for the placement that the caller has stored in rank_of.  Must
 * precede the first action. */
void wf_builder_place_explicit(struct wf_builder *b);

/* Creates a schedule from the builder's actions.  The caller owns *out.  The builder is empty
 * afterwards, even on failure. */
enum weft_status wf_builder_finish(struct wf_builder *b, struct weft_schedule **out,
                                   struct weft_error *err);

/* Frees the memory of the builder and resets the builder to empty. */
void wf_builder_release(struct wf_builder *b);

/* Appends an action to a rank. */
static inline void wf_builder_add(struct wf_builder *b, uint32_t rank, enum weft_act_kind kind,
                                  uint32_t stage, uint32_t micro)
{
    assert(b->next[rank] < b->end);
    *b->next[rank]++ = (struct weft_action){.micro = micro, .stage = stage, .kind = kind};
}

/* Appends two actions that run as one overlapped pair. */
static inline void wf_builder_add_pair(struct wf_builder *b, uint32_t rank,
                                       struct weft_action f, struct weft_action g)
{
    assert(b->next[rank] + 1 < b->end);
    f.paired = 1;
    *b->next[rank]++ = f;
    *b->next[rank]++ = g;
}

#endif
