/* The settings with which other programs run a plan: Megatron-LM and torchtitan.
 *
 * Functions named _init() return the settings as values, and functions named _print() write them
 * as text that can be pasted.  If the program cannot run the plan, _init() returns WEFT_USAGE,
 * and the error states the reason. */
#ifndef PLANNING_PLANNER_EXPORT_H
#define PLANNING_PLANNER_EXPORT_H

#include "weft/part.h"
#include "weft/schedule.h"

/* -- Megatron-LM ---------------------------------------------------------------------------- */

/* The version of Megatron-LM whose arguments are written. */
#define WF_MEGATRON_VERSION "Megatron-LM core d98e8a64 (22 Aug 2026)"

struct wf_megatron {
    uint32_t pipeline_size; /* --pipeline-model-parallel-size */
    uint32_t virtual_size;  /* stages per rank; Megatron derives it from the layout */
    uint32_t group_size;    /* --microbatch-group-size-per-virtual-pipeline-stage; 0: none */
    uint32_t n_micros, n_layers, n_mtp;
    uint32_t layers_per_stage; /* layers of every stage; 0 if they differ */
    char *layout;              /* owned: --pipeline-model-parallel-layout */
};

/* Megatron runs 1F1B and interleaved 1F1B on stages in a loop, so the schedule must have one of
 * these orders.  The caller releases *out. */
enum weft_status wf_megatron_init(struct wf_megatron *out, const struct weft_schedule *s,
                                  const struct weft_partition *p, struct weft_error *err);
void wf_megatron_release(struct wf_megatron *m);

/* Writes the arguments of the command line.  The caller frees *out. */
enum weft_status wf_megatron_print(const struct wf_megatron *m, char **out,
                                   struct weft_error *err);

/* -- torchtitan ----------------------------------------------------------------------------- */

/* The version of torchtitan whose settings are written. */
#define WF_TORCHTITAN_VERSION "torchtitan b5bcd76c (21 Aug 2026)"

struct wf_torchtitan {
    uint32_t pipeline_degree;
    const char *schedule; /* pipeline_parallel_schedule: only selects the placement */
    char csv[64];         /* pipeline_parallel_schedule_csv: a name for the file */
    uint32_t n_micros;    /* num_pp_microbatches */
    const struct weft_partition *partition; /* borrowed: from the caller of _init() */
};

/* torchtitan reads any order from a file, but places stages in a loop or, with two stages per
 * rank, in a V. */
enum weft_status wf_torchtitan_init(struct wf_torchtitan *out, const struct weft_schedule *s,
                                    const struct weft_partition *p, struct weft_error *err);

/* Returns the number of modules of a stage (module_fqns_per_model_part). */
uint32_t wf_torchtitan_n_modules(const struct wf_torchtitan *t, uint32_t stage);

enum { WF_MODULE_NAME = 24 };

/* Writes the name of a module of a stage, for models like Llama: tok_embeddings, layers.0, norm,
 * lm_head. */
void wf_torchtitan_module(const struct wf_torchtitan *t, uint32_t stage, uint32_t index,
                          char out[WF_MODULE_NAME]);

/* Writes the settings as statements of Python.  The caller frees *out. */
enum weft_status wf_torchtitan_print(const struct wf_torchtitan *t, char **out,
                                     struct weft_error *err);

/* -- by name -------------------------------------------------------------------------------- */

/* Writes the settings of the program "megatron" or "torchtitan".  The caller frees *out. */
enum weft_status wf_export_print(const char *program, const struct weft_schedule *s,
                                 const struct weft_partition *p, char **out,
                                 struct weft_error *err);

#endif
