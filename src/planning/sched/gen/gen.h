/* The generators of schedules, listed in generators.c.  The sizes that a generator receives are
 * already checked: there is at least one rank, one micro and one chunk, and products of sizes
 * do not overflow.  A generator returns WEFT_USAGE for sizes that it does not support, and the
 * error message names supported sizes. */
#ifndef PLANNING_SCHED_GEN_GEN_H
#define PLANNING_SCHED_GEN_GEN_H

#include "base/error.h"
#include "planning/sched/build.h"

#define WF_GENERATOR(name)                                                                     \
    enum weft_status wf_gen_##name(const struct weft_gen_params *params,                       \
                                   struct weft_schedule **out, struct weft_error *err)

WF_GENERATOR(gpipe);
WF_GENERATOR(1f1b);
WF_GENERATOR(eager_1f1b);
WF_GENERATOR(1f1b_split);
WF_GENERATOR(interleaved_1f1b);
WF_GENERATOR(looped_bfs);
WF_GENERATOR(zb_h1);
WF_GENERATOR(zb_h2);
WF_GENERATOR(zb_auto);
WF_GENERATOR(interleaved_zb);
WF_GENERATOR(zb_v);
WF_GENERATOR(zb_v_auto);
WF_GENERATOR(v_half);
WF_GENERATOR(v_min);
WF_GENERATOR(1f1b_v);
WF_GENERATOR(wave);
WF_GENERATOR(chimera);
WF_GENERATOR(dualpipe);
WF_GENERATOR(dualpipe_v);
WF_GENERATOR(bitpipe);
WF_GENERATOR(greedy_gpipe);
WF_GENERATOR(greedy_1f1b);

#endif
