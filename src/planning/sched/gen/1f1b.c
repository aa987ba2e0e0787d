/* The 1F1B family.  A rank runs forwards (warm-up), then alternates between one forward and one
 * backward (steady state), then runs the remaining backwards (cool-down).
 *
 * The example shows rank 1 of 4 with six micros.  The warm-up has two forwards, because micro 0
 * has to pass two more stages before its gradient can return.
 *
 *     F0 F1 | F2 B0 F3 B1 F4 B2 F5 B3 | B4 B5
 *     warm-up   one forward, one back   cool-down
 *
 * The schedules of the family differ in three properties: the number of forwards in the
 * warm-up, whether a backward is whole or split into I and a delayed W, and the number of
 * interleaved chunks.
 */

#include "base/size.h"
#include "planning/sched/gen/gen.h"
#include "planning/sched/walk.h"

struct variant {
    const char *name;
    uint32_t warmup_per_rank; /* number of warm-up forwards per rank that follows this rank */
    bool split;               /* true: each backward is split into I and W */
    /* if split: delay of W, as a number of I actions per rank that precedes this rank */
    uint32_t w_delay_per_rank;
};

/* Iterates over the (chunk, micro) pairs of a rank.  Micros pass the chunks in groups: all
 * micros of a group run through chunk 0, then all micros of the group run through chunk 1 and
 * so on, then the next group starts.  With one chunk, this is plain micro order.
 *
 *     P = 2, V = 2, M = 5:   micro  0 1 2 0 1 2 3 4 3 4      groups of 3 and 2
 *                            chunk  0 0 0 1 1 1 0 0 1 1
 *
 * Without a group size there are max(1, M div P) groups of nearly equal size.  The larger
 * groups must come first, because otherwise the order deadlocks.
 */
struct group_iter {
    uint32_t chunks, micros;
    uint32_t group; /* fixed group size in micros, or 0 for groups of nearly equal size */
    uint32_t n_groups;
    uint32_t at_group, at_chunk, at_micro, end_micro;
};

static struct wf_range group_range(const struct group_iter *t, uint32_t i)
{
    if (t->group == 0)
        return wf_range_part(t->micros, t->n_groups, i);
    size_t begin = (size_t)i * t->group;
    return (struct wf_range){begin, wf_size_min(begin + t->group, t->micros)};
}

static struct group_iter group_iter_new(const struct weft_gen_params *params)
{
    struct group_iter t = {
        .chunks = params->chunks, .micros = params->micros, .group = params->group};
    t.n_groups = params->micros / params->ranks;
    if (t.n_groups == 0)
        t.n_groups = 1;
    t.end_micro = (uint32_t)group_range(&t, 0).end;
    return t;
}

static void group_iter_next(struct group_iter *t)
{
    if (++t->at_micro < t->end_micro)
        return;
    if (++t->at_chunk == t->chunks) {
        t->at_chunk = 0;
        t->at_group++;
    }
    struct wf_range group = group_range(t, t->at_group);
    t->at_micro = (uint32_t)group.begin;
    t->end_micro = (uint32_t)group.end;
}

/* Returns the number of forwards in a rank's warm-up. */
static uint64_t warm_up(const struct variant *variant, const struct weft_gen_params *params,
                        const struct group_iter *t, uint32_t rank)
{
    uint64_t all = (uint64_t)params->micros * params->chunks;
    uint64_t group = params->group != 0 ? params->group : group_range(t, 0).end;
    uint64_t n = (uint64_t)variant->warmup_per_rank * (params->ranks - 1 - rank) +
                 (params->chunks - 1) * group;
    return n < all ? n : all;
}

struct emitter {
    struct wf_builder *b;
    const struct variant *variant;
    uint32_t ranks, rank;
    struct group_iter forward, backward, weight;
    uint64_t n_pending_w; /* number of I actions whose W has not run yet */
};

static void emit_forward(struct emitter *e)
{
    wf_builder_add(e->b, e->rank, WEFT_ACT_F, e->forward.at_chunk * e->ranks + e->rank,
                   e->forward.at_micro);
    group_iter_next(&e->forward);
}

/* Appends a backward action.  Backwards visit the chunks in reverse order. */
static void emit_reverse(struct emitter *e, enum weft_act_kind kind, struct group_iter *t)
{
    wf_builder_add(e->b, e->rank, kind, (t->chunks - 1 - t->at_chunk) * e->ranks + e->rank,
                   t->at_micro);
    group_iter_next(t);
}

