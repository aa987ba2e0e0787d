/* Writes the figures of a plan as text. */
#include "planning/planner/plan_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- figures -------------------------------------------------------------------------------- */

enum { TITLE = 18 }; /* columns of the title before the figures */

/* Writes "title   4 3 2 1" without a line break.  If the row is too wide, it is shortened to the first cells, "..."
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
}

enum row { ROW_ACTIVATIONS, ROW_MEMORY, ROW_BYTES, ROW_LAYERS };

enum { CELL = WF_NUMBER_CHARS };

static void print_cell(const struct wf_plan *p, enum row row, size_t i, char out[CELL])
{
    const struct weft_stage_range *stage = &p->partition.at[row == ROW_LAYERS ? i : 0];
    char mtp[14];
    switch (row) {
    case ROW_ACTIVATIONS:
        snprintf(out, CELL, "%zu", p->metrics.peak_activations[i]);
        return;
    case ROW_MEMORY:
        if (p->memory_is_bytes)
            wf_bytes_print(out, p->metrics.peak_mem[i], WF_BYTES_DECIMAL);
        else
            snprintf(out, CELL, "%g", p->metrics.peak_mem[i]);
        return;
    case ROW_BYTES:
        wf_bytes_print(out, (double)p->bytes.total[i], WF_BYTES_DECIMAL);
        return;
    case ROW_LAYERS:
        snprintf(mtp, sizeof mtp, stage->n_mtp == 1 ? "+m" : "+%um", stage->n_mtp);
        snprintf(out, CELL, "%s%u%s%s", stage->embedding ? "E+" : "",
                 stage->end_layer - stage->first_layer, stage->n_mtp > 0 ? mtp : "",
                 stage->head ? "+L" : "");
        return;
    }
}

/* Writes one line of figures, one figure per rank or stage.  Bytes contain their unit. */
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
        if (row == ROW_MEMORY && !p->memory_is_bytes)
            wf_text_addf(out, " %s", p->memory_unit);
        wf_text_addc(out, '\n');
    } else {
        out->failed = true;
    }
    free(texts);
    free(cells);
}

void wf_plan_write_memory(struct wf_text *out, const struct wf_plan *p, unsigned width)
{
    put_figures(out, p, "peak memory", ROW_MEMORY, width);
}

void wf_plan_write_layers(struct wf_text *out, const struct weft_partition *p, unsigned width)
{
    put_figures(out, &(struct wf_plan){.partition = *p}, "layers", ROW_LAYERS, width);
}

/* -- times ---------------------------------------------------------------------------------- */

const char *wf_plan_time(char out[WF_NUMBER_CHARS], double time, struct wf_time_unit unit)
{
    if (unit.seconds > 0)
        return wf_time_print(out, time * unit.seconds);
    snprintf(out, WF_NUMBER_CHARS, "%.10g", time);
    return out;
}

const char *wf_plan_axis(struct wf_time_unit unit)
{
    if (strcmp(unit.name, "operations") == 0)
        return "ops";
    return unit.seconds == 0 && strcmp(unit.name, "ticks") != 0 ? "units" : unit.name;
}

static void put_times(struct wf_text *out, const struct weft_metrics *m,
                      struct wf_time_unit unit)
{
    char time[WF_NUMBER_CHARS];
    bool real = unit.seconds > 0;
    wf_text_addf(out, "makespan          %s%s%s, bubble %.1f%%\n",
                 wf_plan_time(time, m->makespan, unit), real ? "" : " ", real ? "" : unit.name,
                 100 * m->bubble);
    wf_text_addf(out, "span              %s, bubble %.1f%%\n",
                 wf_plan_time(time, m->span, unit), 100 * m->bubble_span);
}

/* -- the whole plan ------------------------------------------------------------------------- */

void wf_plan_write_title(struct wf_text *out, const struct wf_plan *p, const char *file)
{
    const struct weft_placement *place = weft_schedule_placement(p->schedule);
    const char *name = weft_schedule_name(p->schedule);
    wf_text_addf(out, "%s: %u rank%s, %u stage%s (%s), %u micro%s%s\n\n",
                 name[0] != '\0' ? name
                 : p->from_file  ? file
                                 : "schedule",
                 place->n_ranks, wf_plural(place->n_ranks), place->n_stages,
                 wf_plural(place->n_stages),
                 weft_placement_name(weft_schedule_placement_kind(p->schedule)),
                 place->n_micros, wf_plural(place->n_micros),
                 weft_schedule_is_forward_only(p->schedule) ? ", forward-only" : "");
}

void wf_plan_write_figures(struct wf_text *out, const struct wf_plan *p, unsigned width)
{
    const struct weft_metrics *m = &p->metrics;
    put_times(out, m, p->time);
    wf_text_addf(out, "bubble of GPipe   %.4g of the ideal time, (P-1)/M, for comparison\n",
                 m->bubble_ratio);
    put_figures(out, p, "peak activations", ROW_ACTIVATIONS, width);
    wf_plan_write_memory(out, p, width);
    if (p->bytes.n_ranks > 0)
        put_figures(out, p, "bytes per rank", ROW_BYTES, width);
    wf_plan_write_layers(out, &p->partition, width);
    wf_text_addf(out, "actions           %zu, messages %zu over %zu channels\n", m->n_actions,
                 m->n_messages, p->proof.n_channels);
    wf_text_addf(out,
                 "proven            every stage runs every micro once forward%s, no deadlock\n",
                 weft_schedule_is_forward_only(p->schedule) ? "" : " and once backward");
}
