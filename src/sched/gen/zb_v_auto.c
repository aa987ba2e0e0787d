#include "sched/gen/search.h"

/* ZB-V by hand, the order that leaves no gap when all passes take the same time:
 *
 *     2(P-r)-1 x F | r x [f F] | (P-r) x [f i w] | while there are forwards: F I W f i w |
 *     r x [I i] | (P-r) x [I W] | the weight gradients that are left
 *
 * for rank r, with capitals for chunk 0; made for 2P-1 micros at least, then the micros that
 * are too many left out. */
struct hand {
    const struct weft_search *s;
    uint32_t rank, *row, done[3][2];
    size_t len;
};

static void next(struct hand *h, enum weft_pass pass, uint32_t chunk)
{
    uint32_t micro = h->done[pass][chunk]++;
    if (micro < h->s->n_micros)
        h->row[h->len++] =
            weft_search_op(h->s, pass, weft_search_stage(h->s, h->rank, chunk), micro);
}

static void next_back(struct hand *h, uint32_t chunk)
{
    next(h, WEFT_PASS_I, chunk);
    next(h, WEFT_PASS_W, chunk);
}

static void order_by_hand(const struct weft_search *s, uint32_t rank, uint32_t *row)
{
    struct hand h = {.s = s, .rank = rank, .row = row};
    uint32_t ahead = s->n_ranks - rank, all = 2 * s->n_ranks - 1;
    all = s->n_micros > all ? s->n_micros : all;
    for (uint32_t i = 0; i < 2 * ahead - 1; i++)
        next(&h, WEFT_PASS_F, 0);
    for (uint32_t i = 0; i < rank; i++) {
        next(&h, WEFT_PASS_F, 1);
        next(&h, WEFT_PASS_F, 0);
    }
    for (uint32_t i = 0; i < ahead; i++) {
        next(&h, WEFT_PASS_F, 1);
        next_back(&h, 1);
    }
    while (h.done[WEFT_PASS_F][1] < all) {
        next(&h, WEFT_PASS_F, 0);
        next_back(&h, 0);
        next(&h, WEFT_PASS_F, 1);
        next_back(&h, 1);
    }
    for (uint32_t i = 0; i < rank; i++) {
        next(&h, WEFT_PASS_I, 0);
        next(&h, WEFT_PASS_I, 1);
    }
    for (uint32_t i = 0; i < ahead; i++)
        next_back(&h, 0);
    for (uint32_t c = 2; c-- > 0;)
        while (h.done[WEFT_PASS_W][c] < all)
            next(&h, WEFT_PASS_W, c);
}

/* The V with split backwards for given costs and memory: two stages a rank, the order found by
 * search (search_run.c), to which the order by hand is one start.
 *
 * Without a limit every rank gets 2P activations of a chunk, which is what the order by hand
 * needs.
 */
WEFT_GENERATOR(zb_v_auto)
{
    struct weft_search s;
    struct weft_search_setup setup = {.name = "zb-v-auto", .chunks = 2, .whole = false};
    WEFT_TRY(weft_search_init(&s, &setup, params, err));
    if (params->memory == NULL || params->memory->limit.n == 0)
        weft_search_cap(&s, 2.0 * params->ranks);
    enum weft_status st = weft_search_check_limits(&s, err);
    if (st != WEFT_OK)
        goto done;
    for (uint32_t r = 0; r < s.n_ranks; r++)
        order_by_hand(&s, r, s.order + r * s.per_rank);
    weft_search_try(&s, WEFT_FAMILY_HAND, s.order);
    st = weft_search_run(&s, NULL, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
done:
    weft_search_release(&s);
    return st;
}
