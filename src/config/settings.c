/* Values of settings: defaults, parsing of one value, and flags. */
#include "config/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "config/choice.h"
#include "config/settings_priv.h"

static void *field_of(const struct wf_setting *row, void *settings)
{
    return (char *)settings + row->offset;
}

/* Writes "section.key" to an array of WF_SETTING_NAME characters. */
static void print_name(const struct wf_setting *row, char *out)
{
    snprintf(out, WF_SETTING_NAME, "%s.%s", row->section, row->key);
}

double wf_setting_number(const struct wf_setting *row, const void *settings)
{
    const void *field = (const char *)settings + row->offset;
    switch (row->type) {
    case WF_SETTING_COUNT:
    case WF_SETTING_CHOICE:
        return *(const uint32_t *)field;
    case WF_SETTING_LONG:
        return (double)*(const uint64_t *)field;
    case WF_SETTING_REAL:
        return *(const double *)field;
    case WF_SETTING_SWITCH:
        return *(const bool *)field;
    case WF_SETTING_STRING:
        break;
    }
    return 0;
}

bool wf_setting_is_default(const struct wf_setting *row, const void *settings)
{
    if (row->type == WF_SETTING_STRING) {
        const char *text = *(char *const *)((const char *)settings + row->offset);
        return strcmp(text == NULL ? "" : text, row->fallback) == 0;
    }
    union {
        uint32_t count;
        uint64_t number;
        double real;
        bool on;
    } value = {.number = 0};
    struct wf_setting alone = *row; /* a copy of the setting at offset 0 */
    alone.offset = alone.given = 0;
    return wf_setting_store(&alone, row->fallback, "", &value, NULL) == WEFT_OK &&
           wf_setting_number(&alone, &value) == wf_setting_number(row, settings);
}

/* -- one value ------------------------------------------------------------------------------ */

static enum weft_status fail_value(const struct wf_setting *row, const char *value,
                                   const char *where, const char *what, struct weft_error *err)
{
    struct wf_text range = {0};
    wf_setting_add_range(row, &range);
    enum weft_status st = range.failed
                              ? WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory", where)
                              : WEFT_FAIL(err, WEFT_USAGE, "%.160s: '%.40s' %s; give %.160s",
                                          where, wf_printable(value).at, what, range.at);
    wf_text_release(&range);
    return st;
}

/* Parses a decimal number, with a unit if the setting has a quantity.  Blanks, hexadecimal numbers
 * and infinity are rejected.  A whole number may have a fraction if it has a unit: 1.5GB. */
static bool read_number(const struct wf_setting *row, const char *value, double *out)
{
    bool digits = value[strspn(value, "0123456789")] == '\0';
    const char *end = NULL;
    struct wf_amount amount;
    if (strcspn(value, "0123456789+-.") > 0 || strpbrk(value, "xX") != NULL ||
        wf_amount_read(value, row->quantity, &amount, &end) != WF_AMOUNT_OK || *end != '\0')
        return false;
    *out = wf_amount_value(amount, row->quantity);
    return row->type == WF_SETTING_REAL || amount.scale > 0 || digits;
}

static enum weft_status store_number(const struct wf_setting *row, const char *value,
                                     const char *where, void *settings, struct weft_error *err)
{
    double number = 0;
    bool word = row->zero != NULL && strcmp(value, row->zero) == 0;
    if (!word && !read_number(row, value, &number))
        return fail_value(
            row, value, where,
            row->type == WF_SETTING_REAL ? "is not a number" : "is not a whole number", err);
    bool zero = number == 0 && row->zero != NULL;
    if (!zero && !(isfinite(number) && number >= row->min && number <= row->max))
        return fail_value(row, value, where, "is out of range", err);

    void *field = field_of(row, settings);
    if (row->type == WF_SETTING_COUNT)
        *(uint32_t *)field = (uint32_t)number;
    else if (row->type == WF_SETTING_LONG)
        *(uint64_t *)field = (uint64_t)number; /* exact: the number is at most 2^53 */
    else
        *(double *)field = number == 0 ? 0 : number; /* -0 becomes 0 */
    return WEFT_OK;
}

