/* What an action waits for: the walk, the lowering and whoever runs a schedule ask here.
 *
 *     F(s,m)          after F(s-1,m)
 *     B or I(s,m)     after F(s,m), and after B or I(s+1,m)
 *     W(s,m)          after I(s,m)
 *
 * A rank runs its list in order besides.  Once messages are actions of their own, what comes
 * from another rank is awaited by its receive, and the receive awaits the send:
 *
 *     F(s-1,m)  SEND_F(s-1,m) ~~~> RECV_F(s,m)  F(s,m)
 */
#ifndef PLANNING_SCHED_DEPS_H
#define PLANNING_SCHED_DEPS_H

#include "weft/schedule.h"

/* What can have happened to a (stage, micro), as bits. */
enum wf_done {
    WF_DONE_F = 1,       /* its output exists */
    WF_DONE_GRAD = 2,    /* the gradient of its input exists: B or I was done */
    WF_DONE_SEND_F = 4,  /* its output is on its way to the next stage */
    WF_DONE_SEND_B = 8,  /* the gradient of its input is on its way to the stage before */
    WF_DONE_RECV_F = 16, /* its input is here */
    WF_DONE_RECV_B = 32, /* the gradient of its output is here */
};

struct wf_dep {
    uint32_t stage, micro;
    enum wf_done event;
};

/* Messages are actions: a neighbour on another rank is awaited through its receive. */
struct wf_dep_rules {
    const struct weft_placement *place;
    bool messages;
};

static inline bool wf_deps_remote(const struct wf_dep_rules *rules, uint32_t stage,
                                  uint32_t neighbour, uint32_t micro)
{
    return weft_placement_rank(rules->place, stage, micro) !=
           weft_placement_rank(rules->place, neighbour, micro);
}

/* Fills up to two and returns how many. */
static inline unsigned wf_action_deps(const struct wf_dep_rules *rules, struct weft_action a,
                                      struct wf_dep out[2])
{
    uint32_t s = a.stage, m = a.micro;
    unsigned n = 0;
    switch ((enum weft_act_kind)a.kind) {
    case WEFT_ACT_F:
        if (s > 0)
            out[n++] = rules->messages && wf_deps_remote(rules, s, s - 1, m)
                           ? (struct wf_dep){s, m, WF_DONE_RECV_F}
                           : (struct wf_dep){s - 1, m, WF_DONE_F};
        break;
    case WEFT_ACT_B:
    case WEFT_ACT_I:
        out[n++] = (struct wf_dep){s, m, WF_DONE_F};
        if (s + 1 < rules->place->n_stages)
            out[n++] = rules->messages && wf_deps_remote(rules, s, s + 1, m)
                           ? (struct wf_dep){s, m, WF_DONE_RECV_B}
                           : (struct wf_dep){s + 1, m, WF_DONE_GRAD};
        break;
    case WEFT_ACT_W:
    case WEFT_ACT_SEND_B:
        out[n++] = (struct wf_dep){s, m, WF_DONE_GRAD};
        break;
    case WEFT_ACT_SEND_F:
        out[n++] = (struct wf_dep){s, m, WF_DONE_F};
        break;
    case WEFT_ACT_RECV_F:
        out[n++] = (struct wf_dep){s - 1, m, WF_DONE_SEND_F};
        break;
    case WEFT_ACT_RECV_B:
        out[n++] = (struct wf_dep){s + 1, m, WF_DONE_SEND_B};
        break;
    case WEFT_ACT_REDUCE_GRAD: /* program order is all they need */
    case WEFT_ACT_UNSHARD:
    case WEFT_ACT_RESHARD:
    case WEFT_ACT_IDLE:
    case WEFT_N_ACT_KINDS:
        break;
    }
    return n;
}

/* What an action makes happen to its own (stage, micro); 0 when nobody waits for it. */
static inline unsigned wf_act_done_bit(unsigned kind)
{
    static const uint8_t events[WEFT_N_ACT_KINDS] = {
        [WEFT_ACT_F] = WF_DONE_F,           [WEFT_ACT_B] = WF_DONE_GRAD,
        [WEFT_ACT_I] = WF_DONE_GRAD,        [WEFT_ACT_SEND_F] = WF_DONE_SEND_F,
        [WEFT_ACT_SEND_B] = WF_DONE_SEND_B, [WEFT_ACT_RECV_F] = WF_DONE_RECV_F,
        [WEFT_ACT_RECV_B] = WF_DONE_RECV_B,
    };
    return events[kind];
}

/* The stage on the other side of what an action makes: the next one for what goes forward, the
 * one before for gradients.  -1 and n_stages are outside the model. */
static inline int64_t wf_action_dependent(struct weft_action a)
{
    bool forward = a.kind == WEFT_ACT_F || a.kind == WEFT_ACT_SEND_F;
    return forward ? (int64_t)a.stage + 1 : (int64_t)a.stage - 1;
}

/* A whole backward or a weight gradient ends the life of an activation. */
static inline bool wf_act_frees_activation(unsigned kind)
{
    return kind == WEFT_ACT_B || kind == WEFT_ACT_W;
}

#endif
