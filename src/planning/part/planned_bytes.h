/* The memory that the ranks of a schedule need.  Bytes that items do not have count as 0. */
#ifndef PLANNING_PART_PLANNED_BYTES_H
#define PLANNING_PART_PLANNED_BYTES_H

#include "weft/part.h"

/* The bytes of every rank.  All arrays are (n_ranks) and owned. */
struct wf_planned_bytes {
    uint32_t n_ranks;
    struct weft_state_bytes *parts; /* of `state`; all 0 if the items do not have them */
    size_t *state;                  /* weights, gradients and optimizer state */
    size_t *activations;            /* stored, and recomputed */
    /* Outputs of stages, and received messages of a transport that copies, as MPI does. */
    size_t *messages;
    size_t *scratch; /* buffers of the stages */
    size_t *total;   /* the sum of `state` and the arrays after it */
};

/* Computes the bytes of every rank that executes the schedule `s`.  There are `replicas` ranks
 * for each rank of the schedule; all that run a stage divide its moments among them.  The
 * caller releases *out. */
enum weft_status wf_planned_bytes_init(struct wf_planned_bytes *out,
                                       const struct weft_schedule *s,
                                       const struct weft_partition *p,
                                       const struct weft_items *items, uint32_t replicas,
                                       struct weft_error *err);

/* Computes the bytes of every rank that do not depend on its order of actions: all of them
 * without the memory of micro-batches.  `out` is (n_ranks). */
enum weft_status wf_planned_fixed_bytes(size_t *out, const struct weft_placement *place,
                                        const struct weft_partition *p,
                                        const struct weft_items *items, uint32_t replicas,
                                        struct weft_error *err);

/* Frees all arrays.  The struct may be all zeros. */
void wf_planned_bytes_release(struct wf_planned_bytes *b);

/* Returns the largest of `n` byte counts. */
size_t wf_planned_bytes_max(const size_t *bytes, uint32_t n);

/* The memory of a stage that its items determine. */
struct wf_stage_memory {
    size_t state;
    struct weft_state_bytes parts;
    size_t max_work, all_work; /* recomputed values of the largest and of all layers */
    size_t scratch;
};

/* Adds up the items of a stage.  Returns false if the bytes overflow. */
bool wf_stage_memory_sum(const struct weft_stage_range *r, const struct weft_items *items,
                         struct wf_stage_memory *out);

/* The largest numbers of micro-batches at one time that a rank has of one of its stages. */
struct wf_stage_counts {
    uint32_t stored; /* from F to the end of the backward */
    uint32_t open;   /* from F to B or I: outputs, and received inputs */
    uint32_t split;  /* from I to W */
};

/* Counts the micro-batches of a rank.  `out` is (n_stages); stages that the rank does not run
 * have 0. */
enum weft_status wf_rank_counts(const struct weft_schedule *s, uint32_t rank,
                                struct wf_stage_counts *out, struct weft_error *err);

/* Returns whether a rank receives the inputs of a stage from another rank. */
bool wf_rank_receives(const struct weft_placement *place, uint32_t rank, uint32_t stage);

/* Returns the number of messages of a stage that the executor of a rank has memory for, on a
 * transport that copies.  `open` is that of struct wf_stage_counts. */
size_t wf_rank_buffers(const struct weft_placement *place, bool forward_only, uint32_t rank,
                       uint32_t stage, uint32_t open);

#endif
