/* Zero-bubble schedule on a V placement.  Rank r has stage r (on the way down) and stage 2P-1-r
 * (on the way back up), so that the first gradients start on the rank that runs the first
 * forwards.  The order is generated for at least 2P-1 micros.  If there are fewer micros, the
 * actions of the missing micros are omitted.
 */
#include "planning/sched/gen/gen.h"

struct zb_v_rank {
    struct wf_builder *b;
    uint32_t rank, micros;
    struct {
        uint32_t stage;
        uint32_t done[WEFT_ACT_W + 1]; /* number of actions so far, by kind */
    } down, up;
};

enum side { DOWN, UP };

static void emit(struct zb_v_rank *z, enum side side, enum weft_act_kind kind)
{
    uint32_t *done = side == DOWN ? z->down.done : z->up.done;
    uint32_t micro = done[kind]++;
    if (micro < z->micros)
        wf_builder_add(z->b, z->rank, kind, side == DOWN ? z->down.stage : z->up.stage, micro);
}

static void emit_warm_up(struct zb_v_rank *z, uint32_t ranks)
{
    for (uint32_t i = 0; i < 2 * (ranks - z->rank) - 1; i++)
        emit(z, DOWN, WEFT_ACT_F);
    for (uint32_t i = 0; i < z->rank; i++) {
        emit(z, UP, WEFT_ACT_F);
        emit(z, DOWN, WEFT_ACT_F);
    }
    for (uint32_t i = 0; i < ranks - z->rank; i++) {
        emit(z, UP, WEFT_ACT_F);
        emit(z, UP, WEFT_ACT_I);
        emit(z, UP, WEFT_ACT_W);
    }
}

/* Emits the steady state.  `n` is the number of micros in the order, including omitted
 * micros. */
static void emit_steady(struct zb_v_rank *z, uint32_t n)
{
    while (z->down.done[WEFT_ACT_F] < n || z->up.done[WEFT_ACT_F] < z->down.done[WEFT_ACT_F]) {
        if (z->down.done[WEFT_ACT_F] < n)
            emit(z, DOWN, WEFT_ACT_F);
        emit(z, DOWN, WEFT_ACT_I);
        emit(z, DOWN, WEFT_ACT_W);
        emit(z, UP, WEFT_ACT_F);
        emit(z, UP, WEFT_ACT_I);
        emit(z, UP, WEFT_ACT_W);
    }
}

static void emit_cool_down(struct zb_v_rank *z, uint32_t ranks)
{
    for (uint32_t i = 0; i < z->rank; i++) {
        emit(z, DOWN, WEFT_ACT_I);
        emit(z, UP, WEFT_ACT_I);
    }
    for (uint32_t i = 0; i < ranks - z->rank; i++) {
        emit(z, DOWN, WEFT_ACT_I);
        emit(z, DOWN, WEFT_ACT_W);
    }
    while (z->up.done[WEFT_ACT_W] < z->up.done[WEFT_ACT_I])
        emit(z, UP, WEFT_ACT_W);
    while (z->down.done[WEFT_ACT_W] < z->down.done[WEFT_ACT_I])
        emit(z, DOWN, WEFT_ACT_W);
}

WF_GENERATOR(zb_v)
{
    uint32_t ranks = params->ranks;
    uint32_t n = params->micros > 2 * ranks - 1 ? params->micros : 2 * ranks - 1;
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, "zb-v", wf_shape(params, 2), 3, 0, err));
    wf_builder_place(&b, WEFT_PLACEMENT_V);

    for (uint32_t r = 0; r < ranks; r++) {
        struct zb_v_rank z = {.b = &b,
                              .rank = r,
                              .micros = params->micros,
                              .down.stage = r,
                              .up.stage = 2 * ranks - 1 - r};
        emit_warm_up(&z, ranks);
        emit_steady(&z, n);
        emit_cool_down(&z, ranks);
    }
    return wf_builder_finish(&b, out, err);
}
