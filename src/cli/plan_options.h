/* Rows of option tables that several commands share.  The settings of such a command begin with
 * a struct wf_plan_settings. */
#ifndef CLI_PLAN_OPTIONS_H
#define CLI_PLAN_OPTIONS_H

#include "cli/plan.h"
#include "config/option.h"

#define WF_PLAN_AT(field) offsetof(struct wf_plan_settings, field)

/* clang-format off */
/* Ranks and micro-batches. */
#define WF_OPTIONS_SIZE \
    {"ranks", 'p', WF_OPTION_COUNT, "P", "ranks of the pipeline", NULL, WF_PLAN_AT(ranks)}, \
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches per step", NULL, WF_PLAN_AT(micros)}

/* Options of generators. */
#define WF_OPTIONS_VARIANT \
    {"group", 0, WF_OPTION_COUNT, "N", "interleaved: micros per group, as in Megatron", NULL, \
     WF_PLAN_AT(group)}, \
    {"pipes", 0, WF_OPTION_COUNT, "N", \
     "chimera: number of pipes, even; half of them in each direction (default: 2)", NULL, \
     WF_PLAN_AT(pipes)}, \
    {"forward-only", 0, WF_OPTION_SWITCH, NULL, \
     "keep only the forwards, for evaluation and inference", NULL, WF_PLAN_AT(forward_only)}

/* Options of the schedule. */
#define WF_OPTIONS_SCHEDULE \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Schedule", NULL, 0}, \
    {"schedule", 's', WF_OPTION_TEXT, "NAME", "a name from weft plan --list, or a CSV file", NULL, \
     WF_PLAN_AT(schedule)}, \
    WF_OPTIONS_SIZE, \
    {"chunks", 0, WF_OPTION_COUNT, "V", "stages per rank, if the schedule supports several", NULL, \
     WF_PLAN_AT(chunks)}, \
    WF_OPTIONS_VARIANT

/* Options for the times and the memory of the stages. */
#define WF_OPTIONS_COST \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Costs (of one stage)", NULL, 0}, \
    {"cost", 'c', WF_OPTION_TIME, "F=1,I=1,W=1", \
     "times; also B (default: I+W), FB (default: F+B), C (a hop; default: 0); one value per " \
     "stage: F=11:8:12", NULL, \
     WF_PLAN_AT(cost)}, \
    {"cost-from", 0, WF_OPTION_TEXT, "TRACE", \
     "times measured in a trace, a run, or the profiles of PyTorch: rank0.json,rank1.json", NULL, \
     WF_PLAN_AT(cost_from)}, \
    {"cost-file", 0, WF_OPTION_TEXT, "YAML", "costs and memory from a file", NULL, \
     WF_PLAN_AT(cost_file)}, \
    {"for", 0, WF_OPTION_CHOICE, "SYSTEM", \
     "plan as PyTorch runs: each stage is on one rank, and stage 0 computes its whole backward in W", "torch", \
     WF_PLAN_AT(for_system)}, \
    {"mem", 0, WF_OPTION_BYTES, "F=1,I=0,W=-1", "change of memory at each action", NULL, WF_PLAN_AT(mem)}, \
    {"mem-limit", 0, WF_OPTION_BYTES, "X", "maximum memory of a rank; one value per rank: X:Y:...", NULL, \
     WF_PLAN_AT(mem_limit)}

/* The objective of schedules that search. */
#define WF_OPTION_MINIMIZE \
    {"minimize", 0, WF_OPTION_CHOICE, "WHAT", "what a search minimizes (default: span)", \
     "span|makespan", WF_PLAN_AT(minimize)}

