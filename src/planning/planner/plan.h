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
    WF_PLAN_LOWERED_LATE,    /* weft's own: receives as late as possible */
    WF_PLAN_LOWERED_PYTORCH, /* receives where PyTorch posts them */
};

/* What to plan.  Everything is borrowed during the call. */
struct wf_plan_input {
    const char *schedule; /* a generator's name, a file's path, or "-" for standard input */
    /* The sizes for a generator.  If the schedule is a file, they must match its sizes.
     * cost and memory may be NULL.  idle_hints is not used. */
    struct weft_gen_params params;
    bool stage_costs; /* params.cost was measured or given, and is not a default */

    /* The items of the model: those of a named model, or uniform layers. */
    const char *model;  /* may be NULL */
    uint32_t rows, seq; /* for a named model; 0: 1 row, the model's context length */
    uint32_t layers;    /* 0: the model's, the partition's, or one per stage */
    bool item_costs;    /* the items below determine the costs of the stages */
    struct weft_item layer, embedding, head;

    struct wf_partition_choice partition;
    struct weft_values bytes_limit; /* of each rank, for a balanced partition */
    enum wf_plan_lowering lowering;
};

struct wf_plan {
    struct weft_schedule *schedule; /* owned */
    struct weft_schedule *lowered;  /* owned; NULL unless requested */
    struct weft_cost cost;          /* its lists are owned */
    struct weft_memory_cost memory; /* its lists are owned */
    struct weft_items items;
    struct weft_partition partition;
    struct weft_metrics metrics;
    struct weft_verify_result proof; /* without findings */
    struct wf_planned_bytes bytes;   /* of every rank; empty if the items have no costs */
    bool from_model;                 /* the items are those of a named model */
    bool costs_by_stage;             /* the costs of stages were given or follow from items */
    bool from_file;
    bool in_ticks; /* times are ticks: see WEFT_GEN_UNIT_TICKS */
};

/* Builds, proves and times a plan.  wf_plan_release() frees.  Returns WEFT_USAGE if the input is
 * contradictory or a limit is exceeded, WEFT_SCHEDULE if a file's schedule is wrong. */
enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_input *in,
                              struct weft_error *err);
void wf_plan_release(struct wf_plan *p);

/* Proves that a schedule is complete and cannot deadlock.  Otherwise returns WEFT_SCHEDULE with
 * the first finding; `name` begins the message.  The caller releases *out. */
enum weft_status wf_schedule_prove(const struct weft_schedule *s, const char *name,
                                   struct weft_verify_result *out, struct weft_error *err);

/* Writes the plan as a JSON object, with every action's start if `events`.  Sets j->failed if
 * memory runs out. */
void wf_plan_write_json(struct wf_json *j, const struct wf_plan *p, bool events);

/* Writes the object "metrics".  `bytes` may be empty. */
void wf_metrics_write_json(struct wf_json *j, const struct weft_metrics *m,
                           const struct wf_planned_bytes *bytes);

/* Writes the actions of each rank as a list of strings. */
void wf_orders_write_json(struct wf_json *j, const char *key, const struct weft_schedule *s);

#endif
