/* Times and memory of a layout, from measured costs and the topology of the run. */
#ifndef TRAINING_LAYOUT_AUTO_COST_H
#define TRAINING_LAYOUT_AUTO_COST_H

#include "training/layout/auto.h"
#include "training/layout/topology.h"

/* Adds up the times of the items of a stage, without recomputation. */
struct wf_auto_times wf_auto_stage_times(const struct weft_stage_range *r,
                                         const struct wf_auto_profile *profile);

/* Computes the costs of the stages of a layout.  All lists of *out share one allocation, which
 * the caller frees as out->f.at.  Local. */
enum weft_status wf_auto_make_cost(const struct wf_auto_machine *m, const struct wf_topology *l,
                                   const struct wf_auto_profile *profile,
                                   const struct wf_auto_candidate *c, struct weft_cost *out,
                                   struct weft_error *err);

/* Returns the seconds of reduction and update on the slowest rank.  Local. */
double wf_auto_time_update(const struct wf_auto_machine *m, const struct wf_topology *l,
                           const struct wf_auto_profile *profile,
                           const struct wf_auto_candidate *c);

/* Sets c->rank_bytes and c->total_bytes, which must be 0, and *fits.  Neighbouring ranks are on
 * the same host.  Local. */
enum weft_status wf_auto_count_bytes(const struct wf_auto_machine *m,
                                     const struct wf_topology *l, struct wf_auto_candidate *c,
                                     bool *fits, struct weft_error *err);

#endif
