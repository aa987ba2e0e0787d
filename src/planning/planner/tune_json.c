/* Writes the results of the search for orders and layouts as JSON. */
#include "planning/planner/tune_report.h"

static void put_orders(struct wf_json *j, const struct weft_schedule *s)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    wf_json_begin(j, "placement", '[');
    for (uint32_t i = 0; i < place->n_stages; i++)
        wf_json_uint(j, NULL, place->rank_of[i]);
    wf_json_end(j, ']');
    wf_orders_write_json(j, "orders", s);
}

static void put_bounds(struct wf_json *j, const struct weft_bounds *b)
{
    wf_json_begin(j, "bounds", '{');
    for (int span = 0; span < 2; span++) {
        wf_json_begin(j, span ? "span" : "makespan", '{');
        wf_json_number(j, "best", span ? b->span : b->makespan);
        for (int i = 0; i < WEFT_N_BOUNDS; i++)
            wf_json_number(j, weft_bound_name((enum weft_bound_kind)i),
                           span ? b->each_span[i] : b->each_makespan[i]);
        wf_json_end(j, '}');
    }
    wf_json_end(j, '}');
}

/* Writes the units, the command, and whether an interrupt or the time limit ended the search. */
static void put_about(struct wf_json *j, const struct wf_tune_about *about)
{
    wf_units_write_json(j, about->time, about->memory_unit);
    wf_json_bool(j, "stopped", about->stopped);
    if (about->command != NULL)
        wf_json_string(j, "command", about->command);
}

void wf_tune_write_json(struct wf_json *j, const struct weft_tune_result *r,
                        const struct wf_tune_about *about)
{
    const struct weft_placement *place = weft_schedule_placement(r->schedule);
    bool span = about->minimize == WEFT_MINIMIZE_SPAN;
    wf_json_begin(j, NULL, '{');
    wf_json_uint(j, "ranks", place->n_ranks);
    wf_json_uint(j, "chunks", weft_schedule_n_chunks(r->schedule));
    wf_json_uint(j, "stages", place->n_stages);
    wf_json_uint(j, "micros", place->n_micros);
    wf_json_string(j, "metric", span ? "span" : "makespan");
    put_about(j, about);
    wf_json_number(j, "makespan", r->makespan);
    wf_json_number(j, "span", r->span);
    wf_json_number(j, "peak_mem", r->peak);
    wf_json_number(j, "bound", span ? r->bounds.span : r->bounds.makespan);
    wf_json_number(j, "gap", r->gap);
    wf_json_bool(j, "proven", r->proven);
    wf_json_string(j, "origin", r->origin);
    wf_json_begin(j, "start", '{');
    wf_json_string(j, "schedule", r->start);
    wf_json_number(j, "makespan", r->start_makespan);
    wf_json_number(j, "span", r->start_span);
    wf_json_end(j, '}');
    put_bounds(j, &r->bounds);
    wf_json_uint(j, "evaluations", r->evaluations);
    put_orders(j, r->schedule);
    wf_json_end(j, '}');
}

/* Writes the number of layers of each stage. */
static void put_layers(struct wf_json *j, const struct weft_partition *p)
{
    wf_json_begin(j, "layers_per_stage", '[');
    for (uint32_t i = 0; i < p->n_stages; i++)
        wf_json_uint(j, NULL, p->at[i].end_layer - p->at[i].first_layer);
    wf_json_end(j, ']');
}

void wf_layouts_write_json(struct wf_json *j, const struct weft_layouts *l,
                           const struct wf_tune_about *about)
{
    wf_json_begin(j, NULL, '{');
    put_about(j, about);
    wf_json_uint(j, "tried", l->n_tried);
    wf_json_uint(j, "cut_off_by_bounds", l->n_pruned);
    wf_json_uint(j, "over_the_limit", l->n_over_limit);
    wf_json_begin(j, "layouts", '[');
    for (size_t i = 0; i < l->n; i++) {
        const struct weft_layout *a = &l->at[i];
        wf_json_begin(j, NULL, '{');
        wf_json_string(j, "schedule", a->schedule);
        wf_json_uint(j, "ranks", a->ranks);
        wf_json_uint(j, "replicas", a->replicas);
        wf_json_string(j, "neighbours", a->replicas_adjacent ? "replicas" : "stages");
        wf_json_uint(j, "chunks", a->chunks);
        wf_json_uint(j, "micros", a->micros);
        wf_json_uint(j, "rows", a->rows);
        wf_json_string(j, "partition", a->balanced ? "balanced" : "even");
        put_layers(j, &a->partition);
        wf_json_number(j, "time", a->time);
        wf_json_number(j, "makespan", a->makespan);
        wf_json_number(j, "span", a->span);
        wf_json_number(j, "reduction", a->reduction);
        wf_json_number(j, "bubble", a->bubble);
        wf_json_number(j, "bound", a->bound);
        wf_json_uint(j, "peak_bytes", a->peak_bytes);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}
