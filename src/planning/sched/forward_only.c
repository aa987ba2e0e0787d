/* Forward-only schedules, for evaluation and inference: derives them from other schedules. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/sched/schedule_priv.h"

/* Returns true for actions that a forward-only schedule must not contain. */
static bool is_backward(unsigned kind)
{
    return kind == WEFT_ACT_B || kind == WEFT_ACT_I || kind == WEFT_ACT_W ||
           kind == WEFT_ACT_SEND_B || kind == WEFT_ACT_RECV_B || kind == WEFT_ACT_REDUCE_GRAD ||
           kind == WEFT_ACT_WAIT_SEND_B || kind == WEFT_ACT_WAIT_REDUCE_GRAD;
}

bool wf_schedule_find_forward_only(const struct weft_schedule *s)
{
    size_t n = weft_schedule_n_actions(s), forwards = 0;
    for (size_t i = 0; i < n; i++) {
        if (is_backward(s->actions[i].kind))
            return false;
        forwards += s->actions[i].kind == WEFT_ACT_F;
    }
    return forwards > 0;
}

/* Copies the actions that remain.  A forward that was half of a pair runs alone. */
static void copy_forwards(const struct weft_schedule *s, struct weft_schedule *to,
                          size_t *n_messages)
{
    size_t n = 0;
    for (uint32_t r = 0; r < s->place.n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (is_backward(a.kind))
                continue;
            a.paired = 0;
            *n_messages += weft_act_is_message(a.kind);
            to->actions[n++] = a;
        }
        to->first[r + 1] = n;
    }
}

enum weft_status weft_schedule_forward_only(const struct weft_schedule *s,
                                            struct weft_schedule **out, struct weft_error *err)
{
    if (s == NULL || out == NULL)
        return WEFT_FAIL(err, WEFT_USAGE, "the %s of weft_schedule_forward_only() is NULL",
                         s == NULL ? "schedule" : "result");
    size_t n = weft_schedule_n_actions(s), n_messages = 0;
    struct weft_schedule *to = wf_schedule_dup_empty(s);
    if (to != NULL)
        to->actions = malloc(sizeof *to->actions * (n + 1));
    if (to == NULL || to->actions == NULL)
        goto fail;

    copy_forwards(s, to, &n_messages);
    if (!wf_schedule_finalize(to, n_messages > 0))
        goto fail;
    *out = to;
    return WEFT_OK;
fail:
    weft_schedule_free(to);
    return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the forwards of %zu actions", n);
}
