/* Prints the results of weft tune as text. */
#include "cli/tune.h"

#include <math.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/plan.h"
#include "weft/timing.h"

/* Prints "makespan 1530, at most 2.1% above the optimum for this memory limit". */
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
    return wf_text_flush(&text, out, err);
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
