/* The list of the best layouts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/values.h"
#include "planning/tune/layout_priv.h"

static void layout_release(struct weft_layout *l)
{
    struct weft_cost none = {0};
    weft_schedule_free(l->result);
    weft_partition_release(&l->partition);
    wf_costs_release(&none, &l->memory);
    *l = (struct weft_layout){0};
}

void weft_layouts_release(struct weft_layouts *l)
{
    for (size_t i = 0; i < l->n; i++)
        layout_release(&l->at[i]);
    free(l->at);
    *l = (struct weft_layouts){0};
}

bool wf_layout_is_pruned(const struct wf_layout_search *c, double time)
{
    return c->kept->n == c->max_layouts && time >= c->kept->at[c->max_layouts - 1].time;
}

static bool has_same_partition(const struct weft_partition *a, const struct weft_partition *b)
{
    bool same = a->n_stages == b->n_stages;
    for (uint32_t i = 0; same && i < a->n_stages; i++)
        same = a->at[i].first_layer == b->at[i].first_layer &&
               a->at[i].end_layer == b->at[i].end_layer;
    return same;
}

/* Returns true if both schedules have the same stages, pipes and orders. */
static bool has_same_order(const struct weft_schedule *a, const struct weft_schedule *b)
{
    const struct weft_placement *p = weft_schedule_placement(a);
    const struct weft_placement *q = weft_schedule_placement(b);
    if (p->n_ranks != q->n_ranks || p->n_stages != q->n_stages || p->n_micros != q->n_micros ||
        p->n_pipes != q->n_pipes)
        return false;
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        struct weft_action_span x = weft_schedule_rank(a, r), y = weft_schedule_rank(b, r);
        if (x.len != y.len)
            return false;
        for (size_t i = 0; i < x.len; i++)
            if (x.at[i].kind != y.at[i].kind || x.at[i].stage != y.at[i].stage ||
                x.at[i].micro != y.at[i].micro || x.at[i].paired != y.at[i].paired)
                return false;
    }
    return true;
}

/* Returns true if the same schedule on a single rank has the same time and memory with another
 * number of chunks: nothing is sent, so the number has no effect. */
static bool differs_in_chunks_only(const struct weft_layout *a, const struct weft_layout *b)
{
    return a->ranks == 1 && fabs(a->time - b->time) <= 1e-12 * a->time &&
           a->peak_bytes == b->peak_bytes && strcmp(a->schedule, b->schedule) == 0;
}

/* Returns true if two layouts are the same arrangement of the same work.  Generators with one
 * chunk may give the same schedule, and an even partition may be the balanced one. */
static bool is_same(const struct weft_layout *a, const struct weft_layout *b)
{
    if (a->ranks != b->ranks || a->replicas != b->replicas ||
        a->replicas_adjacent != b->replicas_adjacent || a->micros != b->micros ||
        a->rows != b->rows)
        return false;
    return differs_in_chunks_only(a, b) ||
           (a->time == b->time && has_same_partition(&a->partition, &b->partition) &&
            has_same_order(a->result, b->result));
}

enum weft_status wf_partition_copy(struct weft_partition *to, const struct weft_partition *from,
                                   struct weft_error *err)
{
    struct weft_stage_range *at = malloc(sizeof *at * (from->n_stages + (size_t)1));
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition");
    memcpy(at, from->at, sizeof *at * from->n_stages);
    *to = (struct weft_partition){from->n_stages, at};
    return WEFT_OK;
}

/* Copies the parts that a layout owns. */
static enum weft_status fill(struct weft_layout *l, const struct weft_partition *part,
                             const struct weft_memory_cost *memory, struct weft_error *err)
{
    l->partition = (struct weft_partition){0};
    l->memory = (struct weft_memory_cost){0};
    WEFT_TRY(wf_partition_copy(&l->partition, part, err));
    if (memory == NULL)
        return WEFT_OK;
    WEFT_TRY(wf_values_copy(&l->memory.f, memory->f, err));
    WEFT_TRY(wf_values_copy(&l->memory.i, memory->i, err));
    WEFT_TRY(wf_values_copy(&l->memory.w, memory->w, err));
    return wf_values_copy(&l->memory.limit, memory->limit, err);
}

enum weft_status wf_layout_keep(struct wf_layout_search *c, struct weft_layout *l,
                                const struct weft_partition *part,
                                const struct weft_memory_cost *memory, struct weft_error *err)
{
    struct weft_layouts *k = c->kept;
    enum weft_status st = fill(l, part, memory, err);
    bool unwanted = st != WEFT_OK || wf_layout_is_pruned(c, l->time);
    for (size_t i = 0; !unwanted && i < k->n; i++)
        unwanted = is_same(&k->at[i], l);
    if (unwanted) {
        layout_release(l);
        return st;
    }

    size_t at = k->n;
    if (k->n == c->max_layouts)
        layout_release(&k->at[--at]);
    else
        k->n++;
    for (; at > 0 && k->at[at - 1].time > l->time; at--)
        k->at[at] = k->at[at - 1];
    k->at[at] = *l;
    return WEFT_OK;
}
