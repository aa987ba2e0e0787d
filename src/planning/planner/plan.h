/* The planner: from the name or file of a schedule, costs and a model to a plan that is
 * partitioned, proven, timed and, on request, lowered.
 *
 *     struct wf_plan_input in = {.schedule = "1f1b", .params = {.ranks = 4, .micros = 8}};
 *     struct wf_plan plan;
 *     if (wf_plan_init(&plan, &in, &err) != WEFT_OK) ...
 *     use(plan.schedule, plan.metrics.makespan);
 *     wf_plan_release(&plan);
 */
#ifndef PLANNING_PLANNER_PLAN_H
#define PLANNING_PLANNER_PLAN_H

#include "base/json.h"
#include "planning/part/for_schedule.h"
#include "planning/planner/choice.h"
#include "weft/timing.h"
#include "weft/verify.h"

enum wf_plan_lowering {
    WF_PLAN_NOT_LOWERED,
    WF_PLAN_LOWERED_LATE,    /* receives are posted as late as possible (weft's own order) */
    WF_PLAN_LOWERED_PYTORCH, /* receives are posted where PyTorch posts them */
};

/* The input of a plan.  All pointers are borrowed during the call. */
struct wf_plan_input {
    const char *schedule; /* a generator's name, a file's path, or "-" for standard input */
    /* The sizes for a generator.  If the schedule is a file, these sizes must match those of
     * the file.  `cost` and `memory` may be NULL.  `idle_hints` is not used. */
    struct weft_gen_params params;
    bool stage_costs; /* true if params.cost was measured or given; false if it is a default */

    /* The items of the model: either the items of a named model or uniform layers. */
    const char *model; /* name of the model; may be NULL */
    /* rows per micro-batch and tokens per row of a named model; 0 means 1 row and the
     * model's context length */
    uint32_t rows, seq;
    /* number of layers; 0 means that of the model or the partition, or one per stage */
    uint32_t layers;
    bool item_costs; /* true if the three items below determine the costs of the stages */
    struct weft_item layer, embedding, head;

    struct wf_partition_choice partition;
    /* memory limit of each rank in bytes, for a balanced partition */
    struct weft_values bytes_limit;
    enum wf_plan_lowering lowering;
};

struct wf_plan {
    struct weft_schedule *schedule; /* owned */
    struct weft_schedule *lowered;  /* owned; NULL unless requested */
    struct weft_cost cost;          /* the plan owns its lists */
    struct weft_memory_cost memory; /* the plan owns its lists */
    struct weft_items items;
    struct weft_partition partition;
    struct weft_metrics metrics;
    struct weft_verify_result proof; /* contains no findings */
    struct wf_planned_bytes bytes;   /* bytes of every rank; empty if the items have no costs */
    bool from_model;                 /* true if the items are those of a named model */
    bool costs_by_stage; /* true if the costs of the stages were given or follow from items */
    bool from_file;
    bool in_ticks; /* true if times are in ticks, see WEFT_GEN_UNIT_TICKS */
};

/* Builds, proves and times a plan.  The caller releases *out with wf_plan_release().
 * Returns WEFT_USAGE if the input is contradictory or a limit is exceeded.  Returns
 * WEFT_SCHEDULE if the schedule in a file is invalid. */
enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_input *in,
                              struct weft_error *err);
void wf_plan_release(struct wf_plan *p);

/* Proves that a schedule is complete and cannot deadlock.  If the proof fails, returns
 * WEFT_SCHEDULE and reports the first finding.  `name` is the first part of the error
 * message.  The caller releases *out. */
enum weft_status wf_schedule_prove(const struct weft_schedule *s, const char *name,
                                   struct weft_verify_result *out, struct weft_error *err);

/* Writes the plan as a JSON object.  If `events` is true, includes the start of every
 * action.  Sets j->failed if memory allocation fails. */
void wf_plan_write_json(struct wf_json *j, const struct wf_plan *p, bool events);

/* Writes the JSON object "metrics".  `bytes` may be empty. */
void wf_metrics_write_json(struct wf_json *j, const struct weft_metrics *m,
                           const struct wf_planned_bytes *bytes);

/* Writes the actions of each rank as a JSON list of strings. */
void wf_orders_write_json(struct wf_json *j, const char *key, const struct weft_schedule *s);

#endif
