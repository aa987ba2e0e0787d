/* Writes a plan as JSON. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/planner/plan.h"

/* Writes the rank or chunk of a stage as a number, or as a list if several ranks run the
 * stage. */
static void put_owners(struct wf_json *j, const char *key, const struct weft_schedule *s,
                       uint32_t stage, bool chunk)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    if (p->n_pipes > 1)
        wf_json_begin(j, key, '[');
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        uint32_t rank = p->rank_of[(size_t)pipe * p->n_stages + stage];
        wf_json_uint(j, p->n_pipes > 1 ? NULL : key,
                     chunk ? weft_schedule_chunk(s, rank, stage) : rank);
    }
    if (p->n_pipes > 1)
        wf_json_end(j, ']');
}

static void put_partition(struct wf_json *j, const struct wf_plan *p)
{
    wf_json_begin(j, "partition", '[');
    for (uint32_t i = 0; i < p->partition.n_stages; i++) {
        const struct weft_stage_range *range = &p->partition.at[i];
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "stage", i);
        put_owners(j, "rank", p->schedule, i, false);
        put_owners(j, "chunk", p->schedule, i, true);
        wf_json_uint(j, "first_layer", range->first_layer);
        wf_json_uint(j, "end_layer", range->end_layer);
        wf_json_bool(j, "embedding", range->embedding);
        wf_json_bool(j, "head", range->head);
        if (range->n_mtp > 0)
            wf_json_uint(j, "mtp_layers", range->n_mtp);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

void wf_orders_write_json(struct wf_json *j, const char *key, const struct weft_schedule *s)
{
    wf_json_begin(j, key, '[');
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        char *row = NULL;
        if (weft_schedule_print_rank(s, r, " ", &row, NULL) == WEFT_OK)
            wf_json_string(j, NULL, row);
        else
            j->failed = true;
        free(row);
    }
    wf_json_end(j, ']');
}

static void put_events(struct wf_json *j, const struct wf_plan *p)
{
    struct weft_event *events = NULL;
    size_t n = 0;
    if (weft_event_list(p->schedule, &p->metrics, &events, &n, NULL) != WEFT_OK) {
        j->failed = true;
        return;
    }
    wf_json_begin(j, "events", '[');
    for (size_t i = 0; i < n; i++) {
        wf_json_begin(j, NULL, '[');
        wf_json_number(j, NULL, events[i].start);
        wf_json_uint(j, NULL, events[i].rank);
        wf_json_uint(j, NULL, events[i].stage);
        wf_json_uint(j, NULL, events[i].chunk);
        wf_json_uint(j, NULL, events[i].micro);
        wf_json_uint(j, NULL, events[i].kind);
        wf_json_end(j, ']');
    }
    wf_json_end(j, ']');
    free(events);

    wf_json_begin(j, "start", '[');
    for (uint32_t r = 0; r < p->metrics.n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->schedule, r);
        const double *start = p->metrics.start + weft_schedule_offset(p->schedule, r);
        wf_json_begin(j, NULL, '[');
        for (size_t i = 0; i < row.len; i += row.at[i].paired ? 2 : 1)
            wf_json_number(j, NULL, start[i]);
        wf_json_end(j, ']');
    }
    wf_json_end(j, ']');
}

static void put_numbers(struct wf_json *j, const char *key, const double *at, uint32_t n)
{
    wf_json_begin(j, key, '[');
    for (uint32_t i = 0; i < n; i++)
        wf_json_number(j, NULL, at[i]);
    wf_json_end(j, ']');
}

void wf_metrics_write_json(struct wf_json *j, const struct weft_metrics *m,
                           const struct wf_planned_bytes *bytes)
{
    wf_json_begin(j, "metrics", '{');
    wf_json_uint(j, "actions", m->n_actions);
    wf_json_uint(j, "messages", m->n_messages);
    wf_json_number(j, "makespan", m->makespan);
    wf_json_number(j, "span", m->span);
    put_numbers(j, "busy", m->busy, m->n_ranks);
    put_numbers(j, "idle", m->idle, m->n_ranks);
    wf_json_number(j, "bubble", m->bubble);
    wf_json_number(j, "bubble_span", m->bubble_span);
    wf_json_number(j, "bubble_ratio", m->bubble_ratio);
    wf_json_number(j, "efficiency", m->efficiency);
    wf_json_begin(j, "peak_activations", '[');
    for (uint32_t r = 0; r < m->n_ranks; r++)
        wf_json_uint(j, NULL, m->peak_activations[r]);
    wf_json_end(j, ']');
    put_numbers(j, "peak_mem", m->peak_mem, m->n_ranks);
    if (bytes->n_ranks > 0) {
        wf_json_begin(j, "rank_bytes", '[');
        for (uint32_t r = 0; r < m->n_ranks; r++)
            wf_json_uint(j, NULL, bytes->total[r]);
        wf_json_end(j, ']');
    }
    wf_json_end(j, '}');
}

void wf_units_write_json(struct wf_json *j, struct wf_time_unit time, const char *memory_unit)
{
    wf_json_string(j, "time_unit", time.name);
    wf_json_string(j, "memory_unit", memory_unit);
}

void wf_plan_write_json(struct wf_json *j, const struct wf_plan *p, bool events)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "schedule", weft_schedule_name(p->schedule));
    wf_json_uint(j, "ranks", place->n_ranks);
    wf_json_uint(j, "chunks", weft_schedule_n_chunks(p->schedule));
    wf_json_uint(j, "stages", place->n_stages);
    wf_json_uint(j, "micros", place->n_micros);
    wf_json_bool(j, "forward_only", weft_schedule_is_forward_only(p->schedule));
    wf_units_write_json(j, p->time, p->memory_unit);
    wf_json_begin(j, "placement", '[');
    for (uint32_t s = 0; s < place->n_stages; s++)
        put_owners(j, NULL, p->schedule, s, false);
    wf_json_end(j, ']');

    put_partition(j, p);
    wf_orders_write_json(j, "orders", p->schedule);
    if (p->lowered != NULL)
        wf_orders_write_json(j, "lowered", p->lowered);
    if (events)
        put_events(j, p);
    wf_metrics_write_json(j, &p->metrics, &p->bytes);
    wf_json_end(j, '}');
}
