/* The commands.  The only code that prints or knows of exit codes. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/input.h"
#include "config/option.h"
#include "config/settings.h"
#include "planning/draw/timeline.h"

struct weft_command {
    const char *name;
    const char *summary;  /* one line, for the list of commands */
    const char *operands; /* "FILE", "[COMMAND]" when it may be left out, NULL for none */
    const char *text;     /* paragraphs for --help and the man page */
    const char *examples; /* lines "  weft plan ..." */
    struct weft_option_list options;
    /* Settings of a run, which are flags "--section.key=value"; NULL: it has none. */
    struct weft_setting_list (*settings)(void);
    /* Parses its arguments, does it, prints it.  The error's status becomes the exit code. */
    enum weft_status (*run)(int argc, char **argv, struct weft_error *err);
};

const struct weft_command *const *weft_commands(size_t *n);
const struct weft_command *weft_command_find(const char *name);

/* Reads a command's arguments into its settings, and its one operand (NULL when left out). */
enum weft_status weft_command_parse(const struct weft_command *command, int argc, char **argv,
                                    void *settings, const char **operand,
                                    struct weft_error *err);

extern const struct weft_command weft_command_plan;
extern const struct weft_command weft_command_check;
extern const struct weft_command weft_command_simulate;
extern const struct weft_command weft_command_compare;
extern const struct weft_command weft_command_tune;
extern const struct weft_command weft_command_draw;
extern const struct weft_command weft_command_tokenize;
extern const struct weft_command weft_command_train;
extern const struct weft_command weft_command_eval;
extern const struct weft_command weft_command_generate;
extern const struct weft_command weft_command_convert;
extern const struct weft_command weft_command_inspect;
extern const struct weft_command weft_command_report;
extern const struct weft_command weft_command_bench;
extern const struct weft_command weft_command_help;

/* -- help ----------------------------------------------------------------------------------- */

void weft_print_overview(FILE *out);
void weft_print_help(FILE *out, const struct weft_command *command);
/* The manual page of one command, or (NULL) that of all. */
void weft_print_man(FILE *out, const struct weft_command *command);
void weft_print_completion(FILE *out);

/* -- files and terminals -------------------------------------------------------------------- */

bool weft_is_directory(const char *path);

bool weft_path_ends_in(const char *path, const char *ending); /* does a file's name end so? */

/* Where a command prints: standard output, or a file that appears whole or not at all. */
struct weft_output {
    FILE *out;
    const char *path; /* borrowed; NULL: standard output */
    char *unfinished; /* owned: the name it has while it is written */
    char *target;     /* owned: the name it gets */
    bool quiet;       /* the caller says itself that it is there */
};

/* Refuses a file whose name chooses no form: it must end in one of `endings`, ".csv .json".  What
 * is there and is no file (a pipe, /dev/null) chooses none. */
enum weft_status weft_output_check(const char *path, const char *endings,
                                   struct weft_error *err);

enum weft_status weft_output_open(struct weft_output *s, const char *path,
                                  struct weft_error *err);

/* Closes it, and keeps the file only when `st` and all writing was well: then a line on standard
 * output says so.  Returns `st`, or the failure to write. */
enum weft_status weft_output_close(struct weft_output *s, enum weft_status st,
                                   struct weft_error *err);

/* How to draw on `out`: `when` is auto, always or never (NULL: auto); `width` 0: the terminal's. */
struct weft_text_style weft_style_for(FILE *out, const char *when, uint32_t width);

#endif
