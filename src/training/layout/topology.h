/* Defines which rank of a run executes which stages of which replica, and which shard of which
 * parameters it updates.
 *
 * Rank r of the run is rank r mod pp of replica r / pp.  Replica d runs a contiguous range of
 * the step's micro-batches with a schedule for that number of micro-batches.  Every rank
 * computes the whole topology from the settings alone, without communication.
 *
 * A group is a sequence of parameters that the same ranks store: the parameters of a stage, in
 * all replicas and on all ranks of a bidirectional pipeline; or a tied weight that is used on
 * two stages.  The members of a group are these ranks.  They reduce the gradient of the group,
 * and each member updates one shard.  Shards end at multiples of WF_NORM_SEGMENT elements. */
#ifndef TRAINING_LAYOUT_TOPOLOGY_H
#define TRAINING_LAYOUT_TOPOLOGY_H

#include "base/size.h"
#include "compute/model/params.h"
#include "training/settings/settings.h"
#include "weft/part.h"
#include "weft/schedule.h"
#include "weft/traffic.h"

/* One tensor of a group. */
struct wf_topology_tensor {
    size_t param; /* index of the parameter in model order */
    size_t at, n; /* first element and number of elements in the vector of the group */
};

struct wf_topology_group {
    bool tied;
    uint32_t stage;    /* stage of the parameters; 0 for a tied weight */
    uint32_t *members; /* owned: ranks of the run, ascending */
    uint32_t n_members;
    struct wf_topology_tensor *tensors; /* owned: in memory order */
    size_t n_tensors;
    size_t first; /* first element of the vector in the parameters of the stage */
    /* owned: (n_members + 1), member i updates elements cuts[i] .. cuts[i + 1] - 1 */
    size_t *cuts;
    size_t n; /* number of elements of the vector, including padding */
};

struct wf_topology {
    struct weft_model model;
    uint32_t seq, batch, micros;
    uint32_t pp, dp, n_ranks, n_stages;
    /* owned: for the maximum and for the minimum number of micro-batches per replica */
    struct weft_schedule *schedules[2];
    struct weft_traffic *traffic[2]; /* owned: one per schedule; NULL without residual blocks */
    struct weft_partition partition;
    struct weft_stage_sums sums; /* cost and memory of stages, from the model's items */
    struct wf_param_list params; /* parameters of the model, in model order */
    /* owned: (params.n + 1), first segment of the norm for each parameter */
    size_t *first_segment;
    size_t max_rows;                  /* number of sequences in the largest micro-batch */
    struct wf_topology_group *groups; /* owned */
    size_t n_groups;
};

/* Builds the topology.  The caller releases *l with wf_topology_release().  Returns WEFT_USAGE
 * if the settings do not fit the model or contradict each other.  Local. */
enum weft_status wf_topology_init(struct wf_topology *l, const struct wf_train_settings *s,
                                  const struct weft_model *model, struct weft_error *err);
void wf_topology_release(struct wf_topology *l); /* a zeroed struct is allowed */

/* Returns WEFT_USAGE if the number of started ranks differs from that of the topology.
 * Local. */
enum weft_status wf_topology_check_ranks(const struct wf_topology *l, uint32_t started,
                                         struct weft_error *err);

/* Return the micro-batches of a replica, its schedule, and its traffic tables. */
struct wf_range wf_topology_micros(const struct wf_topology *l, uint32_t replica);
const struct weft_schedule *wf_topology_schedule(const struct wf_topology *l, uint32_t replica);
const struct weft_traffic *wf_topology_traffic(const struct wf_topology *l, uint32_t replica);

/* Stores the range of items of a stage: item0 .. item1 - 1. */
void wf_topology_items(const struct wf_topology *l, uint32_t stage, uint32_t *item0,
                       uint32_t *item1);

/* Returns whether a rank executes a stage. */
bool wf_topology_runs_stage(const struct wf_topology *l, uint32_t rank, uint32_t stage);

/* Returns the index of a rank among the members of a group, or n_members if the rank is not a
 * member. */
uint32_t wf_topology_member(const struct wf_topology_group *g, uint32_t rank);

/* Returns the range of elements of a tensor that a member updates. */
struct wf_range wf_topology_shard(const struct wf_topology_group *g, uint32_t member,
                                  size_t tensor);

/* Estimates the memory of a rank from the items of the model, as `weft plan` does.  Counts the
 * state of its stages (including only its own shards of the moments), activations in flight,
 * outputs and residual blocks that are being sent and, if the transport copies, receive
 * buffers. */
enum weft_status wf_topology_rank_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                                        size_t *out, struct weft_error *err);

/* Adds up wf_topology_rank_bytes() of all ranks.  The sum saturates at SIZE_MAX. */
enum weft_status wf_topology_total_bytes(const struct wf_topology *l, bool copies, size_t *out,
                                         struct weft_error *err);

/* Counts the bytes that the pipeline of the first replica sends in one step with a cache of
 * residual blocks.  The caller releases *out. */
enum weft_status wf_topology_count_traffic(const struct wf_topology *l,
                                           enum weft_block_cache cache,
                                           struct weft_traffic_step *out,
                                           struct weft_error *err);

/* Returns the number of elements, including padding, that a tensor of n elements occupies in
 * the memory of a stage. */
static inline size_t wf_topology_padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Returns the cost of stages as they are executed: the backward pass of the head runs in its
 * forward pass. */
struct weft_cost wf_topology_cost(const struct wf_topology *l);

#endif
