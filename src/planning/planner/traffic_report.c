/* Counts the traffic of residual blocks, and writes the counts as JSON. */
#include "planning/planner/traffic_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"

enum weft_status wf_block_cache_parse(const char *text, enum weft_block_cache *out,
                                      struct weft_error *err)
{
    for (int k = WEFT_BLOCK_CACHE_OFF; k <= WEFT_BLOCK_CACHE_FULL; k++)
        if (strcmp(text == NULL ? "full" : text,
                   weft_block_cache_name((enum weft_block_cache)k)) == 0) {
            *out = (enum weft_block_cache)k;
            return WEFT_OK;
        }
    return WEFT_FAIL(err, WEFT_USAGE,
                     "residual cache \"%s\" is unknown (expected off, received or full)", text);
}

void wf_traffic_report_release(struct wf_traffic_report *r)
{
    weft_traffic_step_release(&r->step);
    free(r->peak_bytes);
    *r = (struct wf_traffic_report){0};
}

/* Removes gradients from the traffic of a step, and links that carried only gradients. */
static void drop_gradients(struct weft_traffic_step *step)
{
    size_t kept = 0;
    for (size_t i = 0; i < step->n_links; i++) {
        struct weft_traffic_link l = step->links[i];
        l.gradients = l.block_gradients = l.backward_bytes = 0;
        if (l.activations > 0)
            step->links[kept++] = l;
    }
    step->n_links = kept;
    step->gradients = step->block_gradients = step->backward_bytes = 0;
}

enum weft_status wf_traffic_report_init(struct wf_traffic_report *out,
                                        const struct weft_traffic *table,
                                        const struct weft_schedule *s,
                                        struct weft_payload payload, uint32_t layers_per_block,
                                        struct weft_error *err)
{
    uint32_t ranks = weft_traffic_placement(table)->n_ranks;
    struct wf_traffic_report r = {
        .table = table, .payload = payload, .layers_per_block = layers_per_block};
    r.peak_bytes = malloc(sizeof *r.peak_bytes * ranks);
    enum weft_status st = r.peak_bytes == NULL
                              ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u ranks", ranks)
                              : weft_traffic_peak_blocks(table, s, r.peak_bytes, err);
    for (uint32_t i = 0; st == WEFT_OK && i < ranks; i++)
        if (!wf_size_mul(r.peak_bytes[i], payload.bytes, &r.peak_bytes[i]))
            st = WEFT_FAIL(err, WEFT_NUMERIC, "the bytes of rank %u's blocks overflow", i);
    if (st == WEFT_OK)
        st = weft_traffic_step_init(&r.step, table, payload, err);
    if (st == WEFT_OK && weft_schedule_is_forward_only(s))
        drop_gradients(&r.step);
    if (st != WEFT_OK) {
        wf_traffic_report_release(&r);
        return st;
    }
    *out = r;
    return WEFT_OK;
}

/* -- JSON ----------------------------------------------------------------------------------- */

static void put_blocks(struct wf_json *j, const char *key, struct weft_block_span blocks)
{
    wf_json_begin(j, key, '[');
    for (size_t i = 0; i < blocks.len; i++)
        wf_json_uint(j, NULL, blocks.at[i]);
    wf_json_end(j, ']');
}

static void put_count(struct wf_json *j, struct weft_traffic_count c)
{
    wf_json_begin(j, "per_micro", '{');
    wf_json_uint(j, "wanted", c.wanted);
    wf_json_uint(j, "sent", c.sent);
    wf_json_uint(j, "handed", c.handed);
    wf_json_uint(j, "hits_received", c.hits_received);
    wf_json_uint(j, "hits_made", c.hits_made);
    wf_json_uint(j, "hops", c.hops);
    wf_json_end(j, '}');
}

