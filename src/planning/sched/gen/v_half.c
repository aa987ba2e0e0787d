/* V-Half and V-Min: schedules on a V placement with split backwards.  V-Half needs about half
 * of the memory of 1f1b, and V-Min about a third.
 *
 * Both schedules repeat a pattern every 6 slots, with one slot per pass.  They differ in the
 * time that a micro takes from rank to rank on its path down, and thus in the lifetime of its
 * activations.  These are the start slots of the published patterns for rank i (capitals: chunk
 * 0):
 *
 *     V-Half   F 2i   f 3P-2-i   i 3P+g-1+2i   I 6P+g-2-i     g = 3 if P is even
 *     V-Min    F i    f 2P-1-i   i 2P+g+i      I 4P+g-1-i     g = 2 if 3 divides P
 *
 * Weight gradients go into the next free slots.  The memory limit of a rank is its peak memory
 * in the published order: at most floor((P+2)/2) micros for V-Half and floor((P+4)/3) for
 * V-Min.  A search finds the best order within these limits, as for zb-v-auto.  If the caller
 * also gives a limit, the lower limit applies.
 */
#include <stdlib.h>
#include <string.h>

#include "planning/sched/gen/search.h"

/* Stores the start slots of the actions F, f, i and I of micro 0 on a rank. */
static void pattern_slots(bool half, uint32_t n_ranks, uint32_t r, uint32_t out[4])
{
    uint32_t gap = half ? (n_ranks % 2 == 0 ? 3 : 0) : (n_ranks % 3 == 0 ? 2 : 0);
    if (half) {
        out[0] = 2 * r;
        out[1] = 3 * n_ranks - 2 - r;
        out[2] = 3 * n_ranks + gap - 1 + 2 * r;
        out[3] = 6 * n_ranks + gap - 2 - r;
    } else {
        out[0] = r;
        out[1] = 2 * n_ranks - 1 - r;
        out[2] = 2 * n_ranks + gap + r;
        out[3] = 4 * n_ranks + gap - 1 - r;
    }
}

/* Stores the start slots of F and I of micro 0 for all stages in `offset`, (2, stages). */
static void pattern_offsets(const struct wf_search *s, bool half, double *offset)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint32_t low = wf_search_stage(s, r, 0), high = wf_search_stage(s, r, 1), at[4];
        pattern_slots(half, s->n_ranks, r, at);
        offset[low] = at[0];
        offset[high] = at[1];
        offset[s->n_stages + high] = at[2];
        offset[s->n_stages + low] = at[3];
    }
}

enum { PERIOD = 6 };

/* Maximum distance in slots from an input gradient to its weight gradient. */
enum { MAX_W_DELAY = 2 * PERIOD };

static size_t n_slots(const struct wf_search *s)
{
    return (size_t)PERIOD * (s->n_ranks + s->n_micros + 1) + MAX_W_DELAY;
}

/* Lists a rank's actions in the order of the pattern.  `slots` is scratch memory with n_slots()
 * entries. */
static void pattern_order(const struct wf_search *s, bool half, uint32_t rank, uint32_t *slots,
                          uint32_t *row)
{
    uint32_t low = wf_search_stage(s, rank, 0), high = wf_search_stage(s, rank, 1), at[4];
    /* difference between the ids of consecutive passes */
    uint32_t pass = s->n_stages * s->n_micros;
    size_t n = 0, len = n_slots(s);
    pattern_slots(half, s->n_ranks, rank, at);
    memset(slots, 0xff, sizeof *slots * len); /* all slots are WF_OP_NONE, which means free */
    for (size_t m = 0; m < s->n_micros; m++) {
        slots[at[0] + PERIOD * m] = wf_search_op_id(s, WF_PASS_F, low, (uint32_t)m);
        slots[at[1] + PERIOD * m] = wf_search_op_id(s, WF_PASS_F, high, (uint32_t)m);
        slots[at[2] + PERIOD * m] = wf_search_op_id(s, WF_PASS_I, high, (uint32_t)m);
        slots[at[3] + PERIOD * m] = wf_search_op_id(s, WF_PASS_I, low, (uint32_t)m);
    }

    for (size_t i = 0; i < len; i++) {
        if (slots[i] == WF_OP_NONE)
            continue;
        row[n++] = slots[i];
        if (slots[i] / pass != WF_PASS_I)
            continue;

        /* The weight gradient runs in the next free slot. */
        size_t k = i + 1;
        while (slots[k] != WF_OP_NONE)
            k++;
        slots[k] = slots[i] + pass;
    }
}

static enum weft_status search(struct wf_search *s, bool half, uint32_t *slots, double *offset,
                               struct weft_error *err)
{
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        uint32_t *row = s->order + r * s->per_rank;
        pattern_order(s, half, r, slots, row);
        double peak = wf_search_peak(s, row);
        s->limit[r] = peak < s->limit[r] ? peak : s->limit[r];
    }
    wf_search_try(s, WF_FAMILY_FIXED, s->order);
    WEFT_TRY(wf_search_check_limits(s, err));
    pattern_offsets(s, half, offset);
    return wf_search_run(s, offset, err);
}

static enum weft_status make(const char *name, bool half, const struct weft_gen_params *params,
                             struct weft_schedule **out, struct weft_error *err)
{
    struct wf_search s;
    struct wf_search_setup setup = {.name = name, .chunks = 2, .whole = false};
    WEFT_TRY(wf_search_init(&s, &setup, params, err));
    uint32_t *slots = malloc(sizeof *slots * n_slots(&s));
    double *offset = malloc(sizeof *offset * 2 * s.n_stages);
    enum weft_status st =
        slots == NULL || offset == NULL
            ? WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for its pattern", name)
            : search(&s, half, slots, offset, err);
    if (st == WEFT_OK)
        st = wf_search_finish(&s, out, err);
    free(slots);
    free(offset);
    wf_search_release(&s);
    return st;
}

WF_GENERATOR(v_half)
{
    return make("v-half", true, params, out, err);
}

WF_GENERATOR(v_min)
{
    return make("v-min", false, params, out, err);
}
