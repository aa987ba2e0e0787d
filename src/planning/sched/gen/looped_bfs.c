/* Looped BFS: all micros run through a chunk before the next chunk starts.  Backwards run in
 * the reverse order of chunks and micros.  All backwards of a chunk are consecutive, so the
 * gradient reduction of the chunk overlaps with the backwards of the following chunks.  The
 * memory use is the same as that of GPipe.
 */
#include "planning/sched/gen/gen.h"

WF_GENERATOR(looped_bfs)
{
    uint32_t ranks = params->ranks, chunks = params->chunks;
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, "looped-bfs", wf_shape(params, chunks), 2, 0, err));
    for (uint32_t r = 0; r < ranks; r++) {
        for (uint32_t v = 0; v < chunks; v++)
            for (uint32_t m = 0; m < params->micros; m++)
                wf_builder_add(&b, r, WEFT_ACT_F, v * ranks + r, m);
        for (uint32_t v = chunks; v-- > 0;)
            for (uint32_t m = params->micros; m-- > 0;)
                wf_builder_add(&b, r, WEFT_ACT_B, v * ranks + r, m);
    }
    return wf_builder_finish(&b, out, err);
}