/* Stores a text.  Only UTF-8 is accepted, because YAML cannot represent other bytes. */
static enum weft_status store_text(const struct wf_setting *row, const char *value,
                                   const char *where, void *settings, struct weft_error *err)
{
    char **field = field_of(row, settings), *copy = NULL;
    size_t n = strlen(value);
    if (n >= WF_SETTING_TEXT)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.160s: the text is too long (%zu bytes; maximum %d)", where, n,
                         WF_SETTING_TEXT - 1);
    for (size_t i = 0; i < n; i += (size_t)wf_utf8_length(value + i))
        if (wf_utf8_length(value + i) == 0)
            return WEFT_FAIL(err, WEFT_USAGE, "%.160s: byte %zu is not valid UTF-8", where, i);
    if (n > 0) {
        copy = strdup(value);
        if (copy == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory", where);
    }
    free(*field);
    *field = copy;
    return WEFT_OK;
}

static enum weft_status store(const struct wf_setting *row, const char *value,
                              const char *where, void *settings, struct weft_error *err)
{
    uint32_t choice = 0;

    switch (row->type) {
    case WF_SETTING_COUNT:
    case WF_SETTING_LONG:
    case WF_SETTING_REAL:
        return store_number(row, value, where, settings, err);
    case WF_SETTING_SWITCH:
        if (!wf_choice_find("false|true", value, &choice))
            return fail_value(row, value, where, "is not valid", err);
        *(bool *)field_of(row, settings) = choice == 1;
        return WEFT_OK;
    case WF_SETTING_CHOICE:
        if (!wf_choice_find(row->choices, value, &choice))
            return fail_value(row, value, where, "is not valid", err);
        *(uint32_t *)field_of(row, settings) = choice;
        return WEFT_OK;
    case WF_SETTING_STRING:
        return store_text(row, value, where, settings, err);
    }

    return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s: the setting has no type", where);
}

static void mark_given(const struct wf_setting *row, bool given, void *settings)
{
    if (row->given != 0)
        *(bool *)((char *)settings + row->given) = given;
}

enum weft_status wf_setting_store(const struct wf_setting *row, const char *value,
                                  const char *where, void *settings, struct weft_error *err)
{
    WEFT_TRY(store(row, value, where, settings, err));
    mark_given(row, true, settings);
    if (row->changed != NULL)
        row->changed(settings);
    return WEFT_OK;
}

/* -- all settings --------------------------------------------------------------------------- */

void wf_settings_release(struct wf_setting_list list, void *settings)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].type == WF_SETTING_STRING) {
            char **field = field_of(&list.at[i], settings);
            free(*field);
            *field = NULL;
        }
}

/* Stores the default of a setting.  The name is printed only for an error: defaults are valid. */
static enum weft_status store_default(const struct wf_setting *row, void *settings,
                                      struct weft_error *err)
{
    char name[WF_SETTING_NAME];
    if (wf_setting_store(row, row->fallback, "", settings, NULL) == WEFT_OK)
        return WEFT_OK;
    print_name(row, name);
    return wf_setting_store(row, row->fallback, name, settings, err);
}

enum weft_status wf_settings_init(struct wf_setting_list list, void *settings,
                                  struct weft_error *err)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].type == WF_SETTING_STRING)
            *(char **)field_of(&list.at[i], settings) = NULL;
    for (size_t i = 0; i < list.n; i++) {
        enum weft_status st = store_default(&list.at[i], settings, err);
        if (st != WEFT_OK) {
            wf_settings_release(list, settings);
            return st;
        }
        mark_given(&list.at[i], false, settings);
    }
    return WEFT_OK;
}

/* -- names ---------------------------------------------------------------------------------- */

const struct wf_setting *wf_setting_find_key(struct wf_setting_list list, const char *section,
                                             size_t section_len, const char *key,
                                             bool *in_section)
{
    *in_section = false;
    for (size_t i = 0; i < list.n; i++) {
        const struct wf_setting *row = &list.at[i];
        if (strlen(row->section) != section_len ||
            memcmp(row->section, section, section_len) != 0)
            continue;
        *in_section = true;
        if (strcmp(row->key, key) == 0)
            return row;
    }
    return NULL;
}

const struct wf_setting *wf_setting_find(struct wf_setting_list list, const char *name)
{
    const char *dot = strchr(name, '.');
    bool in_section;
    return dot == NULL
               ? NULL
               : wf_setting_find_key(list, name, (size_t)(dot - name), dot + 1, &in_section);
}

/* Returns the setting with the same key in another section, or else the setting with the
 * nearest key in this section. */
