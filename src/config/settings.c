/* Values of settings: defaults, reading one, and flags. */
#include "config/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/printable.h"
#include "config/settings_priv.h"

static void *field_of(const struct weft_setting *row, void *settings)
{
    return (char *)settings + row->offset;
}

void weft_setting_name(const struct weft_setting *row, char *out)
{
    snprintf(out, WEFT_SETTING_NAME, "%s.%s", row->section, row->key);
}

double weft_setting_number(const struct weft_setting *row, const void *settings)
{
    const void *field = (const char *)settings + row->offset;
    switch (row->type) {
    case WEFT_SET_COUNT:
    case WEFT_SET_CHOICE:
        return *(const uint32_t *)field;
    case WEFT_SET_LONG:
        return (double)*(const uint64_t *)field;
    case WEFT_SET_REAL:
        return *(const double *)field;
    case WEFT_SET_SWITCH:
        return *(const bool *)field;
    case WEFT_SET_TEXT:
        break;
    }
    return 0;
}

bool weft_setting_is_default(const struct weft_setting *row, const void *settings)
{
    if (row->type == WEFT_SET_TEXT) {
        const char *text = *(char *const *)((const char *)settings + row->offset);
        return strcmp(text == NULL ? "" : text, row->fallback) == 0;
    }
    union {
        uint32_t count;
        uint64_t number;
        double real;
        bool on;
    } value = {.number = 0};
    struct weft_setting alone = *row; /* the same setting, in a struct of its own */
    alone.offset = alone.given = 0;
    return weft_setting_store(&alone, row->fallback, "", &value, NULL) == WEFT_OK &&
           weft_setting_number(&alone, &value) == weft_setting_number(row, settings);
}

/* -- one value ------------------------------------------------------------------------------ */

static enum weft_status refuse(const struct weft_setting *row, const char *value,
                               const char *where, const char *what, struct weft_error *err)
{
    struct weft_text range = {0};
    weft_setting_add_range(row, &range);
    enum weft_status st = range.failed
                              ? WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory", where)
                              : WEFT_FAIL(err, WEFT_USAGE, "%.160s: '%.40s' %s: give %.160s",
                                          where, weft_printable(value).at, what, range.at);
    weft_text_release(&range);
    return st;
}

/* Only what is a decimal number everywhere: no blanks, no hexadecimal, no infinity. */
static bool read_number(const struct weft_setting *row, const char *value, double *out)
{
    bool whole = row->type != WEFT_SET_REAL;
    if (value[0] == '\0' || value[strspn(value, whole ? "0123456789" : "0123456789+-.eE")])
        return false;
    char *end = NULL;
    *out = strtod(value, &end);
    return *end == '\0';
}

static enum weft_status store_number(const struct weft_setting *row, const char *value,
                                     const char *where, void *settings, struct weft_error *err)
{
    double number = 0;
    bool word = row->zero != NULL && strcmp(value, row->zero) == 0;
    if (!word && !read_number(row, value, &number))
        return refuse(row, value, where,
                      row->type == WEFT_SET_REAL ? "is no number" : "is no whole number", err);
    bool zero = number == 0 && row->zero != NULL;
    if (!zero && !(isfinite(number) && number >= row->least && number <= row->most))
        return refuse(row, value, where, "is out of range", err);
    void *field = field_of(row, settings);
    if (row->type == WEFT_SET_COUNT)
        *(uint32_t *)field = (uint32_t)number;
    else if (row->type == WEFT_SET_LONG)
        *(uint64_t *)field = (uint64_t)number; /* exact: no more than 2^53 */
    else
        *(double *)field = number == 0 ? 0 : number; /* no nought below nought */
    return WEFT_OK;
}

/* Which of "a|b|c" it is. */
static bool find_choice(const char *choices, const char *value, uint32_t *out)
{
    uint32_t k = 0;
    for (const char *at = choices; *at != '\0'; k++) {
        size_t len = strcspn(at, "|");
        if (strlen(value) == len && memcmp(at, value, len) == 0) {
            *out = k;
            return true;
        }
        at += len + (at[len] == '|');
    }
    return false;
}

