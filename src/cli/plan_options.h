/* Rows of option tables that several commands share.  The settings of such a command begin with a
 * struct wf_plan_settings. */
#ifndef CLI_PLAN_OPTIONS_H
#define CLI_PLAN_OPTIONS_H

#include "cli/plan.h"
#include "config/option.h"

#define WF_PLAN_AT(field) offsetof(struct wf_plan_settings, field)

/* clang-format off */
/* Options of the schedule. */
#define WF_OPTIONS_SCHEDULE \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Schedule", NULL, 0}, \
    {"schedule", 's', WF_OPTION_TEXT, "NAME", "one of --list, or a CSV file", NULL, \
     WF_PLAN_AT(schedule)}, \
    {"ranks", 'p', WF_OPTION_COUNT, "P", "ranks of the pipeline", NULL, WF_PLAN_AT(ranks)}, \
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches per step", NULL, WF_PLAN_AT(micros)}, \
    {"chunks", 0, WF_OPTION_COUNT, "V", "stages per rank, if the schedule supports several", NULL, \
     WF_PLAN_AT(chunks)}, \
    {"group", 0, WF_OPTION_COUNT, "N", "interleaved: micros per group, as in Megatron", NULL, \
     WF_PLAN_AT(group)}, \
    {"pipes", 0, WF_OPTION_COUNT, "2F", "chimera: pipes, half of them in each direction", NULL, \
     WF_PLAN_AT(pipes)}

/* Options for the times and the memory of the stages. */
#define WF_OPTIONS_COST \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Costs (of one stage)", NULL, 0}, \
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1", \
     "times; also B (I+W), FB (F+B), C (a hop, 0); one value per stage: F=11:8:12", NULL, \
     WF_PLAN_AT(cost)}, \
    {"cost-from", 0, WF_OPTION_TEXT, "TRACE", "times measured in a trace file or a run", NULL, \
     WF_PLAN_AT(cost_from)}, \
    {"cost-file", 0, WF_OPTION_TEXT, "YAML", "costs and memory from a file", NULL, \
     WF_PLAN_AT(cost_file)}, \
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "change of memory at each action", NULL, WF_PLAN_AT(mem)}, \
    {"mem-limit", 0, WF_OPTION_TEXT, "X", "maximum memory of a rank; one value per rank: X:Y:...", NULL, \
     WF_PLAN_AT(mem_limit)}, \
    {"minimize", 0, WF_OPTION_CHOICE, "WHAT", "what a search minimizes (span)", \
     "span|makespan", WF_PLAN_AT(minimize)}

/* Options of the model and its partition. */
#define WF_OPTIONS_MODEL \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Model", NULL, 0}, \
    {"layers", 0, WF_OPTION_COUNT, "L", "layers of the model (one per stage)", NULL, \
     WF_PLAN_AT(layers)}, \
    {"partition", 0, WF_OPTION_TEXT, "HOW", \
     "even, balanced, or a Megatron layout: 'Et*3|(tt|)*2L'", NULL, WF_PLAN_AT(partition)}, \
    {"layers-per-stage", 0, WF_OPTION_TEXT, "4,3,3", "layers of each stage", NULL, \
     WF_PLAN_AT(layers_per_stage)}, \
    {"model", 0, WF_OPTION_TEXT, "NAME", "gpt2-124m, llama3-8b, d12 ...: layers and their costs", \
     NULL, WF_PLAN_AT(model)}, \
    {"rows", 0, WF_OPTION_COUNT, "N", "--model: sequences per micro (1)", NULL, WF_PLAN_AT(rows)}, \
    {"seq", 0, WF_OPTION_COUNT, "N", "--model: tokens per sequence (the model's context)", NULL, \
     WF_PLAN_AT(seq)}, \
    {"layer-cost", 0, WF_OPTION_TEXT, "F=1,I=1,W=1", \
     "costs of a layer; also bytes (state) and act (activations)", NULL, WF_PLAN_AT(layer_cost)}, \
    {"embedding-cost", 0, WF_OPTION_TEXT, "F=..", "costs of the embedding (none)", \
     NULL, WF_PLAN_AT(embedding_cost)}, \
    {"head-cost", 0, WF_OPTION_TEXT, "F=..", "costs of final norm, logits and loss (none)", \
     NULL, WF_PLAN_AT(head_cost)}, \
    {"bytes-limit", 0, WF_OPTION_TEXT, "N", \
     "balanced: maximum bytes per rank, as 16e9; one per rank: N:M:...", NULL, WF_PLAN_AT(bytes_limit)}
/* clang-format on */

#endif
