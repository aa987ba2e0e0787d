/* Checks that every action is listed once and in a valid order: one pass over the list of each rank,
 * then one pass over the cells (stage, micro). */
#include <stdlib.h>

#include "base/error.h"
#include "planning/verify/verify_priv.h"

#define HAS(kind) (1u << (kind)) /* one bit per compute action and message */

struct rank_pass {
    uint32_t rank;
    size_t position;
    size_t live; /* number of stored activations */
};

static void add_finding(struct wf_verifier *p, const struct rank_pass *at, enum weft_rule rule,
                        struct weft_action a, const char *what)
{
    char cell[WEFT_ACTION_TEXT_MAX];
    weft_action_print(a, cell);
    wf_verifier_add(p, rule, WF_FINDING_ACTION, at->rank, at->position, "%s %s", cell, what);
}

/* Checks that the actions on the same rank that `a` depends on precede `a`. */
static void check_order(struct wf_verifier *p, const struct rank_pass *at, struct weft_action a,
                        unsigned has)
{
    uint32_t s = a.stage, m = a.micro;
    switch ((enum weft_act_kind)a.kind) {
    case WEFT_ACT_F:
        if (p->lowered && wf_verifier_remote(p, s, (int64_t)s - 1, m) &&
            !(has & HAS(WEFT_ACT_RECV_F)))
            add_finding(p, at, WEFT_RULE_ORDER, a, "runs before its input is received");
        break;
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        if (!(has & HAS(WEFT_ACT_F)))
            add_finding(p, at, WEFT_RULE_ORDER, a, "runs before its forward");
        if (p->lowered && wf_verifier_remote(p, s, (int64_t)s + 1, m) &&
            !(has & HAS(WEFT_ACT_RECV_B)))
            add_finding(p, at, WEFT_RULE_ORDER, a, "runs before its gradient is received");
        break;
    case WEFT_ACT_W:
        if (!(has & (HAS(WEFT_ACT_I) | HAS(WEFT_ACT_B))))
            add_finding(p, at, WEFT_RULE_ORDER, a, "runs before its input gradient");
        break;
    case WEFT_ACT_SEND_F:
        if (!(has & HAS(WEFT_ACT_F)))
            add_finding(p, at, WEFT_RULE_ORDER, a, "sends data that is not computed yet");
        break;
    case WEFT_ACT_SEND_B:
        if (!(has & (HAS(WEFT_ACT_B) | HAS(WEFT_ACT_I))))
            add_finding(p, at, WEFT_RULE_ORDER, a, "sends data that is not computed yet");
        break;
    case WEFT_ACT_RECV_F:
    case WEFT_ACT_RECV_B:
    case WEFT_ACT_REDUCE_GRAD:
    case WEFT_ACT_UNSHARD:
    case WEFT_ACT_RESHARD:
    case WEFT_ACT_WAIT_SEND_F: /* wf_verify_waits() checks the waits */
    case WEFT_ACT_WAIT_SEND_B:
    case WEFT_ACT_WAIT_REDUCE_GRAD:
    case WEFT_N_ACT_KINDS:
        break;
    }
}

/* Returns the stage at the other endpoint of a message. */
static int64_t peer_stage(struct weft_action a)
{
    bool up = a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_RECV_B;
    return up ? (int64_t)a.stage + 1 : (int64_t)a.stage - 1;
}

static void check_once(struct wf_verifier *p, const struct rank_pass *at, struct weft_action a,
                       unsigned has)
{
    const unsigned split = HAS(WEFT_ACT_I) | HAS(WEFT_ACT_W);
    if (has & HAS(a.kind))
        add_finding(p, at, WEFT_RULE_DUPLICATE, a, "is listed twice");
    else if ((a.kind == WEFT_ACT_B && (has & split)) ||
             ((a.kind == WEFT_ACT_I || a.kind == WEFT_ACT_W) && (has & HAS(WEFT_ACT_B))))
        add_finding(p, at, WEFT_RULE_MIXED, a, "mixes a whole backward with a split one");
    if (weft_act_is_message(a.kind) && !wf_verifier_remote(p, a.stage, peer_stage(a), a.micro))
        add_finding(p, at, WEFT_RULE_MESSAGE, a, "has no other rank as its peer");
}

