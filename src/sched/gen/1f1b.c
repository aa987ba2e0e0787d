#include "sched/gen/gen.h"

/* 1F1B and its kin: some forwards run ahead, then one forward and one backward by turns.
 *
 * Rank 1 of 4, six micros.  Two forwards run ahead, because micro 0 has two more stages to cross
 * before its gradient can start back.
 *
 *     F0 F1 | F2 B0 F3 B1 F4 B2 F5 B3 | B4 B5
 *     warm-up   one forward, one back   drain
 */
struct one_f_one_b {
    const char *name;
    uint32_t ahead_for_each; /* forwards that run ahead for each rank behind this one */
    bool split;              /* each backward as I then W */
};

static void emit_backward(struct weft_builder *b, const struct one_f_one_b *how, uint32_t rank,
                          uint32_t micro)
{
    weft_emit(b, rank, how->split ? WEFT_ACT_I : WEFT_ACT_B, rank, micro);
    if (how->split)
        weft_emit(b, rank, WEFT_ACT_W, rank, micro);
}

static enum weft_status make_1f1b(const struct one_f_one_b *how,
                                  const struct weft_params *params, struct weft_schedule **out,
                                  struct weft_error *err)
{
    uint32_t micros = params->micros;
    struct weft_builder b;
    WEFT_TRY(weft_builder_init(&b, how->name, weft_shape(params, 1), how->split ? 3 : 2, 0, err));
    for (uint32_t r = 0; r < params->ranks; r++) {
        uint32_t ahead = weft_u32_min(how->ahead_for_each * (params->ranks - 1 - r), micros);
        for (uint32_t m = 0; m < ahead; m++)
            weft_emit(&b, r, WEFT_ACT_F, r, m);
        for (uint32_t m = ahead; m < micros; m++) {
            weft_emit(&b, r, WEFT_ACT_F, r, m);
            emit_backward(&b, how, r, m - ahead);
        }
        for (uint32_t m = micros - ahead; m < micros; m++)
            emit_backward(&b, how, r, m);
    }
    return weft_builder_finish(&b, out, err);
}

WEFT_GENERATOR(1f1b)
{
    return make_1f1b(&(struct one_f_one_b){"1f1b", 1, false}, params, out, err);
}

/* Twice as many run ahead, which hides the hops: a gradient is on its way while the next
 * forward runs. */
WEFT_GENERATOR(eager_1f1b)
{
    return make_1f1b(&(struct one_f_one_b){"eager-1f1b", 2, false}, params, out, err);
}

WEFT_GENERATOR(1f1b_split)
{
    return make_1f1b(&(struct one_f_one_b){"1f1b-split", 1, true}, params, out, err);
}
