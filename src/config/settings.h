/* Settings of a run as a table: sections with keys, read from a YAML file and from flags.
 *
 *     optim:                  # a file
 *       lr: 6e-4
 *     --optim.lr=6e-4         # or --optim.lr 6e-4: overrides the file
 *
 * The readers, --print-config, --help, the man page and the shell completion are derived from the
 * rows of the table.
 *
 *     struct run { double lr; char *train; };
 *     static const struct wf_setting rows[] = {
 *         {"optim", "lr", WF_SETTING_REAL, "3e-4", "maximum learning rate",
 *          .max = 100, .offset = offsetof(struct run, lr)},
 *         {"data", "train", WF_SETTING_STRING, "", "token shards", .offset = ...},
 *     };
 *     static const struct wf_setting_list list = {rows, WEFT_LEN(rows)};
 *
 *     struct run run;
 *     wf_settings_init(list, &run, &err);                          defaults
 *     wf_settings_parse(list, text, len, "run.yaml", &run, &err);  values of the file
 *     wf_settings_parse_flags(list, argc, argv, &run, &err);       values of the flags
 *     wf_settings_release(list, &run);
 *
 * Every error is WEFT_USAGE and names file:line:column or the flag, the value, and the valid range.
 */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "base/units.h"
#include "weft/status.h"

enum wf_setting_type {
    WF_SETTING_COUNT, /* uint32_t */
    WF_SETTING_LONG,  /* uint64_t, at most 2^53, which every reader of the file can represent */
    WF_SETTING_REAL,  /* double */
    WF_SETTING_SWITCH, /* bool: true or false */
    WF_SETTING_CHOICE, /* uint32_t: index in `choices` */
    WF_SETTING_STRING, /* char *, owned by the settings; NULL if empty */
};

struct wf_setting {
    const char *section, *key; /* the rows of a section are consecutive */
    enum wf_setting_type type;
    const char *fallback; /* the default value, as written in a file */
    const char *help;     /* one sentence without a full stop */
    const char *choices;  /* "fp32|bf16"; WF_SETTING_CHOICE only */
    const char *zero;     /* numbers: a word for 0, such as "auto" or "off"; NULL: no word */
    double min, max;      /* numbers: the valid range; with `zero`, 0 is also valid */
    size_t offset;        /* offset of the field in the settings */
    /* numbers: bytes or time, given with or without a unit; a time is then in seconds */
    enum wf_quantity quantity;
    size_t given; /* offset of a bool that is true if the value was given; or 0 */
    /* Called after the value was stored, to set fields that follow from it; may be NULL. */
    void (*changed)(void *settings);
};

struct wf_setting_list {
    const struct wf_setting *at;
    size_t n;
};

enum { WF_SETTING_NAME = 64, WF_SETTING_TEXT = 4096 }; /* maximum sizes, including the NUL */

/* Sets all fields to their defaults and marks them as not given.  The storage may be
 * uninitialized.  The caller releases the settings with wf_settings_release(). */
enum weft_status wf_settings_init(struct wf_setting_list list, void *settings,
                                  struct weft_error *err);

/* Frees all texts of the settings. */
void wf_settings_release(struct wf_setting_list list, void *settings);

/* Reads a YAML text.  Settings that the text does not contain stay unchanged.  Unknown sections
 * and keys, keys given twice and wrong values are errors.  The caller releases the settings,
 * even after an error. */
enum weft_status wf_settings_parse(struct wf_setting_list list, const char *text, size_t len,
                                   const char *source, void *settings, struct weft_error *err);

/* Sets one setting by its name "section.key", which messages begin with. */
enum weft_status wf_settings_set(struct wf_setting_list list, const char *name,
                                 const char *value, void *settings, struct weft_error *err);

/* -- flags ---------------------------------------------------------------------------------- */

/* A flag of a setting is an argument before "--" that begins with "--" and has a '.' in its
 * name; the names of options have no '.'.  The value of a flag follows '=' or is the next
 * argument.  The two kinds of arguments can therefore be separated without a table:
 *
 *     n = wf_settings_other_args(argc, argv, rest);      `rest` is for wf_options_parse()
 *     wf_settings_parse_flags(list, argc, argv, ...);    reads the flags of settings
 */

/* Stores all arguments except flags of settings and their values in `others`, an array of argc
 * elements, and returns the number of stored arguments. */
int wf_settings_other_args(int argc, char **argv, char **others);

/* Sets the settings that are given as flags.  If a flag is given twice, the last value is
 * used. */
enum weft_status wf_settings_parse_flags(struct wf_setting_list list, int argc, char **argv,
                                         void *settings, struct weft_error *err);

/* -- printing ------------------------------------------------------------------------------- */

/* Returns the row of "section.key", or NULL. */
const struct wf_setting *wf_setting_find(struct wf_setting_list list, const char *name);

/* Appends the value of a setting as it is written in a file. */
void wf_setting_add_value(const struct wf_setting *row, const void *settings,
                          struct wf_text *out);

/* Appends the valid values: "1 to 4096", "auto, or 1 to 1024", "fp32, bf16". */
void wf_setting_add_range(const struct wf_setting *row, struct wf_text *out);

/* Returns true if a setting has its default value. */
bool wf_setting_is_default(const struct wf_setting *row, const void *settings);

/* Appends a complete settings file: every key with its value, and a comment with help, range
 * and default.  wf_settings_parse() reads back the same settings. */
void wf_settings_print(struct wf_setting_list list, const void *settings, struct wf_text *out);

#endif
