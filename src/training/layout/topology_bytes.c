/* Counts the bytes of memory of each rank, and the bytes that ranks exchange. */
#include <stdlib.h>

#include "base/error.h"
#include "runtime/sync/group.h"
#include "training/layout/topology.h"
#include "weft/exec.h"

/* Returns the number of copies on this rank: 2 for a tied weight that is used twice on the
 * rank, otherwise 1. */
static size_t n_copies(const struct wf_topology *l, const struct wf_topology_group *g,
                       uint32_t rank)
{
    bool both =
        wf_topology_runs_stage(l, rank, 0) && wf_topology_runs_stage(l, rank, l->n_stages - 1);
    return g->tied && both ? 2 : 1;
}

/* Returns the bytes of the reduction buffers of a rank.  Sets *minus to the bytes of the
 * moments that other members store. */
static size_t group_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                          size_t *minus)
{
    size_t bytes = 0;
    *minus = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t h = wf_topology_member(g, rank);
        if (h == g->n_members)
            continue;
        size_t shard = g->cuts[h + 1] - g->cuts[h];
        *minus += 2 * sizeof(float) * (n_copies(l, g, rank) * g->n - shard);
        if (copies)
            bytes += wf_group_buffer_bytes(g->n_members, shard, sizeof(int64_t));
    }
    return bytes;
}

/* Returns the bytes of residual blocks of one stage: the blocks that the stage completes and
 * their gradients, for each output; gradients of forwarded blocks; and, if the transport
 * copies, received blocks for each input. */
static size_t block_bytes(const struct wf_topology *l, const struct weft_program *p,
                          const struct weft_traffic *traffic, uint32_t stage, bool copies)
{
    size_t elements = l->max_rows * l->seq * l->model.dim, sends = 0, receives = 0;
    size_t both = sizeof(float) + sizeof(int64_t);
    if (traffic == NULL)
        return 0;
    uint32_t n_pipes = weft_traffic_placement(traffic)->n_pipes;
    for (uint32_t pipe = 0; pipe < n_pipes; pipe++) {
        sends = wf_size_max(sends, weft_traffic_sends(traffic, pipe, stage).len);
        receives = wf_size_max(receives, weft_traffic_receives(traffic, pipe, stage).len);
    }
    size_t per_output =
        weft_traffic_finishes(traffic, stage).len * both + sends * sizeof(int64_t);
    size_t bytes = weft_program_outputs(p, stage) * per_output * elements;
    return bytes + (copies ? weft_program_inputs(p, stage) * receives * both * elements : 0);
}

enum weft_status wf_topology_rank_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                                        size_t *out, struct weft_error *err)
{
    struct weft_program *p = NULL;
    size_t minus, output = l->max_rows * l->seq * l->model.dim * sizeof(float);
    WEFT_TRY(weft_program_new(wf_topology_schedule(l, rank / l->pp), rank % l->pp,
                              l->sums.act_bytes, &p, err));
    *out = weft_program_slot_bound(p) + group_bytes(l, rank, copies, &minus);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        if (!wf_topology_runs_stage(l, rank, s))
            continue;
        *out += l->sums.state_bytes[s];
        *out += s + 1 < l->n_stages ? weft_program_outputs(p, s) * output : 0;
        *out += copies ? weft_program_inputs(p, s) * output : 0;
        *out += block_bytes(l, p, wf_topology_traffic(l, rank / l->pp), s, copies);
    }
    *out -= minus;
    weft_program_free(p);
    return WEFT_OK;
}

enum weft_status wf_topology_total_bytes(const struct wf_topology *l, bool copies, size_t *out,
                                         struct weft_error *err)
{
    size_t total = 0;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        size_t bytes;
        WEFT_TRY(wf_topology_rank_bytes(l, r, copies, &bytes, err));
        total = bytes > SIZE_MAX - total ? SIZE_MAX : total + bytes;
    }
    *out = total;
    return WEFT_OK;
}

enum weft_status wf_topology_count_traffic(const struct wf_topology *l,
                                           enum weft_block_cache cache,
                                           struct weft_traffic_step *out,
                                           struct weft_error *err)
{
    size_t elements = l->max_rows * l->seq * l->model.dim;
    const struct weft_payload payload = {sizeof(float) * elements, sizeof(int64_t) * elements};
    uint32_t *finished_by = NULL, n = 0;
    struct weft_traffic *t = NULL;
    if (l->model.residual_block_layers != 0)
        WEFT_TRY(weft_residual_blocks(&l->partition, l->model.residual_block_layers,
                                      &finished_by, &n, err));
    enum weft_status st = weft_traffic_new(weft_schedule_placement(l->schedules[0]),
                                           finished_by, n, cache, &t, err);
    if (st == WEFT_OK)
        st = weft_traffic_step_init(out, t, payload, err);
    weft_traffic_free(t);
    free(finished_by);
    return st;
}