static const struct wf_setting *nearest(struct wf_setting_list list, const char *section,
                                        const char *key)
{
    size_t first = 0, n = 0;
    while (first < list.n && strcmp(list.at[first].section, section) != 0)
        first++;
    while (first + n < list.n && strcmp(list.at[first + n].section, section) == 0)
        n++;
    const char *near =
        n == 0 ? NULL : wf_text_nearest(key, &list.at[first].key, n, sizeof list.at[0]);
    for (size_t i = 0; i < list.n; i++)
        if (strcmp(list.at[i].key, key) == 0)
            return &list.at[i];
    for (size_t i = first; near != NULL && i < first + n; i++)
        if (strcmp(list.at[i].key, near) == 0)
            return &list.at[i];
    return NULL;
}

static enum weft_status fail_section(struct wf_setting_list list, const char *where,
                                     const char *section, struct weft_error *err)
{
    char names[200] = "";
    for (size_t i = 0, n = 0; i < list.n && n < sizeof names; i++)
        if (i == 0 || strcmp(list.at[i].section, list.at[i - 1].section) != 0)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                                  list.at[i].section);
    return WEFT_FAIL(err, WEFT_USAGE, "%.160s: unknown section %.40s: expected one of %s",
                     where, wf_printable(section).at, names);
}

enum weft_status wf_setting_fail_unknown(struct wf_setting_list list, const char *where,
                                         const char *section, const char *key,
                                         struct weft_error *err)
{
    bool in_section;
    wf_setting_find_key(list, section, strlen(section), "", &in_section);
    const struct wf_setting *near = nearest(list, section, key);
    if (near != NULL)
        return WEFT_FAIL(
            err, WEFT_USAGE, "%.160s: unknown setting %.40s.%.40s: did you mean %s.%s?", where,
            wf_printable(section).at, wf_printable(key).at, near->section, near->key);
    if (in_section)
        return WEFT_FAIL(err, WEFT_USAGE, "%.160s: unknown setting %.40s.%.40s", where,
                         wf_printable(section).at, wf_printable(key).at);
    const char *meant =
        wf_text_nearest(section, &list.at[0].section, list.n, sizeof list.at[0]);
    if (meant != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%.160s: unknown section %.40s: did you mean %s?",
                         where, wf_printable(section).at, meant);
    return fail_section(list, where, section, err);
}

/* Sets a setting.  Messages begin with `prefix` and the name. */
static enum weft_status set(struct wf_setting_list list, const char *prefix, const char *name,
                            const char *value, void *settings, struct weft_error *err)
{
    char where[WF_SETTING_NAME + 2], section[WF_SETTING_NAME];
    const struct wf_setting *row = wf_setting_find(list, name);
    snprintf(where, sizeof where, "%s%.60s", prefix, wf_printable(name).at);
    if (row != NULL)
        return wf_setting_store(row, value, where, settings, err);
    size_t n = strcspn(name, ".");
    snprintf(section, sizeof section, "%.*s", (int)(n < 60 ? n : 60), name);
    return wf_setting_fail_unknown(list, where, section, name[n] == '.' ? name + n + 1 : "",
                                   err);
}

enum weft_status wf_settings_set(struct wf_setting_list list, const char *name,
                                 const char *value, void *settings, struct weft_error *err)
{
    return set(list, "", name, value, settings, err);
}

/* -- flags ---------------------------------------------------------------------------------- */

static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-' && memchr(arg, '.', strcspn(arg, "=")) != NULL;
}

int wf_settings_other_args(int argc, char **argv, char **others)
{
    int n = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (i < argc)
                others[n++] = argv[i++];
        } else if (!is_flag(argv[i])) {
            others[n++] = argv[i];
        } else if (strchr(argv[i], '=') == NULL) {
            i++; /* skips the value of the flag */
        }
    }
    return n;
}

/* Parses one flag and advances *at to the last argument of the flag. */
static enum weft_status parse_flag(struct wf_setting_list list, int argc, char **argv, int *at,
                                   void *settings, struct weft_error *err)
{
    char name[WF_SETTING_NAME];
    const char *arg = argv[*at] + 2;
    size_t n = strcspn(arg, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), arg);
    const struct wf_setting *row = wf_setting_find(list, name);
    if (arg[n] == '=')
        return set(list, "--", name, arg + n + 1, settings, err);
    if (row != NULL && *at + 1 >= argc)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s needs a value: --%s=...", name, name);
    return set(list, "--", name, row == NULL ? "" : argv[++*at], settings, err);
}

enum weft_status wf_settings_parse_flags(struct wf_setting_list list, int argc, char **argv,
                                         void *settings, struct weft_error *err)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_flag(argv[i]))
            WEFT_TRY(parse_flag(list, argc, argv, &i, settings, err));
    return WEFT_OK;
}
