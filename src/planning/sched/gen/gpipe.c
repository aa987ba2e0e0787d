/* GPipe: all forwards, then all backwards, both in micro order.  With several chunks, a rank
 * runs one micro through all of its chunks before it starts the next micro.
 *
 *     F0 F1 F2 F3 | B0 B1 B2 B3
 */
#include "planning/sched/gen/gen.h"

WF_GENERATOR(gpipe)
{
    uint32_t ranks = params->ranks, chunks = params->chunks;
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, "gpipe", wf_shape(params, chunks), 2, 0, err));
    for (uint32_t r = 0; r < ranks; r++) {
        for (uint32_t m = 0; m < params->micros; m++)
            for (uint32_t v = 0; v < chunks; v++)
                wf_builder_add(&b, r, WEFT_ACT_F, v * ranks + r, m);
        for (uint32_t m = 0; m < params->micros; m++)
            for (uint32_t v = chunks; v-- > 0;)
                wf_builder_add(&b, r, WEFT_ACT_B, v * ranks + r, m);
    }
    return wf_builder_finish(&b, out, err);
}
