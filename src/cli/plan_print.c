/* Prints a plan as text, and other output that several commands share. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "cli/plan.h"
#include "weft/render.h"

enum weft_status wf_text_flush(struct wf_text *text, FILE *out, struct weft_error *err)
{
    bool failed = text->failed;
    if (!failed)
        fwrite(text->at, 1, text->len, out);
    wf_text_release(text);
    return failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to print") : WEFT_OK;
}

enum weft_status wf_schedule_print_csv(FILE *out, const struct weft_schedule *s,
                                       const char *format, struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    bool csv = strcmp(format, "csv") == 0;
    WEFT_TRY(weft_schedule_print(s, csv ? WEFT_TEXT_FORMAT_CSV : WEFT_TEXT_FORMAT_PYTORCH,
                                 &text, &len, err));
    fwrite(text, 1, len, out);
    free(text);
    return WEFT_OK;
}

enum weft_status wf_plan_draw(FILE *out, enum weft_draw_format format,
                              const struct weft_schedule *s, const struct weft_metrics *m,
                              const struct weft_memory_cost *memory, double unit_seconds,
                              uint32_t width, struct weft_error *err)
{
    struct weft_trace t;
    const struct weft_draw_options how = {.width = width};
    WEFT_TRY(weft_trace_init_plan(&t, s, m, memory, err));
    if (unit_seconds > 0)
        t.unit_seconds = unit_seconds;
    enum weft_status st = weft_render(out, format, &t, 1, &how, err);
    weft_trace_release(&t);
    return st;
}

enum { TITLE = 18 }; /* columns of the title before the figures */

/* Prints "title   4 3 2 1".  If the row is too wide, it is shortened to the first cells, "..."
 * and the last cell. */
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

static void print_cell(const struct wf_plan *p, enum row row, size_t i, char out[CELL])
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
        wf_bytes_print(out, (double)p->bytes.total[i], WF_BYTES_DECIMAL);
        return;
    case ROW_LAYERS:
        snprintf(out, CELL, "%s%u%s", stage->embedding ? "E+" : "",
                 stage->end_layer - stage->first_layer, stage->head ? "+L" : "");
        return;
    }
}

/* Prints one row of figures, one figure per rank or stage. */
static void put_figures(struct wf_text *out, const struct wf_plan *p, const char *title,
                        enum row row, unsigned width)
{
    size_t n = row == ROW_LAYERS ? p->partition.n_stages : p->metrics.n_ranks;
    char(*texts)[CELL] = malloc(sizeof *texts * n);
    const char **cells = malloc(sizeof *cells * n);
    if (texts != NULL && cells != NULL) {
        for (size_t i = 0; i < n; i++) {
            print_cell(p, row, i, texts[i]);
            cells[i] = texts[i];
        }
        put_row(out, title, cells, n, width);
    } else {
        out->failed = true;
    }
    free(texts);
    free(cells);
}

/* Returns true if stages of different sizes have the same cost, which is rarely intended. */
static bool has_unlikely_costs(const struct wf_plan *p)
{
    bool differ = false;
    const struct weft_stage_range *at = p->partition.at;
    for (uint32_t i = 1; i < p->partition.n_stages; i++)
        differ = differ ||
                 at[i].end_layer - at[i].first_layer != at[0].end_layer - at[0].first_layer;
    uint32_t layers = p->partition.n_stages ? at[p->partition.n_stages - 1].end_layer : 0;
    return !p->costs_by_stage && (differ || layers > p->partition.n_stages);
}

static void put_title(struct wf_text *out, const struct wf_plan *p, const char *file)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    const char *name = weft_schedule_name(p->schedule);
    wf_text_addf(out, "%s: %u rank%s, %u stage%s (%s), %u micro%s\n\n",
                 name[0] != '\0' ? name
                 : p->from_file  ? file
                                 : "schedule",
                 place->n_ranks, wf_plural(place->n_ranks), place->n_stages,
                 wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(p->schedule)),
                 place->n_micros, wf_plural(place->n_micros));
}

void wf_plan_print_text(struct wf_text *out, const struct wf_plan *p, const char *file,
                        struct weft_text_style style)
{
    const struct weft_metrics *m = &p->metrics;
    put_title(out, p, file);
    wf_draw_timeline(out, p->schedule, m, style);
    wf_text_addf(out, "\nmakespan          %.10g%s, bubble %.1f%%\n", m->makespan,
                 p->in_ticks ? " ticks" : "", 100 * m->bubble);
    wf_text_addf(out, "span              %.10g, bubble %.1f%%\n", m->span,
                 100 * m->bubble_span);
    wf_text_addf(out, "bubble ratio      %.4g, by the formula (P-1)/M\n", m->bubble_ratio);
    put_figures(out, p, "peak activations", ROW_ACTIVATIONS, style.width);
    put_figures(out, p, "peak memory", ROW_MEMORY, style.width);
    if (p->bytes.n_ranks > 0)
        put_figures(out, p, "bytes per rank", ROW_BYTES, style.width);
    put_figures(out, p, "layers", ROW_LAYERS, style.width);
    wf_text_addf(out, "actions           %zu, messages %zu over %zu channels\n", m->n_actions,
                 m->n_messages, p->proof.n_channels);
    wf_text_adds(
        out,
        "proven            every stage runs every micro once forward and once backward, no deadlock\n");
    if (has_unlikely_costs(p))
        wf_text_adds(out,
                     "note              all stages have the same cost; --layer-cost makes it "
                     "depend on their layers\n");
}
