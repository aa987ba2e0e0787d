/* Generates DualPipe, which has two directions, and DualPipeV, its variant on a V placement
 * with half the ranks.
 *
 * Both schedules have eight phases.  A rank serves two directions at once: `near`, whose first
 * stage is nearer to the rank, and `far`, the other direction.  In DualPipe the directions are
 * two pipes through the same ranks.  In DualPipeV the directions are the path down and the path
 * back up, and the last rank has both stages at the turn.
 *
 * In DualPipe, the turn is the middle of the ranks.  Let H be the number of
 * ranks from the near end to the turn, h the index of this rank among them (from 0), and m the
 * number of micros per direction.  "&" joins an overlapped pair, "I" appends its W to a queue,
 * and "W" runs the oldest W in the queue:
 *
 *     1  2(H-h-1) x  F near                    5  H-h-1 x  B far, F far & B near
 *     2  h+1      x  F near, F far             6  h+1   x  B far, B near; I from the middle on
 *     3  H-h-1    x  I far, W, F far           7  H-h-1 x  W, I near
 *     4  m-2H+h+1 x  F near & B far,           8  h+1   x  W
 *                    F far & B near
 */
#include <stdlib.h>

#include "base/text.h"
#include "planning/sched/gen/gen.h"

struct dualpipe_direction {
    uint32_t stage, first_micro;
    uint32_t n_f, n_b; /* number of forwards and backwards so far */
};

struct pending_w {
    uint32_t stage, micro;
};

struct dual {
    struct wf_builder *b;
    uint32_t rank;
    uint32_t half, at, micros; /* H, h, m */
    struct dualpipe_direction near, far;
    /* borrowed: pending W actions; has space for all W actions of a rank */
    struct pending_w *queue;
    size_t q_begin, q_end;
};

static void forward(struct dual *d, struct dualpipe_direction *dir)
{
    wf_builder_add(d->b, d->rank, WEFT_ACT_F, dir->stage, dir->first_micro + dir->n_f++);
}

static void backward(struct dual *d, struct dualpipe_direction *dir, bool split)
{
    uint32_t micro = dir->first_micro + dir->n_b++;
    wf_builder_add(d->b, d->rank, split ? WEFT_ACT_I : WEFT_ACT_B, dir->stage, micro);
    if (split)
        d->queue[d->q_end++] = (struct pending_w){dir->stage, micro};
}

static void weight(struct dual *d)
{
    struct pending_w w = d->queue[d->q_begin++];
    wf_builder_add(d->b, d->rank, WEFT_ACT_W, w.stage, w.micro);
}

static void forward_with_backward(struct dual *d, struct dualpipe_direction *f,
                                  struct dualpipe_direction *g)
{
    wf_builder_add_pair(d->b, d->rank,
                        (struct weft_action){.micro = f->first_micro + f->n_f++,
                                             .stage = f->stage & (WEFT_MAX_STAGES - 1),
                                             .kind = WEFT_ACT_F},
                        (struct weft_action){.micro = g->first_micro + g->n_b++,
                                             .stage = g->stage & (WEFT_MAX_STAGES - 1),
                                             .kind = WEFT_ACT_B});
}

static void warm_up(struct dual *d)
{
    uint32_t to_turn = d->half - 1 - d->at;
    for (uint32_t i = 0; i < 2 * to_turn; i++)
        forward(d, &d->near);
    for (uint32_t i = 0; i <= d->at; i++) {
        forward(d, &d->near);
        forward(d, &d->far);
    }
    for (uint32_t i = 0; i < to_turn; i++) {
        backward(d, &d->far, true);
        weight(d);
        forward(d, &d->far);
    }
}

static void steady(struct dual *d)
{
    uint32_t to_turn = d->half - 1 - d->at;
    for (uint32_t i = 0; i < d->micros - 2 * d->half + d->at + 1; i++) {
        if (i == 0 && to_turn == 0) {
            /* On the rank at the turn, the first far backward needs this forward. */
            forward(d, &d->near);
            backward(d, &d->far, false);
        } else {
            forward_with_backward(d, &d->near, &d->far);
        }
        forward_with_backward(d, &d->far, &d->near);
    }
    for (uint32_t i = 0; i < to_turn; i++) {
        backward(d, &d->far, false);
        forward_with_backward(d, &d->far, &d->near);
    }
}

