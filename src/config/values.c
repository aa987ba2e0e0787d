/* Parses lists of values on the command line. */
#include "config/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void wf_values_release(struct weft_values *v)
{
    free((void *)v->at);
    *v = (struct weft_values){0};
}

void wf_costs_release(struct weft_cost *cost, struct weft_memory_cost *memory)
{
    struct weft_values *lists[] = {&cost->f,   &cost->i,   &cost->w,   &cost->b,      &cost->fb,
                                   &memory->f, &memory->i, &memory->w, &memory->limit};
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        wf_values_release(lists[i]);
}

/* Parses one number that ends at ':', at ',' or at the end of the text. */
static enum weft_status parse_number(const char **at, const char *what, double min_value,
                                     double *out, struct weft_error *err)
{
    char *end = NULL;
    double value = strtod(*at, &end);
    if (end == *at || (*end != ':' && *end != ',' && *end != '\0') ||
        strchr(" \t\n\v\f\r", **at) != NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' is not a number", what, *at);
    if (!isfinite(value) || value < min_value)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %.20s is out of range; give at least %g", what,
                         *at, min_value);
    *at = end;
    *out = value;
    return WEFT_OK;
}

/* Parses a list that ends at ',' or, with `commas`, at the end of the text, and advances *at. */
static enum weft_status parse_list(const char **at, const char *what, double min_value,
                                   bool commas, struct weft_values *out, struct weft_error *err)
{
    size_t n = 1;
    for (const char *c = *at; *c != '\0' && (commas || *c != ','); c++)
        n += *c == ':' || *c == ',';
    double *list = malloc(sizeof *list * n);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %zu values", what, n);

    for (size_t i = 0; i < n; i++) {
        enum weft_status st = parse_number(at, what, min_value, &list[i], err);
        if (st != WEFT_OK) {
            free(list);
            return st;
        }
        *at += **at == ':' || (commas && **at == ',');
    }
    *out = (struct weft_values){list, n};
    return WEFT_OK;
}

enum weft_status wf_values_parse(const char *text, const char *what, struct weft_values *out,
                                 struct weft_error *err)
{
    struct weft_values list = {0};
    const char *at = text;
    WEFT_TRY(parse_list(&at, what, -HUGE_VAL, true, &list, err));
    *out = list;
    return WEFT_OK;
}

static enum weft_status parse_key(const char **at, const char *what,
                                  const struct wf_value_key *keys, size_t n,
                                  struct weft_error *err)
{
    size_t len = strcspn(*at, "=,");
    const struct wf_value_key *k = NULL;
    for (size_t i = 0; i < n; i++)
        if (strlen(keys[i].key) == len && memcmp(keys[i].key, *at, len) == 0)
            k = &keys[i];

    if (k == NULL || (*at)[len] != '=') {
        char known[80] = "";
        for (size_t i = 0; i < n; i++) {
            strncat(known, i > 0 ? ", " : "", sizeof known - strlen(known) - 1);
            strncat(known, keys[i].key, sizeof known - strlen(known) - 1);
        }
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' is not KEY=value with one of %s", what,
                         *at, known);
    }

    if (k->out->n != 0)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %s is given twice", what, k->key);
    *at += len + 1;
    WEFT_TRY(parse_list(at, what, k->min_value, false, k->out, err));
    if (k->single && k->out->n != 1)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %s takes one number, not a list", what, k->key);
    return WEFT_OK;
}

enum weft_status wf_values_parse_keys(const char *text, const char *what,
                                      const struct wf_value_key *keys, size_t n,
                                      struct weft_error *err)
{
    const char *at = text;
    enum weft_status st = WEFT_OK;
    do {
        st = parse_key(&at, what, keys, n, err);
    } while (st == WEFT_OK && *at++ == ',');
    for (size_t i = 0; st != WEFT_OK && i < n; i++)
        wf_values_release(keys[i].out);
    return st;
}
