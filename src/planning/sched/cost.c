#include "weft/cost.h"

#include <math.h>

#include "base/error.h"
#include "base/text.h"

struct weft_stage_cost weft_cost_stage(const struct weft_cost *cost, uint32_t stage)
{
    static const struct weft_cost none = {.hop = 0};
    const struct weft_cost *c = cost == NULL ? &none : cost;
    struct weft_stage_cost t = {
        .f = weft_values_get(c->f, stage, 1),
        .i = weft_values_get(c->i, stage, 1),
        .w = weft_values_get(c->w, stage, 1),
    };
    t.b = weft_values_get(c->b, stage, t.i + t.w);
    return t;
}

double weft_cost_pair(const struct weft_cost *cost, uint32_t f_stage, uint32_t b_stage)
{
    double apart = weft_cost_stage(cost, f_stage).f + weft_cost_stage(cost, b_stage).b;
    return cost == NULL ? apart : weft_values_get(cost->fb, f_stage, apart);
}

struct weft_stage_memory weft_memory_cost_stage(const struct weft_memory_cost *memory,
                                                uint32_t stage)
{
    static const struct weft_memory_cost none = {.limit = {0}};
    const struct weft_memory_cost *m = memory == NULL ? &none : memory;
    struct weft_stage_memory d = {
        .f = weft_values_get(m->f, stage, 1),
        .i = weft_values_get(m->i, stage, 0),
    };
    d.w = weft_values_get(m->w, stage, -(d.f + d.i));
    return d;
}

/* Times are added up along paths; beyond this they stop being exact long before they overflow. */
#define MAX_TIME 1e100

static enum weft_status check_values(struct weft_values v, const char *what, double min_value,
                                     size_t n, const char *of, struct weft_error *err)
{
    if (v.n > 1 && v.n != n)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s has %zu values for %zu %s%s: give one, or one each", what, v.n, n,
                         of, wf_plural(n));
    for (size_t i = 0; i < v.n; i++)
        if (!isfinite(v.at[i]) || v.at[i] < min_value || fabs(v.at[i]) > MAX_TIME)
            return WEFT_FAIL(err, WEFT_USAGE, "%s: %g is out of range", what, v.at[i]);
    return WEFT_OK;
}

enum weft_status weft_cost_check(const struct weft_cost *cost,
                                 const struct weft_memory_cost *memory, uint32_t ranks,
                                 uint32_t stages, uint32_t micros, struct weft_error *err)
{
    static const struct weft_cost no_cost = {.hop = 0};
    static const struct weft_memory_cost no_memory = {.limit = {0}};
    const struct weft_cost *c = cost == NULL ? &no_cost : cost;
    const struct weft_memory_cost *m = memory == NULL ? &no_memory : memory;
    const struct {
        struct weft_values values;
        const char *what;
        double min_value;
    } lists[] = {{c->f, "cost F", 0},        {c->i, "cost I", 0},
                 {c->w, "cost W", 0},        {c->b, "cost B", 0},
                 {c->fb, "cost FB", 0},      {m->f, "mem F", -HUGE_VAL},
                 {m->i, "mem I", -HUGE_VAL}, {m->w, "mem W", -HUGE_VAL}};
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        WEFT_TRY(check_values(lists[i].values, lists[i].what, lists[i].min_value, stages,
                              "stage", err));
    WEFT_TRY(check_values(m->limit, "mem-limit", 0, ranks, "rank", err));
    WEFT_TRY(check_values((struct weft_values){&c->hop, 1}, "cost C", 0, 1, "hop", err));
    double all = 2.0 * c->hop * stages * micros;
    for (uint32_t s = 0; s < stages; s++) {
        struct weft_stage_cost t = weft_cost_stage(cost, s);
        all += (t.f + t.i + t.w + t.b) * micros;
    }
    if (!(all <= MAX_TIME))
        return WEFT_FAIL(err, WEFT_USAGE, "the costs add up to %g, too large to be timed", all);
    return WEFT_OK;
}
