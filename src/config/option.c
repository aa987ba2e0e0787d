/* Parses command-line options by a table. */
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "config/choice.h"

enum wf_quantity wf_option_quantity(const struct wf_option *o)
{
    switch (o->type) {
    case WF_OPTION_BYTES:
        return WF_QUANTITY_BYTES;
    case WF_OPTION_TIME:
        return WF_QUANTITY_TIME;
    case WF_OPTION_FLOPS:
        return WF_QUANTITY_FLOPS;
    case WF_OPTION_SWITCH:
    case WF_OPTION_COUNT:
    case WF_OPTION_TEXT:
    case WF_OPTION_TEXTS:
    case WF_OPTION_CHOICE:
    case WF_OPTION_OPTIONAL:
    case WF_OPTION_HEADING:
        break;
    }
    return WF_QUANTITY_PLAIN;
}

/* Appends a word, in quotes if a shell would change it. */
static void add_word(struct wf_text *out, const char *word)
{
    bool plain = word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                   "0123456789_./,:=+-")] == '\0';
    if (plain) {
        wf_text_adds(out, word);
        return;
    }
    wf_text_addc(out, '\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            wf_text_adds(out, "'\\''");
        else
            wf_text_addc(out, *word);
    wf_text_addc(out, '\'');
}

void wf_options_print(struct wf_option_list options, const void *settings, struct wf_text *out)
{
    for (size_t i = 0; i < options.n; i++) {
        const struct wf_option *o = &options.at[i];
        const void *field = (const char *)settings + o->offset;
        bool repeated = i > 0 && o[-1].type == o->type && o[-1].offset == o->offset;
        if (repeated) /* two names of one option */
            continue;
        switch (o->type) {
        case WF_OPTION_HEADING:
            break;
        case WF_OPTION_SWITCH:
            if (*(const bool *)field)
                wf_text_addf(out, " --%s", o->name);
            break;
        case WF_OPTION_COUNT:
            if (*(const uint32_t *)field != 0)
                wf_text_addf(out, " --%s %u", o->name, *(const uint32_t *)field);
            break;
        case WF_OPTION_TEXT:
        case WF_OPTION_BYTES:
        case WF_OPTION_TIME:
        case WF_OPTION_FLOPS:
        case WF_OPTION_CHOICE:
            if (*(const char *const *)field != NULL) {
                wf_text_addf(out, " --%s ", o->name);
                add_word(out, *(const char *const *)field);
            }
            break;
        case WF_OPTION_TEXTS: {
            const struct wf_option_texts *texts = field;
            for (size_t k = 0; k < texts->n; k++) {
                wf_text_addf(out, " --%s ", o->name);
                add_word(out, texts->at[k]);
            }
            break;
        }
        case WF_OPTION_OPTIONAL:
            if (*(const char *const *)field != NULL)
                wf_text_addf(out, **(const char *const *)field != '\0' ? " --%s=%s" : " --%s",
                             o->name, *(const char *const *)field);
            break;
        }
    }
}

static const struct wf_option *find_name(struct wf_option_list options, const char *name)
{
    for (size_t i = 0; i < options.n; i++)
        if (options.at[i].type != WF_OPTION_HEADING && strcmp(options.at[i].name, name) == 0)
            return &options.at[i];
    return NULL;
}

static const struct wf_option *find_letter(struct wf_option_list options, char letter)
{
    for (size_t i = 0; i < options.n; i++)
        if (options.at[i].letter == letter)
            return &options.at[i];
    return NULL;
}

static enum weft_status fail_unknown(struct wf_option_list options, const char *name,
                                     struct weft_error *err)
{
    const char *best =
        wf_text_nearest(name, &options.at[0].name, options.n, sizeof options.at[0]);
    if (best == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "unknown option --%.60s (see --help)", name);
    return WEFT_FAIL(err, WEFT_USAGE, "unknown option --%.60s: did you mean --%s?", name, best);
}

static enum weft_status parse_count(const struct wf_option *o, const char *value, uint32_t *out,
                                    struct weft_error *err)
{
    char *end = NULL;
    bool digits = value[0] >= '0' && value[0] <= '9';
    unsigned long long n = digits ? strtoull(value, &end, 10) : 0;
    if (!digits || *end != '\0')
        return WEFT_FAIL(err, WEFT_USAGE, "--%s: '%.40s' is not a whole number", o->name,
                         value);
    if (n == 0)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is 0; give at least 1", o->name);
    if (n >= UINT32_MAX)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s: %.40s is too large", o->name, value);
    *out = (uint32_t)n;
    return WEFT_OK;
}

