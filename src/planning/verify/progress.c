/* Checks that no rank waits forever, and finds the cycle of a deadlock. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/sched/walk.h"
#include "planning/verify/verify_priv.h"

_Static_assert(WEFT_CHANNEL_BUFFERED == WF_DEPTH_UNLIMITED, "the walk takes public depths");

/* Follows the waits from a blocked rank.  Every rank that a blocked rank waits for is also
 * blocked, so a rank repeats after at most n_ranks steps and closes the cycle.  Returns false
 * if out of memory. */
static bool find_cycle(struct wf_verifier *p, const struct wf_walk *w, uint32_t from)
{
    struct weft_verify_result *r = p->result;
    size_t *seen_at = calloc(p->place->n_ranks, sizeof *seen_at); /* 1 + index on the path */
    struct weft_wait *path = malloc(sizeof *path * p->place->n_ranks);
    size_t n = 0, begin = 0;
    struct wf_walk_stall stall;
    bool ok = seen_at != NULL && path != NULL;

    for (uint32_t rank = from; ok && seen_at[rank] == 0 && wf_walk_get_stall(w, rank, &stall);
         rank = stall.for_rank) {
        path[n] = (struct weft_wait){rank, stall.for_rank, stall.position, stall.action,
                                     stall.for_action};
        seen_at[rank] = ++n;
        if (seen_at[stall.for_rank] != 0)
            begin = seen_at[stall.for_rank] - 1;
    }

    if (ok) {
        for (size_t i = begin; i < n; i++)
            path[i - begin] = path[i];
        r->cycle = path;
        r->n_cycle = n - begin;
        path = NULL;
    }
    free(seen_at);
    free(path);
    return ok;
}

static enum weft_status report_deadlock(struct wf_verifier *p, const struct wf_walk *w,
                                        struct weft_error *err)
{
    struct wf_walk_stall stall;
    uint32_t rank = 0;
    while (rank + 1 < p->place->n_ranks && !wf_walk_get_stall(w, rank, &stall))
        rank++;
    if (!find_cycle(p, w, rank))
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to report a deadlock");
    for (size_t i = 0; i < p->result->n_cycle; i++) {
        const struct weft_wait *c = &p->result->cycle[i];
        char at[WEFT_ACTION_TEXT_MAX], for_action[WEFT_ACTION_TEXT_MAX];
        weft_action_print(c->action, at);
        weft_action_print(c->for_action, for_action);
        wf_verifier_add(p, WEFT_RULE_DEADLOCK, WF_FINDING_ACTION, c->rank, c->position,
                        "%s waits for %s of rank %u", at, for_action, c->for_rank);
    }
    return WEFT_OK;
}

enum weft_status wf_verify_progress(struct wf_verifier *p, const struct wf_channels *channels,
                                    size_t depth, struct weft_error *err)
{
    struct wf_walk w;
    WEFT_TRY(wf_walk_init(&w, p->s, p->lowered ? WF_WALK_MODE_MESSAGES : WF_WALK_MODE_COMPUTE,
                          channels, depth, err));
    struct wf_walk_run run;
    while (wf_walk_next(&w, &run))
        continue;
    enum weft_status st = WEFT_OK;
    if (w.n_done < w.n_total)
        st = report_deadlock(p, &w, err);
    wf_walk_release(&w);
    return st;
}
