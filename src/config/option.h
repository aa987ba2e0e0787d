/* Command-line options as a table.  Parsing, --help, the man page and the shell completion are
 * derived from the rows of the table.
 *
 *     struct settings { uint32_t ranks; bool json; const char *format; };
 *     static const struct wf_option options[] = {
 *         {"ranks", 'p', WF_OPTION_COUNT, "P", "workers of the pipeline", NULL,
 *          offsetof(struct settings, ranks)}, ...
 *     };
 */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "base/units.h"
#include "weft/status.h"

enum wf_option_type {
    WF_OPTION_SWITCH, /* bool; takes no value */
    WF_OPTION_COUNT,  /* uint32_t, at least 1 */
    WF_OPTION_TEXT,   /* const char *, borrowed from argv */
    WF_OPTION_TEXTS,  /* struct wf_option_texts; may be given several times */
    WF_OPTION_BYTES,  /* a text with numbers of bytes, see base/units.h */
    WF_OPTION_TIME,   /* a text with times */
    WF_OPTION_FLOPS,  /* a text with operations per second */
    WF_OPTION_CHOICE, /* const char *, one of `choices` */
    /* const char *, "" without a value or one of `choices`; a value is only attached: --name=x */
    WF_OPTION_OPTIONAL,
    WF_OPTION_HEADING /* not an option: a heading between groups of options in --help */
};

enum { WF_OPTION_MAX_TEXTS = 16 };

/* The values of an option that may be given several times. */
struct wf_option_texts {
    const char *at[WF_OPTION_MAX_TEXTS]; /* borrowed from argv */
    size_t n;
};

struct wf_option {
    const char *name;
    char letter; /* letter of the short form, or 0 */
    enum wf_option_type type;
    const char *arg;     /* name of the value in --help; NULL for switches */
    const char *help;    /* one sentence without a full stop */
    const char *choices; /* "text|csv|pytorch"; WF_OPTION_CHOICE and _OPTIONAL only */
    size_t offset;       /* offset of the option's field in the settings */
};

struct wf_option_list {
    const struct wf_option *at;
    size_t n;
};

/* Returns the quantity of an option's numbers: what --help and the man page add to its help. */
enum wf_quantity wf_option_quantity(const struct wf_option *o);

/* Appends the options that are set in `settings` as they are written in a shell command,
 * " --ranks 4 --cost 'F=1,I=2'".  Fields that are 0 or NULL are left out. */
void wf_options_print(struct wf_option_list options, const void *settings, struct wf_text *out);

/* Reads "--name value", "--name=value", "-o value", "-ovalue" and switches into `settings`.
 * "--" ends the options.  Arguments that are not options are stored in `operands`, an array of
 * argc elements.  Returns WEFT_USAGE if an option is unknown (the message suggests the nearest
 * name), is given twice although it may not, or has a wrong value. */
enum weft_status wf_options_parse(struct wf_option_list options, int argc, char **argv,
                                  void *settings, const char **operands, size_t *n_operands,
                                  struct weft_error *err);

#endif
