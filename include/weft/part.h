/* Partitions: the assignment of a model's items to stages.
 *
 * S stages, numbered along the model, each have a range of the L layers.  The first stage also
 * has the embedding, and the last stage has the head.  There are four ways to create a
 * partition:
 *
 *     even      by the number of layers, the remainder on the first stages
 *     balanced  by the times of the items, under memory limits of the ranks
 *     counts    the number of layers of each stage: "4,3,3,2"
 *     layout    Megatron's layout string: "Et*3|(tt|)*2tL"
 *
 *     struct weft_partition p;
 *     if (weft_partition_init_even(&p, 12, 4, &err) != WEFT_OK) ...
 *     use(p.at[0].first_layer, p.at[0].end_layer);
 *     weft_partition_release(&p);
 *
 * Every partition is verified before it is returned: each layer is on exactly one stage.
 */
#ifndef WEFT_PART_H
#define WEFT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/cost.h"
#include "weft/schedule.h"
#include "weft/spec.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A stage has the layers first_layer .. end_layer - 1; it has no layer if both are equal. */
struct weft_stage_range {
    uint32_t first_layer, end_layer;
    bool embedding, head;
    uint32_t n_mtp; /* layers for multi-token prediction, after the last layer of the model */
};

struct weft_partition {
    uint32_t n_stages;
    struct weft_stage_range *at; /* owned: (n_stages) */
};

/* Frees the stages of a partition.  A zeroed partition is allowed. */
WEFT_API void weft_partition_release(struct weft_partition *p);

/* Checks that every layer 0 .. n_layers - 1 is on exactly one stage, in order, that only the
 * first stage has the embedding, that only the last stage has the head, and that all layers for
 * multi-token prediction are on one stage, which no layer follows.  The error names the
 * stage. */
WEFT_API enum weft_status weft_partition_verify(const struct weft_partition *p,
                                                uint32_t n_layers, struct weft_error *err);

/* Returns WEFT_USAGE if a size is zero or if there are more stages than layers.  Programs call
 * it before an even or balanced partition that must not have stages without layers. */
WEFT_API enum weft_status weft_partition_check_filled(uint32_t n_layers, uint32_t n_stages,
                                                      struct weft_error *err);

/* Creates a partition with L / S layers per stage and one more on the first L mod S stages.
 * With fewer layers than stages, the last stages have no layers: see
 * weft_partition_check_filled().  The caller releases *p. */
WEFT_API enum weft_status weft_partition_init_even(struct weft_partition *p, uint32_t n_layers,
                                                   uint32_t n_stages, struct weft_error *err);

/* -- explicit ------------------------------------------------------------------------------ */

/* The text parsers accept at most this number of stages plus layers. */
enum { WEFT_MAX_PATTERN = 1 << 20 };

/* Creates a partition with counts[s] layers on stage s.  A stage may have no layers: the first
 * stage still has the embedding, the last stage has the head, and any other stage without
 * layers passes its input on.  At least one layer is required.  The caller releases *p. */
WEFT_API enum weft_status weft_partition_init_counts(struct weft_partition *p,
                                                     const uint32_t *counts, uint32_t n_stages,
                                                     struct weft_error *err);

/* Reads "4,3,3,2": the number of layers of each stage, with optional blanks around a number.
 * If n_stages (or n_layers) is not 0, the text must have exactly that many stages (or layers).
 * Errors name the column.  The caller releases *p. */
WEFT_API enum weft_status weft_partition_parse_counts(struct weft_partition *p,
                                                      const char *text, size_t len,
                                                      uint32_t n_stages, uint32_t n_layers,
                                                      struct weft_error *err);

/* Reads a layout string in the syntax of Megatron's --pipeline-model-parallel-layout:
 *
 *     E the embedding    t a layer    L the head (Megatron's "loss")    | the next stage
 *     m a layer for multi-token prediction
 *     x*n the preceding item, bar or (group) repeated n times, n >= 1
 *     commas and blanks are ignored
 *
 * "Et*3|(tt|)*2L" has stages of 3, 2, 2 and 0 layers.  The text begins with its only E and ends
 * with its only L.  Two consecutive bars leave a stage empty.  All m are on one stage and
 * follow all t; each costs as much as the last layer.  n_stages and n_layers, which does not
 * count m, have the same meaning as in weft_partition_parse_counts().  Errors name the column.
 * The caller releases *p. */
