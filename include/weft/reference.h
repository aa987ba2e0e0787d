/* What four other systems compute, exactly as they compute and print it, so that both sides can
 * be compared.  docs/reference-systems.md lists every part of these systems and what weft
 * offers for it.  weft's own functions are in the other headers, and they do not share the
 * limits of these systems.
 *
 *     burn_dragon  plans, workloads, gradients of a shared weight, the layout of ranks
 *     boostr       the tag of a message
 *     entrenar     a stage: its blocks, bubble and efficiency
 *     burn         gradient synchronisation: see weft/sync.h
 *
 * A physical stage of burn_dragon is a rank of weft; a virtual stage is a stage of weft.  Error
 * messages that the systems have are reproduced word for word.
 *
 * Unstable: follows the reference systems.
 */
#ifndef WEFT_REFERENCE_H
#define WEFT_REFERENCE_H

#include "weft/part.h"
#include "weft/timing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- burn_dragon: plans -------------------------------------------------------------------- */

/* The settings of a plan in burn_dragon.  greedy-gpipe and greedy-1f1b are its schedules
 * "gpipe" and "interleaved_1f1b". */
struct weft_reference_plan {
    bool enabled;
    bool interleaved; /* false: gpipe */
    size_t n_layer, stage_count, virtual_stages_per_rank, microbatches;
};

/* Checks settings by the rules of burn_dragon, in its order.  Returns WEFT_USAGE with the
 * message of burn_dragon for the first rule that is violated.  weft itself also accepts fewer
 * micro-batches than ranks and more chunks than ranks. */
WEFT_API enum weft_status weft_reference_plan_check(const struct weft_reference_plan *p,
                                                    struct weft_error *err);

/* Returns idle ticks divided by all ticks, in single precision. */
WEFT_API float weft_reference_bubble(const struct weft_metrics *m);

/* Writes "schedule=Gpipe physical_stages=.. ... bubble_fraction=0.072" for a greedy-gpipe or
 * greedy-1f1b schedule.  Writes at most `size` bytes, including the NUL. */
WEFT_API enum weft_status weft_reference_summary(const struct weft_schedule *s,
                                                 const struct weft_metrics *m, char *out,
                                                 size_t size, struct weft_error *err);

/* The work of one rank: its stages, and the indices of its forwards and backwards in the events
 * of weft_event_list(). */
struct weft_workload {
    uint32_t *stages; /* owned */
    size_t n_stages;
    size_t *forward, *backward; /* owned */
    size_t n_forward, n_backward;
};

/* Computes the work of a rank.  Returns WEFT_USAGE if the schedule does not have that rank.
 * The caller releases *out. */
WEFT_API enum weft_status weft_workload_init(struct weft_workload *out,
                                             const struct weft_schedule *s,
                                             const struct weft_event *events, size_t n_events,
                                             uint32_t rank, struct weft_error *err);

/* Frees the arrays of a workload.  A zeroed workload is allowed. */
WEFT_API void weft_workload_release(struct weft_workload *w);

/* Returns the gradient of one layer's use of a shared weight in one micro-batch. */
typedef float weft_reference_gradient_fn(void *arg, uint32_t layer, uint32_t micro);

/* The gradient of a weight that all layers share, in single precision. */
struct weft_reference_merge {
    float reference_gradient; /* one sum over stages, layers and micro-batches */
    float merged_gradient;    /* the sum of the sums of the ranks */
    float updated_weight;     /* weight - learning_rate x merged_gradient */
};

/* Sums the gradients of a shared weight as burn_dragon does: once in one sum, and once per rank
 * and then over the ranks.  The two differ in their last bits.  weft's own sums are exact
 * (weft/sync.h).  rank_gradients is (ranks), the sum of each rank.  `p` must have the stages of
 * `s`, which has one pipe; otherwise returns WEFT_USAGE. */
WEFT_API enum weft_status
weft_reference_merge_gradients(const struct weft_schedule *s, const struct weft_partition *p,
                               weft_reference_gradient_fn *gradient, void *arg, float weight,
                               float learning_rate, float *rank_gradients,
                               struct weft_reference_merge *out, struct weft_error *err);

/* -- burn_dragon: the layout of ranks ------------------------------------------------------ */

