/* The commands.  Only this module prints, reads arguments and returns exit codes. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/input.h"
#include "config/option.h"
#include "config/settings.h"
#include "terminal/output.h"

struct wf_command {
    const char *name;
    const char *summary;  /* one line, for the list of commands */
    const char *operands; /* "FILE", "[COMMAND]" if optional, NULL: none */
    const char *text;     /* paragraphs for --help and the man page */
    const char *examples; /* lines "  weft plan ..." */
    struct wf_option_list options;
    /* Settings of a run, given as flags "--section.key=value"; NULL: none. */
    struct wf_setting_list (*settings)(void);
    /* Parses the arguments, runs the command and prints.  The status becomes the exit code. */
    enum weft_status (*run)(int argc, char **argv, struct weft_error *err);
};

/* Returns all commands. */
const struct wf_command *const *wf_commands(size_t *n);
/* Returns the command of a name; NULL: none. */
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

/* -- help ----------------------------------------------------------------------------------- */

/* Prints the list of commands. */
void wf_print_overview(FILE *out);
/* Prints the help of one command. */
void wf_print_help(FILE *out, const struct wf_command *command);
/* Prints the manual page of one command, or of weft (NULL). */
void wf_print_man(FILE *out, const struct wf_command *command);
/* Prints the bash completion. */
void wf_print_completion(FILE *out);

#endif
