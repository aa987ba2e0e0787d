/* Counts the bytes of memory of each rank, and the bytes that ranks exchange. */
#include <stdlib.h>

#include "base/error.h"
#include "compute/model/infer.h"
#include "compute/model/infer_sample.h"
#include "runtime/sync/group.h"
#include "training/data/batch.h"
#include "training/layout/topology.h"

enum { BUFFER_ALIGN = 64 }; /* of the executor's buffers */

/* -- stages and programs ------------------------------------------------------------------- */

struct wf_tstage_spec wf_topology_stage_spec(const struct wf_topology *l, uint32_t stage)
{
    struct wf_tstage_spec spec = {
        .model = l->model,
        .seq = l->seq,
        .slots = 1,
        .precision = l->precision,
        .fast_sums = l->fast_sums,
        .one_micro = l->micros == 1 && l->n_ranks == 1,
        .layer_recompute = l->recompute,
    };
    wf_topology_items(l, stage, &spec.item0, &spec.item1);

    /* If the batch does not divide evenly, the first micros have one more sequence than the
     * others. */
    struct wf_range first = wf_micro_range(l->batch, l->micros, 0);
    struct wf_range last = wf_micro_range(l->batch, l->micros, l->micros - 1);
    spec.row_counts[spec.n_row_counts++] = (uint32_t)(first.end - first.begin);
    if (last.end - last.begin != first.end - first.begin)
        spec.row_counts[spec.n_row_counts++] = (uint32_t)(last.end - last.begin);
    return spec;
}

enum weft_status wf_topology_new_program(const struct wf_topology *l, uint32_t rank,
                                         struct weft_program **out, struct weft_error *err)
{
    size_t *bytes = calloc(l->n_stages, sizeof *bytes);
    enum weft_status st = WEFT_OK;
    if (bytes == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the slot sizes of %u stages",
                       l->n_stages);
    for (uint32_t s = 0; st == WEFT_OK && s < l->n_stages; s++)
        if (wf_topology_runs_stage(l, rank, s)) {
            struct wf_tstage_spec spec = wf_topology_stage_spec(l, s);
            st = wf_tstage_slot_bytes(&spec, &bytes[s], err);
        }
    if (st == WEFT_OK)
        st = weft_program_new(wf_topology_schedule(l, rank / l->pp), rank % l->pp, bytes, out,
                              err);
    free(bytes);
    return st;
}

/* -- parts of a rank's memory -------------------------------------------------------------- */

static enum weft_status add_stage(const struct wf_topology *l, const struct weft_program *p,
                                  uint32_t stage, struct wf_rank_bytes *out,
                                  struct weft_error *err)
{
    static char *const elsewhere[1] = {NULL}; /* the trainer provides the memory of slots */
    struct wf_tstage_spec spec = wf_topology_stage_spec(l, stage);
    struct wf_tstage_bytes b;
    spec.slots = weft_program_slots(p, stage);
    spec.split_slots = weft_program_split_slots(p, stage);
    spec.slot_at = elsewhere;
    WEFT_TRY(wf_tstage_count_bytes(&spec, l->threads, &b, err));
    out->weights += b.weights;
    out->gradients += b.gradients;
    out->packed += b.packed;
    out->activations += b.activations;
    out->scratch += b.scratch;
    return WEFT_OK;
}

/* Adds the moments of the rank's shards, their snapshot, and the buffers of reductions. */
static enum weft_status add_shards(const struct wf_topology *l, uint32_t rank, bool copies,
                                   struct wf_rank_bytes *out, struct weft_error *err)
{
    const struct weft_training how = {.fast_sums = l->fast_sums};
    struct weft_state_bytes state;
    size_t element = weft_gradient_bytes(&how), owned = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t h = wf_topology_member(g, rank);
        if (h == g->n_members)
            continue;
        for (size_t k = 0; k < g->n_tensors; k++) {
            struct wf_range shard = wf_topology_shard(g, h, k);
            owned += shard.end - shard.begin;
        }
        if (copies && g->n_members > 1)
            out->messages +=
                wf_group_buffer_bytes(g->n_members, g->cuts[h + 1] - g->cuts[h], element);
    }

    WEFT_TRY(weft_state_bytes_init(&state, owned, 0, &how, err));
    out->moments += state.moments;
    if (l->has_snapshot) /* a checkpoint contains the values and the moments of parameters */
        out->snapshot += state.weights + state.moments;
    return WEFT_OK;
}

/* Returns the bytes of residual blocks of one stage: the blocks that the stage completes and
 * their gradients, for each output; gradients of forwarded blocks; and, if the transport
 * copies, received blocks for each input.  A forward-only program keeps the values alone, for
 * each of its sets.  The executor has three messages for each transfer of a block. */
