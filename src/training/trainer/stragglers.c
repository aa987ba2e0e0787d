/* Compares the computing time of ranks with their planned work. */
#include "training/trainer/stragglers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

enum { MIN_STEPS = 3 };
static const int64_t min_ns = 2000000000;

/* Returns the planned computation of one rank in a step. */
static double planned_work(const struct wf_topology *l, const struct weft_cost *cost,
                           uint32_t rank)
{
    double work = 0;
    struct weft_action_span row =
        weft_schedule_rank(wf_topology_schedule(l, rank / l->pp), rank % l->pp);
    for (size_t i = 0; i < row.len; i++) {
        struct weft_stage_cost c = weft_cost_stage(cost, row.at[i].stage);
        const double by_kind[] = {c.f, c.b, c.i, c.w};
        if (weft_act_is_compute(row.at[i].kind))
            work += by_kind[row.at[i].kind];
    }
    return work;
}

enum weft_status wf_stragglers_init(struct wf_stragglers *s, const struct wf_topology *topology,
                                    uint32_t n_ranks, double factor, struct weft_error *err)
{
    struct weft_cost cost = wf_topology_cost(topology);
    *s = (struct wf_stragglers){.factor = factor};
    s->planned_work = calloc(n_ranks, sizeof *s->planned_work);
    s->compute_ns = calloc(n_ranks, sizeof *s->compute_ns);
    if (s->planned_work == NULL || s->compute_ns == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare %u ranks", n_ranks);
    for (uint32_t r = 0; r < n_ranks; r++)
        s->planned_work[r] = planned_work(topology, &cost, r);
    return WEFT_OK;
}

void wf_stragglers_release(struct wf_stragglers *s)
{
    free(s->planned_work);
    free(s->compute_ns);
}

static void find_slowest(const struct wf_stragglers *s, uint32_t n_ranks,
                         struct wf_straggler *out)
{
    double fastest = INFINITY, slowest = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        double pace = s->compute_ns[r] / s->planned_work[r];
        fastest = pace < fastest ? pace : fastest;
        if (pace > slowest) {
            slowest = pace;
            out->rank = r;
        }
    }
    out->factor = slowest / fastest;
    if (out->factor < s->factor)
        out->rank = UINT32_MAX;
}

struct wf_straggler wf_stragglers_check(struct wf_stragglers *s,
                                        const struct wf_summaries *summaries)
{
    struct wf_straggler out = {.rank = UINT32_MAX};
    uint32_t n_ranks = summaries->n_ranks;
    int64_t now = wf_clock_ns();
    if (s->factor == 0 || n_ranks == 1)
        return out;

    if (s->steps == 0) /* the first step only starts the clock */
        s->begin_ns = now;
    else
        for (uint32_t r = 0; r < n_ranks; r++)
            s->compute_ns[r] += (double)summaries->all[r]->compute_ns;
    if (s->steps++ < MIN_STEPS || now - s->begin_ns < min_ns)
        return out;

    out.window_steps = s->steps - 1;
    find_slowest(s, n_ranks, &out);
    s->steps = 0;
    memset(s->compute_ns, 0, n_ranks * sizeof *s->compute_ns);
    return out;
}
