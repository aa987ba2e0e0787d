/* Writes the traffic of residual blocks as text. */
#include "base/numbers.h"
#include "planning/planner/traffic_report.h"

/* Prints numbers as ranges: "0-3 5". */
static void print_ranges(struct wf_text *out, struct weft_block_span blocks)
{
    for (size_t i = 0; i < blocks.len;) {
        size_t last = i;
        while (last + 1 < blocks.len && blocks.at[last + 1] == blocks.at[last] + 1)
            last++;
        wf_text_addf(out, " %u", blocks.at[i]);
        if (last > i)
            wf_text_addf(out, "-%u", blocks.at[last]);
        i = last + 1;
    }
}

static void print_pipe(struct wf_text *out, const struct weft_traffic *t, uint32_t pipe)
{
    enum { MAX_SHOWN = 32 };
    const struct weft_placement *p = weft_traffic_placement(t);
    const uint32_t *rank_of = p->rank_of + (size_t)pipe * p->n_stages;
    struct weft_traffic_count c = weft_traffic_count(t, pipe);
    if (p->n_pipes > 1)
        wf_text_addf(out, "pipe %u\n", pipe);
    for (uint32_t s = 0; s + 1 < p->n_stages && s < MAX_SHOWN; s++) {
        struct weft_block_span sends = weft_traffic_sends(t, pipe, s);
        wf_text_addf(out, "stage %u to %u, rank %u to %u: ", s, s + 1, rank_of[s],
                     rank_of[s + 1]);
        if (rank_of[s] == rank_of[s + 1])
            wf_text_adds(out, " passed on");
        else if (sends.len == 0)
            wf_text_adds(out, "  no block");
        else
            wf_text_addf(out, " block%s", sends.len > 1 ? "s" : "");
        print_ranges(out, sends);
        wf_text_addc(out, '\n');
    }
    if (p->n_stages > MAX_SHOWN + 1)
        wf_text_addf(out, "... and %u more\n", p->n_stages - 1 - MAX_SHOWN);
    wf_text_addf(out,
                 "per micro         %zu sends each way of %zu blocks read; %zu received "
                 "before, %zu made, %zu passed on\n",
                 c.sent, c.wanted, c.hits_received, c.hits_made, c.handed);
}

static void put_bytes(struct wf_text *out, const char *before, size_t bytes)
{
    char number[WF_NUMBER_CHARS];
    wf_text_addf(out, "%s%s", before, wf_bytes_print(number, (double)bytes, WF_BYTES_DECIMAL));
}

void wf_traffic_write_text(struct wf_text *out, const struct wf_traffic_report *r)
{
    enum { MAX_SHOWN = 16 };
    const struct weft_traffic *t = r->table;
    const struct weft_placement *p = weft_traffic_placement(t);
    const struct weft_traffic_step *step = &r->step;
    wf_text_addf(out, "residual blocks   %u, cache %s\n", weft_traffic_n_blocks(t),
                 weft_block_cache_name(weft_traffic_cache(t)));
    for (uint32_t pipe = 0; pipe < p->n_pipes; pipe++)
        print_pipe(out, t, pipe);
    put_bytes(out, "step, forward     ", step->forward_bytes);
    wf_text_addf(out, ": %zu blocks and %zu activations of", step->blocks, step->activations);
    put_bytes(out, " ", r->payload.bytes);
    put_bytes(out, "\nstep, backward    ", step->backward_bytes);
    wf_text_addf(out, ": %zu block gradients of", step->block_gradients);
    put_bytes(out, " ", r->payload.gradient_bytes);
    wf_text_addf(out, " and %zu gradients of", step->gradients);
    put_bytes(out, " ", r->payload.bytes);
    wf_text_addc(out, '\n');
    for (size_t i = 0; i < step->n_links && i < MAX_SHOWN; i++) {
        wf_text_addf(out, "rank %u to %-8u", step->links[i].from, step->links[i].to);
        put_bytes(out, " ", step->links[i].forward_bytes);
        put_bytes(out, " forward, ", step->links[i].backward_bytes);
        wf_text_adds(out, " backward\n");
    }
    if (step->n_links > MAX_SHOWN)
        wf_text_addf(out, "... and %zu more links\n", step->n_links - MAX_SHOWN);
    wf_text_adds(out, "peak cached bytes");
    for (uint32_t i = 0; i < p->n_ranks && i < MAX_SHOWN; i++)
        put_bytes(out, " ", r->peak_bytes[i]);
    wf_text_adds(out, p->n_ranks > MAX_SHOWN ? " ...\n" : "\n");
}
