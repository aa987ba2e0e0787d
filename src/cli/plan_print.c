#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/plan.h"

/* -- JSON ----------------------------------------------------------------------------------- */

/* One number where a stage has one holder, a list where it has several. */
static void put_holders(struct weft_json *j, const char *key, const struct weft_schedule *s,
                        uint32_t stage, bool chunk)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    if (p->n_pipes > 1)
        weft_json_begin(j, key, '[');
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++) {
        uint32_t rank = p->rank_of[(size_t)pipe * p->n_stages + stage];
        weft_json_uint(j, p->n_pipes > 1 ? NULL : key,
                       chunk ? weft_schedule_chunk(s, rank, stage) : rank);
    }
    if (p->n_pipes > 1)
        weft_json_end(j, ']');
}

static void put_partition(struct weft_json *j, const struct weft_plan *p)
{
    weft_json_begin(j, "partition", '[');
    for (uint32_t i = 0; i < p->partition.n_stages; i++) {
        const struct weft_stage_range *range = &p->partition.at[i];
        weft_json_begin(j, NULL, '{');
        weft_json_uint(j, "stage", i);
        put_holders(j, "rank", p->schedule, i, false);
        put_holders(j, "chunk", p->schedule, i, true);
        weft_json_uint(j, "first_layer", range->first_layer);
        weft_json_uint(j, "end_layer", range->end_layer);
        weft_json_bool(j, "embedding", range->embedding);
        weft_json_bool(j, "head", range->head);
        weft_json_end(j, '}');
    }
    weft_json_end(j, ']');
}

static void put_orders(struct weft_json *j, const char *key, const struct weft_schedule *s)
{
    weft_json_begin(j, key, '[');
    for (uint32_t r = 0; r < weft_schedule_placement(s)->n_ranks; r++) {
        char *row = NULL;
        if (weft_schedule_print_rank(s, r, " ", &row, NULL) == WEFT_OK)
            weft_json_string(j, NULL, row);
        free(row);
    }
    weft_json_end(j, ']');
}

static void put_events(struct weft_json *j, const struct weft_plan *p)
{
    struct weft_event *events = NULL;
    size_t n = 0;
    if (weft_events(p->schedule, &p->metrics, &events, &n, NULL) != WEFT_OK)
        return;
    weft_json_begin(j, "events", '[');
    for (size_t i = 0; i < n; i++) {
        weft_json_begin(j, NULL, '[');
        weft_json_number(j, NULL, events[i].start);
        weft_json_uint(j, NULL, events[i].rank);
        weft_json_uint(j, NULL, events[i].stage);
        weft_json_uint(j, NULL, events[i].chunk);
        weft_json_uint(j, NULL, events[i].micro);
        weft_json_uint(j, NULL, events[i].kind);
        weft_json_end(j, ']');
    }
    weft_json_end(j, ']');
    free(events);
    weft_json_begin(j, "start", '[');
    for (uint32_t r = 0; r < p->metrics.n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->schedule, r);
        const double *start = p->metrics.start + weft_schedule_offset(p->schedule, r);
        weft_json_begin(j, NULL, '[');
        for (size_t i = 0; i < row.len; i += row.at[i].paired ? 2 : 1)
            weft_json_number(j, NULL, start[i]);
        weft_json_end(j, ']');
    }
    weft_json_end(j, ']');
}

static void put_numbers(struct weft_json *j, const char *key, const double *at, uint32_t n)
{
    weft_json_begin(j, key, '[');
    for (uint32_t i = 0; i < n; i++)
        weft_json_number(j, NULL, at[i]);
    weft_json_end(j, ']');
}

static void put_metrics(struct weft_json *j, const struct weft_metrics *m)
{
    weft_json_begin(j, "metrics", '{');
    weft_json_uint(j, "actions", m->n_actions);
    weft_json_uint(j, "messages", m->n_messages);
    weft_json_number(j, "makespan", m->makespan);
    weft_json_number(j, "span", m->span);
    put_numbers(j, "busy", m->busy, m->n_ranks);
    put_numbers(j, "idle", m->idle, m->n_ranks);
    weft_json_number(j, "bubble", m->bubble);
    weft_json_number(j, "bubble_span", m->bubble_span);
    weft_json_number(j, "bubble_ratio", m->bubble_ratio);
    weft_json_begin(j, "peak_activations", '[');
    for (uint32_t r = 0; r < m->n_ranks; r++)
        weft_json_uint(j, NULL, m->peak_activations[r]);
    weft_json_end(j, ']');
    put_numbers(j, "peak_mem", m->peak_mem, m->n_ranks);
    weft_json_end(j, '}');
}

