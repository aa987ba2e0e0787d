/* Where PyTorch's tables have empty cells.  They do not change what runs, but its lowering walks
 * the tables cell by cell, so they decide where it puts its receives.  Only needed to reproduce
 * those tables: weft plan --lower --lower-like pytorch. */
#ifndef PLANNING_SCHED_GEN_PYTORCH_IDLE_H
#define PLANNING_SCHED_GEN_PYTORCH_IDLE_H

#include "weft/schedule.h"

struct wf_idle_cells {
    int64_t first, after_warm_up; /* cells; below zero means none */
    int64_t in_drain;             /* before each backward of the drain */
};

struct wf_idle_cells wf_pytorch_idle_interleaved(const struct weft_gen_params *params,
                                                 uint32_t rank, uint64_t ahead, bool split);

/* The most empty cells that a rank of an interleaved table has. */
size_t wf_pytorch_idle_max(const struct weft_gen_params *params);

/* With idle hints, delays each forward until the forward of the stage before stands in an earlier
 * column: what PyTorch does to its zero-bubble tables.  Else *out is `s` itself.  Takes over `s`
 * in any case; the caller owns *out. */
enum weft_status wf_pytorch_space_forwards(const struct weft_gen_params *params,
                                           struct weft_schedule *s, struct weft_schedule **out,
                                           struct weft_error *err);

#endif
