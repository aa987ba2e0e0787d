/* Help texts, manual pages and shell completion, printed from the tables of the commands. */
#ifndef MANUAL_MANUAL_H
#define MANUAL_MANUAL_H

#include <stdio.h>

#include "config/option.h"
#include "config/settings.h"

struct wf_command {
    const char *name;
    const char *summary;  /* one line, for the list of commands */
    const char *operands; /* "FILE"; "[COMMAND]" if optional; NULL: no operand */
    const char *text;     /* paragraphs for --help and the man page */
    const char *examples; /* lines such as "  weft plan ..." */
    struct wf_option_list options;
    /* Returns the settings that can be given as flags "--section.key=value"; NULL if the
     * command has no settings. */
    struct wf_setting_list (*settings)(void);
    /* Parses the arguments, runs the command and prints.  The status becomes the exit code. */
    enum weft_status (*run)(int argc, char **argv, struct weft_error *err);
};

struct wf_command_list {
    const struct wf_command *const *at; /* borrowed */
    size_t n;
};

/* Prints the list of commands. */
void wf_print_overview(FILE *out, struct wf_command_list commands);
/* Prints the help of one command. */
void wf_print_help(FILE *out, const struct wf_command *command);
/* Prints the manual page of one command, or of weft itself if `command` is NULL. */
void wf_print_man(FILE *out, struct wf_command_list commands, const struct wf_command *command);
/* Prints the bash completion. */
void wf_print_completion(FILE *out, struct wf_command_list commands);

#endif
