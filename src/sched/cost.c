#include "weft/cost.h"

struct weft_stage_cost weft_cost_stage(const struct weft_cost *cost, uint32_t stage)
{
    static const struct weft_cost none = {.hop = 0};
    const struct weft_cost *c = cost == NULL ? &none : cost;
    struct weft_stage_cost t = {
        .f = weft_value(c->f, stage, 1),
        .i = weft_value(c->i, stage, 1),
        .w = weft_value(c->w, stage, 1),
    };
    t.b = weft_value(c->b, stage, t.i + t.w);
    return t;
}

double weft_cost_pair(const struct weft_cost *cost, uint32_t f_stage, uint32_t b_stage)
{
    double apart = weft_cost_stage(cost, f_stage).f + weft_cost_stage(cost, b_stage).b;
    return cost == NULL ? apart : weft_value(cost->fb, f_stage, apart);
}

struct weft_stage_memory weft_memory_stage(const struct weft_memory *memory, uint32_t stage)
{
    static const struct weft_memory none = {.limit = {0}};
    const struct weft_memory *m = memory == NULL ? &none : memory;
    struct weft_stage_memory d = {
        .f = weft_value(m->f, stage, 1),
        .i = weft_value(m->i, stage, 0),
    };
    d.w = weft_value(m->w, stage, -(d.f + d.i));
    return d;
}
