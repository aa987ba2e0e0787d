/* Times and memory of a layout, from measured costs and the topology of the run. */
#include "training/layout/auto_cost.h"

#include <stdlib.h>

#include "base/error.h"
#include "planning/sim/reduction.h"

/* -- time of one layout -------------------------------------------------------------------- */

static void add_times(struct wf_auto_times *sum, const struct wf_auto_times *t, double n)
{
    sum->f += n * t->f;
    sum->i += n * t->i;
    sum->w += n * t->w;
    sum->b += n * t->b;
}

struct wf_auto_times wf_auto_stage_times(const struct weft_stage_range *r,
                                         const struct wf_auto_profile *profile)
{
    struct wf_auto_times sum = {0};
    add_times(&sum, &profile->layer, r->end_layer - r->first_layer);
    if (r->embedding)
        add_times(&sum, &profile->embedding, 1);
    if (r->head)
        add_times(&sum, &profile->head, 1);
    return sum;
}

/* Adds the time of recomputation, which precedes the input gradient.  It is the time of the
 * layer's forward, in proportion to the operations. */
static void add_recompute(const struct wf_topology *l, uint32_t stage,
                          const struct wf_auto_profile *profile, struct wf_auto_times *t)
{
    const struct weft_stage_range *r = &l->partition.at[stage];
    double share[WEFT_N_RECOMPUTE];
    for (int k = 0; k < WEFT_N_RECOMPUTE; k++)
        share[k] = weft_recompute_share(&l->model, (enum weft_recompute)k, l->seq);
    for (uint32_t i = r->first_layer; i < r->end_layer; i++) {
        double seconds = share[l->recompute[i]] * profile->layer.f;
        t->i += seconds;
        t->b += seconds;
    }
}

/* Returns the factor by which a rank slows down if there are more threads than cores. */
static double oversubscription(const struct wf_auto_machine *m,
                               const struct wf_auto_candidate *c)
{
    double threads = (double)c->pp * c->dp * c->threads;
    return threads > m->cores ? threads / m->cores : 1;
}

/* Computes the costs of the stages of a layout.  All lists of *out share one allocation, which
 * the caller frees as out->f.at. */
enum weft_status wf_auto_make_cost(const struct wf_auto_machine *m, const struct wf_topology *l,
                                   const struct wf_auto_profile *profile,
                                   const struct wf_auto_candidate *c, struct weft_cost *out,
                                   struct weft_error *err)
{
    uint32_t n = l->n_stages;
    double *at = calloc(4 * (size_t)n, sizeof *at), slower = oversubscription(m, c);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the times of %u stages", n);

    for (uint32_t s = 0; s < n; s++) {
        struct wf_auto_times t = wf_auto_stage_times(&l->partition.at[s], profile);
        add_recompute(l, s, profile, &t);
        at[s] = slower * t.f;
        at[n + s] = slower * t.i;
        at[2 * n + s] = slower * t.w;
        at[3 * n + s] = slower * t.b;
    }

    double bytes = (double)l->max_rows * l->seq * l->model.dim * sizeof(float);
    *out = (struct weft_cost){.f = {at, n},
                              .i = {at + n, n},
                              .w = {at + 2 * n, n},
                              .b = {at + 3 * n, n},
                              .hop = m->hop + bytes * m->link};
    return WEFT_OK;
}

/* Returns the seconds that a rank needs after its last micro: for every group, the rank sums
 * the gradients of its shard, updates the shard, and receives the shards of the other
 * members. */
static double rank_update(const struct wf_auto_machine *m, const struct wf_topology *l,
                          uint32_t rank, const struct wf_auto_profile *profile)
{
    const struct weft_link link = {.latency_seconds = m->hop,
                                   .bytes_per_second = m->link > 0 ? 1 / m->link : 0};
    const struct weft_training how = {.fast_sums = l->fast_sums};
    double sum_bytes = (double)weft_gradient_bytes(&how);
    double seconds = 0;

    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t h = wf_topology_member(g, rank);
        if (h == g->n_members)
            continue;
        double share = (double)(g->cuts[h + 1] - g->cuts[h]), rest = (double)g->n - share;
        double others = g->n_members - 1.0;
        seconds +=
            share * profile->update + rest * profile->pack + others * share * profile->sum;
        seconds += wf_reduction_seconds(g->n_members, share * sum_bytes,
                                        others > 0 ? rest * sizeof(float) / others : 0, link);
    }
    return seconds;
}

double wf_auto_time_update(const struct wf_auto_machine *m, const struct wf_topology *l,
                           const struct wf_auto_profile *profile,
                           const struct wf_auto_candidate *c)
{
    double max = 0;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        double seconds = rank_update(m, l, r, profile);
        max = seconds > max ? seconds : max;
    }
    return max * oversubscription(m, c);
}

/* -- memory of one layout ------------------------------------------------------------------ */

/* Counts the bytes of memory that the layout needs.  Neighbouring ranks are on the same
 * host. */
enum weft_status wf_auto_count_bytes(const struct wf_auto_machine *m,
                                     const struct wf_topology *l, struct wf_auto_candidate *c,
                                     bool *fits, struct weft_error *err)
{
    uint32_t a_host = m->ranks_per_host == 0 ? l->n_ranks : m->ranks_per_host;
    size_t host = 0;
    *fits = true;
    for (uint32_t r = 0; r < l->n_ranks; r++) {
        struct wf_rank_bytes b;
        WEFT_TRY(wf_topology_rank_bytes(l, r, m->copies, &b, err));
        c->rank_bytes = wf_size_max(c->rank_bytes, b.total);
        c->total_bytes += b.total;
        host = r % a_host == 0 ? b.total : host + b.total;
        *fits = *fits && (m->bytes == 0 || host <= m->bytes);
    }
    return WEFT_OK;
}
