/* Reads costs from text, files and traces, and copies them. */
#include "planning/planner/costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "config/costfile.h"
#include "config/values.h"
#include "planning/planner/trace_source.h"
#include "weft/sim.h"
#include "weft/trace.h"

/* -- text ----------------------------------------------------------------------------------- */

struct wf_cost_units wf_cost_units_make(double unit_seconds)
{
    return (struct wf_cost_units){
        .times = {.quantity = WF_QUANTITY_TIME, .scale = unit_seconds},
        .amounts = {.quantity = WF_QUANTITY_BYTES},
    };
}

enum weft_status wf_cost_parse(const char *text, const char *what, struct wf_cost_units *units,
                               struct weft_cost *cost, struct weft_error *err)
{
    struct weft_values hop = {0};
    const enum wf_quantity time = WF_QUANTITY_TIME;
    const struct wf_value_key keys[] = {
        {"F", &cost->f, 0, false, time},   {"I", &cost->i, 0, false, time},
        {"W", &cost->w, 0, false, time},   {"B", &cost->b, 0, false, time},
        {"FB", &cost->fb, 0, false, time}, {"C", &hop, 0, true, time},
    };
    WEFT_TRY(wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), &units->times, err));
    cost->hop = weft_values_get(hop, 0, 0);
    wf_values_release(&hop);
    return WEFT_OK;
}

enum weft_status wf_memory_cost_parse(const char *text, const char *what,
                                      struct wf_cost_units *units,
                                      struct weft_memory_cost *memory, struct weft_error *err)
{
    const struct wf_value_key keys[] = {
        {"F", &memory->f, -HUGE_VAL, false, WF_QUANTITY_BYTES},
        {"I", &memory->i, -HUGE_VAL, false, WF_QUANTITY_BYTES},
        {"W", &memory->w, -HUGE_VAL, false, WF_QUANTITY_BYTES},
    };
    return wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), &units->amounts, err);
}

/* Sets the times of an item from the lists F, I and W. */
static enum weft_status set_times(struct weft_item *item, const struct weft_values v[3],
                                  bool timed, const char *what, struct weft_error *err)
{
    if (timed && v[0].n == 0 && item->f != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s: F has no unit (its default is %g), but other times have one; "
                         "give F as well",
                         what, item->f);
    item->f = weft_values_get(v[0], 0, item->f);
    item->i = weft_values_get(v[1], 0, timed ? item->f : item->i);
    item->w = weft_values_get(v[2], 0, timed ? item->f : item->w);
    return WEFT_OK;
}

enum weft_status wf_item_parse(const char *text, const char *what, struct wf_cost_units *units,
                               struct weft_item *item, struct weft_error *err)
{
    struct weft_values v[5] = {{0}};
    struct wf_units own = {.quantity = WF_QUANTITY_TIME, .scale = units->times.scale};
    const struct wf_value_key keys[] = {
        {"F", &v[0], 0, true, WF_QUANTITY_TIME},
        {"I", &v[1], 0, true, WF_QUANTITY_TIME},
        {"W", &v[2], 0, true, WF_QUANTITY_TIME},
        {"bytes", &v[3], 0, true, WF_QUANTITY_BYTES},
        {"act", &v[4], 0, true, WF_QUANTITY_BYTES},
    };
    if (text == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_parse_keys(text, what, keys, WEFT_LEN(keys), &own, err));
    if (units->times.with[0] == '\0')
        memcpy(units->times.with, own.with, sizeof own.with);
    if (units->times.without[0] == '\0')
        memcpy(units->times.without, own.without, sizeof own.without);
    enum weft_status st = set_times(item, v, own.with[0] != '\0', what, err);
    double bytes = weft_values_get(v[3], 0, 0), act = weft_values_get(v[4], 0, 0);
    for (size_t i = 0; i < WEFT_LEN(v); i++)
        wf_values_release(&v[i]);

    if (st == WEFT_OK && (bytes > 1e18 || act > 1e18))
        return WEFT_FAIL(err, WEFT_USAGE, "%s: %g bytes are out of range (maximum 1e18)", what,
                         fmax(bytes, act));
    item->state_bytes = (size_t)bytes;
    item->act_bytes = (size_t)act;
    return st;
}

/* -- units ---------------------------------------------------------------------------------- */

