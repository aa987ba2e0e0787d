/* The empty cells of PyTorch's schedule tables.  Empty cells do not change the order of
 * actions.  PyTorch's lowering processes the tables cell by cell, so the empty cells affect
 * where the lowering inserts receives.  They are needed only to reproduce the output of that
 * lowering. */
#ifndef PLANNING_SCHED_GEN_PYTORCH_IDLE_H
#define PLANNING_SCHED_GEN_PYTORCH_IDLE_H

#include "weft/schedule.h"

struct wf_idle_cells {
    /* number of empty cells at the start and after the warm-up; negative: none */
    int64_t first, after_warm_up;
    /* number of empty cells before each backward of the cool-down */
    int64_t in_cool_down;
};

/* Returns the numbers of empty cells for a rank of an interleaved schedule whose warm-up has
 * `n_warm_up` forwards. */
struct wf_idle_cells wf_pytorch_idle_interleaved(const struct weft_gen_params *params,
                                                 uint32_t rank, uint64_t n_warm_up, bool split);

/* Returns an upper bound on the number of empty cells per rank of an interleaved schedule. */
size_t wf_pytorch_idle_max(const struct weft_gen_params *params);

/* If idle hints are enabled, inserts empty cells so that each forward is in a later column than
 * the forward of the previous stage, as in PyTorch's zero-bubble tables.  Otherwise *out is
 * `s`.  Takes ownership of `s`, even on failure.  The caller owns *out. */
enum weft_status wf_pytorch_space_forwards(const struct weft_gen_params *params,
                                           struct weft_schedule *s, struct weft_schedule **out,
                                           struct weft_error *err);

#endif
