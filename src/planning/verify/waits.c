/* Checks the waits of PyTorch 2.15: every send and every reduction has one wait after it, and a
 * rank has at most one reduction under way. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/verify/verify_priv.h"

/* The sends of all cells that have no wait yet.  A cell has at most one send of each kind. */
enum { PENDING_F = 1, PENDING_B = 2 };

#define NO_STAGE UINT32_MAX

static bool is_wait(unsigned kind)
{
    return weft_act_is_send_wait(kind) || kind == WEFT_ACT_WAIT_REDUCE_GRAD;
}

static bool has_waits(const struct wf_verifier *p)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = row.len; i-- > 0;) /* backwards: waits are near the end */
            if (is_wait(row.at[i].kind))
                return true;
    }
    return false;
}

static void add_finding(struct wf_verifier *p, uint32_t rank, size_t position,
                        struct weft_action a, const char *what)
{
    char cell[WEFT_ACTION_TEXT_MAX];
    weft_action_print(a, cell);
    wf_verifier_add(p, WEFT_RULE_WAIT, WF_FINDING_ACTION, rank, position, "%s %s", cell, what);
}

static unsigned pending_bit(unsigned kind)
{
    return kind == WEFT_ACT_SEND_F || kind == WEFT_ACT_WAIT_SEND_F ? PENDING_F : PENDING_B;
}

static void check_sends(struct wf_verifier *p, uint32_t rank, uint8_t *pending)
{
    struct weft_action_span row = weft_schedule_rank(p->s, rank);
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        uint8_t *cell =
            &pending[weft_act_has_micro(a.kind) ? wf_verifier_cell(p, a.stage, a.micro) : 0];
        if (a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B)
            *cell |= (uint8_t)pending_bit(a.kind);
        if (!weft_act_is_send_wait(a.kind))
            continue;
        if (!(*cell & pending_bit(a.kind)))
            add_finding(p, rank, i, a, "waits for a send that is not under way");
        *cell &= (uint8_t)~pending_bit(a.kind);
    }

    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if ((a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B) &&
            (pending[wf_verifier_cell(p, a.stage, a.micro)] & pending_bit(a.kind)))
            add_finding(p, rank, i, a, "has no wait after it");
    }
}

static void check_reductions(struct wf_verifier *p, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(p->s, rank);
    uint32_t stage = NO_STAGE; /* whose reduction is under way */
    size_t begin = 0;
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (a.kind == WEFT_ACT_REDUCE_GRAD) {
            if (stage != NO_STAGE)
                add_finding(p, rank, i, a, "starts while another reduction is under way");
            stage = a.stage;
            begin = i;
        } else if (a.kind == WEFT_ACT_WAIT_REDUCE_GRAD) {
            if (stage != a.stage)
                add_finding(p, rank, i, a, "waits for a reduction that is not under way");
            stage = NO_STAGE;
        }
    }
    if (stage != NO_STAGE)
        add_finding(p, rank, begin, row.at[begin], "has no wait after it");
}

enum weft_status wf_verify_waits(struct wf_verifier *p, struct weft_error *err)
{
    if (!has_waits(p))
        return WEFT_OK;
    uint8_t *pending = calloc(p->n_all_cells + 1, 1);
    if (pending == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to verify %zu cells", p->n_all_cells);

    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        check_sends(p, r, pending);
        check_reductions(p, r);
    }
    free(pending);
    return WEFT_OK;
}
