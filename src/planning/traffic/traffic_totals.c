/* Totals of the table: the traffic of a step per link, and the peak number of
 * blocks per rank. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/traffic/traffic_priv.h"

/* -- links --------------------------------------------------------------------------------- */

static int compare_links(const void *a, const void *b)
{
    const struct weft_traffic_link *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to == y->to ? 0 : x->to < y->to ? -1 : 1;
}

static bool add(size_t *sum, size_t n)
{
    return wf_size_add(*sum, n, sum);
}

/* Computes sum += n * times; returns false on overflow. */
static bool add_times(size_t *sum, size_t n, size_t times)
{
    size_t product;
    return wf_size_mul(n, times, &product) && wf_size_add(*sum, product, sum);
}

/* Lists both directions of each transition as links, then merges the links of the same pair of
 * ranks. */
static bool collect_links(const struct weft_traffic *t, struct weft_traffic_link *at, size_t *n)
{
    size_t all = 0, kept = 0;
    for (uint32_t pipe = 0; pipe < t->place.n_pipes; pipe++)
        for (uint32_t s = 0; s + 1 < t->place.n_stages; s++) {
            uint32_t from = t->rank_of[wf_traffic_index(t, pipe, s)];
            uint32_t to = t->rank_of[wf_traffic_index(t, pipe, s + 1)];
            size_t micros = t->micros[pipe], blocks;
            if (from == to || micros == 0)
                continue;
            if (!wf_size_mul(micros, weft_traffic_sends(t, pipe, s).len, &blocks))
                return false;
            at[all++] = (struct weft_traffic_link){
                .from = from, .to = to, .activations = micros, .blocks = blocks};
            at[all++] = (struct weft_traffic_link){
                .from = to, .to = from, .gradients = micros, .block_gradients = blocks};
        }

    qsort(at, all, sizeof *at, compare_links);
    for (size_t i = 0; i < all; i++) {
        if (kept == 0 || compare_links(&at[kept - 1], &at[i]) != 0) {
            at[kept++] = at[i];
            continue;
        }
        struct weft_traffic_link *to = &at[kept - 1];
        if (!add(&to->activations, at[i].activations) || !add(&to->blocks, at[i].blocks) ||
            !add(&to->gradients, at[i].gradients) ||
            !add(&to->block_gradients, at[i].block_gradients))
            return false;
    }
    *n = kept;
    return true;
}

static bool sum_links(struct weft_traffic_step *step, struct weft_payload payload)
{
    for (size_t i = 0; i < step->n_links; i++) {
        struct weft_traffic_link *l = &step->links[i];
        if (!add_times(&l->forward_bytes, l->activations, payload.bytes) ||
            !add_times(&l->forward_bytes, l->blocks, payload.bytes) ||
            !add_times(&l->backward_bytes, l->gradients, payload.bytes) ||
            !add_times(&l->backward_bytes, l->block_gradients, payload.gradient_bytes) ||
            !add(&step->activations, l->activations) || !add(&step->blocks, l->blocks) ||
            !add(&step->gradients, l->gradients) ||
            !add(&step->block_gradients, l->block_gradients) ||
            !add(&step->forward_bytes, l->forward_bytes) ||
            !add(&step->backward_bytes, l->backward_bytes))
            return false;
    }
    return true;
}

enum weft_status weft_traffic_step_init(struct weft_traffic_step *out,
                                        const struct weft_traffic *t,
                                        struct weft_payload payload, struct weft_error *err)
{
    struct weft_traffic_step step = {0};
    size_t capacity = 2 * (size_t)t->place.n_pipes * t->place.n_stages;
    step.links = malloc(sizeof *step.links * capacity);
    if (step.links == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu links", capacity);
    if (!collect_links(t, step.links, &step.n_links) || !sum_links(&step, payload)) {
        weft_traffic_step_release(&step);
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "the traffic of %u micros at %zu and %zu bytes per tensor overflows",
                         t->place.n_micros, payload.bytes, payload.gradient_bytes);
    }
    *out = step;
    return WEFT_OK;
}

