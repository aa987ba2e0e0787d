/* Computes costs from a measured trace: the mean time of each stage's passes. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "weft/sim.h"
#include "weft/trace.h"

enum { PAIR = WEFT_ACT_W + 1, N_COST_KINDS };

struct measured_times {
    uint32_t n_stages;
    double *time; /* owned: (N_COST_KINDS, stages), total time of the events */
    size_t *n;    /* owned: (N_COST_KINDS, stages), number of events */
};

static void add_event(struct measured_times *c, const struct weft_trace_event *e)
{
    unsigned kind = e->action.paired ? PAIR : e->action.kind;
    uint32_t stage =
        e->action.paired && e->action.kind != WEFT_ACT_F ? e->partner.stage : e->action.stage;
    if (e->lane != WEFT_LANE_COMPUTE || kind >= N_COST_KINDS)
        return;
    c->time[(size_t)kind * c->n_stages + stage] += e->length;
    c->n[(size_t)kind * c->n_stages + stage]++;
}

/* Returns the mean time of a kind on a stage.  If the stage has no such event, returns the
 * mean over all stages.  If no stage has such an event, returns -1. */
static double mean_of(const struct measured_times *c, unsigned kind, uint32_t stage)
{
    size_t at = (size_t)kind * c->n_stages;
    if (c->n[at + stage] > 0)
        return c->time[at + stage] / (double)c->n[at + stage];
    double sum = 0;
    size_t n = 0;
    for (uint32_t s = 0; s < c->n_stages; s++) {
        sum += c->time[at + s];
        n += c->n[at + s];
    }
    return n > 0 ? sum / (double)n : -1;
}

static void fill_costs(const struct measured_times *c, struct weft_measured_cost *out)
{
    for (uint32_t s = 0; s < c->n_stages; s++) {
        double b = mean_of(c, WEFT_ACT_B, s), i = mean_of(c, WEFT_ACT_I, s);
        double w = mean_of(c, WEFT_ACT_W, s), pair = mean_of(c, PAIR, s);
        out->f[s] = mean_of(c, WEFT_ACT_F, s);
        if (b < 0)
            b = i + w;
        if (i < 0) /* only whole backwards were measured: I and W take half each */
            i = w = b / 2;
        out->i[s] = i;
        out->w[s] = w;
        out->b[s] = b;
        out->fb[s] = pair >= 0 ? pair : out->f[s] + b;
    }
}

enum weft_status weft_measured_cost_init(struct weft_measured_cost *out,
                                         const struct weft_trace *trace, struct weft_error *err)
{
    struct measured_times c = {.n_stages = trace->n_stages};
    struct weft_measured_cost m = {.n_stages = trace->n_stages};
    c.time = calloc((size_t)N_COST_KINDS * c.n_stages, sizeof *c.time);
    c.n = calloc((size_t)N_COST_KINDS * c.n_stages, sizeof *c.n);
    m.f = malloc(sizeof *m.f * 5 * c.n_stages);
    enum weft_status st = WEFT_OK;

    if (c.time == NULL || c.n == NULL || m.f == NULL) {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the costs of %u stages", c.n_stages);
    } else {
        m.i = m.f + c.n_stages;
        m.w = m.i + c.n_stages;
        m.b = m.w + c.n_stages;
        m.fb = m.b + c.n_stages;
        for (size_t k = 0; k < trace->n_events; k++)
            add_event(&c, &trace->events[k]);

        bool forward = mean_of(&c, WEFT_ACT_F, 0) >= 0;
        bool back = mean_of(&c, WEFT_ACT_B, 0) >= 0 ||
                    (mean_of(&c, WEFT_ACT_I, 0) >= 0 && mean_of(&c, WEFT_ACT_W, 0) >= 0);
        if (!forward || !back)
            st = WEFT_FAIL(err, WEFT_DATA,
                           "cannot compute costs: the trace has no %s outside of pairs",
                           forward ? "backwards" : "forwards");
        else
            fill_costs(&c, &m);
    }

    free(c.time);
    free(c.n);
    if (st == WEFT_OK)
        *out = m;
    else
        free(m.f);
    return st;
}

void weft_measured_cost_release(struct weft_measured_cost *m)
{
    free(m->f);
    *m = (struct weft_measured_cost){0};
}
