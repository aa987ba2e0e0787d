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
#include "base/text.h"
#include "compute/model/params.h"
#include "compute/model/stage.h"
#include "training/settings/settings.h"
#include "weft/exec.h"
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

    /* What memory also depends on. */
    enum wf_dtype precision;
    bool fast_sums;
    uint32_t threads;        /* threads per rank */
    uint8_t *recompute;      /* owned: (model.layers), enum weft_recompute */
    bool has_snapshot;       /* checkpoints are written from a copy of the shards */
    bool saves;              /* rank 0 writes the weights at the end */
    uint32_t sample_len;     /* maximum number of tokens of a sample with its prompt; 0: none */
    size_t memory_limit;     /* bytes of the ranks on one machine together */
    uint32_t ranks_per_host; /* number of neighbouring ranks on one machine */
};

/* The memory of a rank in bytes. */
struct wf_rank_bytes {
    size_t weights, gradients, packed, moments;
    size_t activations; /* slots, and recomputed values */
    /* Outputs of stages, residual blocks and, if the transport copies, received messages. */
    size_t messages;
    size_t scratch;
    size_t data;     /* the tokens of a step */
    size_t snapshot; /* the copy from which checkpoints are written */
    /* Rank 0, for some time only: the copy of the weights that generates samples, or the buffer
     * for saving weights, whichever is larger. */
    size_t temporary;
    size_t total;
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

/* Returns the spec of a stage, with one slot and without a pool. */
struct wf_tstage_spec wf_topology_stage_spec(const struct wf_topology *l, uint32_t stage);

/* Compiles the program of a rank, with slots of the sizes that its stages need.  The caller
 * frees *out with weft_program_free().  Local. */
enum weft_status wf_topology_new_program(const struct wf_topology *l, uint32_t rank,
                                         struct weft_program **out, struct weft_error *err);

/* Computes the memory that the trainer of a rank allocates, with the code that sizes the
 * stages, slots and buffers.  `copies`: the transport copies messages.  Small lists, and the
 * memory of MPI and of thread stacks, are not counted.  Local. */
enum weft_status wf_topology_rank_bytes(const struct wf_topology *l, uint32_t rank, bool copies,
                                        struct wf_rank_bytes *out, struct weft_error *err);

/* Sets total to the sum of all parts. */
void wf_rank_bytes_add_up(struct wf_rank_bytes *b);

/* Adds up the totals of wf_topology_rank_bytes() of all ranks.  The sum saturates at
 * SIZE_MAX.  Local. */
enum weft_status wf_topology_total_bytes(const struct wf_topology *l, bool copies, size_t *out,
                                         struct weft_error *err);

/* -- recomputation (topology_recompute.c) */

/* Sets l->recompute from a text as in planning/spec/recompute.h; "auto" sets it to none.
 * Stages are ignored while l->partition is empty.  Returns WEFT_USAGE with the column of a
 * range that does not exist or overlaps another.  Local. */
enum weft_status wf_topology_set_recompute(struct wf_topology *l, const char *text,
                                           struct weft_error *err);

/* Sets l->recompute to the least recomputation with which every machine stays within
 * l->memory_limit: on each machine, the first layers recompute everything and the next ones
 * their attention, and these two numbers are those with the fewest recomputed operations.  If
 * nothing fits, all layers of the machine recompute everything.  Local. */
enum weft_status wf_topology_fit_recompute(struct wf_topology *l, bool copies,
                                           struct weft_error *err);

/* Appends l->recompute in the syntax of the setting: "none", "full" or "full:0-3,attention:4".
 */
void wf_topology_print_recompute(const struct wf_topology *l, struct wf_text *out);

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

/* Computes l->sums from the partition and the recomputation.  Local. */
enum weft_status wf_topology_sum_stages(struct wf_topology *l, struct weft_error *err);

/* Returns the cost of stages as they are executed: the backward pass of the head runs in its
 * forward pass. */
struct weft_cost wf_topology_cost(const struct wf_topology *l);

#endif
