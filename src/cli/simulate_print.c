/* Prints the result of weft simulate as text. */
#include <stdlib.h>

#include "base/error.h"
#include "cli/simulate.h"

static void print_idle(struct wf_text *out, const struct wf_simulation *s,
                       const struct wf_simulation_summary *sum)
{
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
    wf_text_addf(out, "critical path     %zu actions, computing %.10g, messages %.10g\n",
                 s->sim.n_path, s->sim.path_compute, s->sim.path_hops);
}

static void print_links(struct wf_text *out, const struct wf_simulation *s,
                        const struct wf_simulation_summary *sum)
{
    const struct weft_link_usage *l = sum->busiest;
    if (l == NULL || sum->bytes == 0)
        return;
    wf_text_addf(out, "bytes             %.6g in total; busiest link %u to %u: %.6g",
                 sum->bytes, l->from, l->to, l->forward_bytes + l->backward_bytes);
    if (s->sim.metrics.makespan > 0 && l->busy > 0)
        wf_text_addf(out, ", %.1f%% of the time", 100 * l->busy / s->sim.metrics.makespan);
    wf_text_addc(out, '\n');
}

static void print_samples(struct wf_text *out, const struct weft_samples *samples,
                          uint32_t slowest)
{
    wf_text_addf(out,
                 "samples           %zu: p5 %.6g, p50 %.6g, p95 %.6g; rank %u is the most "
                 "critical: 10%% slower adds %.3g\n",
                 samples->n, samples->p5, samples->p50, samples->p95, slowest,
                 (double)samples->slow_rank[slowest]);
}

/* -- residual blocks ------------------------------------------------------------------------ */

/* Prints numbers as ranges: "0-3 5". */
static void print_ranges(struct wf_text *out, struct weft_block_span blocks)
{
    for (size_t i = 0; i < blocks.len;) {
        size_t last = i;
        while (last + 1 < blocks.len && blocks.at[last + 1] == blocks.at[last] + 1)
            last++;
        wf_text_addf(out, " %u", blocks.at[i]);
        if (last > i)
            wf_text_addf(out, "-%u", blocks.at[last]);
        i = last + 1;
    }
}

static void print_pipe(struct wf_text *out, const struct weft_traffic *t, uint32_t pipe)
{
    enum { MAX_SHOWN = 32 };
    const struct weft_placement *p = weft_traffic_placement(t);
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    struct weft_traffic_count c = weft_traffic_count(t, pipe);
    if (p->n_pipes > 1)
        wf_text_addf(out, "pipe %u\n", pipe);
    for (uint32_t s = 0; s + 1 < p->n_stages && s < MAX_SHOWN; s++) {
        struct weft_block_span sends = weft_traffic_sends(t, pipe, s);
        wf_text_addf(out, "stage %u to %u, rank %u to %u: ", s, s + 1, rank_of[s],
                     rank_of[s + 1]);
        if (rank_of[s] == rank_of[s + 1])
            wf_text_adds(out, " passed on");
        else if (sends.len == 0)
            wf_text_adds(out, "  no block");
        else
            wf_text_addf(out, " block%s", sends.len > 1 ? "s" : "");
        print_ranges(out, sends);
        wf_text_addc(out, '\n');
    }
    if (p->n_stages > MAX_SHOWN + 1)
        wf_text_addf(out, "... and %u more\n", p->n_stages - 1 - MAX_SHOWN);
    wf_text_addf(out,
                 "per micro         %zu sends each way of %zu blocks read; %zu received "
                 "before, %zu made, %zu passed on\n",
                 c.sent, c.wanted, c.hits_received, c.hits_made, c.handed);
}

static void print_traffic(struct wf_text *out, const struct wf_traffic_report *r)
{
    enum { MAX_SHOWN = 16 };
    const struct weft_traffic *t = r->table;
    const struct weft_placement *p = weft_traffic_placement(t);
    const struct weft_traffic_step *step = &r->step;
    wf_text_addf(out, "residual blocks   %u, cache %s\n", weft_traffic_n_blocks(t),
                 weft_block_cache_name(weft_traffic_cache(t)));
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        print_pipe(out, t, pipe);
    wf_text_addf(out,
                 "step, forward     %zu bytes: %zu blocks and %zu activations of %zu bytes\n",
                 step->forward_bytes, step->blocks, step->activations, r->payload.bytes);
    wf_text_addf(out,
                 "step, backward    %zu bytes: %zu block gradients of %zu and %zu gradients "
                 "of %zu bytes\n",
                 step->backward_bytes, step->block_gradients, r->payload.gradient_bytes,
                 step->gradients, r->payload.bytes);
    for (size_t i = 0; i < step->n_links && i < MAX_SHOWN; i++)
        wf_text_addf(out, "rank %u to %-8u %zu bytes forward, %zu backward\n",
                     step->links[i].from, step->links[i].to, step->links[i].forward_bytes,
                     step->links[i].backward_bytes);
    if (step->n_links > MAX_SHOWN)
        wf_text_addf(out, "... and %zu more links\n", step->n_links - MAX_SHOWN);
    wf_text_adds(out, "peak cached bytes");
    for (uint32_t i = 0; i < p->n_ranks && i < MAX_SHOWN; i++)
        wf_text_addf(out, " %zu", r->peak_bytes[i]);
    wf_text_adds(out, p->n_ranks > MAX_SHOWN ? " ...\n" : "\n");
}

/* -- the whole output ------------------------------------------------------------------------ */

void wf_simulation_print_text(struct wf_text *out, const struct wf_simulation *s,
                              const struct wf_plan *plan, const char *file,
                              struct weft_text_style style)
{
    struct wf_plan timed = *plan; /* the plan with the times of the simulation */
    struct wf_simulation_summary sum = wf_simulation_summarize(s);
    timed.metrics = s->sim.metrics;
    wf_plan_print_text(out, &timed, file, style);
    print_idle(out, s, &sum);
    print_links(out, s, &sum);
    if (s->bounds.makespan > 0)
        wf_text_addf(
            out,
            "bound             %.10g: the makespan is at most %.1f%% above the optimum "
            "for this memory\n",
            s->bounds.makespan, 100 * weft_gap(s->sim.metrics.makespan, s->bounds.makespan));
    if (s->traffic != NULL)
        print_traffic(out, &s->traffic_report);
    if (s->samples.n > 0)
        print_samples(out, &s->samples, sum.slowest);
}

void wf_ref_traffic_print_text(struct wf_text *out, const struct weft_ref_traffic *c)
{
    enum { MAX_SHOWN = 16 };
    const struct weft_cache_stats *s = &c->cache;
    wf_text_addf(out, "requests          %zu forward, %zu backward\n",
                 c->forward_transfer_requests, c->backward_transfer_requests);
    wf_text_addf(out, "bytes             %zu requested, %zu sent, %zu saved\n",
                 s->raw_payload_bytes_requested, s->payload_bytes_transmitted, c->bytes_saved);
    wf_text_addf(out,
                 "cache             %zu hits (%zu backward), %zu misses, hit rate %.1f%%\n",
                 s->cache_hits, s->backward_reuse_hits, s->cache_misses,
                 100 * (double)c->cache_hit_rate);
    wf_text_addf(out, "entries dropped   %zu\n", s->invalidated_entries);
    wf_text_adds(out, "sent by rank     ");
    for (uint32_t r = 0; r < c->n_ranks && r < MAX_SHOWN; r++)
        wf_text_addf(out, " %zu", c->stage_transmitted_bytes[r]);
    wf_text_adds(out, c->n_ranks > MAX_SHOWN ? " ...\n" : "\n");
}
