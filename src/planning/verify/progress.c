#include <stdlib.h>

#include "base/error.h"
#include "planning/sched/walk.h"
#include "planning/verify/report_priv.h"

/* Follows who waits for whom from a rank that stands still.  Whoever it waits for stands still
 * too, so after at most n_ranks steps a rank comes round again: from there it is a circle. */
static bool find_cycle(struct weft_proof *p, const struct weft_walk *w, uint32_t from)
{
    struct weft_report *r = p->report;
    size_t *seen_at = calloc(p->place->n_ranks, sizeof *seen_at); /* 1 + place on the way */
    struct weft_wait *way = malloc(sizeof *way * p->place->n_ranks);
    size_t n = 0, begin = 0;
    struct weft_block block;
    bool ok = seen_at != NULL && way != NULL;
    for (uint32_t rank = from; ok && seen_at[rank] == 0 && weft_walk_block(w, rank, &block);
         rank = block.for_rank) {
        way[n] = (struct weft_wait){rank, block.for_rank, block.position, block.action,
                                    block.for_action};
        seen_at[rank] = ++n;
        if (seen_at[block.for_rank] != 0)
            begin = seen_at[block.for_rank] - 1;
    }
    if (ok) {
        for (size_t i = begin; i < n; i++)
            way[i - begin] = way[i];
        r->cycle = way;
        r->n_cycle = n - begin;
        way = NULL;
    }
    free(seen_at);
    free(way);
    return ok;
}

static enum weft_status report_deadlock(struct weft_proof *p, const struct weft_walk *w,
                                        struct weft_error *err)
{
    struct weft_block block;
    uint32_t rank = 0;
    while (rank + 1 < p->place->n_ranks && !weft_walk_block(w, rank, &block))
        rank++;
    if (!find_cycle(p, w, rank))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to follow a deadlock");
    for (size_t i = 0; i < p->report->n_cycle; i++) {
        const struct weft_wait *c = &p->report->cycle[i];
        char at[WEFT_ACTION_TEXT], for_action[WEFT_ACTION_TEXT];
        weft_action_print(c->action, at);
        weft_action_print(c->for_action, for_action);
        weft_proof_add(p, WEFT_RULE_DEADLOCK, c->rank, c->position,
                       "rank %u, action %zu: %s waits for %s of rank %u", c->rank, c->position,
                       at, for_action, c->for_rank);
    }
    return WEFT_OK;
}

enum weft_status weft_prove_progress(struct weft_proof *p, const struct weft_channels *channels,
                                     size_t depth, struct weft_error *err)
{
    struct weft_walk w;
    WEFT_TRY(weft_walk_init(&w, p->s, p->lowered ? WEFT_WALK_MESSAGES : WEFT_WALK_COMPUTE,
                            channels, depth, err));
    struct weft_run run;
    while (weft_walk_next(&w, &run))
        continue;
    enum weft_status st = WEFT_OK;
    if (w.n_done < w.n_all)
        st = report_deadlock(p, &w, err);
    weft_walk_release(&w);
    return st;
}
