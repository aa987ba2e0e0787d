/* Who does what in a run of many ranks: schedules, stages, members of weights, their shares.
 *
 * Rank r of the run is rank r mod pp of replica r / pp.  Replica d runs a contiguous range of the
 * step's micros by a schedule for just as many.  Every rank makes the whole layout, from the
 * settings alone, so that all know what all others do.
 *
 * A group is a run of parameters that the same ranks hold: a stage's, in all replicas and on all
 * ranks of a two-way pipeline; and a tied weight whose two uses are on different stages.  Its
 * members sum its gradient and update a share each; shares end where blocks of WF_NORM_SEGMENT
 * elements end. */
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
    size_t param; /* in model order */
    size_t at, n; /* elements of the group's vector */
};

struct wf_topology_group {
    bool tied;
    uint32_t stage;    /* unless it is a tied weight's */
    uint32_t *members; /* owned: ranks of the run, ascending */
    uint32_t n_members;
    struct wf_topology_tensor *tensors; /* owned: as they lie */
    size_t n_tensors;
    size_t first; /* where the vector begins among the stage's parameters, in elements */
    size_t *cuts; /* owned: (n_members + 1), elements of the vector */
    size_t n;     /* elements of the vector, gaps included */
};

struct wf_topology {
    struct weft_model model;
    uint32_t seq, batch, micros;
    uint32_t pp, dp, n_ranks, n_stages;
    struct weft_schedule
        *schedules[2];               /* owned: for the most micros of a replica, the fewest */
    struct weft_traffic *traffic[2]; /* owned: the same; NULL without block residuals */
    struct weft_partition partition;
    struct weft_stage_sums sums;      /* what stages cost and hold, by the model's items */
    struct wf_param_list params;      /* of the model, in order */
    size_t *first_segment;            /* owned: (params + 1), blocks of the norm */
    size_t max_rows;                  /* sequences of the largest micro */
    struct wf_topology_group *groups; /* owned */
    size_t n_groups;
};

/* wf_topology_release() frees.  Local. */
enum weft_status wf_topology_init(struct wf_topology *l, const struct wf_train_settings *s,
                                  const struct weft_model *model, struct weft_error *err);
void wf_topology_release(struct wf_topology *l); /* a zeroed one is allowed */

/* WEFT_USAGE unless as many ranks were started as it is for.  Local. */
enum weft_status wf_topology_check_ranks(const struct wf_topology *l, uint32_t started,
                                         struct weft_error *err);

/* The micros of a replica, and the schedule it runs them by. */
struct wf_range wf_topology_micros(const struct wf_topology *l, uint32_t replica);
const struct weft_schedule *wf_topology_schedule(const struct wf_topology *l, uint32_t replica);
const struct weft_traffic *wf_topology_traffic(const struct wf_topology *l, uint32_t replica);

/* The items of a stage. */
void wf_topology_items(const struct wf_topology *l, uint32_t stage, uint32_t *item0,
                       uint32_t *item1);

bool wf_topology_runs_stage(const struct wf_topology *l, uint32_t rank, uint32_t stage);
/* Which member of a group a rank is; n_members when it is none. */
uint32_t wf_topology_member(const struct wf_topology_group *g, uint32_t rank);

/* The part of a tensor that is in a member's share: elements of the tensor. */
struct wf_range wf_topology_shard(const struct wf_topology_group *g, uint32_t member,
                                  size_t tensor);

/* What a rank will hold, by the items of the model as `weft plan` counts: the state of its stages, of
 * which members share the moments, what its list keeps in flight, outputs and residual blocks on
 * their way, and where a transport copies also what comes in. */
enum weft_status wf_topology_rank_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                                        size_t *out, struct weft_error *err);

/* Adds up wf_topology_rank_bytes() of all ranks.  The sum saturates at SIZE_MAX. */
enum weft_status wf_topology_total_bytes(const struct wf_topology *l, bool copies, size_t *out,
                                         struct weft_error *err);

/* Counts what the pipeline of the first replica sends in one step with a cache of residual blocks.
 * The caller releases *out. */
enum weft_status wf_topology_count_traffic(const struct wf_topology *l,
                                           enum weft_block_cache cache,
                                           struct weft_traffic_step *out,
                                           struct weft_error *err);

/* Elements that a tensor of n takes where stages keep their parameters. */
static inline size_t wf_topology_padded(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* The cost of stages as they run here: the head's whole backward is in its forward. */
struct weft_cost wf_topology_cost(const struct wf_topology *l);

#endif
