/* Computes hop times on a cluster and checks simulation options. */
#include "planning/sim/hops.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "planning/sched/cost_check.h"

static struct wf_hop hop_over(const struct weft_sim_options *o, uint32_t from, uint32_t to,
                              double bytes)
{
    double unit = o->unit_seconds > 0 ? o->unit_seconds : 1e-3;
    struct weft_link link = weft_cluster_link(o->cluster, from, to);
    struct wf_hop hop = {.latency = link.latency_seconds / unit};
    if (link.bytes_per_second > 0)
        hop.transfer = bytes / link.bytes_per_second / unit;
    return hop;
}

enum weft_status wf_hops_init(struct wf_hops *h, const struct weft_placement *place,
                              const struct weft_sim_options *options, struct weft_error *err)
{
    size_t n = (size_t)place->n_pipes * (place->n_stages - 1);
    *h = (struct wf_hops){0};
    if (options->cluster == NULL)
        return WEFT_OK;
    h->forward = malloc(sizeof *h->forward * (n + 1));
    h->backward = malloc(sizeof *h->backward * (n + 1));
    if (h->forward == NULL || h->backward == NULL) {
        wf_hops_release(h);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu hops", n);
    }

    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++)
        for (uint32_t s = 0; s + 1 < place->n_stages; s++) {
            size_t at = (size_t)pipe * (place->n_stages - 1) + s;
            const uint32_t *rank_of = place->rank_of + (size_t)pipe * place->n_stages + s;
            h->forward[at] =
                hop_over(options, rank_of[0], rank_of[1], wf_boundary_bytes(options, s, false));
            h->backward[at] =
                hop_over(options, rank_of[1], rank_of[0], wf_boundary_bytes(options, s, true));
        }
    return WEFT_OK;
}

void wf_hops_release(struct wf_hops *h)
{
    free(h->forward);
    free(h->backward);
    *h = (struct wf_hops){0};
}

enum weft_status weft_sim_check(const struct weft_schedule *s,
                                const struct weft_sim_options *options, struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    const size_t hops = p->n_stages - 1;
    const struct wf_values_rule speed = {"speed", p->n_ranks, "rank", 0, 1e30};
    const struct wf_values_rule bytes = {"bytes", hops, "hop", 0, 1e30};
    const struct wf_values_rule gradient = {"gradient bytes", hops, "hop", 0, 1e30};
    WEFT_TRY(weft_cost_check(options->cost, options->memory, p->n_ranks, p->n_stages,
                             p->n_micros, err));
    WEFT_TRY(wf_values_check(options->speed, &speed, err));
    WEFT_TRY(wf_values_check(options->bytes, &bytes, err));
    WEFT_TRY(wf_values_check(options->gradient_bytes, &gradient, err));

    const struct weft_cluster *c = options->cluster;
    if (c != NULL && (uint64_t)c->nodes * c->ranks_per_node < p->n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "a cluster of %u node%s x %u rank%s is too small for %u ranks; use "
                         "more nodes or fewer ranks",
                         c->nodes, wf_plural(c->nodes), c->ranks_per_node,
                         wf_plural(c->ranks_per_node), p->n_ranks);
    if (!(options->unit_seconds >= 0 && options->unit_seconds < 1e12))
        return WEFT_FAIL(err, WEFT_USAGE, "a unit of %g seconds is out of range",
                         options->unit_seconds);
    if (options->contention != WEFT_CONTENTION_NONE && c == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "transfers occupy links, but no cluster is given");
    return WEFT_OK;
}
