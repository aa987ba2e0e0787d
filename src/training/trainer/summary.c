/* Computes the sizes of step summaries, exchanges the summaries, and evaluates them. */
#include "training/trainer/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "compute/kern/ops.h"

/* -- sizes --------------------------------------------------------------------------------- */

static size_t count_segments(struct wf_range shard)
{
    return (shard.end - shard.begin + WF_NORM_SEGMENT - 1) / WF_NORM_SEGMENT;
}

static size_t n_segments(const struct wf_topology *l, uint32_t rank)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t member = wf_topology_member(g, rank);
        for (size_t k = 0; member < g->n_members && k < g->n_tensors; k++)
            n += count_segments(wf_topology_shard(g, member, k));
    }
    return n;
}

static size_t n_losses(const struct wf_topology *l, uint32_t rank)
{
    struct wf_range micros = wf_topology_micros(l, rank / l->pp);
    return micros.end - micros.begin;
}

static size_t bytes_without_norm(const struct wf_topology *l, uint32_t rank)
{
    return sizeof(struct wf_step_summary) + n_losses(l, rank) * sizeof(double);
}

static size_t bytes_with_norm(const struct wf_topology *l, uint32_t rank)
{
    return bytes_without_norm(l, rank) + n_segments(l, rank) * sizeof(double);
}

static double *losses_of(struct wf_step_summary *summary)
{
    return (double *)(summary + 1);
}

/* -- memory -------------------------------------------------------------------------------- */

static bool alloc_root(struct wf_summaries *s)
{
    const struct wf_topology *l = s->topology;
    s->all = calloc(s->n_ranks, sizeof *s->all);
    s->sizes = calloc(s->n_ranks, sizeof *s->sizes);
    s->sizes_with_norm = calloc(s->n_ranks, sizeof *s->sizes_with_norm);
    s->squares = calloc(l->first_segment[l->params.n] + 1, sizeof *s->squares);
    if (s->all == NULL || s->sizes == NULL || s->sizes_with_norm == NULL || s->squares == NULL)
        return false;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        s->sizes[r] = bytes_without_norm(l, r);
        s->sizes_with_norm[r] = bytes_with_norm(l, r);
        s->all[r] = calloc(1, s->sizes_with_norm[r]);
        if (s->all[r] == NULL)
            return false;
    }
    return true;
}

enum weft_status wf_summaries_init(struct wf_summaries *s, const struct wf_topology *topology,
                                   struct weft_comm *comm, struct weft_error *err)
{
    *s = (struct wf_summaries){.topology = topology, .comm = comm, .n_ranks = 1};
    if (comm != NULL) {
        s->rank = weft_comm_rank(comm);
        s->n_ranks = weft_comm_size(comm);
    }
    s->own_bytes = bytes_with_norm(topology, s->rank);
    s->own = calloc(1, s->own_bytes);
    if (s->own == NULL || (s->rank == 0 && !alloc_root(s)))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the step summaries of %u ranks",
                         s->n_ranks);
    return WEFT_OK;
}

void wf_summaries_release(struct wf_summaries *s)
{
    for (uint32_t r = 0; s->all != NULL && r < s->n_ranks; r++)
        free(s->all[r]);
    free(s->all);
    free(s->sizes);
    free(s->sizes_with_norm);
    free(s->squares);
    free(s->own);
}

/* -- exchange ------------------------------------------------------------------------------ */

void wf_summaries_set(struct wf_summaries *s, const struct wf_step_summary *head,
                      const double *losses, const double *squares, size_t n_squares)
{
    size_t n = n_losses(s->topology, s->rank);
    *s->own = *head;
    memcpy(losses_of(s->own), losses, n * sizeof *losses);
    if (squares != NULL)
        memcpy(losses_of(s->own) + n, squares, n_squares * sizeof *squares);
}

enum weft_status wf_summaries_gather(struct wf_summaries *s, bool with_norm,
                                     struct weft_error *err)
{
    size_t bytes = with_norm ? s->own_bytes : bytes_without_norm(s->topology, s->rank);
    if (s->comm == NULL) {
        memcpy(s->all[0], s->own, bytes);
        return WEFT_OK;
    }
    return weft_comm_gather(s->comm, s->own, bytes, (void *const *)s->all,
                            with_norm ? s->sizes_with_norm : s->sizes, err);
}

/* -- evaluation on rank 0 ------------------------------------------------------------------ */

double wf_summaries_total_loss(const struct wf_summaries *s)
{
    const struct wf_topology *l = s->topology;
    double sum = 0;
    for (uint32_t d = 0; d < l->dp; d++) {
        const struct weft_placement *place =
            weft_schedule_placement(wf_topology_schedule(l, d));
        for (uint32_t m = 0; m < place->n_micros; m++) {
            uint32_t row = weft_placement_rank(place, l->n_stages - 1, m);
            sum += losses_of(s->all[d * l->pp + row])[m];
        }
    }
    return sum;
}

/* Copies the squared norms of one rank to their segments of the model. */
static void place_squares(struct wf_summaries *s, uint32_t rank)
{
    const struct wf_topology *l = s->topology;
    const double *next = losses_of(s->all[rank]) + n_losses(l, rank);
    for (size_t i = 0; i < l->n_groups; i++) {
        const struct wf_topology_group *g = &l->groups[i];
        uint32_t member = wf_topology_member(g, rank);
        for (size_t k = 0; member < g->n_members && k < g->n_tensors; k++) {
            struct wf_range shard = wf_topology_shard(g, member, k);
            size_t n = count_segments(shard);
            memcpy(s->squares + l->first_segment[g->tensors[k].param] +
                       shard.begin / WF_NORM_SEGMENT,
                   next, n * sizeof *next);
            next += n;
        }
    }
}

double wf_summaries_norm(struct wf_summaries *s)
{
    const struct wf_topology *l = s->topology;
    double sum = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++)
        place_squares(s, r);
    for (size_t i = 0; i < l->first_segment[l->params.n]; i++)
        sum += s->squares[i];
    return sqrt(sum);
}

const char *wf_summaries_find_nonfinite(const struct wf_summaries *s)
{
    const struct wf_topology *l = s->topology;
    for (size_t i = 0; i < l->params.n; i++)
        for (size_t k = l->first_segment[i]; k < l->first_segment[i + 1]; k++)
            if (!isfinite(s->squares[k]))
                return l->params.at[i].name;
    return "the model"; /* every segment is finite, but the sum of all segments is not */
}

const struct wf_step_summary *wf_summaries_first_failure(const struct wf_summaries *s)
{
    const struct wf_step_summary *first = NULL;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const struct wf_step_summary *h = s->all[r];
        if (h->status != WEFT_OK && (first == NULL || h->micro < first->micro ||
                                     (h->micro == first->micro && h->stage < first->stage)))
            first = h;
    }
    return first;
}

/* Clocks differ between hosts, so only durations that a single rank measured are used. */
double wf_summaries_bubble(const struct wf_summaries *s, int64_t *longest_ns)
{
    double compute = 0;
    *longest_ns = 0;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        int64_t ns = s->all[r]->end_ns - s->all[r]->begin_ns;
        *longest_ns = ns > *longest_ns ? ns : *longest_ns;
        compute += (double)s->all[r]->compute_ns;
    }
    double all = (double)*longest_ns * s->n_ranks;
    return all > 0 && compute < all ? 1 - compute / all : 0;
}