static enum weft_status check_choice(const struct wf_option *o, const char *value,
                                     struct weft_error *err)
{
    uint32_t choice;
    if (!wf_choice_find(o->choices, value, &choice))
        return WEFT_FAIL(err, WEFT_USAGE, "--%s: '%.40s' is not one of %s", o->name, value,
                         o->choices);
    return WEFT_OK;
}

static enum weft_status add_text(const struct wf_option *o, const char *value,
                                 struct wf_option_texts *texts, struct weft_error *err)
{
    if (value[0] == '\0')
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is empty", o->name);
    if (texts->n == WF_OPTION_MAX_TEXTS)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is given more than %d times", o->name,
                         WF_OPTION_MAX_TEXTS);
    texts->at[texts->n++] = value;
    return WEFT_OK;
}

static enum weft_status store(const struct wf_option *o, const char *value, void *settings,
                              struct weft_error *err)
{
    void *field = (char *)settings + o->offset;

    switch (o->type) {
    case WF_OPTION_SWITCH:
        *(bool *)field = true;
        return WEFT_OK;
    case WF_OPTION_COUNT:
        return parse_count(o, value, field, err);
    case WF_OPTION_OPTIONAL:
    case WF_OPTION_CHOICE:
        if (value[0] != '\0' || o->type == WF_OPTION_CHOICE)
            WEFT_TRY(check_choice(o, value, err));
        *(const char **)field = value;
        return WEFT_OK;
    case WF_OPTION_TEXT:
    case WF_OPTION_BYTES:
    case WF_OPTION_TIME:
    case WF_OPTION_FLOPS:
        if (value[0] == '\0')
            return WEFT_FAIL(err, WEFT_USAGE, "--%s is empty", o->name);
        *(const char **)field = value;
        return WEFT_OK;
    case WF_OPTION_TEXTS:
        return add_text(o, value, field, err);
    case WF_OPTION_HEADING:
        break;
    }

    return WEFT_FAIL(err, WEFT_INTERNAL, "option --%s has no type", o->name);
}

/* Finds the table row of an argument that starts with '-', and the value that is attached to
 * the argument, if any. */
static enum weft_status match_option(struct wf_option_list options, const char *arg,
                                     const struct wf_option **option, const char **attached,
                                     struct weft_error *err)
{
    *attached = NULL;
    if (arg[1] != '-') {
        *option = find_letter(options, arg[1]);
        if (*option == NULL)
            return WEFT_FAIL(err, WEFT_USAGE, "unknown option -%c (see --help)", arg[1]);
        if (arg[2] != '\0')
            *attached = arg + 2;
        return WEFT_OK;
    }

    char name[64];
    size_t n = strcspn(arg + 2, "=");
    if (n >= sizeof name)
        return WEFT_FAIL(err, WEFT_USAGE, "unknown option %.60s... (see --help)", arg);
    memcpy(name, arg + 2, n);
    name[n] = '\0';
    *option = find_name(options, name);
    if (*option == NULL)
        return fail_unknown(options, name, err);
    if (arg[2 + n] == '=')
        *attached = arg + 2 + n + 1;
    return WEFT_OK;
}

static enum weft_status parse_option(struct wf_option_list options, int argc, char **argv,
                                     int *at, void *settings, bool *given,
                                     struct weft_error *err)
{
    const struct wf_option *o = NULL;
    const char *value = NULL;
    WEFT_TRY(match_option(options, argv[*at], &o, &value, err));
    if (given[o - options.at] && o->type != WF_OPTION_TEXTS)
        return WEFT_FAIL(err, WEFT_USAGE, "--%s is given twice", o->name);
    given[o - options.at] = true;

    if (o->type == WF_OPTION_SWITCH) {
        if (value != NULL)
            return WEFT_FAIL(err, WEFT_USAGE, "--%s takes no value (got '%.40s')", o->name,
                             value);
    } else if (value == NULL && o->type == WF_OPTION_OPTIONAL) {
        value = "";
    } else if (value == NULL) {
        if (*at + 1 >= argc)
            return WEFT_FAIL(err, WEFT_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                             o->arg);
        value = argv[++*at];
    }
    return store(o, value, settings, err);
}

enum weft_status wf_options_parse(struct wf_option_list options, int argc, char **argv,
                                  void *settings, const char **operands, size_t *n_operands,
                                  struct weft_error *err)
{
    bool *given = calloc(options.n + 1, sizeof *given);
    if (given == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu options", options.n);
    enum weft_status st = WEFT_OK;
    bool options_end = false;
    *n_operands = 0;

    for (int i = 0; st == WEFT_OK && i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0)
            options_end = true;
        else if (!options_end && argv[i][0] == '-' && argv[i][1] != '\0')
            st = parse_option(options, argc, argv, &i, settings, given, err);
        else
            operands[(*n_operands)++] = argv[i];
    }
    free(given);
    return st;
}
