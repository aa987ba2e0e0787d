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
#include "planning/part/planned_bytes.h"
#include "planning/planner/choice.h"
#include "weft/sim.h"
#include "weft/timing.h"
#include "weft/verify.h"

/* The unit of the times of a plan. */
struct wf_time_unit {
    double seconds;   /* length of the unit; 0: unknown */
    const char *name; /* borrowed: "ms", "ticks", "operations" or "time units" */
};

/* The input of a plan.  All pointers are borrowed during the call. */
struct wf_plan_input {
    const char *schedule; /* a generator's name, a file's path, or "-" for standard input */
    /* A finished schedule, which is copied; NULL: `schedule` determines it.  `schedule` is then
     * only its name in error messages. */
    const struct weft_schedule *given;
    /* The sizes for a generator.  If the schedule is a file or given, these sizes must match
     * those of the schedule.  `cost` and `memory` may be NULL. */
    struct weft_gen_params params;
    /* length of the time unit of all costs; 0 if it is not known */
    double unit_seconds;
    /* true if the memory limits are all bytes of a rank, for a model whose items have bytes;
     * false if they are in the unit of params.memory */
    bool limits_are_bytes;
    bool memory_is_bytes; /* true if params.memory is in bytes */
    bool stage_costs; /* true if params.cost was measured or given; false if it is a default */
    /* The links and speeds of the ranks, for which a generator searches; may be NULL.  The
     * fields cost, memory and contention are not used. */
    const struct weft_sim_options *machine;

    /* The items of the model: either the items of a named model or uniform layers. */
    const char *model; /* name of the model; may be NULL */
    /* rows per micro-batch and tokens per row of a named model; 0 means 1 row and the
     * model's context length */
    uint32_t rows, seq;
    /* the layers of a named model that recompute, see planning/spec/recompute.h but without
     * "auto"; may be NULL */
    const char *recompute;
    /* operations per second of a rank, for a named model; its times are then in units of
     * machine->unit_seconds (1e-3 without a machine).  0: its times are operation counts */
    double flops;
    /* number of layers; 0 means that of the model or the partition, or one per stage */
    uint32_t layers;
    bool item_costs; /* true if the three items below determine the costs of the stages */
    struct weft_item layer, embedding, head;

    struct wf_partition_choice partition;
    /* memory limit of each rank in bytes, for a balanced partition */
    struct weft_values bytes_limit;
    bool lower; /* adds the messages of `lowering` */
    enum weft_lowering lowering;
    bool forward_only; /* keeps only the forwards of the schedule */
    bool for_torch;    /* the schedule must be one that PyTorch can run */
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
    bool from_file;      /* true if the schedule was read from a file or given */
    bool in_ticks;       /* true if times are in ticks, see WEFT_GEN_UNIT_TICKS */
    struct wf_time_unit time;
    bool memory_is_bytes;    /* true if `memory` and metrics.peak_mem are in bytes */
    const char *memory_unit; /* borrowed: "bytes", "activations" or "memory units" */
};

/* Builds, proves and times a plan.  The caller releases *out with wf_plan_release().
 * Returns WEFT_USAGE if the input is contradictory or a limit is exceeded.  Returns
 * WEFT_SCHEDULE if the schedule in a file is invalid. */
enum weft_status wf_plan_init(struct wf_plan *out, const struct wf_plan_input *in,
                              struct weft_error *err);
void wf_plan_release(struct wf_plan *p);

/* Computes what a search for an order needs: items, partition, and the costs of the stages on
 * their ranks, with the hops and speeds of in->machine.  The plan has no schedule, no metrics and
 * no proof.  in->schedule is not used.  Byte limits become memory limits of the ranks.  The
 * caller releases *out with wf_plan_release(). */
enum weft_status wf_plan_init_stages(struct wf_plan *out, const struct wf_plan_input *in,
                                     enum weft_placement_kind kind, struct weft_error *err);

/* Computes p->bytes for p->schedule.  Returns WEFT_USAGE if a rank needs more than the byte limits
 * of the input. */
enum weft_status wf_plan_count_bytes(struct wf_plan *p, const struct wf_plan_input *in,
                                     struct weft_error *err);

/* Returns true if stages of different sizes have the same cost, which is rarely intended. */
bool wf_plan_has_unlikely_costs(const struct wf_plan *p);

/* Returns the unit of the times that the input has. */
struct wf_time_unit wf_plan_time_unit(const struct wf_plan_input *in);

/* Returns the unit of amounts of memory: "bytes", "activations" or "memory units".  `memory` is
 * what the user gave; it may be NULL. */
const char *wf_memory_unit(bool bytes, const struct weft_memory_cost *memory);

/* Writes the keys "time_unit" and "memory_unit". */
void wf_units_write_json(struct wf_json *j, struct wf_time_unit time, const char *memory_unit);

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