/* The file that is printed must read back the same, and YAML holds characters only. */
static enum weft_status store_text(const struct weft_setting *row, const char *value,
                                   const char *where, void *settings, struct weft_error *err)
{
    char **field = field_of(row, settings), *copy = NULL;
    size_t n = strlen(value);
    if (n >= WEFT_SETTING_TEXT)
        return WEFT_FAIL(err, WEFT_USAGE, "%.160s: %zu bytes are too long: at most %d", where,
                         n, WEFT_SETTING_TEXT - 1);
    for (size_t i = 0; i < n; i += (size_t)weft_utf8_length(value + i))
        if (weft_utf8_length(value + i) == 0)
            return WEFT_FAIL(err, WEFT_USAGE, "%.160s: byte %zu of it is no UTF-8", where, i);
    if (n > 0) {
        copy = strdup(value);
        if (copy == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "%.160s: no memory", where);
    }
    free(*field);
    *field = copy;
    return WEFT_OK;
}

static enum weft_status store(const struct weft_setting *row, const char *value,
                              const char *where, void *settings, struct weft_error *err)
{
    uint32_t choice = 0;
    switch (row->type) {
    case WEFT_SET_COUNT:
    case WEFT_SET_LONG:
    case WEFT_SET_REAL:
        return store_number(row, value, where, settings, err);
    case WEFT_SET_SWITCH:
        if (!find_choice("false|true", value, &choice))
            return refuse(row, value, where, "is neither", err);
        *(bool *)field_of(row, settings) = choice == 1;
        return WEFT_OK;
    case WEFT_SET_CHOICE:
        if (!find_choice(row->choices, value, &choice))
            return refuse(row, value, where, "is no choice", err);
        *(uint32_t *)field_of(row, settings) = choice;
        return WEFT_OK;
    case WEFT_SET_TEXT:
        return store_text(row, value, where, settings, err);
    }
    return WEFT_FAIL(err, WEFT_INTERNAL, "%.160s: a setting without a type", where);
}

static void note_given(const struct weft_setting *row, bool given, void *settings)
{
    if (row->given != 0)
        *(bool *)((char *)settings + row->given) = given;
}

enum weft_status weft_setting_store(const struct weft_setting *row, const char *value,
                                    const char *where, void *settings, struct weft_error *err)
{
    WEFT_TRY(store(row, value, where, settings, err));
    note_given(row, true, settings);
    return WEFT_OK;
}

/* -- all of them ---------------------------------------------------------------------------- */

void weft_settings_release(struct weft_setting_list list, void *settings)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].type == WEFT_SET_TEXT) {
            char **field = field_of(&list.at[i], settings);
            free(*field);
            *field = NULL;
        }
}

enum weft_status weft_settings_init(struct weft_setting_list list, void *settings,
                                    struct weft_error *err)
{
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].type == WEFT_SET_TEXT)
            *(char **)field_of(&list.at[i], settings) = NULL;
    for (size_t i = 0; i < list.n; i++) {
        char name[WEFT_SETTING_NAME];
        weft_setting_name(&list.at[i], name);
        enum weft_status st =
            weft_setting_store(&list.at[i], list.at[i].fallback, name, settings, err);
        if (st != WEFT_OK) {
            weft_settings_release(list, settings);
            return st;
        }
        note_given(&list.at[i], false, settings);
    }
    return WEFT_OK;
}

/* -- names ---------------------------------------------------------------------------------- */

const struct weft_setting *weft_setting_find_key(struct weft_setting_list list,
                                                 const char *section, size_t section_len,
                                                 const char *key, bool *in_section)
{
    *in_section = false;
    for (size_t i = 0; i < list.n; i++) {
        const struct weft_setting *row = &list.at[i];
        if (strlen(row->section) != section_len ||
            memcmp(row->section, section, section_len) != 0)
            continue;
        *in_section = true;
        if (strcmp(row->key, key) == 0)
            return row;
    }
    return NULL;
}

const struct weft_setting *weft_setting_find(struct weft_setting_list list, const char *name)
{
    const char *dot = strchr(name, '.');
    bool in_section;
    return dot == NULL
               ? NULL
               : weft_setting_find_key(list, name, (size_t)(dot - name), dot + 1, &in_section);
}

