/* Writes plan.json of a run from the facts of all its ranks. */
#ifndef TRAINING_RUN_RUNDIR_PLAN_H
#define TRAINING_RUN_RUNDIR_PLAN_H

#include "training/layout/topology.h"
#include "training/run/planfile.h"
#include "weft/comm.h"
#include "weft/traffic.h"

struct wf_rundir_plan {
    const struct wf_topology *topology; /* topology and schedule are borrowed */
    const char *schedule;
    enum weft_block_cache cache;
    uint64_t n_params;
    double bubble_plan;
    uint64_t planned_bytes;         /* planned bytes of this rank */
    struct wf_planfile_bytes bytes; /* bytes that this rank has allocated */
};

/* Gathers the bytes of all ranks and writes DIR/plan.json on rank 0.  Collective. */
enum weft_status wf_rundir_write_plan(const char *dir, struct weft_comm *comm,
                                      const struct wf_rundir_plan *plan,
                                      struct weft_error *err);

#endif
