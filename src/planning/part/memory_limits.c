/* Expresses the memory of stages by the changes at their actions and by limits of ranks. */
#include "planning/part/memory_limits.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "planning/part/planned_bytes.h"

/* Returns the number of messages that a stored micro-batch of a stage has: its output, and its
 * input if a rank receives it. */
static uint32_t n_messages(const struct weft_placement *place, uint32_t stage)
{
    bool receives = false;
    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++) {
        uint32_t rank = place->rank_of[(size_t)pipe * place->n_stages + stage];
        receives = receives || wf_rank_receives(place, rank, stage);
    }
    return (stage + 1 < place->n_stages) + receives;
}

/* Fills in the changes of memory.  Between I and W a micro-batch also has its recomputed
 * values. */
static enum weft_status set_changes(double *lists, const struct weft_items *items,
                                    const struct weft_partition *p,
                                    const struct weft_placement *place, struct weft_error *err)
{
    struct weft_stage_sums sums;
    size_t n = place->n_stages;
    double *f = lists, *i = f + n, *w = i + n;
    WEFT_TRY(weft_stage_sums_init(&sums, p, items, err));
    for (uint32_t s = 0; s < n; s++) {
        struct wf_stage_memory stage;
        wf_stage_memory_sum(&p->at[s], items, &stage); /* an overflow is found before */
        f[s] = (double)sums.act_bytes[s] + n_messages(place, s) * (double)items->boundary_bytes;
        i[s] = (double)stage.all_work;
        w[s] = -f[s] - i[s];
    }
    weft_stage_sums_release(&sums);
    return WEFT_OK;
}

/* Fills in what remains of the limits. */
static enum weft_status set_limits(double *out, const struct weft_items *items,
                                   const struct weft_partition *p,
                                   const struct weft_placement *place, uint32_t replicas,
                                   struct weft_values limits, struct weft_error *err)
{
    size_t ranks = place->n_ranks;
    if (limits.n != 1 && limits.n != ranks)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "memory limit: %zu values for %zu ranks (expected 1 or %zu)", limits.n,
                         ranks, ranks);
    size_t *fixed = malloc(sizeof *fixed * ranks);
    if (fixed == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu ranks", ranks);
    enum weft_status st = wf_planned_fixed_bytes(fixed, place, p, items, replicas, err);
    for (size_t r = 0; st == WEFT_OK && r < ranks; r++)
        out[r] = fmax(0, limits.at[limits.n == 1 ? 0 : r] - (double)fixed[r]);
    free(fixed);
    return st;
}

enum weft_status wf_memory_limits_init(struct wf_memory_limits *out,
                                       const struct weft_items *items,
                                       const struct weft_partition *p,
                                       const struct weft_placement *place, uint32_t replicas,
                                       struct weft_values limits, struct weft_error *err)
{
    size_t n = place->n_stages, ranks = place->n_ranks;
    double *lists = malloc(sizeof *lists * (3 * n + ranks));
    if (lists == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu stages", n);
    enum weft_status st = set_limits(lists + 3 * n, items, p, place, replicas, limits, err);
    if (st == WEFT_OK)
        st = set_changes(lists, items, p, place, err);
    if (st == WEFT_OK)
        *out = (struct wf_memory_limits){
            {{lists, n}, {lists + n, n}, {lists + 2 * n, n}, {lists + 3 * n, ranks}}, lists};
    else
        free(lists);
    return st;
}
