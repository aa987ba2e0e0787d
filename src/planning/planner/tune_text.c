/* Writes the results of the search for orders and layouts as text. */
#include "planning/planner/tune_report.h"

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "planning/planner/plan_text.h"
#include "weft/timing.h"

/* Prints "makespan 1530 ms, at most 2.1% above the optimum for this memory limit". */
static void add_verdict(struct wf_text *t, const struct weft_tune_result *r,
                        const struct wf_plan *plan, bool span)
{
    struct wf_time_unit unit = plan->time;
    const char *where = plan->memory.limit.n > 0 ? " for this memory limit" : "";
    char time[2][WF_NUMBER_CHARS];
    wf_text_addf(t, "%s %s%s%s, ", span ? "span" : "makespan",
                 wf_plan_time(time[0], span ? r->span : r->makespan, unit),
                 unit.seconds > 0 ? "" : " ", unit.seconds > 0 ? "" : unit.name);
    if (r->proven)
        wf_text_addf(t, "the optimum%s (proven)\n", where);
    else
        wf_text_addf(t, "at most %.1f%% above the optimum%s\n",
                     fmax(0.1, ceil(1000 * r->gap) / 10), where);
    if (r->start[0] != '\0')
        wf_text_addf(t, "start             %s: makespan %s, span %s\n", r->start,
                     wf_plan_time(time[0], r->start_makespan, unit),
                     wf_plan_time(time[1], r->start_span, unit));
    else
        wf_text_adds(t, "start             no generator fits\n");
    wf_text_addf(t, "best              from %s: makespan %s, span %s\n", r->origin,
                 wf_plan_time(time[0], r->makespan, unit),
                 wf_plan_time(time[1], r->span, unit));
    wf_text_addf(t, "bound             %s (%s)\n",
                 wf_plan_time(time[0], span ? r->bounds.span : r->bounds.makespan, unit),
                 weft_bound_name(span ? r->bounds.span_by : r->bounds.makespan_by));
}

/* Prints the command and whether the search was stopped before `end`. */
static void add_end(struct wf_text *out, const struct wf_tune_about *about, const char *end)
{
    if (about->stopped)
        wf_text_addf(out, "the search was stopped before %s\n", end);
    if (about->command != NULL)
        wf_text_addf(out, "command           %s\n", about->command);
}

void wf_tune_write_text(struct wf_text *out, const struct weft_tune_result *r,
                        const struct wf_plan *plan, const struct wf_tune_about *about)
{
    enum { WIDTH = 100 };
    const struct weft_metrics *m = &plan->metrics;
    add_verdict(out, r, plan, about->minimize == WEFT_MINIMIZE_SPAN);
    wf_text_addf(out, "bubble            %.1f%% by makespan, %.1f%% by span\n", 100 * m->bubble,
                 100 * m->bubble_span);
    wf_plan_write_memory(out, plan, WIDTH);
    if (plan->from_model || plan->items.n > plan->partition.n_stages + 2)
        wf_plan_write_layers(out, &plan->partition, WIDTH);
    wf_text_addf(out, "evaluations       %llu in %.1f s\n", (unsigned long long)r->evaluations,
                 r->seconds);
    add_end(out, about, "its end");
}

static void add_layout(struct wf_text *out, const struct weft_layout *a, bool cluster)
{
    char bytes[WF_NUMBER_CHARS];
    bool both = a->replicas > 1 && a->ranks > 1;
    wf_text_addf(out, "%12.6g %5.1f%%  %-17s ", a->time,
                 100 * weft_gap(a->time - a->reduction, a->bound), a->schedule);
    if (cluster)
        wf_text_addf(out, "%5u x %-5u %-2s ", a->ranks, a->replicas,
                     !both                  ? ""
                     : a->replicas_adjacent ? "R"
                                            : "S");
    wf_text_addf(out, "%6u %6u %5u  %-9s %6.1f%% %8s\n", a->chunks, a->micros, a->rows,
                 a->balanced ? "balanced" : "even", 100 * a->bubble,
                 a->peak_bytes == 0
                     ? "-"
                     : wf_bytes_print(bytes, (double)a->peak_bytes, WF_BYTES_DECIMAL));
}

void wf_layouts_write_text(struct wf_text *out, const struct weft_layouts *l,
                           const struct wf_tune_about *about)
{
    bool cluster = l->at[0].cluster.nodes > 0, letters = false;
    char time[32];
    snprintf(time, sizeof time, "time (%s)", wf_plan_axis(about->time));
    wf_text_addf(out, "%12s %6s  %-17s %s%6s %6s %5s  %-9s %7s %8s\n", time, "gap", "schedule",
                 cluster ? "ranks x replicas " : "", "chunks", "micros", "rows", "partition",
                 "bubble", "memory");
    for (size_t i = 0; i < l->n; i++) {
        add_layout(out, &l->at[i], cluster);
        letters = letters || (l->at[i].replicas > 1 && l->at[i].ranks > 1);
    }
    wf_text_addf(out, "\n%zu timed, %zu cut off by bounds, %zu over the memory limit\n",
                 l->n_tried, l->n_pruned, l->n_over_limit);
    if (cluster && letters)
        wf_text_adds(out,
                     "S: stages on neighbouring ranks; R: replicas on neighbouring ranks\n");
    wf_plan_write_layers(out, &l->at[0].partition, 100);
    add_end(out, about, "all layouts were tried");
}
