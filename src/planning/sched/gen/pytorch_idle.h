/* The empty cells of PyTorch's tables.  They do not change what runs.  PyTorch's lowering walks the
 * tables cell by cell, so they decide where it inserts receives.  They are needed only to reproduce
 * that lowering. */
#ifndef PLANNING_SCHED_GEN_PYTORCH_IDLE_H
#define PLANNING_SCHED_GEN_PYTORCH_IDLE_H

#include "weft/schedule.h"

struct wf_idle_cells {
    int64_t first, after_warm_up; /* cells; negative: none */
    int64_t in_cool_down;         /* before each backward of the cool-down */
};

/* Returns the empty cells of a rank of an interleaved schedule with `n_warm_up` forwards in its
 * warm-up. */
struct wf_idle_cells wf_pytorch_idle_interleaved(const struct weft_gen_params *params,
                                                 uint32_t rank, uint64_t n_warm_up, bool split);

/* Returns an upper bound of the number of empty cells of a rank of an interleaved schedule. */
size_t wf_pytorch_idle_max(const struct weft_gen_params *params);

/* With idle hints, delays each forward until the forward of the previous stage is in an earlier
 * column, as PyTorch does in its zero-bubble tables.  Without them *out is `s` itself.  Takes
 * ownership of `s`, also on failure.  The caller owns *out. */
enum weft_status wf_pytorch_space_forwards(const struct weft_gen_params *params,
                                           struct weft_schedule *s, struct weft_schedule **out,
                                           struct weft_error *err);

#endif
