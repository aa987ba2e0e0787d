/* The dependencies between actions.  The walk, the lowering and the executor all use these
 * definitions.
 *
 *     F(s,m)          after F(s-1,m)
 *     B or I(s,m)     after F(s,m), and after B or I(s+1,m)
 *     W(s,m)          after I(s,m)
 *
 * In addition, a rank runs its list in order.  In a lowered schedule, messages are actions too.
 * There, an action that needs the result of another rank depends on the receive of this result,
 * and the receive depends on the send:
 *
 *     F(s-1,m)  SEND_F(s-1,m) ~~~> RECV_F(s,m)  F(s,m)
 *
 * A wait for a send depends on the receive of the message.
 */
#ifndef PLANNING_SCHED_DEPS_H
#define PLANNING_SCHED_DEPS_H

#include "weft/schedule.h"

/* Events of a (stage, micro) cell, as bits. */
enum wf_done {
    WF_DONE_F = 1,       /* F is done: the output of the stage exists */
    WF_DONE_GRAD = 2,    /* B or I is done: the gradient of the stage's input exists */
    WF_DONE_SEND_F = 4,  /* the output was sent to the next stage */
    WF_DONE_SEND_B = 8,  /* the input's gradient was sent to the previous stage */
    WF_DONE_RECV_F = 16, /* the input was received from the previous stage */
    WF_DONE_RECV_B = 32, /* the output's gradient was received from the next stage */
};

struct wf_dep {
    uint32_t stage, micro;
    enum wf_done event;
};

struct wf_dep_rules {
    const struct weft_placement *place; /* borrowed */
    /* true if messages are actions, so that results of other ranks need a receive */
    bool messages;
};

/* Returns true if the two stages are on different ranks for this micro. */
static inline bool wf_deps_remote(const struct wf_dep_rules *rules, uint32_t stage,
                                  uint32_t neighbour, uint32_t micro)
{
    return weft_placement_rank(rules->place, stage, micro) !=
           weft_placement_rank(rules->place, neighbour, micro);
}

/* Stores the dependencies of an action, at most two, and returns their number. */
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
    case WEFT_ACT_WAIT_SEND_F:
        out[n++] = (struct wf_dep){s + 1, m, WF_DONE_RECV_F};
        break;
    case WEFT_ACT_WAIT_SEND_B:
        out[n++] = (struct wf_dep){s - 1, m, WF_DONE_RECV_B};
        break;
    case WEFT_ACT_REDUCE_GRAD: /* no dependencies except the list order */
    case WEFT_ACT_WAIT_REDUCE_GRAD:
    case WEFT_ACT_UNSHARD:
    case WEFT_ACT_RESHARD:
    case WEFT_N_ACT_KINDS:
        break;
    }
    return n;
}

/* Returns the event that an action causes for its (stage, micro), or 0 if no action depends on
 * this kind. */
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

/* Returns the stage that uses the result of an action: the next stage for activations, the
 * previous stage for gradients.  A return value of -1 or n_stages means that no stage uses the
 * result. */
static inline int64_t wf_action_dependent(struct weft_action a)
{
    bool forward = a.kind == WEFT_ACT_F || a.kind == WEFT_ACT_SEND_F;
    return forward ? (int64_t)a.stage + 1 : (int64_t)a.stage - 1;
}

/* Returns true if an action of this kind releases an activation: B (whole backward) or W
 * (weight gradient).  In a forward-only schedule F releases its activation itself. */
static inline bool wf_act_frees_activation(unsigned kind)
{
    return kind == WEFT_ACT_B || kind == WEFT_ACT_W;
}

#endif
