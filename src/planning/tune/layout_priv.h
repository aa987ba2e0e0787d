/* The search for layouts: data and functions that its files share. */
#ifndef PLANNING_TUNE_LAYOUT_PRIV_H
#define PLANNING_TUNE_LAYOUT_PRIV_H

#include "planning/part/memory_limits.h"
#include "planning/tune/layout_space.h"
#include "weft/tune.h"

/* The parts of the layout that is being scored, besides its schedule. */
struct wf_layout_parts {
    struct weft_partition partition;
    struct weft_cost cost;          /* owns its lists; with the hops of the pipeline */
    struct wf_memory_limits limits; /* owns its lists */
    /* Borrowed from `limits`: the limits for which the schedule was searched; NULL: none. */
    const struct weft_memory_cost *memory;
};

struct wf_layout_search {
    const struct weft_layout_problem *problem;
    struct weft_layouts *kept;
    size_t max_layouts;          /* maximum number of layouts to keep */
    struct weft_cluster cluster; /* the cluster of one pipeline */
    bool clustered;
    struct weft_link ring;   /* the link for the gradient all-reduce among replicas */
    struct weft_layout now;  /* the layout that is tried; owns nothing */
    struct weft_items items; /* owned: items for micro-batches of now.rows sequences */
    double boundary;         /* bytes of a message between two stages */

    struct wf_layout_parts built; /* the layout that is being scored */
    struct wf_layout_space space;

    int64_t start_ns;
    size_t n_all, n_begun; /* numbers of micros to try and begun, over all arrangements */
};

/* -- layout.c ------------------------------------------------------------------------------ */

/* Computes the memory of the stages and what the limit of the problem leaves to micro-batches.
 * The caller frees out->lists. */
enum weft_status wf_layout_limits_init(struct wf_memory_limits *out,
                                       const struct wf_layout_search *c,
                                       const struct weft_partition *part,
                                       const struct weft_placement *place,
                                       struct weft_error *err);

/* Sets the ranks of a pipeline and the links of the arrangement on the cluster.  If
 * `replicas_adjacent` is true, neighbouring ranks have the replicas of one stage, otherwise the
 * stages of one pipeline.  Returns false if this is impossible. */
bool wf_layout_arrange(struct wf_layout_search *c, uint32_t ranks, bool replicas_adjacent);

/* Creates the items for micro-batches of c->now.rows sequences. */
enum weft_status wf_layout_fill_items(struct wf_layout_search *c, struct weft_error *err);

/* Computes the costs of stages with the hops of the pipeline.  The caller releases *out with
 * wf_cost_release(). */
enum weft_status wf_layout_place_cost(const struct wf_layout_search *c,
                                      const struct weft_placement *place,
                                      const struct weft_stage_sums *sums, struct weft_cost *out,
                                      struct weft_error *err);

/* Returns the functions that score a layout.  The schedule of a layout is owned until it is
 * kept; its other parts are c->built. */
struct wf_layout_source wf_layout_make_source(struct wf_layout_search *c);

/* Returns the remaining seconds of the search; HUGE_VAL without a limit. */
double wf_layout_seconds_left(const struct wf_layout_search *c);

/* -- layout_keep.c ------------------------------------------------------------------------- */

/* Returns true if a layout with this time cannot be among the best layouts. */
bool wf_layout_is_pruned(const struct wf_layout_search *c, double time);

/* Copies a partition.  The caller releases *to. */
enum weft_status wf_partition_copy(struct weft_partition *to, const struct weft_partition *from,
                                   struct weft_error *err);

/* Copies a partition and the lists of a memory cost into a layout, and inserts the layout into
 * the list of the best layouts.  Frees the layout if it is not among the best or is already
 * listed.  Takes ownership of l->result. */
enum weft_status wf_layout_keep(struct wf_layout_search *c, struct weft_layout *l,
                                const struct weft_partition *part,
                                const struct weft_memory_cost *memory, struct weft_error *err);

/* -- layout_refine.c ----------------------------------------------------------------------- */

/* Computes the bounds of the kept layouts and tunes the order of the best one that can be
 * tuned.  If the search is stopped, computes only bounds by formula. */
enum weft_status wf_layouts_refine(struct wf_layout_search *c, struct weft_error *err);

#endif
