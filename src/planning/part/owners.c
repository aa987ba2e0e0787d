/* The ranks of each stage. */
#include "planning/part/owners.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"

static enum weft_status check_placement(const struct weft_placement *p, uint32_t n_stages,
                                        struct weft_error *err)
{
    if (p->n_stages != n_stages)
        return WEFT_FAIL(err, WEFT_USAGE, "the placement has %u stages, the partition %u",
                         p->n_stages, n_stages);
    if (p->n_ranks == 0 || p->n_pipes == 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the placement has %u ranks and %u pipes; give at least 1", p->n_ranks,
                         p->n_pipes);
    size_t n = (size_t)p->n_pipes * n_stages;
    for (size_t k = 0; k < n; k++)
        if (p->rank_of[k] >= p->n_ranks)
            return WEFT_FAIL(err, WEFT_USAGE, "stage %zu is placed on rank %u of %u",
                             k % n_stages, p->rank_of[k], p->n_ranks);
    return WEFT_OK;
}

static enum weft_status check_limits(const struct weft_rank_limits *rank_limits,
                                     uint32_t n_ranks, struct weft_error *err)
{
    size_t n = rank_limits->n_limits;
    if (n > 1 && n != n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%zu memory limits for %u ranks; give 1, or one per rank", n, n_ranks);
    return WEFT_OK;
}

/* Adds an owner of the current stage.  If the rank already owns the stage, the in_flight of
 * that owner increases. */
static void add_owner(struct wf_owners *owners, size_t begin, size_t *end, struct wf_owner more)
{
    for (size_t k = begin; k < *end; k++)
        if (owners->at[k].rank == more.rank) {
            owners->at[k].in_flight += more.in_flight;
            return;
        }
    owners->at[(*end)++] = more;
}

static void fill(struct wf_owners *owners, const struct weft_rank_limits *rank_limits,
                 uint32_t n_pipes)
{
    const struct weft_placement *p = rank_limits->placement;
    size_t end = 0;
    for (uint32_t s = 0; s < owners->n_stages; s++) {
        owners->start[s] = end;
        for (uint32_t pipe = 0; pipe < n_pipes; pipe++) {
            size_t k = (size_t)pipe * owners->n_stages + s;
            struct wf_owner one = {
                .rank = p == NULL ? s : p->rank_of[k],
                .in_flight = rank_limits->in_flight == NULL ? 1 : rank_limits->in_flight[k],
            };
            add_owner(owners, owners->start[s], &end, one);
        }
    }
    owners->start[owners->n_stages] = end;
}

enum weft_status wf_owners_init(struct wf_owners *owners,
                                const struct weft_rank_limits *rank_limits, uint32_t n_stages,
                                struct weft_error *err)
{
    const struct weft_rank_limits plain = {0};
    if (rank_limits == NULL)
        rank_limits = &plain;
    const struct weft_placement *p = rank_limits->placement;
    if (p != NULL)
        WEFT_TRY(check_placement(p, n_stages, err));

    uint32_t n_pipes = p == NULL ? 1 : p->n_pipes;
    struct wf_owners result = {
        .n_stages = n_stages,
        .n_ranks = p == NULL ? n_stages : p->n_ranks,
        .start = calloc((size_t)n_stages + 1, sizeof *result.start),
        .at = calloc((size_t)n_stages * n_pipes, sizeof *result.at),
    };

    enum weft_status st = check_limits(rank_limits, result.n_ranks, err);
    if (st == WEFT_OK && (result.start == NULL || result.at == NULL))
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the owners of %u stages", n_stages);
    if (st != WEFT_OK) {
        wf_owners_release(&result);
        return st;
    }
    fill(&result, rank_limits, n_pipes);
    *owners = result;
    return WEFT_OK;
}

void wf_owners_release(struct wf_owners *owners)
{
    free(owners->start);
    free(owners->at);
    *owners = (struct wf_owners){0};
}

static bool owns_stage(const struct wf_owners *owners, uint32_t rank, uint32_t stage)
{
    for (size_t k = owners->start[stage]; k < owners->start[stage + 1]; k++)
        if (owners->at[k].rank == rank)
            return true;
    return false;
}

bool wf_owners_first_and_last(const struct wf_owners *owners, uint32_t rank)
{
    return owns_stage(owners, rank, 0) && owns_stage(owners, rank, owners->n_stages - 1);
}
