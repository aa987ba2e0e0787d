#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/plan.h"

/* -- JSON ----------------------------------------------------------------------------------- */

/* One number where a stage has one holder, a list where it has several. */
static void put_holders(struct wf_json *j, const char *key, const struct weft_schedule *s,
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
        put_holders(j, "rank", p->schedule, i, false);
        put_holders(j, "chunk", p->schedule, i, true);
        wf_json_uint(j, "first_layer", range->first_layer);
        wf_json_uint(j, "end_layer", range->end_layer);
        wf_json_bool(j, "embedding", range->embedding);
        wf_json_bool(j, "head", range->head);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_orders(struct wf_json *j, const char *key, const struct weft_schedule *s)
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

void wf_plan_put_metrics(struct wf_json *j, const struct weft_metrics *m,
                         const size_t *rank_bytes)
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
    wf_json_begin(j, "peak_activations", '[');
    for (uint32_t r = 0; r < m->n_ranks; r++)
        wf_json_uint(j, NULL, m->peak_activations[r]);
    wf_json_end(j, ']');
    put_numbers(j, "peak_mem", m->peak_mem, m->n_ranks);
    if (rank_bytes != NULL) {
        wf_json_begin(j, "rank_bytes", '[');
        for (uint32_t r = 0; r < m->n_ranks; r++)
            wf_json_uint(j, NULL, rank_bytes[r]);
        wf_json_end(j, ']');
    }
    wf_json_end(j, '}');
}

enum weft_status wf_plan_print_json(FILE *out, const struct wf_plan *p, bool events,
                                    struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_string(&j, "schedule", weft_schedule_name(p->schedule));
    wf_json_uint(&j, "ranks", place->n_ranks);
    wf_json_uint(&j, "chunks", weft_schedule_n_chunks(p->schedule));
    wf_json_uint(&j, "stages", place->n_stages);
    wf_json_uint(&j, "micros", place->n_micros);
    wf_json_begin(&j, "placement", '[');
    for (uint32_t s = 0; s < place->n_stages; s++)
        put_holders(&j, NULL, p->schedule, s, false);
    wf_json_end(&j, ']');
    put_partition(&j, p);
    put_orders(&j, "orders", p->schedule);
    if (p->lowered != NULL)
        put_orders(&j, "lowered", p->lowered);
    if (events)
        put_events(&j, p);
    wf_plan_put_metrics(&j, &p->metrics, p->rank_bytes);
    wf_json_end(&j, '}');
    fputc('\n', out);
    return j.failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to print all of the plan")
                    : WEFT_OK;
}

/* -- text ----------------------------------------------------------------------------------- */

enum { TITLE = 18 }; /* columns before the figures */

/* "title   4 3 2 1", cut to the width: then the last one and the most are told. */
static void put_row(struct wf_text *out, const char *title, const char *const *cells, size_t n,
                    unsigned width)
{
    size_t column = TITLE;
    wf_text_addf(out, "%-*s", TITLE - 1, title);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(cells[i]) + 1;
        if (column + len + 24 > width && i + 2 < n) {
            wf_text_addf(out, " ... %s", cells[n - 1]);
            break;
        }
        wf_text_addf(out, " %s", cells[i]);
        column += len;
    }
    wf_text_addc(out, '\n');
}

enum row { ROW_ACTIVATIONS, ROW_MEMORY, ROW_BYTES, ROW_LAYERS };

enum { CELL = WF_NUMBER_CHARS };

static void say_cell(const struct wf_plan *p, enum row row, size_t i, char out[CELL])
{
    const struct weft_stage_range *stage = &p->partition.at[row == ROW_LAYERS ? i : 0];
    switch (row) {
    case ROW_ACTIVATIONS:
        snprintf(out, CELL, "%zu", p->metrics.peak_activations[i]);
        return;
    case ROW_MEMORY:
        snprintf(out, CELL, "%g", p->metrics.peak_mem[i]);
        return;
    case ROW_BYTES:
        wf_bytes_print(out, (double)p->rank_bytes[i], WF_BYTES_DECIMAL);
        return;
    case ROW_LAYERS:
        snprintf(out, CELL, "%s%u%s", stage->embedding ? "E+" : "",
                 stage->end_layer - stage->first_layer, stage->head ? "+L" : "");
        return;
    }
}

/* One row of figures, one a rank or a stage. */
static void put_figures(struct wf_text *out, const struct wf_plan *p, const char *title,
                        enum row row, unsigned width)
{
    size_t n = row == ROW_LAYERS ? p->partition.n_stages : p->metrics.n_ranks;
    char(*texts)[CELL] = malloc(sizeof *texts * n);
    const char **cells = malloc(sizeof *cells * n);
    if (texts != NULL && cells != NULL) {
        for (size_t i = 0; i < n; i++) {
            say_cell(p, row, i, texts[i]);
            cells[i] = texts[i];
        }
        put_row(out, title, cells, n, width);
    } else {
        out->failed = true;
    }
    free(texts);
    free(cells);
}

/* Stages of different sizes that cost the same are seldom what was meant. */
static bool costs_surprise(const struct wf_plan *p)
{
    bool differ = false;
    const struct weft_stage_range *at = p->partition.at;
    for (uint32_t i = 1; i < p->partition.n_stages; i++)
        differ = differ ||
                 at[i].end_layer - at[i].first_layer != at[0].end_layer - at[0].first_layer;
    uint32_t layers = p->partition.n_stages ? at[p->partition.n_stages - 1].end_layer : 0;
    return !p->costs_by_layer && (differ || layers > p->partition.n_stages);
}

static void put_title(struct wf_text *out, const struct wf_plan *p)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    const char *name = weft_schedule_name(p->schedule);
    wf_text_addf(out, "%s: %u rank%s, %u stage%s (%s), %u micro%s\n\n",
                 name[0] != '\0'   ? name
                 : p->file != NULL ? p->file
                                   : "schedule",
                 place->n_ranks, wf_plural(place->n_ranks), place->n_stages,
                 wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(p->schedule)),
                 place->n_micros, wf_plural(place->n_micros));
}

void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p,
                        struct wf_text_style style)
{
    const struct weft_metrics *m = &p->metrics;
    put_title(out, p);
    wf_draw_timeline(out, p->schedule, m, style);
    wf_text_addf(out, "\nmakespan          %.10g%s, bubble %.1f%%\n", m->makespan,
                 p->by_ticks ? " ticks" : "", 100 * m->bubble);
    wf_text_addf(out, "span              %.10g, bubble %.1f%%\n", m->span,
                 100 * m->bubble_span);
    wf_text_addf(out, "bubble ratio      %.4g, the textbook's (P-1)/M\n", m->bubble_ratio);
    put_figures(out, p, "peak activations", ROW_ACTIVATIONS, style.width);
    put_figures(out, p, "peak memory", ROW_MEMORY, style.width);
    if (p->rank_bytes != NULL)
        put_figures(out, p, "bytes on a rank", ROW_BYTES, style.width);
    put_figures(out, p, "layers", ROW_LAYERS, style.width);
    wf_text_addf(out, "actions           %zu, messages %zu over %zu channels\n", m->n_actions,
                 m->n_messages, p->report.n_channels);
    wf_text_adds(out, "proven            every stage and micro once each way, no deadlock\n");
    if (costs_surprise(p))
        wf_text_adds(out, "note              every stage costs the same here: --layer-cost "
                          "makes a stage cost what its layers do\n");
}