static void count_live(struct wf_verifier *p, struct rank_pass *at, struct weft_action a)
{
    size_t *peak = &p->result->peak_activations[at->rank];
    if (a.kind == WEFT_ACT_F && ++at->live > *peak)
        *peak = at->live;
    bool frees = wf_act_frees_activation(a.kind) || (p->forward_only && a.kind == WEFT_ACT_F);
    if (frees && at->live > 0)
        at->live--;
}

static void check_rank(struct wf_verifier *p, uint32_t rank)
{
    struct weft_action_span row = weft_schedule_rank(p->s, rank);
    struct rank_pass at = {.rank = rank};
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        if (!weft_act_is_compute(a.kind) && !weft_act_is_message(a.kind))
            continue;

        at.position = i;
        if (weft_act_is_compute(a.kind))
            p->result->n_compute++;
        else if (a.kind == WEFT_ACT_SEND_F || a.kind == WEFT_ACT_SEND_B)
            p->result->n_messages++;

        size_t cell = wf_verifier_cell(p, a.stage, a.micro);
        if (weft_placement_rank(p->place, a.stage, a.micro) != rank)
            add_finding(p, &at, WEFT_RULE_RANK, a,
                        "is on another rank than the rest of its stage and micro");
        if (cell >= p->n_cells)
            continue;

        unsigned has = p->cells[cell];
        check_once(p, &at, a, has);
        check_order(p, &at, a, has);
        p->cells[cell] |= (uint8_t)HAS(a.kind);
        count_live(p, &at, a);
    }
}

static bool has_reductions(const struct wf_verifier *p)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = row.len; i-- > 0;) /* backwards: reductions are near the end */
            if (row.at[i].kind == WEFT_ACT_REDUCE_GRAD)
                return true;
    }
    return false;
}

/* Checks REDUCE_GRAD, which marks the gradients of a stage on this rank as complete.
 * REDUCE_GRAD occurs at most once per stage, after a weight gradient of that stage, and no
 * weight gradient of the stage follows.  `stages` contains zeros before and after the call. */
static void check_reductions(struct wf_verifier *p, uint32_t rank, uint8_t *stages)
{
    enum { ACCUMULATED = 1, REDUCED = 2 };
    struct weft_action_span row = weft_schedule_rank(p->s, rank);
    struct rank_pass at = {.rank = rank};
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        at.position = i;
        if (a.kind == WEFT_ACT_REDUCE_GRAD) {
            if (stages[a.stage] & REDUCED)
                add_finding(p, &at, WEFT_RULE_DUPLICATE, a, "is listed twice");
            else if (!(stages[a.stage] & ACCUMULATED))
                add_finding(p, &at, WEFT_RULE_ORDER, a,
                            "reduces a gradient that its rank has not computed");
            stages[a.stage] |= REDUCED;
        } else if (wf_act_frees_activation(a.kind)) {
            if (stages[a.stage] & REDUCED)
                add_finding(p, &at, WEFT_RULE_ORDER, a,
                            "adds to a gradient that is already reduced");
            stages[a.stage] |= ACCUMULATED;
        }
    }

    for (size_t i = row.len; i-- > 0;) { /* report a missing action at the last gradient */
        uint8_t *stage = &stages[row.at[i].stage];
        if (!wf_act_frees_activation(row.at[i].kind) && row.at[i].kind != WEFT_ACT_REDUCE_GRAD)
            continue;
        if ((*stage & ACCUMULATED) && !(*stage & REDUCED))
            wf_verifier_add(
                p, WEFT_RULE_MISSING, WF_FINDING_RANK, rank, i,
                "%uREDUCE_GRAD is missing: either all ranks reduce all of their stages, or none",
                (unsigned)row.at[i].stage);
        *stage = 0;
    }
}

