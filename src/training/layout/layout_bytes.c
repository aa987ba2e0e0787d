/* The memory that a rank of a layout will have. */
#include "base/error.h"
#include "runtime/sync/group.h"
#include "training/layout/layout.h"
#include "weft/exec.h"

/* Weights that this rank has twice: both uses of a tied one. */
static size_t copies_of(const struct weft_layout *l, const struct weft_layout_group *g,
                        uint32_t rank)
{
    bool both = weft_layout_holds(l, rank, 0) && weft_layout_holds(l, rank, l->n_stages - 1);
    return g->tied && both ? 2 : 1;
}

/* Moments are divided among holders, and other ranks' gradients need room where they are copied. */
static size_t group_bytes(const struct weft_layout *l, uint32_t rank, bool copies,
                          size_t *minus)
{
    size_t bytes = 0;
    *minus = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct weft_layout_group *g = &l->groups[i];
        uint32_t h = weft_layout_holder(g, rank);
        if (h == g->n_holders)
            continue;
        size_t share = g->cuts[h + 1] - g->cuts[h];
        *minus += 2 * sizeof(float) * (copies_of(l, g, rank) * g->n - share);
        if (copies)
            bytes += weft_group_room(g->n_holders, share, sizeof(int64_t));
    }
    return bytes;
}

/* Residual blocks of one stage: those that it makes, with gradients, for every output; gradients
 * on loan; and where a transport copies those that come with an input. */
static size_t block_bytes(const struct weft_layout *l, const struct weft_program *p,
                          const struct weft_traffic *traffic, uint32_t stage, bool copies)
{
    size_t elements = l->most_rows * l->seq * l->model.dim, sends = 0, brings = 0;
    size_t both = sizeof(float) + sizeof(int64_t);
    if (traffic == NULL)
        return 0;
    uint32_t n_pipes = weft_traffic_placement(traffic)->n_pipes;
    for (uint32_t pipe = 0; pipe < n_pipes; pipe++) {
        sends = weft_size_max(sends, weft_traffic_sends(traffic, pipe, stage).len);
        brings = weft_size_max(brings, weft_traffic_brings(traffic, pipe, stage).len);
    }
    size_t made = weft_traffic_makes(traffic, stage).len * both + sends * sizeof(int64_t);
    size_t bytes = weft_program_outputs(p, stage) * made * elements;
    return bytes + (copies ? weft_program_inputs(p, stage) * brings * both * elements : 0);
}

enum weft_status weft_layout_rank_bytes(const struct weft_layout *l, uint32_t rank, bool copies,
                                        size_t *out, struct weft_error *err)
{
    struct weft_program *p = NULL;
    size_t minus, output = l->most_rows * l->seq * l->model.dim * sizeof(float);
    WEFT_TRY(weft_program_new(weft_layout_schedule(l, rank / l->pp), rank % l->pp,
                              l->sums.act_bytes, &p, err));
    *out = weft_program_slot_bound(p) + group_bytes(l, rank, copies, &minus);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        if (!weft_layout_holds(l, rank, s))
            continue;
        *out += l->sums.state_bytes[s];
        *out += s + 1 < l->n_stages ? weft_program_outputs(p, s) * output : 0;
        *out += copies ? weft_program_inputs(p, s) * output : 0;
        *out += block_bytes(l, p, weft_layout_traffic(l, rank / l->pp), s, copies);
    }
    *out -= minus;
    weft_program_free(p);
    return WEFT_OK;
}
