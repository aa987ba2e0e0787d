/* Computes hop times on a cluster and the costs of stages on their ranks, and checks simulation
 * options. */
#include "planning/sim/hops.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "config/values.h"
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

double wf_hop_time(const struct wf_hops *h, const struct weft_placement *place,
                   const struct weft_cost *cost, uint32_t pipe, uint32_t stage, bool backward)
{
    const struct wf_hop *list = backward ? h->backward : h->forward;
    if (list == NULL)
        return weft_cost_hop(cost, place->n_stages, pipe, stage, backward);
    const struct wf_hop *hop = &list[(size_t)pipe * (place->n_stages - 1) + stage];
    return hop->latency + hop->transfer;
}

/* -- costs of stages on their ranks --------------------------------------------------------- */

bool wf_cost_is_placeable(const struct weft_placement *place,
                          const struct weft_sim_options *options)
{
    return place->n_pipes == 1 || options->speed.n <= 1;
}

/* Stores one value per stage: the time of a pass on the stage's rank. */
static enum weft_status place_times(struct weft_values *out, struct weft_values times,
                                    double otherwise, const struct weft_placement *place,
                                    struct weft_values speed, struct weft_error *err)
{
    double *list = malloc(sizeof *list * place->n_stages);
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u costs", place->n_stages);
    for (uint32_t s = 0; s < place->n_stages; s++)
        list[s] =
            weft_values_get(times, s, otherwise) * weft_values_get(speed, place->rank_of[s], 1);
    *out = (struct weft_values){list, place->n_stages};
    return WEFT_OK;
}

/* Stores the delays of all messages of one direction. */
static enum weft_status place_hops(struct weft_values *out, const struct wf_hops *hops,
                                   const struct weft_placement *place,
                                   const struct weft_cost *cost, bool backward,
                                   struct weft_error *err)
{
    size_t n = 0, all = (size_t)place->n_pipes * (place->n_stages - 1);
    double *list = malloc(sizeof *list * (all + 1));
    if (list == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu hops", all);
    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++)
        for (uint32_t s = 0; s + 1 < place->n_stages; s++)
            list[n++] = wf_hop_time(hops, place, cost, pipe, s, backward);
    *out = (struct weft_values){list, n};
    return WEFT_OK;
}

static enum weft_status place_all(struct weft_cost *out, const struct wf_hops *hops,
                                  const struct weft_placement *place,
                                  const struct weft_sim_options *o, struct weft_error *err)
{
    static const struct weft_cost none;
    const struct weft_cost *cost = o->cost == NULL ? &none : o->cost;
    out->first_backward_in_w = cost->first_backward_in_w;
    WEFT_TRY(place_times(&out->f, cost->f, 1, place, o->speed, err));
    WEFT_TRY(place_times(&out->i, cost->i, 1, place, o->speed, err));
    WEFT_TRY(place_times(&out->w, cost->w, 1, place, o->speed, err));
    if (cost->b.n > 0)
        WEFT_TRY(place_times(&out->b, cost->b, 0, place, o->speed, err));
    if (cost->fb.n > 0)
        WEFT_TRY(place_times(&out->fb, cost->fb, 0, place, o->speed, err));
    WEFT_TRY(place_hops(&out->forward_hop, hops, place, cost, false, err));
    return place_hops(&out->backward_hop, hops, place, cost, true, err);
}

enum weft_status wf_cost_place(struct weft_cost *out, const struct weft_placement *place,
                               const struct weft_sim_options *options, struct weft_error *err)
{
    struct weft_cost placed = {0};
    struct wf_hops hops = {0};
    WEFT_TRY(wf_hops_init(&hops, place, options, err));
    enum weft_status st = place_all(&placed, &hops, place, options, err);
    wf_hops_release(&hops);
    if (st == WEFT_OK)
        *out = placed;
    else
        wf_cost_release(&placed);
    return st;
}

/* -- checks --------------------------------------------------------------------------------- */

enum weft_status wf_sim_options_check(const struct weft_placement *p,
                                      const struct weft_sim_options *options,
                                      struct weft_error *err)
{
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

enum weft_status weft_sim_check(const struct weft_schedule *s,
                                const struct weft_sim_options *options, struct weft_error *err)
{
    return wf_sim_options_check(weft_schedule_placement(s), options, err);
}
