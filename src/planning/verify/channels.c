#include <stdlib.h>

#include "base/error.h"
#include "planning/verify/report_priv.h"

/* Sends are numbered along their channel; receives must come by in the same numbers. */
struct numbering {
    const struct weft_channels *channels; /* borrowed */
    uint32_t *number;                     /* owned: (2, stages, micros), of each send */
    uint32_t *next;                       /* owned: (channels) */
    bool *wrong;                          /* owned: (channels), reported already */
};

static size_t message_index(const struct weft_proof *p, struct weft_action a)
{
    /* A message is named by its sending stage. */
    bool gradient = a.kind == WEFT_ACT_SEND_B || a.kind == WEFT_ACT_RECV_B;
    uint32_t from = a.kind == WEFT_ACT_RECV_F   ? a.stage - 1
                    : a.kind == WEFT_ACT_RECV_B ? a.stage + 1
                                                : a.stage;
    size_t half = gradient ? (size_t)p->place->n_stages * p->place->n_micros : 0;
    return half + weft_proof_cell(p, from, a.micro);
}

static void number_sends(const struct weft_proof *p, struct numbering *n)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = 0; i < row.len; i++)
            if (row.at[i].kind == WEFT_ACT_SEND_F || row.at[i].kind == WEFT_ACT_SEND_B)
                n->number[message_index(p, row.at[i])] =
                    n->next[weft_channel_of(n->channels, p->place, row.at[i])]++;
    }
}

static void compare_receives(struct weft_proof *p, struct numbering *n)
{
    for (uint32_t r = 0; r < p->place->n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(p->s, r);
        for (size_t i = 0; i < row.len; i++) {
            struct weft_action a = row.at[i];
            if (a.kind != WEFT_ACT_RECV_F && a.kind != WEFT_ACT_RECV_B)
                continue;
            uint32_t channel = weft_channel_of(n->channels, p->place, a);
            uint32_t turn = n->next[channel]++, sent = n->number[message_index(p, a)];
            if (turn == sent || n->wrong[channel])
                continue;
            char cell[WEFT_ACTION_TEXT];
            weft_action_print(a, cell);
            n->wrong[channel] = true;
            weft_proof_add(p, WEFT_RULE_CHANNEL, r, i,
                           "rank %u, action %zu: %s takes message %u of the channel from rank "
                           "%u, which sends it as message %u",
                           r, i, cell, turn, n->channels->at[channel].from, sent);
        }
    }
}

enum weft_status weft_prove_channels(struct weft_proof *p, const struct weft_channels *channels,
                                     struct weft_error *err)
{
    struct numbering n = {.channels = channels};
    n.number = malloc(sizeof *n.number * (2 * p->n_all_cells + 1));
    n.next = calloc(channels->n + 1, sizeof *n.next);
    n.wrong = calloc(channels->n + 1, sizeof *n.wrong);
    enum weft_status st = WEFT_OK;
    if (n.number != NULL && n.next != NULL && n.wrong != NULL) {
        number_sends(p, &n);
        for (size_t c = 0; c < channels->n; c++)
            n.next[c] = 0;
        compare_receives(p, &n);
    } else {
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory to compare %zu channels", channels->n);
    }
    free(n.number);
    free(n.next);
    free(n.wrong);
    return st;
}