/* Options of the model and its partition. */
#define WF_OPTIONS_MODEL \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Model", NULL, 0}, \
    {"layers", 0, WF_OPTION_COUNT, "L", "layers of the model (default: one per stage)", NULL, \
     WF_PLAN_AT(layers)}, \
    {"partition", 0, WF_OPTION_TEXT, "HOW", \
     "even, balanced, or a Megatron pattern: 'Et*3|(tt|)*2L'", NULL, WF_PLAN_AT(partition)}, \
    {"layers-per-stage", 0, WF_OPTION_TEXT, "4,3,3", "layers of each stage", NULL, \
     WF_PLAN_AT(layers_per_stage)}, \
    {"model", 0, WF_OPTION_TEXT, "NAME", "gpt2-124m, llama3-8b, d12 ...: layers and their costs", \
     NULL, WF_PLAN_AT(model)}, \
    {"rows", 0, WF_OPTION_COUNT, "N", "--model: sequences per micro (default: 1)", NULL, WF_PLAN_AT(rows)}, \
    {"seq", 0, WF_OPTION_COUNT, "N", "--model: tokens per sequence (default: the model's context)", NULL, \
     WF_PLAN_AT(seq)}, \
    {"recompute", 0, WF_OPTION_TEXT, "WHAT", \
     "--model: recomputed activations: none (default), attention, full, or a list by layer or " \
     "stage: full:0-5,attention:6-8,s3", NULL, WF_PLAN_AT(recompute)}, \
    {"tflops", 0, WF_OPTION_FLOPS, "X", \
     "--model: speed of a rank in 1e12 operations per second; times are then in --unit", NULL, \
     WF_PLAN_AT(tflops)}, \
    {"unit", 0, WF_OPTION_CHOICE, "UNIT", \
     "unit of times in results, with --cluster, --tflops or times with units (default: ms)", "s|ms|us", \
     WF_PLAN_AT(unit)}, \
    {"layer-cost", 0, WF_OPTION_TIME, "F=1,I=1,W=1", \
     "costs of a layer; also bytes (state) and act (activations)", NULL, WF_PLAN_AT(layer_cost)}, \
    {"embedding-cost", 0, WF_OPTION_TIME, "F=..", "costs of the embedding (default: 0)", \
     NULL, WF_PLAN_AT(embedding_cost)}, \
    {"head-cost", 0, WF_OPTION_TIME, "F=..", "costs of final norm, logits and loss (default: 0)", \
     NULL, WF_PLAN_AT(head_cost)}, \
    {"bytes-limit", 0, WF_OPTION_BYTES, "N", \
     "maximum bytes per rank, or one value per rank: N:M:...; weft plan needs --partition balanced", NULL, WF_PLAN_AT(bytes_limit)}

/* Options of the machine, see wf_machine_init(). */
#define WF_OPTIONS_CLUSTER \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Cluster", NULL, 0}, \
    {"cluster", 0, WF_OPTION_TEXT, "LINE", \
     "'node:4 rank:2 intra:200GB/s,2us inter:25GB/s,8us'; without it every hop takes --cost C", \
     NULL, WF_PLAN_AT(cluster)}, \
    {"bytes", 0, WF_OPTION_BYTES, "N", \
     "bytes of a message to the next stage; one per stage: N:M:...", NULL, WF_PLAN_AT(bytes)}, \
    {"gradient-bytes", 0, WF_OPTION_BYTES, "N", \
     "bytes of a message to the previous stage (default: as --bytes)", NULL, \
     WF_PLAN_AT(gradient_bytes)}, \
    {"speed", 0, WF_OPTION_TEXT, "X:Y:...", \
     "time factor of each rank: 2 means that its actions take twice as long", NULL, \
     WF_PLAN_AT(speed)}, \
    {"transfers", 0, WF_OPTION_CHOICE, "WHAT", \
     "what a transfer occupies: nothing (delay, the default), the link, or both ranks", \
     "delay|link|ranks", WF_PLAN_AT(transfers)}

/* Where and how to print. */
#define WF_OPTION_JSON \
    {"json", 'j', WF_OPTION_SWITCH, NULL, "print JSON", NULL, WF_PLAN_AT(json)}
#define WF_OPTIONS_DRAWING \
    {"width", 0, WF_OPTION_COUNT, "N", \
     "width of the drawing in columns (default: that of the terminal)", NULL, WF_PLAN_AT(width)}, \
    {"color", 0, WF_OPTION_CHOICE, "WHEN", "colours in the drawing (default: auto, on a terminal)", \
     "auto|always|never", WF_PLAN_AT(color)}
/* clang-format on */

#endif