WEFT_API enum weft_status weft_partition_parse_pattern(struct weft_partition *p,
                                                       const char *text, size_t len,
                                                       uint32_t n_stages, uint32_t n_layers,
                                                       struct weft_error *err);

/* Writes a partition as a layout string that Megatron and weft_partition_parse_pattern() read:
 * "Et*3|(tt|)*29,m|L".  The caller frees *out. */
WEFT_API enum weft_status weft_partition_print_pattern(const struct weft_partition *p,
                                                       char **out, struct weft_error *err);

/* -- sums of stages and ranks -------------------------------------------------------------- */

/* Sums over the items of each stage.  All arrays are (n_stages) and owned. */
struct weft_stage_sums {
    uint32_t n_stages;
    double *f, *i, *w; /* times per micro-batch */
    size_t *state_bytes, *act_bytes;
};

/* Sums the items of each stage.  The caller releases *sums. */
WEFT_API enum weft_status weft_stage_sums_init(struct weft_stage_sums *sums,
                                               const struct weft_partition *p,
                                               const struct weft_items *items,
                                               struct weft_error *err);

/* Frees the arrays of the sums.  Zeroed sums are allowed. */
WEFT_API void weft_stage_sums_release(struct weft_stage_sums *sums);

/* Returns the times of `sums` as a cost table whose hop is 0.  The table borrows from
 * `sums`. */
WEFT_API struct weft_cost weft_stage_sums_cost(const struct weft_stage_sums *sums);

/* The placement of stages on ranks, and the memory limit of each rank. */
struct weft_rank_limits {
    const struct weft_placement *placement; /* borrowed; NULL: stage s on rank s */
    /* Number of micro-batches whose activations a stage stores at one time, (n_pipes,
     * n_stages); NULL: 1 for every stage.  The pointer is borrowed. */
    const uint32_t *in_flight;
    const size_t *limit_bytes; /* borrowed; used by the balanced partition only */
    /* Number of limits: 0: no limit; 1: the same limit for all ranks; else one per rank. */
    size_t n_limits;
    /* Bytes of each rank that do not depend on the partition, (n_ranks); NULL: 0.  Borrowed. */
    const size_t *fixed_bytes;
};

/* Computes the bytes on each rank: its fixed bytes, the state of its stages, and in_flight
 * times their activations per micro-batch.  The state of a stage in several pipes counts once,
 * and so does a shared weight.  `rank_limits` may be NULL.  `out` has one element per rank of
 * the placement. */
WEFT_API enum weft_status weft_partition_rank_bytes(const struct weft_partition *p,
                                                    const struct weft_items *items,
                                                    const struct weft_rank_limits *rank_limits,
                                                    size_t *out, struct weft_error *err);

/* -- balanced ------------------------------------------------------------------------------ */

enum { WEFT_MAX_BALANCED_LAYERS = 1 << 13 };

/* Creates the best partition.  The times include embedding and head.  The criteria, in this
 * order:
 *
 *     1. minimum bottleneck: the time f + i + w of the slowest stage
 *     2. minimum sum of squares of the stages' times
 *     3. minimum number of stages without a layer
 *     4. maximum number of layers on the first stages
 *
 * With several stages, the first may have only the embedding and the last may have only the
 * head; all other stages have at least one layer.  n_stages may therefore exceed the number of
 * layers by 2; see weft_partition_check_filled().  Times that differ by less than one part in
 * 10^9 count as equal.
 *
 * With limits, every rank stays within its limit.  Returns WEFT_USAGE with the minimum feasible
 * limit if there is no such partition.  `rank_limits` may be NULL.
 *
 * If every rank has one stage, the result is optimal.  If ranks have several stages, limits
 * couple the stages: the optimum without the coupling is used if it fits; otherwise a bounded
 * branch-and-bound search runs.  *proven (may be NULL) is set to whether the result is known to
 * be optimal.  The caller releases *p. */
WEFT_API enum weft_status
weft_partition_init_balanced(struct weft_partition *p, const struct weft_items *items,
                             uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                             bool *proven, struct weft_error *err);

/* -- a batch over micros ------------------------------------------------------------------- */

/* Divides n_items into n_parts ranges; the first n_items mod n_parts ranges have one more
 * item.  Part k is bounds[k] .. bounds[k + 1] - 1.  bounds is (n_parts + 1).  Returns
 * WEFT_USAGE if a part would be empty. */
WEFT_API enum weft_status weft_split_ranges(size_t n_items, size_t n_parts, size_t *bounds,
                                            struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
