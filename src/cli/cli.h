/* The commands.  Only this module prints, reads arguments and returns exit codes. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/input.h"
#include "config/option.h"
#include "config/settings.h"
#include "manual/manual.h"
#include "terminal/output.h"

/* Returns all commands. */
struct wf_command_list wf_commands(void);
/* Returns the command with this name, or NULL. */
const struct wf_command *wf_command_find(const char *name);

/* Parses a command's arguments into its settings and its single operand (NULL if left out). */
enum weft_status wf_command_parse(const struct wf_command *command, int argc, char **argv,
                                  void *settings, const char **operand, struct weft_error *err);

extern const struct wf_command wf_command_plan;
extern const struct wf_command wf_command_check;
extern const struct wf_command wf_command_simulate;
extern const struct wf_command wf_command_compare;
extern const struct wf_command wf_command_tune;
extern const struct wf_command wf_command_draw;
extern const struct wf_command wf_command_tokenize;
extern const struct wf_command wf_command_train;
extern const struct wf_command wf_command_eval;
extern const struct wf_command wf_command_generate;
extern const struct wf_command wf_command_convert;
extern const struct wf_command wf_command_inspect;
extern const struct wf_command wf_command_report;
extern const struct wf_command wf_command_bench;
extern const struct wf_command wf_command_help;

#endif
