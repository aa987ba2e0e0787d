/* Reads costs from text, files and traces, and copies them. */
#include "planning/planner/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "config/costfile.h"
#include "config/values.h"
#include "weft/sim.h"
#include "weft/trace.h"

/* -- text ----------------------------------------------------------------------------------- */

enum weft_status wf_cost_parse(const char *text, const char *what, struct weft_cost *cost,
                               struct weft_error *err)
{
    struct weft_values hop = {0};
    const struct wf_value_key keys[] = {
        {"F", &cost->f, 0, false}, {"I", &cost->i, 0, false},   {"W", &cost->w, 0, false},
        {"B", &cost->b, 0, false}, {"FB", &cost->fb, 0, false}, {"C", &hop, 0, true},
    };
    WEFT_TRY(wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), err));
    cost->hop = weft_values_get(hop, 0, 0);
    wf_values_release(&hop);
    return WEFT_OK;
}

enum weft_status wf_memory_cost_parse(const char *text, const char *what,
                                      struct weft_memory_cost *memory, struct weft_error *err)
{
    const struct wf_value_key keys[] = {
        {"F", &memory->f, -HUGE_VAL, false},
        {"I", &memory->i, -HUGE_VAL, false},
        {"W", &memory->w, -HUGE_VAL, false},
    };
    return wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), err);
}

enum weft_status wf_item_parse(const char *text, const char *what, struct weft_item *item,
                               struct weft_error *err)
{
    struct weft_values v[5] = {{0}};
    const struct wf_value_key keys[] = {
        {"F", &v[0], 0, true},     {"I", &v[1], 0, true},   {"W", &v[2], 0, true},
        {"bytes", &v[3], 0, true}, {"act", &v[4], 0, true},
    };
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), err));
    item->f = weft_values_get(v[0], 0, item->f);
    item->i = weft_values_get(v[1], 0, item->i);
    item->w = weft_values_get(v[2], 0, item->w);
    double bytes = weft_values_get(v[3], 0, 0), act = weft_values_get(v[4], 0, 0);
    for (size_t i = 0; i < WEFT_LEN(v); i++)
        wf_values_release(&v[i]);

    if (bytes > 1e18 || act > 1e18)
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %g bytes are out of range (maximum 1e18)", what,
                         fmax(bytes, act));
    item->state_bytes = (size_t)bytes;
    item->act_bytes = (size_t)act;
    return WEFT_OK;
}

/* -- copies --------------------------------------------------------------------------------- */

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

enum weft_status wf_costs_copy(struct weft_cost *cost, struct weft_memory_cost *memory,
                               const struct weft_cost *from,
                               const struct weft_memory_cost *memory_from,
                               struct weft_error *err)
{
    WEFT_TRY(wf_values_copy(&cost->f, from->f, err));
    WEFT_TRY(wf_values_copy(&cost->i, from->i, err));
    WEFT_TRY(wf_values_copy(&cost->w, from->w, err));
    WEFT_TRY(wf_values_copy(&cost->b, from->b, err));
    WEFT_TRY(wf_values_copy(&cost->fb, from->fb, err));
    cost->hop = from->hop;
    WEFT_TRY(wf_values_copy(&memory->f, memory_from->f, err));
    WEFT_TRY(wf_values_copy(&memory->i, memory_from->i, err));
    WEFT_TRY(wf_values_copy(&memory->w, memory_from->w, err));
    return wf_values_copy(&memory->limit, memory_from->limit, err);
}

/* -- files ---------------------------------------------------------------------------------- */

enum weft_status wf_cost_read(const char *path, struct weft_cost *cost,
                              struct weft_memory_cost *memory, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read(path, &text, &len, err));
    enum weft_status st = wf_costfile_parse(text, len, path, cost, memory, err);
    free(text);
    return st;
}

enum weft_status wf_cost_read_trace(const char *path, struct weft_cost *cost,
                                    struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    struct weft_trace trace = {0};
    struct weft_measured_cost m = {0};
    const struct weft_memory_cost none = {0};
    struct weft_memory_cost unused = {0};
    WEFT_TRY(wf_input_read_as(WEFT_DATA, path, &text, &len, err));
    enum weft_status st = weft_trace_parse(text, len, path, &trace, err);
    free(text);
    if (st == WEFT_OK)
        st = weft_measured_cost_init(&m, &trace, err);
    if (st == WEFT_OK) {
        const struct weft_cost measured = {.f = {m.f, m.n_stages},
                                           .i = {m.i, m.n_stages},
                                           .w = {m.w, m.n_stages},
                                           .b = {m.b, m.n_stages},
                                           .fb = {m.fb, m.n_stages}};
        st = wf_costs_copy(cost, &unused, &measured, &none, err);
    }
    weft_measured_cost_release(&m);
    weft_trace_release(&trace);
    return st;
}
