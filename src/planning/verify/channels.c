/* Checks that both endpoints of every channel list the same sequence of messages. */
#include <stdlib.h>

#include "base/error.h"
#include "planning/verify/verify_priv.h"

/* Sends are numbered along their channel.  The receives of a channel must occur in the order of
 * these numbers. */
struct numbering {
    const struct wf_channels *channels; /* borrowed */
    uint32_t *number;                   /* owned: (2, stages, micros), number of each send */
    uint32_t *next;                     /* owned: (channels), next expected number */
    bool *mismatched;                   /* owned: (channels), mismatch already reported */
};

static size_t message_index(const struct wf_verifier *p, struct weft_action a)
{
    /* A message is identified by the stage that sends it. */
    bool gradient = a.kind == WEFT_ACT_SEND_B || a.kind == WEFT_ACT_RECV_B;
    uint32_t from = a.kind == WEFT_ACT_RECV_F   ? a.stage - 1
                    : a.kind == WEFT_ACT_RECV_B ? a.stage + 1
                                                : a.stage;
    size_t half = gradient ? (size_t)p->place->n_stages * p->place->n_micros : 0;
    return half + wf_verifier_cell(p, from, a.micro);
}

static void number_sends(const struct wf_verifier *p, struct numbering *n)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = 0; i < row.len; i++)
            if (row.at[i].kind == WEFT_ACT_SEND_F || row.at[i].kind == WEFT_ACT_SEND_B)
                n->number[message_index(p, row.at[i])] =
                    n->next[wf_channel_of(n->channels, p->place, row.at[i])]++;
    }
}

static void compare_receives(struct wf_verifier *p, struct numbering *n)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (a.kind != WEFT_ACT_RECV_F && a.kind != WEFT_ACT_RECV_B)
                continue;

            uint32_t channel = wf_channel_of(n->channels, p->place, a);
            uint32_t expected = n->next[channel]++, sent = n->number[message_index(p, a)];
            if (expected == sent || n->mismatched[channel])
                continue;

            char cell[WEFT_ACTION_TEXT_MAX];
            weft_action_print(a, cell);
            n->mismatched[channel] = true;
            wf_verifier_add(
                p, WEFT_RULE_CHANNEL, WF_FINDING_ACTION, r, i,
                "%s is receive %u of the channel from rank %u, but its send is number %u", cell,
                expected, n->channels->at[channel].from, sent);
        }
    }
}

enum weft_status wf_verify_channels(struct wf_verifier *p, const struct wf_channels *channels,
                                    struct weft_error *err)
{
    struct numbering n = {.channels = channels};
    n.number = malloc(sizeof *n.number * (2 * p->n_all_cells + 1));
    n.next = calloc(channels->n + 1, sizeof *n.next);
    n.mismatched = calloc(channels->n + 1, sizeof *n.mismatched);

    enum weft_status st = WEFT_OK;
    if (n.number != NULL && n.next != NULL && n.mismatched != NULL) {
        number_sends(p, &n);
        for (size_t c = 0; c < channels->n; c++)
            n.next[c] = 0;
        compare_receives(p, &n);
    } else {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare %zu channels", channels->n);
    }
    free(n.number);
    free(n.next);
    free(n.mismatched);
    return st;
}