enum weft_reference_mode {
    WEFT_REFERENCE_SINGLE,
    WEFT_REFERENCE_DDP,
    WEFT_REFERENCE_FSDP, /* this mode and the following ones have no runtime in burn_dragon */
    WEFT_REFERENCE_TENSOR_PARALLEL_NEURON,
    WEFT_REFERENCE_HYBRID_2D,
};

/* The settings and the environment of a process. */
struct weft_reference_launch {
    enum weft_reference_mode mode;
    size_t world_size, data_size;
    bool pipeline_enabled;
    size_t stage_count, virtual_stages_per_rank;
    /* Borrowed: the values of WORLD_SIZE, RANK and LOCAL_RANK; NULL: not set.  A text that is
     * not a number counts as not set. */
    const char *env_world_size, *env_rank, *env_local_rank;
};

/* The role of a process. */
struct weft_reference_runtime {
    enum weft_reference_mode mode;
    size_t world_size, global_rank, local_rank;
    size_t dp_size, local_dp_size, tp_size;
    bool process_group; /* false: one process runs all ranks */
    /* Replicas of pipelines; only for ddp with a pipeline. */
    bool has_layout;
    size_t stage_count, virtual_stages_per_rank;
};

/* Determines the role of a process.  Returns WEFT_USAGE with the message of burn_dragon if
 * settings and environment do not match, or if the mode has no runtime. */
WEFT_API enum weft_status
weft_reference_runtime_resolve(const struct weft_reference_launch *launch,
                               struct weft_reference_runtime *out, struct weft_error *err);

/* Writes "mode=Ddp world_size=6 ... process_group=false".  Writes at most `size` bytes,
 * including the NUL. */
WEFT_API void weft_reference_runtime_print(const struct weft_reference_runtime *r, char *out,
                                           size_t size);

/* Writes "pipeline_layout=replica_major stage_count=3 ... world_size=6", or "" if the runtime
 * has no layout.  Writes at most `size` bytes, including the NUL. */
WEFT_API void weft_reference_layout_print(const struct weft_reference_runtime *r, char *out,
                                          size_t size);

#define WEFT_REFERENCE_NO_RANK SIZE_MAX

/* The place of a rank in the layout.  The ranks of its pipeline are pipeline_first ..
 * pipeline_first + stage_count - 1.  The ranks that have the same stage in other replicas are
 * stage, stage + stage_count, ..., one per replica. */
struct weft_reference_rank {
    size_t stage, replica;
    size_t predecessor, successor; /* within the pipeline, or WEFT_REFERENCE_NO_RANK */
    size_t pipeline_first;
};

/* Computes the place of `rank`.  Returns WEFT_USAGE if the runtime has no layout or not that
 * rank. */
WEFT_API enum weft_status weft_reference_layout_rank(const struct weft_reference_runtime *r,
                                                     size_t rank,
                                                     struct weft_reference_rank *out,
                                                     struct weft_error *err);

/* -- boostr: message tags ------------------------------------------------------------------ */

/* Computes base + 2 x micro + backward, the tag of a message in boostr.  Returns WEFT_NUMERIC
 * with the message of boostr if the result exceeds 32 bits.  weft does not use tags: its
 * messages carry a header (weft/comm.h). */
WEFT_API enum weft_status weft_reference_activation_tag(uint64_t micro, bool backward,
                                                        uint32_t base, uint32_t *out,
                                                        struct weft_error *err);

/* -- entrenar: a stage --------------------------------------------------------------------- */

struct weft_reference_stage {
    size_t block_start, block_end; /* the stage has blocks block_start .. block_end - 1 */
    bool has_embedding, has_lm_head;
    double bubble_fraction; /* (P - 1) / M: idle time relative to the time of the work */
    double efficiency;      /* 1 - bubble_fraction */
};

/* Computes a stage as entrenar's PipelineStage does.  Returns WEFT_USAGE if there are fewer
 * micro-batches than stages (with the message of entrenar), no stages, or not that stage. */
WEFT_API enum weft_status weft_reference_stage_init(struct weft_reference_stage *out,
                                                    size_t stage, size_t n_stages,
                                                    size_t n_blocks, size_t n_micros,
                                                    struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