static size_t block_bytes(const struct wf_topology *l, const struct weft_program *p,
                          const struct weft_traffic *traffic, uint32_t stage, bool copies)
{
    size_t elements = l->max_rows * l->seq * l->model.dim, sends = 0, receives = 0;
    size_t both = sizeof(float) + sizeof(int64_t);
    if (traffic == NULL)
        return 0;
    const struct weft_placement *place = weft_traffic_placement(traffic);
    uint32_t n_pipes = place->n_pipes;
    for (uint32_t pipe = 0; pipe < n_pipes; pipe++) {
        sends = wf_size_max(sends, weft_traffic_sends(traffic, pipe, stage).len);
        receives = wf_size_max(receives, weft_traffic_receives(traffic, pipe, stage).len);
    }

    size_t makes = weft_traffic_finishes(traffic, stage).len;
    size_t bytes = 0;
    for (uint32_t m = 0; m < place->n_micros; m++) {
        uint32_t pipe = weft_placement_pipe(place, m);
        bytes += 3 * sizeof(struct weft_message) *
                 (weft_traffic_sends(traffic, pipe, stage).len +
                  weft_traffic_receives(traffic, pipe, stage).len);
    }
    if (p == weft_program_forward(p))
        return bytes +
               weft_program_block_sets(p) * (makes + receives) * sizeof(float) * elements;
    size_t per_output = makes * both + sends * sizeof(int64_t);
    bytes += weft_program_outputs(p, stage) * per_output * elements;
    return bytes + weft_program_inputs(p, stage, copies) * receives * both * elements;
}

/* Returns the bytes of the executor's buffers for one stage of a program. */
static size_t message_bytes(const struct wf_topology *l, const struct weft_program *p,
                            uint32_t rank, uint32_t stage, bool copies)
{
    size_t output =
        wf_size_round_up(l->max_rows * l->seq * l->model.dim * sizeof(float), BUFFER_ALIGN);
    size_t bytes = stage + 1 < l->n_stages ? weft_program_outputs(p, stage) * output : 0;
    bytes += weft_program_inputs(p, stage, copies) * output;
    return bytes + block_bytes(l, p, wf_topology_traffic(l, rank / l->pp), stage, copies);
}

/* Returns the bytes of the buffer for the largest tensor that rank 0 receives when the weights
 * are saved. */
static size_t save_bytes(const struct wf_topology *l)
{
    size_t max = 0;
    for (size_t i = 0; i < l->n_groups; i++)
        for (size_t k = 0; wf_topology_member(&l->groups[i], 0) == l->groups[i].n_members &&
                           k < l->groups[i].n_tensors;
             k++)
            max = wf_size_max(max, l->groups[i].tensors[k].n * sizeof(float));
    return max;
}

/* Counts the copy of the model that generates samples. */
static enum weft_status sample_bytes(const struct wf_topology *l, size_t *out,
                                     struct weft_error *err)
{
    const struct wf_infer_spec spec = {
        .model = l->model, .max_tokens = l->sample_len, .type = WF_DTYPE_F32};
    WEFT_TRY(wf_infer_count_bytes(&spec, l->threads, out, err));
    *out += l->model.vocab * (sizeof(float) + sizeof(struct wf_candidate));
    return WEFT_OK;
}

static enum weft_status add_temporary(const struct wf_topology *l, struct wf_rank_bytes *out,
                                      struct weft_error *err)
{
    size_t sample = 0;
    if (l->sample_len != 0)
        WEFT_TRY(sample_bytes(l, &sample, err));
    out->temporary = wf_size_max(sample, l->saves ? save_bytes(l) : 0);
    return WEFT_OK;
}

/* -- memory of ranks ----------------------------------------------------------------------- */

void wf_rank_bytes_add_up(struct wf_rank_bytes *b)
{
    b->total = b->weights + b->gradients + b->packed + b->moments + b->activations +
               b->messages + b->scratch + b->data + b->snapshot + b->temporary;
}

static enum weft_status count_program(const struct wf_topology *l, const struct weft_program *p,
                                      uint32_t rank, bool copies, struct wf_rank_bytes *out,
                                      struct weft_error *err)
{
    out->activations = weft_program_slot_bytes(p);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        if (!wf_topology_runs_stage(l, rank, s))
            continue;
        WEFT_TRY(add_stage(l, p, s, out, err));
        out->messages += message_bytes(l, p, rank, s, copies);
        out->messages += message_bytes(l, weft_program_forward(p), rank, s, copies);
    }
    return WEFT_OK;
}

enum weft_status wf_topology_rank_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                                        struct wf_rank_bytes *out, struct weft_error *err)
{
    struct wf_rank_bytes b = {.data = 2 * sizeof(int32_t) * l->batch * l->seq};
    struct weft_program *p = NULL;
    WEFT_TRY(wf_topology_new_program(l, rank, &p, err));
    enum weft_status st = count_program(l, p, rank, copies, &b, err);
    weft_program_free(p);
    if (st == WEFT_OK && rank == 0)
        st = add_temporary(l, &b, err);
    if (st != WEFT_OK)
        return st;

    WEFT_TRY(add_shards(l, rank, copies, &b, err));
    wf_rank_bytes_add_up(&b);
    *out = b;
    return WEFT_OK;
}

enum weft_status wf_topology_total_bytes(const struct wf_topology *l, bool copies, size_t *out,
                                         struct weft_error *err)
{
    size_t total = 0;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        struct wf_rank_bytes b;
        WEFT_TRY(wf_topology_rank_bytes(l, r, copies, &b, err));
        total = b.total > SIZE_MAX - total ? SIZE_MAX : total + b.total;
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
