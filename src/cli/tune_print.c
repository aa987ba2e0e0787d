#include "cli/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "weft/timing.h"

enum weft_status wf_tune_print_csv(FILE *out, const struct weft_schedule *s, const char *format,
                                   struct weft_error *err)
{
    char *text = NULL;
    size_t len = 0;
    WEFT_TRY(weft_schedule_print(
        s, strcmp(format, "csv") == 0 ? WEFT_TEXT_FORMAT_CSV : WEFT_TEXT_FORMAT_PYTORCH, &text,
        &len, err));
    fwrite(text, 1, len, out);
    free(text);
    return WEFT_OK;
}

static void put_orders(struct wf_json *j, const struct weft_schedule *s)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    wf_json_begin(j, "placement", '[');
    for (uint32_t i = 0; i < place->n_stages; i++)
        wf_json_uint(j, NULL, place->rank_of[i]);
    wf_json_end(j, ']');
    wf_json_begin(j, "orders", '[');
    for (uint32_t r = 0; r < place->n_ranks; r++) {
        char *row = NULL;
        if (weft_schedule_print_rank(s, r, " ", &row, NULL) == WEFT_OK)
            wf_json_string(j, NULL, row);
        free(row);
    }
    wf_json_end(j, ']');
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

void wf_tune_print_json(FILE *out, const struct wf_tune_settings *s,
                        const struct weft_tune_result *r)
{
    const struct weft_placement *place = weft_schedule_placement(r->schedule);
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_uint(&j, "ranks", place->n_ranks);
    wf_json_uint(&j, "chunks", weft_schedule_n_chunks(r->schedule));
    wf_json_uint(&j, "stages", place->n_stages);
    wf_json_uint(&j, "micros", place->n_micros);
    wf_json_string(&j, "metric", wf_tune_by_span(s) ? "span" : "makespan");
    wf_json_number(&j, "makespan", r->makespan);
    wf_json_number(&j, "span", r->span);
    wf_json_number(&j, "peak_mem", r->peak);
    wf_json_number(&j, "bound", wf_tune_by_span(s) ? r->bounds.span : r->bounds.makespan);
    wf_json_number(&j, "gap", r->gap);
    wf_json_bool(&j, "proven", r->proven);
    wf_json_string(&j, "origin", r->origin);
    wf_json_begin(&j, "start", '{');
    wf_json_string(&j, "schedule", r->start);
    wf_json_number(&j, "makespan", r->start_makespan);
    wf_json_number(&j, "span", r->start_span);
    wf_json_end(&j, '}');
    put_bounds(&j, &r->bounds);
    wf_json_uint(&j, "evaluations", r->evaluations);
    put_orders(&j, r->schedule);
    wf_json_end(&j, '}');
    fputc('\n', out);
}

/* "makespan 1530, at most 2.1% above the optimum for this memory limit" */
static void add_verdict(struct wf_text *t, const struct wf_tune_settings *s,
                        const struct weft_tune_result *r)
{
    const char *name = wf_tune_by_span(s) ? "span" : "makespan";
    const char *where = s->mem_limit != NULL ? " for this memory limit" : "";
    double bound = wf_tune_by_span(s) ? r->bounds.span : r->bounds.makespan;
    wf_text_addf(t, "%s %.10g, ", name, wf_tune_by_span(s) ? r->span : r->makespan);
    if (r->proven)
        wf_text_addf(t, "the optimum%s (proven)\n", where);
    else
        wf_text_addf(t, "at most %.1f%% above the optimum%s\n",
                     fmax(0.1, ceil(1000 * r->gap) / 10), where);
    if (r->start[0] != '\0')
        wf_text_addf(t, "start             %s: makespan %.10g, span %.10g\n", r->start,
                     r->start_makespan, r->start_span);
    else
        wf_text_adds(t, "start             no generator fits\n");
    wf_text_addf(t, "best              from %s: makespan %.10g, span %.10g\n", r->origin,
                 r->makespan, r->span);
    wf_text_addf(
        t, "bound             %.10g (%s)\n", bound,
        weft_bound_name(wf_tune_by_span(s) ? r->bounds.span_by : r->bounds.makespan_by));
}

