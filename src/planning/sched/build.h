/* Making a schedule: sizes first, then actions rank by rank in any interleaving, then finish.
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

/* The sizes of a schedule to be made. */
struct wf_shape {
    uint32_t ranks, stages, micros, pipes;
};

/* One pipe, `chunks` stages a rank. */
struct wf_shape wf_shape(const struct weft_gen_params *params, uint32_t chunks);

struct wf_builder {
    struct weft_schedule *schedule; /* owned until finish or release */
    struct weft_action **next;      /* owned: where each rank's next action goes */
    uint32_t *rank_of;              /* borrowed: the schedule's, for placing by hand */
    struct weft_action *end;        /* one past the last slot */
    uint32_t per_cell;              /* as given to init */
    size_t extra;
};

/* Room for `per_cell` actions for every (stage, micro) that a rank runs, plus `extra` on every
 * rank.  The placement starts out linear or loop.  On failure nothing is held. */
enum weft_status wf_builder_init(struct wf_builder *b, const char *name, struct wf_shape shape,
                                 uint32_t per_cell, size_t extra, struct weft_error *err);

/* Linear, loop, v or wave.  To be called before the first action. */
void wf_builder_place(struct wf_builder *b, enum weft_placement_kind kind);

/* After the caller filled rank_of by hand: hands out the room again. */
void wf_builder_place_explicit(struct wf_builder *b);

/* The caller owns *out; the builder is empty afterwards, whether it worked or not. */
enum weft_status wf_builder_finish(struct wf_builder *b, struct weft_schedule **out,
                                   struct weft_error *err);
void wf_builder_release(struct wf_builder *b);

static inline void wf_builder_add(struct wf_builder *b, uint32_t rank, enum weft_act_kind kind,
                                  uint32_t stage, uint32_t micro)
{
    assert(b->next[rank] < b->end);
    *b->next[rank]++ = (struct weft_action){.micro = micro, .stage = stage, .kind = kind};
}

/* The next two actions run as one. */
static inline void wf_builder_add_pair(struct wf_builder *b, uint32_t rank,
                                       struct weft_action f, struct weft_action g)
{
    assert(b->next[rank] + 1 < b->end);
    f.paired = 1;
    *b->next[rank]++ = f;
    *b->next[rank]++ = g;
}

/* Empty cells, as hints for PyTorch's lowering. */
static inline void wf_builder_add_idle(struct wf_builder *b, uint32_t rank, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        wf_builder_add(b, rank, WEFT_ACT_IDLE, 0, 0);
}

#endif
