/* Partitions: which stage holds which items of a model.
 *
 * S stages, numbered along the model, each hold a range of the L layers; the first also holds
 * the embedding, the last the head.  A partition is made in one of four ways:
 *
 *     even      by the number of layers alone, the remainder to the first stages
 *     balanced  by the items' times, under memory limits of the ranks
 *     counts    the layers of each stage: "4,3,3,2"
 *     layout    Megatron's layout string: "Et*3|(tt|)*2tL"
 *
 *     struct weft_partition p;
 *     if (weft_partition_init_even(&p, 12, 4, &err) != WEFT_OK) ...
 *     use(p.at[0].first_layer, p.at[0].end_layer);
 *     weft_partition_release(&p);
 *
 * Every partition is verified before it is handed out: each layer is on exactly one stage.
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

/* Layers first_layer .. end_layer - 1, none when they are equal. */
struct weft_stage_range {
    uint32_t first_layer, end_layer;
    bool embedding, head;
};

struct weft_partition {
    uint32_t n_stages;
    struct weft_stage_range *at; /* owned: (n_stages) */
};

WEFT_API void weft_partition_release(struct weft_partition *p); /* a zeroed one is allowed */

/* Every layer 0 .. n_layers - 1 on exactly one stage, in order; the embedding once, on the
 * first stage; the head once, on the last.  The error names the stage. */
WEFT_API enum weft_status weft_partition_verify(const struct weft_partition *p,
                                                uint32_t n_layers, struct weft_error *err);

/* Refuses more stages than layers, and zero sizes.  A command asks this before it splits evenly
 * or balances. */
WEFT_API enum weft_status weft_partition_check_filled(uint32_t n_layers, uint32_t n_stages,
                                                      struct weft_error *err);

/* L / S layers a stage, one more on the first L mod S.  With fewer layers than stages the last
 * ones are empty: see weft_partition_check_filled(). */
WEFT_API enum weft_status weft_partition_init_even(struct weft_partition *p, uint32_t n_layers,
                                                   uint32_t n_stages, struct weft_error *err);

/* -- explicit ------------------------------------------------------------------------------ */

/* The text parsers take at most this many stages and layers together. */
enum { WEFT_MAX_PATTERN = 1 << 20 };

/* counts[s] layers on stage s.  A stage may have none: the first still has the embedding, the
 * last the head, and one in between only passes on what it gets.  There must be a layer. */
WEFT_API enum weft_status weft_partition_init_counts(struct weft_partition *p,
                                                     const uint32_t *counts, uint32_t n_stages,
                                                     struct weft_error *err);

/* Reads "4,3,3,2": the layers of each stage, blanks allowed around a number.  When n_stages or
 * n_layers is not 0, there must be just as many.  Errors name the column. */
WEFT_API enum weft_status weft_partition_parse_counts(struct weft_partition *p,
                                                      const char *text, size_t len,
                                                      uint32_t n_stages, uint32_t n_layers,
                                                      struct weft_error *err);

/* Reads a layout as Megatron's --pipeline-model-parallel-layout takes it:
 *
 *     E the embedding    t a layer    L the head (Megatron's "loss")    | the next stage
 *     x*n the item, the bar or the (group) before it n times, n >= 1
 *     commas and blanks mean nothing
 *
 * "Et*3|(tt|)*2L" is stages of 3, 2, 2 and 0 layers.  One E at the very start, one L at the
 * very end; two bars in a row leave a stage empty; m (a layer for multi-token prediction) is
 * not supported.  n_stages and n_layers as above.  Errors name the column. */
WEFT_API enum weft_status weft_partition_parse_pattern(struct weft_partition *p,
                                                       const char *text, size_t len,
                                                       uint32_t n_stages, uint32_t n_layers,
                                                       struct weft_error *err);

/* -- what stages and ranks hold ------------------------------------------------------------ */

/* Sums of the items of each stage.  All arrays are (n_stages) and owned. */
struct weft_stage_sums {
    uint32_t n_stages;
    double *f, *i, *w; /* of one micro */
    size_t *state_bytes, *act_bytes;
};

WEFT_API enum weft_status weft_stage_sums_init(struct weft_stage_sums *sums,
                                               const struct weft_partition *p,
                                               const struct weft_items *items,
                                               struct weft_error *err);
WEFT_API void weft_stage_sums_release(struct weft_stage_sums *sums);

/* The times as a cost table without hops; it borrows from `sums`. */
WEFT_API struct weft_cost weft_stage_sums_cost(const struct weft_stage_sums *sums);

/* Who holds the stages, and how much each rank may hold. */
struct weft_rank_limits {
    const struct weft_placement *placement; /* borrowed; NULL: stage s on rank s */
    /* Micros whose activations a stage keeps at once, (n_pipes, n_stages); NULL: 1 each.
     * Borrowed. */
    const uint32_t *in_flight;
    const size_t *limit_bytes; /* borrowed; used by the balanced partition only */
    size_t n_limits;           /* 0: no limit; 1: the same for all ranks; else one a rank */
};

/* Bytes on each rank: the state of all its stages (once for a stage that it holds in two pipes,
 * a shared weight once), and in_flight times the activations of one micro.  `rank_limits` may be
 * NULL.  out is (ranks of the placement). */
WEFT_API enum weft_status weft_partition_rank_bytes(const struct weft_partition *p,
                                                    const struct weft_items *items,
                                                    const struct weft_rank_limits *rank_limits,
                                                    size_t *out, struct weft_error *err);

/* -- balanced ------------------------------------------------------------------------------ */

enum { WEFT_MAX_BALANCED_LAYERS = 1 << 13 };

/* The best partition, embedding and head counted:
 *
 *     1. the least bottleneck: the time f + i + w of the slowest stage,
 *     2. then the most even: the least sum of the squares of all stages' times,
 *     3. then the fewest stages without a layer,
 *     4. then the most layers on the first stages.
 *
 * The first and the last of several stages may be left with the embedding or the head alone;
 * all others have at least one layer.  So n_stages may exceed the layers by 2: a command that
 * wants no more stages than layers asks weft_partition_check_filled() first.
 *
 * Times within one part in 10^9 count as equal.  With limits, only partitions that keep every
 * rank within its own are looked at; when there is none, WEFT_USAGE with the least limit that
 * would do.
 *
 * When every rank holds one stage the result is exact and fast.  When ranks hold several,
 * limits tie stages together: the answer without the tie is taken if it fits, which is exact;
 * else a bounded branch-and-bound looks for the best that fits.  *proven (may be NULL) says
 * whether the result is known to be the best; it always keeps to the limits.  `rank_limits` may be
 * NULL. */
WEFT_API enum weft_status
weft_partition_init_balanced(struct weft_partition *p, const struct weft_items *items,
                             uint32_t n_stages, const struct weft_rank_limits *rank_limits,
                             bool *proven, struct weft_error *err);

/* -- a batch over micros ------------------------------------------------------------------- */

/* Cuts n_items into n_parts ranges, the first ones longer by one: part k is bounds[k] ..
 * bounds[k + 1] - 1.  bounds is (n_parts + 1).  A part may not be empty. */
WEFT_API enum weft_status weft_split_ranges(size_t n_items, size_t n_parts, size_t *bounds,
                                            struct weft_error *err);

#ifdef __cplusplus
}
#endif

#endif