enum weft_status wf_tune_print_text(FILE *out, const struct wf_tune_settings *s,
                                    const struct weft_tune_result *r,
                                    const struct weft_cost *cost,
                                    const struct weft_memory_cost *memory,
                                    struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(r->schedule);
    struct weft_metrics m;
    struct wf_text text = {0};
    WEFT_TRY(weft_metrics_init(&m, r->schedule, cost, memory, err));
    wf_text_addf(&text, "tuned: %u ranks, %u stages (%s), %u micros\n\n", place->n_ranks,
                 place->n_stages,
                 weft_placement_name(weft_schedule_placement_kind(r->schedule)),
                 place->n_micros);
    wf_draw_timeline(&text, r->schedule, &m, wf_style_for(out, s->color, s->width));
    wf_text_addc(&text, '\n');
    add_verdict(&text, s, r);
    wf_text_addf(&text, "bubble            %.1f%% by makespan, %.1f%% by span\n",
                 100 * m.bubble, 100 * m.bubble_span);
    wf_text_adds(&text, "peak memory      ");
    for (uint32_t i = 0; i < m.n_ranks && i < 16; i++)
        wf_text_addf(&text, " %g", m.peak_mem[i]);
    wf_text_adds(&text, m.n_ranks > 16 ? " ...\n" : "\n");
    wf_text_addf(&text, "evaluations       %llu in %.1f s\n",
                 (unsigned long long)r->evaluations, r->seconds);
    weft_metrics_release(&m);
    bool failed = text.failed;
    if (!failed)
        fwrite(text.at, 1, text.len, out);
    wf_text_release(&text);
    return failed ? WEFT_FAIL(err, WEFT_NOMEM, "no memory to draw") : WEFT_OK;
}

void wf_layouts_print_json(FILE *out, const struct weft_layouts *l)
{
    struct wf_json j = {.out = out};
    wf_json_begin(&j, NULL, '{');
    wf_json_uint(&j, "tried", l->n_tried);
    wf_json_uint(&j, "cut_off_by_bounds", l->n_pruned);
    wf_json_uint(&j, "over_the_limit", l->n_over_limit);
    wf_json_begin(&j, "layouts", '[');
    for (size_t i = 0; i < l->n; i++) {
        const struct weft_layout *a = &l->at[i];
        wf_json_begin(&j, NULL, '{');
        wf_json_string(&j, "schedule", a->schedule);
        wf_json_uint(&j, "ranks", a->ranks);
        wf_json_uint(&j, "replicas", a->replicas);
        wf_json_string(&j, "neighbours", a->replicas_adjacent ? "replicas" : "stages");
        wf_json_uint(&j, "chunks", a->chunks);
        wf_json_uint(&j, "micros", a->micros);
        wf_json_uint(&j, "rows", a->rows);
        wf_json_string(&j, "partition", a->balanced ? "balanced" : "even");
        wf_json_number(&j, "time", a->time);
        wf_json_number(&j, "makespan", a->makespan);
        wf_json_number(&j, "span", a->span);
        wf_json_number(&j, "reduction", a->reduction);
        wf_json_number(&j, "bubble", a->bubble);
        wf_json_number(&j, "bound", a->bound);
        wf_json_uint(&j, "peak_bytes", a->peak_bytes);
        wf_json_end(&j, '}');
    }
    wf_json_end(&j, ']');
    wf_json_end(&j, '}');
    fputc('\n', out);
}

void wf_layouts_print_text(FILE *out, const struct wf_tune_settings *s,
                           const struct weft_layouts *l)
{
    bool cluster = s->cluster != NULL, letters = false;
    fprintf(out, "%10s %6s  %-17s %s%6s %6s %5s  %-9s %7s %10s\n", "time", "gap", "schedule",
            cluster ? "ranks x replicas " : "", "chunks", "micros", "rows", "partition",
            "bubble", "bytes");
    for (size_t i = 0; i < l->n; i++) {
        const struct weft_layout *a = &l->at[i];
        fprintf(out, "%10.6g %5.1f%%  %-17s ", a->time,
                100 * weft_gap(a->time - a->reduction, a->bound), a->schedule);
        bool both = a->replicas > 1 && a->ranks > 1;
        letters = letters || both;
        if (cluster)
            fprintf(out, "%5u x %-5u %-2s ", a->ranks, a->replicas,
                    !both                  ? ""
                    : a->replicas_adjacent ? "R"
                                           : "S");
        fprintf(out, "%6u %6u %5u  %-9s %6.1f%% %10.4g\n", a->chunks, a->micros, a->rows,
                a->balanced ? "balanced" : "even", 100 * a->bubble, (double)a->peak_bytes);
    }
    fprintf(out, "\n%zu timed, %zu cut off by bounds, %zu over the memory limit\n", l->n_tried,
            l->n_pruned, l->n_over_limit);
    if (cluster && letters)
        fprintf(out, "S: stages on neighbouring ranks; R: replicas on neighbouring ranks\n");
}
