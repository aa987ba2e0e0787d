#include <stdlib.h>
#include <string.h>

#include "sched/gen/search.h"

struct block {
    const char *name;
    int64_t f0[2], f1[2];
};

/* When a rank's actions of micro 0 start, in slots; every later micro is 6 slots behind. */
static void block_offsets(bool half, int64_t ranks, int64_t rank, int64_t out[4])
{
    if (half) {
        int64_t gap = ranks % 2 == 0 ? 3 : 0;
        out[0] = 2 * rank;
        out[1] = 3 * ranks - 2 - rank;
        out[2] = 3 * ranks + gap + 2 * rank - 1;
        out[3] = 6 * ranks + gap - 2 - rank;
    } else {
        int64_t gap = ranks % 3 == 0 ? 2 : 0;
        out[0] = rank;
        out[1] = 2 * ranks - 1 - rank;
        out[2] = 2 * ranks + gap + rank;
        out[3] = 4 * ranks + gap - 1 - rank;
    }
}

/* The rank's order as the block says it */
static bool block_order(const struct weft_search *s, bool half, uint32_t rank, uint32_t *row)
{
    int64_t at[4];
    block_offsets(half, s->n_ranks, rank, at);
    size_t slots = (size_t)(at[3] + 6 * (int64_t)s->n_micros + 2 * s->n_micros + 16), n = 0;
    uint32_t *slot = malloc(sizeof *slot * slots);
    if (slot == NULL)
        return false;
    memset(slot, 0xff, sizeof *slot * slots);
    uint32_t low = weft_search_stage(s, rank, 0), high = weft_search_stage(s, rank, 1);
    for (uint32_t m = 0; m < s->n_micros; m++) {
        slot[at[0] + 6 * m] = weft_search_op(s, WEFT_PASS_F, low, m);
        slot[at[1] + 6 * m] = weft_search_op(s, WEFT_PASS_F, high, m);
        slot[at[2] + 6 * m] = weft_search_op(s, WEFT_PASS_I, high, m);
        slot[at[3] + 6 * m] = weft_search_op(s, WEFT_PASS_I, low, m);
    }
    uint32_t pass = s->n_stages * s->n_micros;
    for (size_t i = 0; i < slots; i++) {
        if (slot[i] == WEFT_NO_OP || slot[i] / pass != WEFT_PASS_I)
            continue;
        size_t k = i + 1;
        while (slot[k] != WEFT_NO_OP)
            k++;
        slot[k] = slot[i] + pass;
    }
    for (size_t i = 0; i < slots; i++)
        if (slot[i] != WEFT_NO_OP)
            row[n++] = slot[i];
    free(slot);
    return true;
}

static enum weft_status make(const char *name, bool half, const struct weft_params *params,
                             struct weft_schedule **out, struct weft_error *err)
{
    struct weft_search s;
    struct weft_search_setup setup = {name, 2, false};
    WEFT_TRY(weft_search_init(&s, &setup, params, 0, err));
    enum weft_status st = WEFT_OK;
    for (uint32_t r = 0; r < s.n_ranks; r++) {
        block_order(&s, half, r, s.order + r * s.per_rank);
        double peak = weft_search_peak(&s, s.order + r * s.per_rank);
        if (peak < s.limit[r])
            s.limit[r] = peak;
    }
    weft_search_try(&s, s.order);
    double *given=malloc(sizeof*given*2*s.n_stages);
    for (uint32_t r = 0; r < s.n_ranks; r++) {
        int64_t at[4];
        block_offsets(half, s.n_ranks, r, at);
        given[r]=at[0]; given[2*s.n_ranks-1-r]=at[1]; given[s.n_stages+2*s.n_ranks-1-r]=at[2]; given[s.n_stages+r]=at[3];
    }
    st = weft_search_check_limits(&s, err);
    if (st == WEFT_OK)
        st = weft_search_v(&s, given, 4e6, err);
    if (st == WEFT_OK)
        st = weft_search_finish(&s, out, err);
    free(given);
    weft_search_release(&s);
    return st;
}

WEFT_GENERATOR(v_half)
{
    return make("v-half", true, params, out, err);
}

WEFT_GENERATOR(v_min)
{
    return make("v-min", false, params, out, err);
}
