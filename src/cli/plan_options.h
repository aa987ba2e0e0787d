/* Options that several commands share: rows for their tables.  The command's settings must begin
 * with a struct wf_plan_settings. */
#ifndef CLI_PLAN_OPTIONS_H
#define CLI_PLAN_OPTIONS_H

#include "cli/plan.h"
#include "config/option.h"

#define WF_PLAN_AT(field) offsetof(struct wf_plan_settings, field)

/* clang-format off */
/* What is planned. */
#define WF_OPTIONS_SCHEDULE \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Schedule", NULL, 0}, \
    {"schedule", 's', WF_OPTION_TEXT, "NAME", "one of --list, or a CSV file", NULL, \
     WF_PLAN_AT(schedule)}, \
    {"ranks", 'p', WF_OPTION_COUNT, "P", "workers of the pipeline", NULL, WF_PLAN_AT(ranks)}, \
    {"micros", 'm', WF_OPTION_COUNT, "M", "micro-batches of a step", NULL, WF_PLAN_AT(micros)}, \
    {"chunks", 0, WF_OPTION_COUNT, "V", "stages a rank, where the schedule takes several", NULL, \
     WF_PLAN_AT(chunks)}, \
    {"group", 0, WF_OPTION_COUNT, "N", "interleaved: micros a group, as in Megatron", NULL, \
     WF_PLAN_AT(group)}, \
    {"pipes", 0, WF_OPTION_COUNT, "2F", "chimera: pipes, half of them in each direction", NULL, \
     WF_PLAN_AT(pipes)}

/* What stages cost and take. */
#define WF_OPTIONS_COST \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Costs (of one stage)", NULL, 0}, \
    {"cost", 'c', WF_OPTION_TEXT, "F=1,I=1,W=1", \
     "times; also B (I+W), FB (F+B), C (a hop, 0); a list a stage is F=11:8:12", NULL, \
     WF_PLAN_AT(cost)}, \
    {"cost-from", 0, WF_OPTION_TEXT, "TRACE", "times measured in a trace file", NULL, \
     WF_PLAN_AT(cost_from)}, \
    {"cost-file", 0, WF_OPTION_TEXT, "YAML", "costs and memory from a file", NULL, \
     WF_PLAN_AT(cost_file)}, \
    {"mem", 0, WF_OPTION_TEXT, "F=1,I=0,W=-1", "change of memory at each action", NULL, WF_PLAN_AT(mem)}, \
    {"mem-limit", 0, WF_OPTION_TEXT, "X", "most memory of a rank; a list is X:Y:...", NULL, \
     WF_PLAN_AT(mem_limit)}, \
    {"minimize", 0, WF_OPTION_CHOICE, "WHAT", "what a search makes least (span)", \
     "span|makespan", WF_PLAN_AT(minimize)}

/* The model and how it is cut. */
#define WF_OPTIONS_MODEL \
    {NULL, 0, WF_OPTION_HEADING, NULL, "Model", NULL, 0}, \
    {"layers", 0, WF_OPTION_COUNT, "L", "layers of the model; one a stage when not given", NULL, \
     WF_PLAN_AT(layers)}, \
    {"partition", 0, WF_OPTION_TEXT, "HOW", \
     "even, balanced, or a Megatron layout: 'Et*3|(tt|)*2L'", NULL, WF_PLAN_AT(partition)}, \
    {"layers-per-stage", 0, WF_OPTION_TEXT, "4,3,3", "layers of each stage", NULL, \
     WF_PLAN_AT(layers_per_stage)}, \
    {"model", 0, WF_OPTION_TEXT, "NAME", "gpt2-124m, llama3-8b, d12 ...: layers and their costs", \
     NULL, WF_PLAN_AT(model)}, \
    {"rows", 0, WF_OPTION_COUNT, "N", "--model: sequences of a micro (1)", NULL, WF_PLAN_AT(rows)}, \
    {"seq", 0, WF_OPTION_COUNT, "N", "--model: tokens of a sequence (the model's context)", NULL, \
     WF_PLAN_AT(seq)}, \
    {"layer-cost", 0, WF_OPTION_TEXT, "F=1,I=1,W=1", \
     "a layer; also bytes (state) and act (saved)", NULL, WF_PLAN_AT(layer_cost)}, \
    {"embedding-cost", 0, WF_OPTION_TEXT, "F=..", "the embedding, likewise; free by default", \
     NULL, WF_PLAN_AT(embedding_cost)}, \
    {"head-cost", 0, WF_OPTION_TEXT, "F=..", "final norm, logits and loss; free by default", \
     NULL, WF_PLAN_AT(head_cost)}, \
    {"bytes-limit", 0, WF_OPTION_TEXT, "N", \
     "balanced: most bytes on a rank, as 16e9; a list is N:M:...", NULL, WF_PLAN_AT(bytes_limit)}
/* clang-format on */

#endif
