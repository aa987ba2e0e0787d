/* The commands.  The only code that prints or knows of exit codes. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/input.h"
#include "config/option.h"
#include "config/settings.h"
#include "planning/draw/timeline.h"

struct wf_command {
    const char *name;
    const char *summary;  /* one line, for the list of commands */
    const char *operands; /* "FILE", "[COMMAND]" when it may be left out, NULL for none */
    const char *text;     /* paragraphs for --help and the man page */
    const char *examples; /* lines "  weft plan ..." */
    struct wf_option_list options;
    /* Settings of a run, which are flags "--section.key=value"; NULL: it has none. */
    struct wf_setting_list (*settings)(void);
    /* Parses its arguments, does it, prints it.  The error's status becomes the exit code. */
    enum weft_status (*run)(int argc, char **argv, struct weft_error *err);
};

const struct wf_command *const *wf_commands(size_t *n);
const struct wf_command *wf_command_find(const char *name);

/* Reads a command's arguments into its settings, and its one operand (NULL when left out). */
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

void wf_print_overview(FILE *out);
void wf_print_help(FILE *out, const struct wf_command *command);
/* The manual page of one command, or (NULL) that of all. */
void wf_print_man(FILE *out, const struct wf_command *command);
void wf_print_completion(FILE *out);

/* -- files and terminals -------------------------------------------------------------------- */

/* Where a command prints: standard output, or a file that appears whole or not at all. */
struct wf_output {
    FILE *out;
    const char *path; /* borrowed; NULL: standard output */
    char *unfinished; /* owned: the name it has while it is written */
    char *target;     /* owned: the name it gets */
    bool quiet;       /* the caller says itself that it is there */
};

/* Refuses a file whose name chooses no form: it must end in one of `endings`, ".csv .json".  What
 * is there and is no file (a pipe, /dev/null) chooses none. */
enum weft_status wf_output_check(const char *path, const char *endings, struct weft_error *err);

enum weft_status wf_output_open(struct wf_output *s, const char *path, struct weft_error *err);

/* Closes it, and keeps the file only when `st` and all writing was well: then a line on standard
 * output says so.  Returns `st`, or the failure to write. */
enum weft_status wf_output_close(struct wf_output *s, enum weft_status st,
                                 struct weft_error *err);

/* How to draw on `out`: `when` is auto, always or never (NULL: auto); `width` 0: the terminal's. */
struct weft_text_style wf_style_for(FILE *out, const char *when, uint32_t width);

#endif
