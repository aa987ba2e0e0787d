/* Returns the costs of a stage, with default values, and checks costs. */
#include "weft/cost.h"

#include <math.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/sched/cost_check.h"

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
    if (c->first_backward_in_w && stage == 0) {
        t.i = 0;
        t.w = t.b;
    }
    return t;
}

double weft_cost_pair(const struct weft_cost *cost, uint32_t f_stage, uint32_t b_stage)
{
    double apart = weft_cost_stage(cost, f_stage).f + weft_cost_stage(cost, b_stage).b;
    return cost == NULL ? apart : weft_values_get(cost->fb, f_stage, apart);
}

double weft_cost_hop(const struct weft_cost *cost, uint32_t stages, uint32_t pipe,
                     uint32_t stage, bool backward)
{
    if (cost == NULL)
        return 0;
    struct weft_values v = backward ? cost->backward_hop : cost->forward_hop;
    /* a list with stages - 1 values applies to every pipe */
    size_t at = (size_t)pipe * (stages - 1) + stage;
    return v.n == 0 ? cost->hop : v.at[at % v.n];
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

/* The maximum accepted time.  Times are added along paths, and this limit keeps the sums far
 * below overflow. */
#define MAX_TIME 1e100

enum weft_status wf_values_check(struct weft_values v, const struct wf_values_rule *rule,
                                 struct weft_error *err)
{
    if (v.n > 1 && v.n != rule->n)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s has %zu values for %zu %s%s; give one value, or one per %s",
                         rule->what, v.n, rule->n, rule->of, wf_plural(rule->n), rule->of);
    for (size_t i = 0; i < v.n; i++)
        if (!(v.at[i] >= rule->min && v.at[i] <= rule->max))
            return WEFT_FAIL(err, WEFT_USAGE, "%s: %g is out of range", rule->what, v.at[i]);
    return WEFT_OK;
}

/* Checks a list of hops: one value, or as many as pairs of neighbouring stages, times any number
 * of pipes.  Stores the largest value in *longest. */
static enum weft_status check_hops(struct weft_values v, const char *what, uint32_t stages,
                                   double *longest, struct weft_error *err)
{
    const size_t hops = stages - 1;
    const struct wf_values_rule rule = {what, v.n, "hop", 0, MAX_TIME};
    if (v.n > 1 && hops > 0 && v.n % hops != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%s has %zu values for %zu hop%s; give one value, or one per hop",
                         what, v.n, hops, wf_plural(hops));
    WEFT_TRY(wf_values_check(v, &rule, err));
    for (size_t i = 0; i < v.n; i++)
        *longest = fmax(*longest, v.at[i]);
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
        struct wf_values_rule rule;
    } lists[] = {
        {c->f, {"cost F", stages, "stage", 0, MAX_TIME}},
        {c->i, {"cost I", stages, "stage", 0, MAX_TIME}},
        {c->w, {"cost W", stages, "stage", 0, MAX_TIME}},
        {c->b, {"cost B", stages, "stage", 0, MAX_TIME}},
        {c->fb, {"cost FB", stages, "stage", 0, MAX_TIME}},
        {m->f, {"mem F", stages, "stage", -MAX_TIME, MAX_TIME}},
        {m->i, {"mem I", stages, "stage", -MAX_TIME, MAX_TIME}},
        {m->w, {"mem W", stages, "stage", -MAX_TIME, MAX_TIME}},
        {m->limit, {"mem-limit", ranks, "rank", 0, MAX_TIME}},
        {{&c->hop, 1}, {"cost C", 1, "hop", 0, MAX_TIME}},
    };
    for (size_t i = 0; i < WEFT_LEN(lists); i++)
        WEFT_TRY(wf_values_check(lists[i].values, &lists[i].rule, err));

    double longest = c->hop;
    WEFT_TRY(check_hops(c->forward_hop, "forward hops", stages, &longest, err));
    WEFT_TRY(check_hops(c->backward_hop, "backward hops", stages, &longest, err));

    double sum = 2.0 * longest * stages * micros;
    for (uint32_t s = 0; s < stages; s++) {
        struct weft_stage_cost t = weft_cost_stage(cost, s);
        sum += (t.f + t.i + t.w + t.b) * micros;
    }
    if (!(sum <= MAX_TIME))
        return WEFT_FAIL(err, WEFT_USAGE, "the sum of all costs is out of range (%g)", sum);
    return WEFT_OK;
}