void weft_plan_print_json(FILE *out, const struct weft_plan *p, bool events)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    struct weft_json j = {.out = out};
    weft_json_begin(&j, NULL, '{');
    weft_json_string(&j, "schedule", weft_schedule_name(p->schedule));
    weft_json_uint(&j, "ranks", place->n_ranks);
    weft_json_uint(&j, "chunks", weft_schedule_n_chunks(p->schedule));
    weft_json_uint(&j, "stages", place->n_stages);
    weft_json_uint(&j, "micros", place->n_micros);
    weft_json_begin(&j, "placement", '[');
    for (uint32_t s = 0; s < place->n_stages; s++)
        put_holders(&j, NULL, p->schedule, s, false);
    weft_json_end(&j, ']');
    put_partition(&j, p);
    put_orders(&j, "orders", p->schedule);
    if (p->lowered != NULL)
        put_orders(&j, "lowered", p->lowered);
    if (events)
        put_events(&j, p);
    put_metrics(&j, &p->metrics);
    weft_json_end(&j, '}');
    fputc('\n', out);
}

/* -- text ----------------------------------------------------------------------------------- */

static void put_ranks(struct weft_text *out, const struct weft_metrics *m)
{
    enum { MOST = 16 };
    weft_text_adds(out, "peak activations ");
    for (uint32_t r = 0; r < m->n_ranks && r < MOST; r++)
        weft_text_addf(out, " %zu", m->peak_activations[r]);
    weft_text_adds(out, m->n_ranks > MOST ? " ...\npeak memory      " : "\npeak memory      ");
    for (uint32_t r = 0; r < m->n_ranks && r < MOST; r++)
        weft_text_addf(out, " %g", m->peak_mem[r]);
    weft_text_adds(out, m->n_ranks > MOST ? " ...\n" : "\n");
}

static void put_stages(struct weft_text *out, const struct weft_plan *p, unsigned width)
{
    struct weft_text line = {0};
    weft_text_adds(&line, "layers           ");
    for (uint32_t i = 0; i < p->partition.n_stages; i++) {
        const struct weft_stage_range *r = &p->partition.at[i];
        if (line.len + 14 > width) {
            weft_text_adds(&line, " ...");
            break;
        }
        weft_text_addf(&line, " %s%u%s", r->embedding ? "E+" : "",
                       r->end_layer - r->first_layer, r->head ? "+L" : "");
    }
    if (line.at != NULL && !line.failed)
        weft_text_addf(out, "%s\n", line.at);
    weft_text_release(&line);
}

void weft_plan_print_text(struct weft_text *out, const struct weft_plan *p,
                          struct weft_text_style style)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    const struct weft_metrics *m = &p->metrics;
    weft_text_addf(
        out, "%s: %u ranks, %u stages (%s), %u micros\n\n",
        weft_schedule_name(p->schedule)[0] ? weft_schedule_name(p->schedule) : "schedule",
        place->n_ranks, place->n_stages,
        weft_placement_name(weft_schedule_placement_kind(p->schedule)), place->n_micros);
    weft_draw_timeline(out, p->schedule, m, style);
    weft_text_addf(out, "\nmakespan          %.10g%s, bubble %.1f%%\n", m->makespan,
                   p->by_ticks ? " ticks" : "", 100 * m->bubble);
    weft_text_addf(out, "span              %.10g, bubble %.1f%%   (P-1)/M %.1f%%\n", m->span,
                   100 * m->bubble_span, 100 * m->bubble_ratio);
    put_ranks(out, m);
    put_stages(out, p, style.width);
    weft_text_addf(out, "actions           %zu, messages %zu over %zu channels\n", m->n_actions,
                   m->n_messages, p->report.n_channels);
    weft_text_adds(out, "proven            every stage and micro once each way, no deadlock\n");
}