/* Writes every transition of a pipe, including transitions between stages of the same rank. */
static void put_pipe(struct wf_json *j, const struct weft_traffic *t, uint32_t pipe)
{
    const struct weft_placement *p = weft_traffic_placement(t);
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    wf_json_begin(j, NULL, '{');
    put_count(j, weft_traffic_count(t, pipe));
    wf_json_begin(j, "transitions", '[');
    for (uint32_t s = 0; s + 1 < p->n_stages; s++) {
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "stage", s);
        wf_json_uint(j, "from", rank_of[s]);
        wf_json_uint(j, "to", rank_of[s + 1]);
        put_blocks(j, "send", weft_traffic_sends(t, pipe, s));
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
    /* (ranks, blocks): the stage in which the rank received or computed the block; null if
     * the rank never stores the block. */
    wf_json_begin(j, "bringers", '[');
    for (uint32_t r = 0; r < p->n_ranks; r++) {
        wf_json_begin(j, NULL, '[');
        for (uint32_t b = 0; b < weft_traffic_n_blocks(t); b++) {
            uint32_t stage = weft_traffic_rank_source(t, pipe, r, b);
            wf_json_number(j, NULL, stage == WEFT_NO_STAGE ? NAN : stage);
        }
        wf_json_end(j, ']');
    }
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

static void put_links(struct wf_json *j, const struct weft_traffic_step *step)
{
    wf_json_begin(j, "links", '[');
    for (size_t i = 0; i < step->n_links; i++) {
        const struct weft_traffic_link *l = &step->links[i];
        wf_json_begin(j, NULL, '{');
        wf_json_uint(j, "from", l->from);
        wf_json_uint(j, "to", l->to);
        wf_json_uint(j, "activations", l->activations);
        wf_json_uint(j, "blocks", l->blocks);
        wf_json_uint(j, "gradients", l->gradients);
        wf_json_uint(j, "block_gradients", l->block_gradients);
        wf_json_uint(j, "forward_bytes", l->forward_bytes);
        wf_json_uint(j, "backward_bytes", l->backward_bytes);
        wf_json_end(j, '}');
    }
    wf_json_end(j, ']');
}

static void put_step(struct wf_json *j, const struct wf_traffic_report *r)
{
    const struct weft_traffic_step *step = &r->step;
    wf_json_begin(j, "step", '{');
    wf_json_uint(j, "activations", step->activations);
    wf_json_uint(j, "blocks", step->blocks);
    wf_json_uint(j, "gradients", step->gradients);
    wf_json_uint(j, "block_gradients", step->block_gradients);
    wf_json_uint(j, "forward_bytes", step->forward_bytes);
    wf_json_uint(j, "backward_bytes", step->backward_bytes);
    put_links(j, step);
    wf_json_begin(j, "peak_cached_bytes", '[');
    for (uint32_t i = 0; i < weft_traffic_placement(r->table)->n_ranks; i++)
        wf_json_uint(j, NULL, r->peak_bytes[i]);
    wf_json_end(j, ']');
    wf_json_end(j, '}');
}

void wf_traffic_write_json(struct wf_json *j, const char *key,
                           const struct wf_traffic_report *r)
{
    const struct weft_traffic *t = r->table;
    const struct weft_placement *p = weft_traffic_placement(t);
    wf_json_begin(j, key, '{');
    wf_json_string(j, "residual_cache", weft_block_cache_name(weft_traffic_cache(t)));
    if (r->layers_per_block > 0)
        wf_json_uint(j, "residual_block_layers", r->layers_per_block);
    wf_json_uint(j, "payload_bytes", r->payload.bytes);
    wf_json_uint(j, "gradient_bytes", r->payload.gradient_bytes);
    wf_json_uint(j, "blocks", weft_traffic_n_blocks(t));
    wf_json_begin(j, "finished_by", '[');
    for (uint32_t s = 0; s < p->n_stages; s++)
        for (size_t i = 0; i < weft_traffic_finishes(t, s).len; i++)
            wf_json_uint(j, NULL, s);
    wf_json_end(j, ']');
    wf_json_begin(j, "pipes", '[');
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        put_pipe(j, t, pipe);
    wf_json_end(j, ']');
    put_step(j, r);
    wf_json_end(j, '}');
}
