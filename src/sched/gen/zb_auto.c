#include "sched/gen/search.h"

/* Zero bubble for given costs and memory: one stage a rank, backwards split into I and W, the
 * order found by search (search_run.c).
 *
 * Without a limit every rank gets what 1f1b needs on its first rank: P activations.  Twice that
 * is enough to leave next to no gap.
 */

/* ZB-H1 (wave 1) and ZB-H2 (wave 2), which are the best for large M when all passes take about
 * the same time: forwards run ahead as in 1f1b or twice as far, and weight gradients lag behind
 * by one or two micros for each rank before this one.
 *
 *     wave 1, rank 2 of 3   F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 ... W3 W4 W5
 */
static void order_by_hand(const struct weft_search *s, uint32_t rank, uint32_t wave,
                          uint32_t *row)
{
    uint32_t f = 0, w = 0, ahead = wave * (s->n_ranks - rank) - (wave - 1);
    size_t n = 0;
    while (f < weft_u32_min(ahead, s->n_micros))
        row[n++] = weft_search_op(s, WEFT_PASS_F, rank, f++);
    for (uint32_t m = 0; m < s->n_micros; m++) {
        row[n++] = weft_search_op(s, WEFT_PASS_I, rank, m);
        if (m + 1 - w > wave * rank)
            row[n++] = weft_search_op(s, WEFT_PASS_W, rank, w++);
        if (f < s->n_micros)
            row[n++] = weft_search_op(s, WEFT_PASS_F, rank, f++);
    }
    while (w < s->n_micros)
        row[n++] = weft_search_op(s, WEFT_PASS_W, rank, w++);
}

WEFT_GENERATOR(zb_auto)
{
    struct weft_search s;
    struct weft_search_setup setup = {.name = "zb-auto", .chunks = 1, .whole = false};
    WEFT_TRY(weft_search_init(&s, &setup, params, err));
    if (params->memory == NULL || params->memory->limit.n == 0)
        weft_search_cap(&s, params->ranks);
    enum weft_status st = weft_search_check_limits(&s, err);
    if (st != WEFT_OK)
        goto done;
    for (uint32_t wave = 1; wave <= 2; wave++) {
        for (uint32_t r = 0; r < s.n_ranks; r++)
            order_by_hand(&s, r, wave, s.order + r * s.per_rank);
        weft_search_try(&s, WEFT_FAMILY_HAND, s.order);
    }
    st = weft_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
done:
    weft_search_release(&s);
    return st;
}
