/* The generators.  One file each; the table in table.c names them all.  A generator gets checked
 * sizes (at least one rank, one micro, one chunk; products that fit) and must refuse, with a
 * line that says what would work, every size that it cannot do. */
#ifndef PLANNING_SCHED_GEN_GEN_H
#define PLANNING_SCHED_GEN_GEN_H

#include "base/error.h"
#include "planning/sched/build.h"

#define WEFT_GENERATOR(name)                                                                   \
    enum weft_status weft_gen_##name(const struct weft_params *params,                         \
                                     struct weft_schedule **out, struct weft_error *err)

WEFT_GENERATOR(gpipe);
WEFT_GENERATOR(1f1b);
WEFT_GENERATOR(eager_1f1b);
WEFT_GENERATOR(1f1b_split);
WEFT_GENERATOR(interleaved_1f1b);
WEFT_GENERATOR(looped_bfs);
WEFT_GENERATOR(zb_h1);
WEFT_GENERATOR(zb_h2);
WEFT_GENERATOR(zb_auto);
WEFT_GENERATOR(interleaved_zb);
WEFT_GENERATOR(zb_v);
WEFT_GENERATOR(zb_v_auto);
WEFT_GENERATOR(v_half);
WEFT_GENERATOR(v_min);
WEFT_GENERATOR(1f1b_v);
WEFT_GENERATOR(wave);
WEFT_GENERATOR(chimera);
WEFT_GENERATOR(dualpipe);
WEFT_GENERATOR(dualpipe_v);
WEFT_GENERATOR(bitpipe);
WEFT_GENERATOR(greedy_gpipe);
WEFT_GENERATOR(greedy_1f1b);

static inline uint32_t weft_u32_min(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

#endif
