/* BitPipe: two V pipelines through the same ranks in opposite directions.
 *
 * On rank r, the V of the down pipe has stages r and 2P-1-r.  The V of the up pipe is the
 * mirror image, with stages P-1-r and P+r.  A rank's "own" direction is the pipe whose first
 * stage is nearer to the rank.  A unit is P micros, P/2 per direction.  Let h = P/2, and let n
 * be the number of ranks from this rank to the middle.  The forwards of a unit on a rank are
 *
 *     n x own first half;  h-n x (other first, own first);  n x (other first, other second);
 *     h-n x (own second, other second);  n x own second
 *
 * The backwards of the unit have the same order with first and second half exchanged.  The
 * warm-up has 3P/2 + min(r, P-1-r) forwards, then forwards and backwards alternate.
 * Consecutive units overlap: the last n backwards of a unit alternate with the first n forwards
 * of the next unit.
 */
#include <stdlib.h>

#include "planning/sched/gen/gen.h"

struct step {
    uint32_t stage, micro;
};

struct bitpipe {
    uint32_t ranks, micros;
    struct step *forward, *backward; /* borrowed: (2P), the steps of one unit on one rank */
};

/* The state of one of the two directions on one rank. */
struct direction {
    /* stages of this direction in the first and second half of the model */
    uint32_t first, second;
    uint32_t n_first, n_second; /* number of steps listed so far per stage */
    uint32_t micro;             /* the direction's first micro */
};

static struct step next_first_half(struct direction *w)
{
    return (struct step){w->first, w->micro + w->n_first++};
}

static struct step next_second_half(struct direction *w)
{
    return (struct step){w->second, w->micro + w->n_second++};
}

/* Lists the forwards of the first unit. */
static void list_unit(struct step *list, uint32_t h, uint32_t n, struct direction own,
                      struct direction other)
{
    for (uint32_t i = 0; i < n; i++)
        *list++ = next_first_half(&own);
    for (uint32_t i = 0; i < h - n; i++) {
        *list++ = next_first_half(&other);
        *list++ = next_first_half(&own);
    }
    for (uint32_t i = 0; i < n; i++) {
        *list++ = next_first_half(&other);
        *list++ = next_second_half(&other);
    }
    for (uint32_t i = 0; i < h - n; i++) {
        *list++ = next_second_half(&own);
        *list++ = next_second_half(&other);
    }
    for (uint32_t i = 0; i < n; i++)
        *list++ = next_second_half(&own);
}

static struct direction reversed(struct direction w)
{
    return (struct direction){.first = w.second, .second = w.first, .micro = w.micro};
}

static void emit_rank(const struct bitpipe *p, struct wf_builder *b, uint32_t r)
{
    uint32_t ranks = p->ranks, h = ranks / 2, per_unit = 2 * ranks;
    uint32_t n = r < h ? h - r : r - h + 1;
    struct direction down = {.first = r, .second = 2 * ranks - 1 - r, .micro = 0};
    struct direction up = {.first = ranks - 1 - r, .second = ranks + r, .micro = p->micros / 2};
    struct direction own = r < h ? down : up, other = r < h ? up : down;
    list_unit(p->forward, h, n, own, other);
    list_unit(p->backward, h, n, reversed(own), reversed(other));

    uint32_t n_warm_up = 3 * h + (r < h ? r : ranks - 1 - r), units = p->micros / ranks;
    for (uint32_t u = 0; u < units; u++) {
        uint32_t micro = u * h; /* number of micros per direction in earlier units */
        uint32_t joined = u == 0 ? 0 : n;
        for (uint32_t k = joined; k < n_warm_up; k++)
            wf_builder_add(b, r, WEFT_ACT_F, p->forward[k].stage, micro + p->forward[k].micro);
        for (uint32_t k = 0; k < per_unit; k++) {
            if (n_warm_up + k < per_unit)
                wf_builder_add(b, r, WEFT_ACT_F, p->forward[n_warm_up + k].stage,
                               micro + p->forward[n_warm_up + k].micro);
            wf_builder_add(b, r, WEFT_ACT_B, p->backward[k].stage,
                           micro + p->backward[k].micro);
            if (u + 1 < units && k + n >= per_unit) {
                const struct step *f = &p->forward[k + n - per_unit];
                wf_builder_add(b, r, WEFT_ACT_F, f->stage, micro + h + f->micro);
            }
        }
    }
}

WF_GENERATOR(bitpipe)
{
    uint32_t ranks = params->ranks;
    if (ranks % 2 != 0 || ranks < 4)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "bitpipe needs an even number of ranks, at least 4 (got %u); use %u",
                         ranks, ranks < 4 ? 4 : ranks + 1);
    if (params->micros % ranks != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "bitpipe on %u ranks needs a multiple of %u micros (got %u); use %u",
                         ranks, ranks, params->micros, (params->micros / ranks + 1) * ranks);

    struct wf_builder b;
    struct wf_shape shape = {ranks, 2 * ranks, params->micros, 2};
    WEFT_TRY(wf_builder_init(&b, "bitpipe", shape, 2, 0, err));
    for (uint32_t s = 0; s < 2 * ranks; s++) {
        uint32_t rank = s < ranks ? s : 2 * ranks - 1 - s;
        b.rank_of[s] = rank;
        b.rank_of[2 * ranks + s] = ranks - 1 - rank;
    }
    wf_builder_place_explicit(&b);

    struct step *lists = malloc(sizeof *lists * 4 * ranks);
    if (lists == NULL) {
        wf_builder_release(&b);
        return WEFT_FAIL(err, WEFT_NOMEM, "bitpipe: no memory for a unit's lists");
    }
    struct bitpipe p = {ranks, params->micros, lists, lists + 2 * ranks};
    for (uint32_t r = 0; r < ranks; r++)
        emit_rank(&p, &b, r);
    free(lists);
    return wf_builder_finish(&b, out, err);
}