static void cool_down(struct dual *d)
{
    uint32_t to_turn = d->half - 1 - d->at;
    bool split = false;
    for (uint32_t i = 0; i <= d->at; i++) {
        bool middle = i == (d->at + 1) / 2;
        if (middle && d->at % 2 == 1)
            split = true;
        backward(d, &d->far, split);
        if (middle && d->at % 2 == 0)
            split = true;
        backward(d, &d->near, split);
    }
    for (uint32_t i = 0; i < to_turn; i++) {
        weight(d);
        backward(d, &d->near, true);
    }
    while (d->q_begin < d->q_end)
        weight(d);
}

static enum weft_status run_all(struct wf_builder *b, const struct weft_gen_params *params,
                                void (*setup)(const struct weft_gen_params *, uint32_t,
                                              struct dual *),
                                struct weft_schedule **out, struct weft_error *err)
{
    struct pending_w *queue = malloc(sizeof *queue * 2 * ((size_t)params->micros + 1));
    if (queue == NULL) {
        wf_builder_release(b);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the queue of weight gradients");
    }
    for (uint32_t r = 0; r < params->ranks; r++) {
        struct dual d = {.b = b, .rank = r, .queue = queue};
        setup(params, r, &d);
        warm_up(&d);
        steady(&d);
        cool_down(&d);
    }
    free(queue);
    return wf_builder_finish(b, out, err);
}

static void setup_v(const struct weft_gen_params *params, uint32_t rank, struct dual *d)
{
    d->half = params->ranks;
    d->at = rank;
    d->micros = params->micros;
    d->near.stage = rank;
    d->far.stage = 2 * params->ranks - 1 - rank;
}

WF_GENERATOR(dualpipe_v)
{
    if (params->micros < 2 * params->ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "dualpipe-v on %u rank%s needs at least %u micros (got %u); use more "
                         "micros, or zb-v",
                         params->ranks, wf_plural(params->ranks), 2 * params->ranks,
                         params->micros);
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, "dualpipe-v", wf_shape(params, 2), 3, 0, err));
    wf_builder_place(&b, WEFT_PLACEMENT_V);
    return run_all(&b, params, setup_v, out, err);
}

static void setup_two_way(const struct weft_gen_params *params, uint32_t rank, struct dual *d)
{
    uint32_t last = params->ranks - 1;
    struct dualpipe_direction down = {.stage = rank, .first_micro = 0};
    struct dualpipe_direction up = {.stage = last - rank, .first_micro = params->micros / 2};
    bool down_is_near = rank < params->ranks / 2;
    d->half = params->ranks / 2;
    d->at = down_is_near ? rank : last - rank;
    d->micros = params->micros / 2;
    d->near = down_is_near ? down : up;
    d->far = down_is_near ? up : down;
}

WF_GENERATOR(dualpipe)
{
    uint32_t ranks = params->ranks;
    if (ranks % 2 != 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "dualpipe needs an even number of ranks (got %u); use %u, or dualpipe-v", ranks,
            ranks + 1);
    if (params->micros % 2 != 0 || params->micros < 2 * ranks)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "dualpipe on %u ranks needs an even number of micros, at least %u (got "
            "%u); use %u",
            ranks, 2 * ranks, params->micros,
            params->micros < 2 * ranks ? 2 * ranks : params->micros + 1);

    struct wf_builder b;
    struct wf_shape shape = {ranks, ranks, params->micros, 2};
    WEFT_TRY(wf_builder_init(&b, "dualpipe", shape, 3, 0, err));
    for (uint32_t s = 0; s < ranks; s++) {
        b.rank_of[s] = s;
        b.rank_of[ranks + s] = ranks - 1 - s;
    }
    wf_builder_place_explicit(&b);
    return run_all(&b, params, setup_two_way, out, err);
}
