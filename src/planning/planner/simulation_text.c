/* Writes a simulation as text. */
#include <stdio.h>

#include "planning/planner/plan_text.h"
#include "planning/planner/simulation.h"

static void print_idle(struct wf_text *out, const struct wf_simulation *s,
                       const struct wf_simulation_summary *sum, struct wf_time_unit unit)
{
    char compute[WF_NUMBER_CHARS], messages[WF_NUMBER_CHARS];
    const struct weft_metrics *m = &s->sim.metrics;
    double all = m->makespan * m->n_ranks / 100;
    if (all > 0)
        wf_text_addf(out,
                     "idle by cause     warm-up %.1f%%, drain %.1f%%, waiting for data %.1f%%, "
                     "for messages %.1f%%, imbalance %.1f%%\n",
                     sum->idle.warm_up / all, sum->idle.drain / all, sum->idle.data / all,
                     sum->idle.communication / all, sum->idle.imbalance / all);
    wf_text_addf(out, "peak pending      %zu micros between I and W, %zu received messages\n",
                 sum->peak_pending_w, sum->peak_receive);
    wf_text_addf(out, "critical path     %zu actions, computing %s, messages %s\n",
                 s->sim.n_path, wf_plan_time(compute, s->sim.path_compute, unit),
                 wf_plan_time(messages, s->sim.path_hops, unit));
}

static void print_links(struct wf_text *out, const struct wf_simulation *s,
                        const struct wf_simulation_summary *sum)
{
    char total[WF_NUMBER_CHARS], link[WF_NUMBER_CHARS];
    const struct weft_link_usage *l = sum->busiest;
    if (l == NULL || sum->bytes == 0)
        return;
    wf_bytes_print(total, sum->bytes, WF_BYTES_DECIMAL);
    wf_bytes_print(link, l->forward_bytes + l->backward_bytes, WF_BYTES_DECIMAL);
    wf_text_addf(out, "bytes             %s in total; busiest link %u to %u: %s", total,
                 l->from, l->to, link);
    if (s->sim.metrics.makespan > 0 && l->busy > 0)
        wf_text_addf(out, ", %.1f%% of the time", 100 * l->busy / s->sim.metrics.makespan);
    wf_text_addc(out, '\n');
}

static void print_samples(struct wf_text *out, const struct weft_samples *samples,
                          uint32_t slowest, struct wf_time_unit unit)
{
    const double figures[] = {samples->p5, samples->p50, samples->p95,
                              (double)samples->slow_rank[slowest]};
    char text[4][WF_NUMBER_CHARS];
    for (int i = 0; i < 4; i++) /* single precision has fewer than 10 digits */
        if (unit.seconds > 0)
            wf_plan_time(text[i], figures[i], unit);
        else
            snprintf(text[i], WF_NUMBER_CHARS, "%.*g", i < 3 ? 6 : 3, figures[i]);
    wf_text_addf(out,
                 "samples           %zu: p5 %s, p50 %s, p95 %s; rank %u is the most critical: "
                 "10%% slower adds %s\n",
                 samples->n, text[0], text[1], text[2], slowest, text[3]);
}

void wf_simulation_write_text(struct wf_text *out, const struct wf_simulation *s,
                              const struct wf_plan *plan)
{
    char bound[WF_NUMBER_CHARS];
    struct wf_simulation_summary sum = wf_simulation_summarize(s);
    print_idle(out, s, &sum, plan->time);
    print_links(out, s, &sum);
    if (s->bounds.makespan > 0)
        wf_text_addf(out,
                     "bound             %s: the makespan is at most %.1f%% above the optimum "
                     "for this memory\n",
                     wf_plan_time(bound, s->bounds.makespan, plan->time),
                     100 * weft_gap(s->sim.metrics.makespan, s->bounds.makespan));
    if (s->traffic != NULL)
        wf_traffic_write_text(out, &s->traffic_report);
    if (s->samples.n > 0)
        print_samples(out, &s->samples, sum.slowest, plan->time);
}
