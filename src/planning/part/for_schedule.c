/* Memory and balanced partitions for a given schedule. */
#include "planning/part/for_schedule.h"

#include <stdlib.h>

#include "base/error.h"
#include "weft/timing.h"

/* Returns an array (pipes, stages) of zeros, which the caller frees, or NULL if memory runs
 * out. */
static uint32_t *new_in_flight(const struct weft_schedule *s)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    return calloc((size_t)p->n_pipes * p->n_stages, sizeof(uint32_t));
}

void wf_planned_bytes_release(struct wf_planned_bytes *b)
{
    free(b->state);
    free(b->total);
    *b = (struct wf_planned_bytes){0};
}

enum weft_status wf_planned_bytes_init(struct wf_planned_bytes *out,
                                       const struct weft_schedule *s,
                                       const struct weft_partition *p,
                                       const struct weft_items *items, struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    uint32_t *in_flight = new_in_flight(s);
    struct wf_planned_bytes b = {.n_ranks = place->n_ranks,
                                 .state = malloc(sizeof *b.state * place->n_ranks),
                                 .total = malloc(sizeof *b.total * place->n_ranks)};
    const struct weft_rank_limits ranks = {.placement = place, .in_flight = in_flight};
    enum weft_status st = WEFT_OK;
    if (in_flight == NULL || b.state == NULL || b.total == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the bytes of %u ranks", place->n_ranks);

    if (st == WEFT_OK) /* with no micros in flight, only the state counts */
        st = weft_partition_rank_bytes(p, items, &ranks, b.state, err);
    if (st == WEFT_OK)
        st = weft_schedule_in_flight(s, in_flight, err);
    if (st == WEFT_OK)
        st = weft_partition_rank_bytes(p, items, &ranks, b.total, err);

    free(in_flight);
    if (st == WEFT_OK)
        *out = b;
    else
        wf_planned_bytes_release(&b);
    return st;
}

size_t wf_planned_bytes_max(const size_t *bytes, uint32_t n)
{
    size_t max = 0;
    for (uint32_t r = 0; r < n; r++)
        max = bytes[r] > max ? bytes[r] : max;
    return max;
}

enum weft_status wf_partition_init_limited(struct weft_partition *out,
                                           const struct weft_items *items,
                                           const struct weft_schedule *s,
                                           const size_t *limit_bytes, size_t n_limits,
                                           struct weft_error *err)
{
    const struct weft_placement *place = weft_schedule_placement(s);
    uint32_t *in_flight = new_in_flight(s);
    if (in_flight == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a partition of %u stages",
                         place->n_stages);
    const struct weft_rank_limits limits = {place, in_flight, limit_bytes, n_limits};
    enum weft_status st = weft_schedule_in_flight(s, in_flight, err);
    if (st == WEFT_OK)
        st = weft_partition_init_balanced(out, items, place->n_stages, &limits, NULL, err);
    free(in_flight);
    return st;
}