/* Copies a list, each value multiplied by `by`. */
static enum weft_status copy_scaled(struct weft_values *to, struct weft_values from, double by,
                                    struct weft_error *err)
{
    WEFT_TRY(wf_values_copy(to, from, err));
    for (size_t i = 0; i < to->n; i++)
        ((double *)(uintptr_t)to->at)[i] *= by;
    return WEFT_OK;
}

enum weft_status wf_costs_complete(const struct wf_cost_units *units, bool items,
                                   struct weft_cost *cost,
                                   const struct weft_memory_cost *memory,
                                   struct weft_error *err)
{
    WEFT_TRY(wf_units_check(&units->times, "times", err));
    WEFT_TRY(wf_units_check(&units->amounts, "memory", err));
    if (units->amounts.with[0] != '\0' && memory->f.n == 0)
        return WEFT_FAIL(
            err, WEFT_USAGE,
            "memory: '%s' has a unit, but the memory of a forward is not given (its "
            "default is 1 activation); give it in bytes",
            units->amounts.with);
    if (!wf_costs_are_timed(units) || items)
        return WEFT_OK;
    if (cost->f.n == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "times: '%s' has a unit, but F is not given (its default is 1 without "
                         "a unit); give F",
                         units->times.with);
    struct weft_values from = cost->b.n > 0 ? cost->b : cost->f;
    double by = cost->b.n > 0 ? 0.5 : 1;
    if (cost->i.n == 0)
        WEFT_TRY(copy_scaled(&cost->i, from, by, err));
    return cost->w.n == 0 ? copy_scaled(&cost->w, from, by, err) : WEFT_OK;
}

/* -- copies --------------------------------------------------------------------------------- */

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
    cost->first_backward_in_w = from->first_backward_in_w;
    WEFT_TRY(wf_values_copy(&cost->forward_hop, from->forward_hop, err));
    WEFT_TRY(wf_values_copy(&cost->backward_hop, from->backward_hop, err));
    WEFT_TRY(wf_values_copy(&memory->f, memory_from->f, err));
    WEFT_TRY(wf_values_copy(&memory->i, memory_from->i, err));
    WEFT_TRY(wf_values_copy(&memory->w, memory_from->w, err));
    return wf_values_copy(&memory->limit, memory_from->limit, err);
}

/* -- files ---------------------------------------------------------------------------------- */

enum weft_status wf_cost_read(const char *path, struct wf_cost_units *units,
                              struct weft_cost *cost, struct weft_memory_cost *memory,
                              struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(wf_input_read(path, &text, &len, err));
    enum weft_status st =
        wf_costfile_parse(text, len, path, &units->times, &units->amounts, cost, memory, err);
    if (st == WEFT_OK)
        st = wf_units_check(&units->times, path, err);
    if (st == WEFT_OK)
        st = wf_units_check(&units->amounts, path, err);
    free(text);
    return st;
}

/* Copies measured times, converted to the unit of times. */
static enum weft_status copy_measured(struct weft_cost *cost, struct wf_units *times,
                                      const struct weft_measured_cost *m, double hop,
                                      double unit_seconds, struct weft_error *err)
{
    const double *from[] = {m->f, m->i, m->w, m->b, m->fb};
    struct weft_values *to[] = {&cost->f, &cost->i, &cost->w, &cost->b, &cost->fb};
    double by = unit_seconds > 0 && times->scale > 0 ? unit_seconds / times->scale : 1;
    snprintf(unit_seconds > 0 ? times->with : times->without, sizeof times->with, "the trace");
    cost->hop = hop * by;
    for (size_t i = 0; i < WEFT_LEN(from); i++)
        WEFT_TRY(copy_scaled(to[i], (struct weft_values){from[i], m->n_stages}, by, err));
    return WEFT_OK;
}

enum weft_status wf_cost_read_trace(const char *paths, wf_input_fn read,
                                    struct wf_cost_units *units, struct weft_cost *cost,
                                    struct weft_error *err)
{
    struct weft_trace trace = {0};
    struct weft_measured_cost m = {0};
    struct weft_cost_spread spread = {0};
    WEFT_TRY(wf_trace_read_measured(paths, read, &trace, err));
    enum weft_status st = weft_measured_cost_init(&m, &trace, err);
    if (st == WEFT_OK)
        st = weft_cost_spread_init(&spread, &trace, err);
    if (st == WEFT_OK)
        st = copy_measured(cost, &units->times, &m, spread.hop.mean, trace.unit_seconds, err);
    weft_cost_spread_release(&spread);
    weft_measured_cost_release(&m);
    weft_trace_release(&trace);
    return st;
}