/* Returns the position of the last action of a cell on its rank, or the length of the list if
 * there is no such action or no further finding can be stored. */
static size_t last_action_of(const struct wf_verifier *p, uint32_t rank, uint32_t stage,
                             uint32_t micro)
{
    struct weft_action_span row = weft_schedule_rank(p->s, rank);
    for (size_t i = row.len; i-- > 0 && p->result->n_findings < WEFT_MAX_FINDINGS;)
        if (row.at[i].stage == stage && row.at[i].micro == micro &&
            weft_act_has_micro(row.at[i].kind))
            return i;
    return row.len;
}

static void add_missing(struct wf_verifier *p, uint32_t stage, uint32_t micro, const char *what)
{
    uint32_t rank = weft_placement_rank(p->place, stage, micro);
    wf_verifier_add(p, WEFT_RULE_MISSING, WF_FINDING_PLAIN, rank,
                    last_action_of(p, rank, stage, micro), "stage %u, micro %u: %s", stage,
                    micro, what);
}

static void check_forward(struct wf_verifier *p, uint32_t stage, uint32_t micro, unsigned has)
{
    if (!(has & HAS(WEFT_ACT_F)))
        add_missing(p, stage, micro, "no forward");
    if (!p->lowered)
        return;
    if (wf_verifier_remote(p, stage, (int64_t)stage + 1, micro) &&
        !(has & HAS(WEFT_ACT_SEND_F)))
        add_missing(p, stage, micro, "the output is not sent (SEND_F)");
    if (wf_verifier_remote(p, stage, (int64_t)stage - 1, micro) &&
        !(has & HAS(WEFT_ACT_RECV_F)))
        add_missing(p, stage, micro, "the input is not received (RECV_F)");
}

static void check_backward(struct wf_verifier *p, uint32_t stage, uint32_t micro, unsigned has)
{
    if (!(has & HAS(WEFT_ACT_B))) {
        bool i = has & HAS(WEFT_ACT_I), w = has & HAS(WEFT_ACT_W);
        if (!i && !w)
            add_missing(p, stage, micro, "no backward");
        else if (!i || !w)
            add_missing(p, stage, micro, i ? "I but no W" : "W but no I");
    }
    if (!p->lowered)
        return;
    if (wf_verifier_remote(p, stage, (int64_t)stage + 1, micro) &&
        !(has & HAS(WEFT_ACT_RECV_B)))
        add_missing(p, stage, micro, "the gradient is not received (RECV_B)");
    if (wf_verifier_remote(p, stage, (int64_t)stage - 1, micro) &&
        !(has & HAS(WEFT_ACT_SEND_B)))
        add_missing(p, stage, micro, "the gradient is not sent (SEND_B)");
}

enum weft_status wf_verify_cells(struct wf_verifier *p, struct weft_error *err)
{
    uint8_t *stages = calloc(p->place->n_stages, 1);
    if (stages == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to verify %u stages", p->place->n_stages);

    bool reductions = has_reductions(p);
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        check_rank(p, r);
        if (reductions)
            check_reductions(p, r, stages);
    }
    free(stages);

    for (size_t cell = 0; cell < p->n_cells; cell++) {
        uint32_t stage = (uint32_t)(cell / p->place->n_micros);
        uint32_t micro = (uint32_t)(cell % p->place->n_micros);
        check_forward(p, stage, micro, p->cells[cell]);
        if (!p->forward_only)
            check_backward(p, stage, micro, p->cells[cell]);
    }
    if (p->n_cells < p->n_all_cells)
        wf_verifier_add(p, WEFT_RULE_MISSING, WF_FINDING_PLAIN, 0, SIZE_MAX,
                        "%u stages x %u micros need more than %zu actions", p->place->n_stages,
                        p->place->n_micros, weft_schedule_n_actions(p->s));
    return WEFT_OK;
}
