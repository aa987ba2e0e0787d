/* Numbers the channels of a placement. */
#include "planning/sched/channel.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"

/* The boundary between two consecutive stages of one pipe, in one direction of data. */
struct link {
    uint32_t from, to;
    uint32_t gradient;
    uint32_t *slot; /* where to store the channel number of this link */
};

static int link_order(const void *pa, const void *pb)
{
    const struct link *a = pa, *b = pb;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->gradient > b->gradient) - (a->gradient < b->gradient);
}

static size_t list_links(const struct wf_channels *c, const struct weft_placement *place,
                         bool by_pair, struct link *links)
{
    size_t n = 0;
    for (uint32_t pipe = 0; pipe < place->n_pipes; pipe++) {
        const uint32_t *rank_of = place->rank_of + (size_t)pipe * place->n_stages;
        for (uint32_t s = 0; s + 1 < place->n_stages; s++) {
            size_t at = (size_t)pipe * (place->n_stages - 1) + s;
            uint32_t low = rank_of[s], high = rank_of[s + 1];
            c->forward[at] = c->backward[at] = WF_CHANNEL_NONE;
            if (low == high)
                continue;
            links[n++] = (struct link){low, high, 0, &c->forward[at]};
            links[n++] = (struct link){high, low, !by_pair, &c->backward[at]};
        }
    }
    return n;
}

enum weft_status wf_channels_init(struct wf_channels *c, const struct weft_placement *place,
                                  bool by_pair, struct weft_error *err)
{
    *c = (struct wf_channels){.n_stages = place->n_stages};
    size_t n = (size_t)place->n_pipes * (place->n_stages - 1);
    struct link *links = malloc(sizeof *links * (2 * n + 1));
    c->forward = malloc(sizeof *c->forward * (n + 1));
    c->backward = malloc(sizeof *c->backward * (n + 1));
    c->at = malloc(sizeof *c->at * (2 * n + 1));
    if (links == NULL || c->forward == NULL || c->backward == NULL || c->at == NULL) {
        free(links);
        wf_channels_release(c);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu channels", 2 * n);
    }

    /* Equal links share a channel.  After sorting, equal links are adjacent. */
    size_t n_links = list_links(c, place, by_pair, links);
    qsort(links, n_links, sizeof *links, link_order);
    for (size_t i = 0; i < n_links; i++) {
        if (i == 0 || link_order(&links[i - 1], &links[i]) != 0)
            c->at[c->n++] =
                (struct wf_channel){links[i].from, links[i].to, links[i].gradient != 0};
        *links[i].slot = (uint32_t)(c->n - 1);
    }
    free(links);
    return WEFT_OK;
}

void wf_channels_release(struct wf_channels *c)
{
    free(c->at);
    free(c->forward);
    free(c->backward);
    *c = (struct wf_channels){0};
}
