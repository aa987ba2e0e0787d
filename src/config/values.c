/* Parses lists of values on the command line. */
#include "config/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void wf_values_release(struct weft_values *v)
{
    free((void *)v->at);
    *v = (struct weft_values){0};
}

enum weft_status wf_values_copy(struct weft_values *to, struct weft_values from,
                                struct weft_error *err)
{
    *to = (struct weft_values){0};
    if (from.n == 0)
        return WEFT_OK;
    double *list = malloc(sizeof *list * from.n);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu costs", from.n);
    memcpy(list, from.at, sizeof *list * from.n);
    *to = (struct weft_values){list, from.n};
    return WEFT_OK;
}

void wf_cost_release(struct weft_cost *cost)
{
    struct weft_values *lists[] = {&cost->f,  &cost->i,           &cost->w,           &cost->b,
                                   &cost->fb, &cost->forward_hop, &cost->backward_hop};
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        wf_values_release(lists[i]);
}

void wf_costs_release(struct weft_cost *cost, struct weft_memory_cost *memory)
{
    struct weft_values *lists[] = {&memory->f, &memory->i, &memory->w, &memory->limit};
    wf_cost_release(cost);
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        wf_values_release(lists[i]);
}

/* -- units ---------------------------------------------------------------------------------- */

double wf_units_note(struct wf_units *units, const char *text, struct wf_amount amount)
{
    char *first = amount.scale > 0 ? units->with : units->without;
    if (first[0] == '\0' && (amount.scale > 0 || amount.number != 0))
        snprintf(first, sizeof units->with, "%.*s", (int)strcspn(text, ":,"), text);
    if (amount.scale == 0 || units->scale == 0)
        return wf_amount_value(amount, units->quantity);
    /* Units are whole multiples of smaller ones, but their quotients are not exact. */
    double ratio = amount.scale / units->scale;
    return ratio >= 1 ? amount.number * rint(ratio) : amount.number / rint(1 / ratio);
}

enum weft_status wf_units_check(const struct wf_units *units, const char *what,
                                struct weft_error *err)
{
    if (units->with[0] == '\0' || units->without[0] == '\0')
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE,
                     "%s: '%s' has a unit and '%s' has none; give all of them a unit, or none",
                     what, units->with, units->without);
}

/* -- lists ---------------------------------------------------------------------------------- */

/* Parses one number that ends at ':', at ',' or at the end of the text. */
static enum weft_status parse_number(const char **at, const char *what,
                                     const struct wf_value_key *key, struct wf_units *units,
                                     double *out, struct weft_error *err)
{
    const char *end = NULL;
    struct wf_amount amount;
    enum wf_amount_result result = wf_amount_read(*at, key->quantity, &amount, &end);
    if (result == WF_AMOUNT_BAD_UNIT)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' has an unknown unit; give %s (%s)", what,
                         *at, wf_quantity_example(key->quantity),
                         wf_quantity_units(key->quantity));
    if (result != WF_AMOUNT_OK || (*end != ':' && *end != ',' && *end != '\0'))
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' is not a number", what, *at);
    double value = units != NULL && units->quantity == key->quantity
                       ? wf_units_note(units, *at, amount)
                       : wf_amount_value(amount, key->quantity);
    if (!isfinite(value) || value < key->min_value)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %.20s is out of range; give at least %g", what,
                         *at, key->min_value);
    *at = end;
    *out = value;
    return WEFT_OK;
}

/* Parses a list that ends at ',' or, with `commas`, at the end of the text, and advances *at. */
static enum weft_status parse_list(const char **at, const char *what,
                                   const struct wf_value_key *key, bool commas,
                                   struct wf_units *units, struct weft_values *out,
                                   struct weft_error *err)
{
    size_t n = 1;
    for (const char *c = *at; *c != '\0' && (commas || *c != ','); c++)
        n += *c == ':' || *c == ',';
    double *list = malloc(sizeof *list * n);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory for %zu values", what, n);

    for (size_t i = 0; i < n; i++) {
        enum weft_status st = parse_number(at, what, key, units, &list[i], err);
        if (st != WEFT_OK) {
            free(list);
            return st;
        }
        *at += **at == ':' || (commas && **at == ',');
    }
    *out = (struct weft_values){list, n};
    return WEFT_OK;
}

enum weft_status wf_values_parse(const char *text, const char *what, enum wf_quantity quantity,
                                 struct wf_units *units, struct weft_values *out,
                                 struct weft_error *err)
{
    struct weft_values list = {0};
    const struct wf_value_key key = {NULL, NULL, -HUGE_VAL, false, quantity};
    const char *at = text;
    WEFT_TRY(parse_list(&at, what, &key, true, units, &list, err));
    *out = list;
    return WEFT_OK;
}

enum weft_status wf_value_parse(const char *text, const char *what, enum wf_quantity quantity,
                                double max, double *out, struct weft_error *err)
{
    struct weft_values v = {0};
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse(text, what, quantity, NULL, &v, err));
    double value = v.at[0];
    size_t n = v.n;
    wf_values_release(&v);
    if (n != 1 || value < 0 || value > max)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: '%.20s' is not a number from 0 to %g", what,
                         text, max);
    *out = value;
    return WEFT_OK;
}

static enum weft_status parse_key(const char **at, const char *what,
                                  const struct wf_value_key *keys, size_t n,
                                  struct wf_units *units, struct weft_error *err)
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
    WEFT_TRY(parse_list(at, what, k, false, units, k->out, err));
    if (k->single && k->out->n != 1)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %s takes one number, not a list", what, k->key);
    return WEFT_OK;
}

enum weft_status wf_values_parse_keys(const char *text, const char *what,
                                      const struct wf_value_key *keys, size_t n,
                                      struct wf_units *units, struct weft_error *err)
{
    const char *at = text;
    enum weft_status st = WEFT_OK;
    do {
        st = parse_key(&at, what, keys, n, units, err);
    } while (st == WEFT_OK && *at++ == ',');
    if (st == WEFT_OK && units != NULL)
        st = wf_units_check(units, what, err);
    for (size_t i = 0; st != WEFT_OK && i < n; i++)
        wf_values_release(keys[i].out);
    return st;
}