static void emit_backward(struct emitter *e)
{
    emit_reverse(e, e->variant->split ? WEFT_ACT_I : WEFT_ACT_B, &e->backward);
    if (e->variant->split &&
        ++e->n_pending_w > (uint64_t)e->variant->w_delay_per_rank * e->rank) {
        emit_reverse(e, WEFT_ACT_W, &e->weight);
        e->n_pending_w--;
    }
}

static void emit_rank(struct wf_builder *b, const struct variant *variant,
                      const struct weft_gen_params *params, uint32_t rank)
{
    struct group_iter t = group_iter_new(params);
    struct emitter e = {b, variant, params->ranks, rank, t, t, t, 0};
    uint64_t n_all = (uint64_t)params->micros * params->chunks;
    uint64_t n_warm_up = warm_up(variant, params, &t, rank);

    for (uint64_t k = 0; k < n_warm_up; k++)
        emit_forward(&e);

    for (uint64_t k = n_warm_up; k < n_all; k++) {
        emit_forward(&e);
        emit_backward(&e);
    }

    for (uint64_t k = n_all - n_warm_up; k < n_all; k++)
        emit_backward(&e);
    while (e.n_pending_w-- > 0)
        emit_reverse(&e, WEFT_ACT_W, &e.weight);
}

static enum weft_status make(const struct variant *variant,
                             const struct weft_gen_params *params, struct weft_schedule **out,
                             struct weft_error *err)
{
    struct wf_builder b;
    WEFT_TRY(wf_builder_init(&b, variant->name, wf_shape(params, params->chunks),
                             variant->split ? 3 : 2, 0, err));
    for (uint32_t r = 0; r < params->ranks; r++)
        emit_rank(&b, variant, params, r);
    return wf_builder_finish(&b, out, err);
}

WF_GENERATOR(1f1b)
{
    return make(&(struct variant){"1f1b", 1, false, 0}, params, out, err);
}

/* Eager 1F1B has twice the warm-up of 1F1B.  This hides the hop times, because a gradient is in
 * transit while the next forward runs. */
WF_GENERATOR(eager_1f1b)
{
    return make(&(struct variant){"eager-1f1b", 2, false, 0}, params, out, err);
}

WF_GENERATOR(1f1b_split)
{
    return make(&(struct variant){"1f1b-split", 1, true, 0}, params, out, err);
}

/* On rank r, W runs r micros after its I and fills the bubble of the cool-down. */
WF_GENERATOR(zb_h1)
{
    return make(&(struct variant){"zb-h1", 1, true, 1}, params, out, err);
}

/* ZB-H2 has twice the warm-up and twice the W delay of ZB-H1.  If F, I and W take equal time,
 * no rank is idle between its first and its last action. */
WF_GENERATOR(zb_h2)
{
    return make(&(struct variant){"zb-h2", 2, true, 2}, params, out, err);
}

/* Checks a schedule with a given group size for deadlock.  Megatron accepts a group size N from
 * P to M if M mod N is 0 or at least P.  Schedules with other group sizes may or may not
 * deadlock, so the function runs the walk. */
static enum weft_status check_deadlock(const struct weft_gen_params *params,
                                       struct weft_schedule *s, struct weft_schedule **out,
                                       struct weft_error *err)
{
    struct wf_walk w;
    enum weft_status st =
        wf_walk_init(&w, s, WF_WALK_MODE_COMPUTE, NULL, WF_DEPTH_UNLIMITED, err);
    if (st == WEFT_OK) {
        struct wf_walk_run run;
        while (wf_walk_next(&w, &run))
            continue;
        if (w.n_done < w.n_total)
            st =
                WEFT_FAIL(err, WEFT_USAGE,
                          "group %u deadlocks with %u ranks, %u chunks and %u micros; omit the "
                          "group (any M works), or use one from %u to %u that leaves a "
                          "remainder of 0 or at least %u",
                          params->group, params->ranks, params->chunks, params->micros,
                          params->ranks, params->micros, params->ranks);
        wf_walk_release(&w);
    }

    if (st == WEFT_OK)
        *out = s;
    else
        weft_schedule_free(s);
    return st;
}

static enum weft_status make_interleaved(const struct variant *variant,
                                         const struct weft_gen_params *params,
                                         struct weft_schedule **out, struct weft_error *err)
{
    struct weft_schedule *s = NULL;
    WEFT_TRY(make(variant, params, &s, err));
    if (params->group != 0)
        return check_deadlock(params, s, out, err);
    *out = s;
    return WEFT_OK;
}

WF_GENERATOR(interleaved_1f1b)
{
    return make_interleaved(&(struct variant){"interleaved-1f1b", 2, false, 0}, params, out,
                            err);
}

WF_GENERATOR(interleaved_zb)
{
    return make_interleaved(&(struct variant){"interleaved-zb", 1, true, 1}, params, out, err);
}