void weft_traffic_step_release(struct weft_traffic_step *s)
{
    free(s->links);
    *s = (struct weft_traffic_step){0};
}

/* -- peaks --------------------------------------------------------------------------------- */

/* Numbers of block copies that an action acquires at its start and releases at its end. */
struct change {
    size_t acquired, released;
};

/* Returns true if no later stage of the micro's pipe is on this rank. */
static bool is_last_on_rank(const struct weft_placement *p, struct weft_action a)
{
    uint32_t rank = weft_placement_rank(p, a.stage, a.micro);
    for (uint32_t s = a.stage + 1u; s < p->n_stages; s++)
        if (weft_placement_rank(p, s, a.micro) == rank)
            return false;
    return true;
}

/* Returns the number of copies of one micro that a rank has after its last forward. */
static size_t copies_on_rank(const struct weft_traffic *t, const struct weft_placement *p,
                             struct weft_action a)
{
    uint32_t pipe = weft_placement_pipe(p, a.micro);
    uint32_t rank = weft_placement_rank(p, a.stage, a.micro);
    size_t n = 0;
    for (uint32_t s = 0; s <= a.stage; s++)
        if (weft_placement_rank(p, s, a.micro) == rank)
            n += weft_traffic_receives(t, pipe, s).len + weft_traffic_finishes(t, s).len;
    return n;
}

static struct change change_of(const struct weft_traffic *t, const struct weft_placement *p,
                               struct weft_action a, bool lowered, bool forward_only)
{
    struct change c = {0, 0};
    if (!weft_act_is_compute(a.kind) && !weft_act_is_message(a.kind))
        return c;
    uint32_t pipe = weft_placement_pipe(p, a.micro);
    size_t received = weft_traffic_receives(t, pipe, a.stage).len;
    size_t finished = weft_traffic_finishes(t, a.stage).len;
    if (a.kind == WEFT_ACT_RECV_F)
        c.acquired = received;
    else if (a.kind == WEFT_ACT_F)
        c.acquired = lowered ? finished : received + finished;
    else if (a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I)
        c.released = received + finished;
    /* Without a backward, a rank drops the blocks of a micro after its last forward of it. */
    if (forward_only && a.kind == WEFT_ACT_F && is_last_on_rank(p, a))
        c.released = copies_on_rank(t, p, a);
    return c;
}

static size_t peak_of(const struct weft_traffic *t, const struct weft_schedule *s,
                      uint32_t rank)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    struct weft_action_span row = weft_schedule_rank(s, rank);
    bool lowered = weft_schedule_is_lowered(s);
    bool forward_only = weft_schedule_is_forward_only(s);
    size_t live = 0, peak = 0;
    for (size_t i = 0; i < row.len; i++) {
        struct change c = change_of(t, p, row.at[i], lowered, forward_only);
        if (row.at[i].paired && i + 1 < row.len) { /* both actions start before either ends */
            struct change other = change_of(t, p, row.at[++i], lowered, forward_only);
            c.acquired += other.acquired;
            c.released += other.released;
        }
        live += c.acquired;
        peak = wf_size_max(peak, live);
        live -= wf_size_min(live, c.released);
    }
    return peak;
}

enum weft_status weft_traffic_peak_blocks(const struct weft_traffic *t,
                                          const struct weft_schedule *s, size_t *out,
                                          struct weft_error *err)
{
    const struct weft_placement *p = weft_schedule_placement(s);
    if (p->n_ranks != t->place.n_ranks || p->n_stages != t->place.n_stages ||
        p->n_pipes != t->place.n_pipes ||
        memcmp(p->rank_of, t->rank_of, sizeof *p->rank_of * p->n_pipes * p->n_stages) != 0)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "the table of blocks and the schedule have different placements");
    for (uint32_t r = 0; r < p->n_ranks; r++)
        out[r] = peak_of(t, s, r);
    return WEFT_OK;
}
