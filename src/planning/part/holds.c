#include "planning/part/holds.h"

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
                         "the placement has %u ranks and %u pipes: give at least 1", p->n_ranks,
                         p->n_pipes);
    size_t n = (size_t)p->n_pipes * n_stages;
    for (size_t k = 0; k < n; k++)
        if (p->rank_of[k] >= p->n_ranks)
            return WEFT_FAIL(err, WEFT_USAGE, "stage %zu is placed on rank %u of %u",
                             k % n_stages, p->rank_of[k], p->n_ranks);
    return WEFT_OK;
}

static enum weft_status check_limits(const struct weft_holding *holding, uint32_t n_ranks,
                                     struct weft_error *err)
{
    size_t n = holding->n_limits;
    if (n > 1 && n != n_ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "%zu memory limits for %u ranks: give 1, or one a rank", n, n_ranks);
    return WEFT_OK;
}

/* Adds a hold of the stage that is being filled; a rank that has it already keeps more. */
static void add_hold(struct weft_holds *holds, size_t begin, size_t *end, struct weft_hold more)
{
    for (size_t k = begin; k < *end; k++)
        if (holds->at[k].rank == more.rank) {
            holds->at[k].in_flight += more.in_flight;
            return;
        }
    holds->at[(*end)++] = more;
}

static void fill(struct weft_holds *holds, const struct weft_holding *holding, uint32_t n_pipes)
{
    const struct weft_placement *p = holding->placement;
    size_t end = 0;
    for (uint32_t s = 0; s < holds->n_stages; s++) {
        holds->start[s] = end;
        for (uint32_t pipe = 0; pipe < n_pipes; pipe++) {
            size_t k = (size_t)pipe * holds->n_stages + s;
            struct weft_hold one = {
                .rank = p == NULL ? s : p->rank_of[k],
                .in_flight = holding->in_flight == NULL ? 1 : holding->in_flight[k],
            };
            add_hold(holds, holds->start[s], &end, one);
        }
    }
    holds->start[holds->n_stages] = end;
}

enum weft_status weft_holds_init(struct weft_holds *holds, const struct weft_holding *holding,
                                 uint32_t n_stages, struct weft_error *err)
{
    const struct weft_holding plain = {0};
    if (holding == NULL)
        holding = &plain;
    const struct weft_placement *p = holding->placement;
    if (p != NULL)
        WEFT_TRY(check_placement(p, n_stages, err));
    uint32_t n_pipes = p == NULL ? 1 : p->n_pipes;
    struct weft_holds made = {
        .n_stages = n_stages,
        .n_ranks = p == NULL ? n_stages : p->n_ranks,
        .start = calloc((size_t)n_stages + 1, sizeof *made.start),
        .at = calloc((size_t)n_stages * n_pipes, sizeof *made.at),
    };
    enum weft_status st = check_limits(holding, made.n_ranks, err);
    if (st == WEFT_OK && (made.start == NULL || made.at == NULL))
        st = WEFT_FAIL(err, WEFT_NOMEM, "the places of %u stages", n_stages);
    if (st != WEFT_OK) {
        weft_holds_release(&made);
        return st;
    }
    fill(&made, holding, n_pipes);
    *holds = made;
    return WEFT_OK;
}

void weft_holds_release(struct weft_holds *holds)
{
    free(holds->start);
    free(holds->at);
    *holds = (struct weft_holds){0};
}

static bool holds_stage(const struct weft_holds *holds, uint32_t rank, uint32_t stage)
{
    for (size_t k = holds->start[stage]; k < holds->start[stage + 1]; k++)
        if (holds->at[k].rank == rank)
            return true;
    return false;
}

bool weft_holds_both_ends(const struct weft_holds *holds, uint32_t rank)
{
    return holds_stage(holds, rank, 0) && holds_stage(holds, rank, holds->n_stages - 1);
}
