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
 *     static const struct weft_setting rows[] = {
 *         {"optim", "lr", WEFT_SET_REAL, "3e-4", "highest learning rate",
 *          .most = 100, .offset = offsetof(struct run, lr)},
 *         {"data", "train", WEFT_SET_TEXT, "", "token shards", .offset = ...},
 *     };
 *     static const struct weft_setting_list list = {rows, WEFT_LEN(rows)};
 *
 *     struct run run;
 *     weft_settings_init(list, &run, &err);                          the defaults
 *     weft_settings_parse(list, text, len, "run.yaml", &run, &err);  what the file says
 *     weft_settings_flags(list, argc, argv, &run, &err);             what the flags say
 *     weft_settings_release(list, &run);
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

enum weft_setting_type {
    WEFT_SET_COUNT,  /* uint32_t */
    WEFT_SET_LONG,   /* uint64_t, up to 2^53: every program that reads the file can hold it */
    WEFT_SET_REAL,   /* double */
    WEFT_SET_SWITCH, /* bool: true or false */
    WEFT_SET_CHOICE, /* uint32_t: which of `choices`, from 0 */
    WEFT_SET_TEXT,   /* char *, owned by the settings; NULL when empty */
};

struct weft_setting {
    const char *section, *key; /* the rows of a section stand together */
    enum weft_setting_type type;
    const char *fallback; /* the default, as a person would write it */
    const char *help;     /* one sentence without its full stop */
    const char *choices;  /* "fp32|bf16"; WEFT_SET_CHOICE only */
    const char *zero;   /* numbers: a word that is written for 0, as "auto" or "off"; or NULL */
    double least, most; /* numbers: the range; with `zero`, 0 is allowed beside it */
    size_t offset;      /* of its field in the settings */
    size_t given;       /* of a bool beside it: somebody has said a value; 0: nobody asks */
};

struct weft_setting_list {
    const struct weft_setting *at;
    size_t n;
};

enum { WEFT_SETTING_NAME = 64, WEFT_SETTING_TEXT = 4096 }; /* "section.key"; the longest text */

/* All defaults, into storage that may hold anything; nothing is given yet. */
enum weft_status weft_settings_init(struct weft_setting_list list, void *settings,
                                    struct weft_error *err);
void weft_settings_release(struct weft_setting_list list, void *settings);

/* What a YAML file says; the rest stays.  Unknown sections and keys, keys given twice and wrong
 * values are errors, after which the settings are still to be released. */
enum weft_status weft_settings_parse(struct weft_setting_list list, const char *text,
                                     size_t len, const char *source, void *settings,
                                     struct weft_error *err);

/* One setting by its name "section.key". */
enum weft_status weft_settings_set(struct weft_setting_list list, const char *name,
                                   const char *value, void *settings, struct weft_error *err);

/* -- flags ---------------------------------------------------------------------------------- */

/* A flag of a setting is an argument before "--" that begins with "--" and has a '.' in its name:
 * no ordinary option has one.  Its value stands after '=' or is the next argument.  The arguments
 * of a command are thus parted without knowing any table:
 *
 *     n = weft_settings_others(argc, argv, rest);      rest: for weft_options_parse()
 *     weft_settings_flags(list, argc, argv, ...);      the others
 */

/* The arguments that are neither flags of settings nor their values, into `others` (room for
 * argc).  Gives their number. */
int weft_settings_others(int argc, char **argv, char **others);

/* Sets what the flags say.  Of a flag given twice the last one holds: what is appended to a command
 * wins. */
enum weft_status weft_settings_flags(struct weft_setting_list list, int argc, char **argv,
                                     void *settings, struct weft_error *err);

/* -- showing them --------------------------------------------------------------------------- */

/* The row of "section.key"; NULL when there is none. */
const struct weft_setting *weft_setting_find(struct weft_setting_list list, const char *name);

/* Adds a setting's value as a person would write it. */
void weft_setting_add_value(const struct weft_setting *row, const void *settings,
                            struct weft_text *out);

/* Adds what may stand there: "1 to 4096", "auto, or at least 1", "fp32, bf16". */
void weft_setting_add_range(const struct weft_setting *row, struct weft_text *out);

/* Is its value what it is by default? */
bool weft_setting_is_default(const struct weft_setting *row, const void *settings);

/* Adds the whole file: every key with its help, range and default in a comment, and its value.
 * Read back it gives the same settings. */
void weft_settings_print(struct weft_setting_list list, const void *settings,
                         struct weft_text *out);

#endif
