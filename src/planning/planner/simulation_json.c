/* Writes a simulation as JSON. */
#include "planning/planner/simulation.h"

static void put_bounds(struct wf_json *j, const struct wf_simulation *s)
{
    const struct weft_metrics *m = &s->sim.metrics;
    wf_json_begin(j, "bound", '{');
    wf_json_number(j, "makespan", s->bounds.makespan);
    wf_json_string(j, "by", weft_bound_name(s->bounds.makespan_by));
    wf_json_number(j, "gap", weft_gap(m->makespan, s->bounds.makespan));
    wf_json_number(j, "span", s->bounds.span);
    wf_json_number(j, "gap_span", weft_gap(m->span, s->bounds.span));
    wf_json_end(j, '}');
}

static void put_idle(struct wf_json *j, const struct wf_simulation *s)
{
    wf_json_begin(j, "idle", '[');
    for (uint32_t r = 0; r < s->sim.metrics.n_ranks; r++) {
        const struct weft_idle_time *idle = &s->sim.idle[r];
        wf_json_begin(j, NULL, '{');
        wf_json_number(j, "warm_up", idle->warm_up);
        wf_json_number(j, "drain", idle->drain);
        wf_json_number(j, "communication", idle->communication);
        wf_json_number(j, "imbalance", idle->imbalance);
        wf_json_number(j, "data", idle->data);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

/* Writes the bytes of a rank.  The parts of its state, its messages and its buffers are known for
 * models only. */
static void put_bytes(struct wf_json *j, const struct wf_planned_bytes *b, uint32_t rank,
                      bool from_model)
{
    const struct weft_state_bytes *parts = &b->parts[rank];
    wf_json_uint(j, "activation_bytes", b->activations[rank]);
    wf_json_uint(j, "state_bytes", b->state[rank]);
    if (!from_model)
        return;
    wf_json_uint(j, "weight_bytes", parts->weights);
    wf_json_uint(j, "packed_bytes", parts->packed);
    wf_json_uint(j, "gradient_bytes", parts->gradients);
    wf_json_uint(j, "optimizer_bytes", parts->moments);
    wf_json_uint(j, "message_bytes", b->messages[rank]);
    wf_json_uint(j, "scratch_bytes", b->scratch[rank]);
}

/* Writes the peak memory of every rank as counts, and also in bytes if the items have bytes. */
static void put_memory(struct wf_json *j, const struct wf_simulation *s,
                       const struct wf_plan *plan)
{
    const struct weft_metrics *m = &s->sim.metrics;
    wf_json_begin(j, "memory", '[');
    for (uint32_t r = 0; r < m->n_ranks; r++) {
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "activations", m->peak_activations[r]);
        wf_json_uint(j, "carry", s->sim.peak_pending_w[r]);
        wf_json_uint(j, "receive_buffers", s->sim.peak_receive[r]);
        if (plan->bytes.n_ranks > 0)
            put_bytes(j, &plan->bytes, r, plan->from_model);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_links(struct wf_json *j, const struct wf_simulation *s)
{
    wf_json_begin(j, "links", '[');
    for (size_t i = 0; i < s->sim.n_links; i++) {
        const struct weft_link_usage *l = &s->sim.links[i];
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "from", l->from);
        wf_json_uint(j, "to", l->to);
        wf_json_uint(j, "messages", l->messages);
        wf_json_number(j, "forward_bytes", l->forward_bytes);
        wf_json_number(j, "backward_bytes", l->backward_bytes);
        wf_json_number(j, "busy", l->busy);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_path(struct wf_json *j, const struct wf_simulation *s,
                     const struct wf_plan *plan)
{
    wf_json_begin(j, "critical_path", '{');
    wf_json_number(j, "compute", s->sim.path_compute);
    wf_json_number(j, "hops", s->sim.path_hops);
    wf_json_number(j, "wait", s->sim.path_wait);
    wf_json_begin(j, "actions", '[');
    for (size_t i = s->sim.n_path; i-- > 0;) {
        const struct weft_path_step *step = &s->sim.path[i];
        char cell[WEFT_ACTION_TEXT_MAX];
        weft_action_print(weft_schedule_rank(plan->schedule, step->rank).at[step->position],
                          cell);
        wf_json_string(j, NULL, cell);
    }
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

static void put_samples(struct wf_json *j, const struct wf_simulation *s)
{
    wf_json_begin(j, "samples", '{');
    wf_json_uint(j, "n", s->samples.n);
    wf_json_number(j, "mean", s->samples.mean);
    wf_json_number(j, "p5", s->samples.p5);
    wf_json_number(j, "p50", s->samples.p50);
    wf_json_number(j, "p95", s->samples.p95);
    wf_json_begin(j, "slow_rank", '[');
    for (uint32_t r = 0; r < s->sim.metrics.n_ranks; r++)
        wf_json_number(j, NULL, s->samples.slow_rank[r]);
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

void wf_simulation_write_json(struct wf_json *j, const struct wf_simulation *s,
                              const struct wf_plan *plan)
{
    const struct weft_placement *place = weft_schedule_placement(plan->schedule);
    wf_json_begin(j, NULL, '{');
    wf_json_string(j, "schedule", weft_schedule_name(plan->schedule));
    wf_json_uint(j, "ranks", place->n_ranks);
    wf_json_uint(j, "stages", place->n_stages);
    wf_json_uint(j, "micros", place->n_micros);
    wf_units_write_json(j, plan->time, plan->memory_unit);
    wf_metrics_write_json(j, &s->sim.metrics, &plan->bytes);
    put_idle(j, s);
    put_memory(j, s, plan);
    put_links(j, s);
    put_path(j, s, plan);
    if (s->bounds.makespan > 0)
        put_bounds(j, s);
    if (s->traffic != NULL)
        wf_traffic_write_json(j, "traffic", &s->traffic_report);
    if (s->samples.n > 0)
        put_samples(j, s);
    wf_json_end(j, '}');
}
