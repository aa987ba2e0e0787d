/* Settings of a run, as a table: sections with keys, read from one YAML file and from flags.
 *
 *     optim:                  # a file
 *       lr: 6e-4
 *     --optim.lr=6e-4         # or --optim.lr 6e-4: wins over the file
 *
 * One row says all there is to know of a key: the readers, --print-config, --help, the man page
 * and the completion are made from it.
 *
 *     struct run { double lr; char *train; };
 *     static const struct wf_setting rows[] = {
 *         {"optim", "lr", WF_SETTING_REAL, "3e-4", "highest learning rate",
 *          .most = 100, .offset = offsetof(struct run, lr)},
 *         {"data", "train", WF_SETTING_STRING, "", "token shards", .offset = ...},
 *     };
 *     static const struct wf_setting_list list = {rows, WEFT_LEN(rows)};
 *
 *     struct run run;
 *     wf_settings_init(list, &run, &err);                          the defaults
 *     wf_settings_parse(list, text, len, "run.yaml", &run, &err);  what the file says
 *     wf_settings_parse_flags(list, argc, argv, &run, &err);             what the flags say
 *     wf_settings_release(list, &run);
 *
 * Every error is WEFT_USAGE and names file:line:column or the flag, the value, and what may
 * stand there.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "weft/status.h"

enum wf_setting_type {
    WF_SETTING_COUNT,  /* uint32_t */
    WF_SETTING_LONG,   /* uint64_t, up to 2^53: every program that reads the file can hold it */
    WF_SETTING_REAL,   /* double */
    WF_SETTING_SWITCH, /* bool: true or false */
    WF_SETTING_CHOICE, /* uint32_t: which of `choices`, from 0 */
    WF_SETTING_STRING, /* char *, owned by the settings; NULL when empty */
};

struct wf_setting {
    const char *section, *key; /* the rows of a section stand together */
    enum wf_setting_type type;
    const char *fallback; /* the default, as a person would write it */
    const char *help;     /* one sentence without its full stop */
    const char *choices;  /* "fp32|bf16"; WF_SETTING_CHOICE only */
    const char *zero;   /* numbers: a word that is written for 0, as "auto" or "off"; or NULL */
    double least, most; /* numbers: the range; with `zero`, 0 is allowed beside it */
    size_t offset;      /* of its field in the settings */
    size_t given;       /* of a bool beside it: somebody has said a value; 0: nobody asks */
};

struct wf_setting_list {
    const struct wf_setting *at;
    size_t n;
};

enum { WF_SETTING_NAME = 64, WF_SETTING_TEXT = 4096 }; /* "section.key"; the longest text */

/* All defaults, into storage that may hold anything; nothing is given yet. */
enum weft_status wf_settings_init(struct wf_setting_list list, void *settings,
                                  struct weft_error *err);
void wf_settings_release(struct wf_setting_list list, void *settings);

/* What a YAML file says; the rest stays.  Unknown sections and keys, keys given twice and wrong
 * values are errors, after which the settings are still to be released. */
enum weft_status wf_settings_parse(struct wf_setting_list list, const char *text, size_t len,
                                   const char *source, void *settings, struct weft_error *err);

/* One setting by its name "section.key". */
enum weft_status wf_settings_set(struct wf_setting_list list, const char *name,
                                 const char *value, void *settings, struct weft_error *err);

/* -- flags ---------------------------------------------------------------------------------- */

/* A flag of a setting is an argument before "--" that begins with "--" and has a '.' in its name:
 * no ordinary option has one.  Its value stands after '=' or is the next argument.  The arguments
 * of a command are thus parted without knowing any table:
 *
 *     n = wf_settings_other_args(argc, argv, rest);      rest: for wf_options_parse()
 *     wf_settings_parse_flags(list, argc, argv, ...);      the others
 */

/* The arguments that are neither flags of settings nor their values, into `others` (room for
 * argc).  Gives their number. */
int wf_settings_other_args(int argc, char **argv, char **others);

/* Sets what the flags say.  Of a flag given twice the last one holds: what is appended to a command
 * wins. */
enum weft_status wf_settings_parse_flags(struct wf_setting_list list, int argc, char **argv,
                                         void *settings, struct weft_error *err);

/* -- showing them --------------------------------------------------------------------------- */

/* The row of "section.key"; NULL when there is none. */
const struct wf_setting *wf_setting_find(struct wf_setting_list list, const char *name);

/* Adds a setting's value as a person would write it. */
void wf_setting_add_value(const struct wf_setting *row, const void *settings,
                          struct wf_text *out);

/* Adds what may stand there: "1 to 4096", "auto, or at least 1", "fp32, bf16". */
void wf_setting_add_range(const struct wf_setting *row, struct wf_text *out);

/* Is its value what it is by default? */
bool wf_setting_is_default(const struct wf_setting *row, const void *settings);

/* Adds the whole file: every key with its help, range and default in a comment, and its value.
 * Read back it gives the same settings. */
void wf_settings_print(struct wf_setting_list list, const void *settings, struct wf_text *out);

#endif