/* The key in its section that may have been meant, else one of just that name elsewhere. */
static const struct weft_setting *nearest(struct weft_setting_list list, const char *section,
                                          const char *key)
{
    size_t first = 0, n = 0;
    while (first < list.n && strcmp(list.at[first].section, section) != 0)
        first++;
    while (first + n < list.n && strcmp(list.at[first + n].section, section) == 0)
        n++;
    const char *near =
        n == 0 ? NULL : weft_text_nearest(key, &list.at[first].key, n, sizeof list.at[0]);
    for (size_t i = 0; i < list.n; i++)
        if (strcmp(list.at[i].key, key) == 0)
            return &list.at[i];
    for (size_t i = first; near != NULL && i < first + n; i++)
        if (strcmp(list.at[i].key, near) == 0)
            return &list.at[i];
    return NULL;
}

static enum weft_status no_section(struct weft_setting_list list, const char *where,
                                   const char *section, struct weft_error *err)
{
    char names[200] = "";
    for (size_t i = 0, n = 0; i < list.n && n < sizeof names; i++)
        if (i == 0 || strcmp(list.at[i].section, list.at[i - 1].section) != 0)
            n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i > 0 ? ", " : "",
                                  list.at[i].section);
    return WEFT_FAIL(err, WEFT_USAGE, "%.160s: there is no section %.40s: there are %s", where,
                     weft_printable(section).at, names);
}

enum weft_status weft_setting_unknown(struct weft_setting_list list, const char *where,
                                      const char *section, const char *key,
                                      struct weft_error *err)
{
    bool in_section;
    weft_setting_find_key(list, section, strlen(section), "", &in_section);
    const struct weft_setting *near = nearest(list, section, key);
    if (near != NULL)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.160s: there is no setting %.40s.%.40s: did you mean %s.%s?", where,
                         weft_printable(section).at, weft_printable(key).at, near->section,
                         near->key);
    if (in_section)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%.160s: there is no setting %.40s.%.40s (see --print-config)", where,
                         weft_printable(section).at, weft_printable(key).at);
    const char *meant =
        weft_text_nearest(section, &list.at[0].section, list.n, sizeof list.at[0]);
    if (meant != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%.160s: there is no section %.40s: did you mean %s?",
                         where, weft_printable(section).at, meant);
    return no_section(list, where, section, err);
}

enum weft_status weft_settings_set(struct weft_setting_list list, const char *name,
                                   const char *value, void *settings, struct weft_error *err)
{
    char where[WEFT_SETTING_NAME + 2], section[WEFT_SETTING_NAME];
    const struct weft_setting *row = weft_setting_find(list, name);
    snprintf(where, sizeof where, "--%.60s", weft_printable(name).at);
    if (row != NULL)
        return weft_setting_store(row, value, where, settings, err);
    size_t n = strcspn(name, ".");
    snprintf(section, sizeof section, "%.*s", (int)(n < 60 ? n : 60), name);
    return weft_setting_unknown(list, where, section, name[n] == '.' ? name + n + 1 : "", err);
}

/* -- flags ---------------------------------------------------------------------------------- */

static bool is_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] == '-' && memchr(arg, '.', strcspn(arg, "=")) != NULL;
}

int weft_settings_others(int argc, char **argv, char **others)
{
    int n = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (i < argc)
                others[n++] = argv[i++];
        } else if (!is_flag(argv[i])) {
            others[n++] = argv[i];
        } else if (strchr(argv[i], '=') == NULL) {
            i++; /* its value */
        }
    }
    return n;
}

/* One flag; *at is left on its last argument. */
static enum weft_status take_flag(struct weft_setting_list list, int argc, char **argv, int *at,
                                  void *settings, struct weft_error *err)
{
    char name[WEFT_SETTING_NAME];
    const char *arg = argv[*at] + 2;
    size_t n = strcspn(arg, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), arg);
    const struct weft_setting *row = weft_setting_find(list, name);
    if (arg[n] == '=')
        return weft_settings_set(list, name, arg + n + 1, settings, err);
    if (row != NULL && *at + 1 >= argc)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s needs a value: --%s=...", name, name);
    return weft_settings_set(list, name, row == NULL ? "" : argv[++*at], settings, err);
}

enum weft_status weft_settings_flags(struct weft_setting_list list, int argc, char **argv,
                                     void *settings, struct weft_error *err)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (is_flag(argv[i]))
            WEFT_TRY(take_flag(list, argc, argv, &i, settings, err));
    return WEFT_OK;
}
