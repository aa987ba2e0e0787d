/* Which layers recompute their activations: the setting by layer, and the least recomputation
 * that fits into memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/part/recompute_layers.h"
#include "training/layout/topology.h"

/* -- the setting --------------------------------------------------------------------------- */

enum weft_status wf_topology_set_recompute(struct wf_topology *l, const char *text,
                                           struct weft_error *err)
{
    static const char name[] = "train.recompute";
    struct wf_recompute_list list = {0};
    const struct weft_partition *p = l->partition.n_stages > 0 ? &l->partition : NULL;
    if (l->recompute == NULL)
        l->recompute = calloc(l->model.layers, sizeof *l->recompute);
    if (l->recompute == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the topology");
    WEFT_TRY(wf_recompute_parse(text, name, &list, err));
    enum weft_status st =
        wf_recompute_set_layers(&list, name, l->model.layers, p, l->recompute, err);
    wf_recompute_list_release(&list);
    return st;
}

/* -- the least that fits ------------------------------------------------------------------- */

/* The recomputation of the layers of one machine: the first `full` layers recompute everything,
 * the next `attention` layers their attention. */
struct fit {
    struct wf_topology *l;
    bool copies;
    uint32_t rank0, rank1; /* the ranks of the machine */
    uint32_t *layers;      /* owned: the layers of these ranks, ascending */
    uint32_t n;
    uint8_t *before; /* owned: l->recompute of all layers before this machine was fitted */
};

/* Sets the layers of the machine.  A layer that another machine also runs keeps what that
 * machine needs. */
static void set_counts(struct fit *f, uint32_t full, uint32_t attention)
{
    for (uint32_t i = 0; i < f->n; i++) {
        uint8_t kind = i < full               ? WEFT_RECOMPUTE_FULL
                       : i < full + attention ? WEFT_RECOMPUTE_ATTENTION
                                              : WEFT_RECOMPUTE_NONE;
        uint8_t before = f->before[f->layers[i]];
        f->l->recompute[f->layers[i]] = kind > before ? kind : before;
    }
}

static enum weft_status fits(struct fit *f, uint32_t full, uint32_t attention, bool *out,
                             struct weft_error *err)
{
    size_t sum = 0;
    set_counts(f, full, attention);
    for (uint32_t r = f->rank0; r < f->rank1; r++) {
        struct wf_rank_bytes b;
        WEFT_TRY(wf_topology_rank_bytes(f->l, r, f->copies, &b, err));
        sum = b.total > SIZE_MAX - sum ? SIZE_MAX : sum + b.total;
    }
    *out = sum <= f->l->memory_limit;
    return WEFT_OK;
}

/* Finds the counts with the fewest recomputed operations.  The more layers recompute
 * everything, the fewer need to recompute their attention, so both counts are followed along
 * the border of what fits: about 2 n combinations. */
static enum weft_status fit_machine(struct fit *f, struct weft_error *err)
{
    const struct wf_topology *l = f->l;
    double share[2] = {weft_recompute_share(&l->model, WEFT_RECOMPUTE_FULL, l->seq),
                       weft_recompute_share(&l->model, WEFT_RECOMPUTE_ATTENTION, l->seq)};
    uint32_t best_full = f->n, best_attention = 0, attention = f->n;
    double best = f->n * share[0];
    bool ok;
    WEFT_TRY(fits(f, 0, 0, &ok, err));
    if (ok)
        return WEFT_OK;

    for (uint32_t full = 0; full <= f->n && attention > 0; full++) {
        attention = attention < f->n - full ? attention : f->n - full;
        WEFT_TRY(fits(f, full, attention, &ok, err));
        if (!ok)
            continue;
        while (attention > 0 && ok) {
            WEFT_TRY(fits(f, full, attention - 1, &ok, err));
            attention -= ok;
        }
        double work = full * share[0] + attention * share[1];
        if (work < best) {
            best = work;
            best_full = full;
            best_attention = attention;
        }
    }
    set_counts(f, best_full, best_attention);
    return WEFT_OK;
}

static void list_layers(struct fit *f)
{
    const struct wf_topology *l = f->l;
    f->n = 0;
    for (uint32_t s = 0; s < l->n_stages; s++) {
        bool runs = false;
        for (uint32_t r = f->rank0; r < f->rank1; r++)
            runs = runs || wf_topology_runs_stage(l, r, s);
        for (uint32_t k = l->partition.at[s].first_layer;
             runs && k < l->partition.at[s].end_layer; k++)
            f->layers[f->n++] = k;
    }
    memcpy(f->before, l->recompute, l->model.layers * sizeof *f->before);
}

enum weft_status wf_topology_fit_recompute(struct wf_topology *l, bool copies,
                                           struct weft_error *err)
{
    struct fit f = {.l = l,
                    .copies = copies,
                    .layers = calloc(l->model.layers, sizeof *f.layers),
                    .before = calloc(l->model.layers, sizeof *f.before)};
    enum weft_status st = WEFT_OK;
    if (f.layers == NULL || f.before == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the topology");
    for (; st == WEFT_OK && f.rank0 < l->n_ranks; f.rank0 += l->ranks_per_host) {
        uint32_t rest = l->n_ranks - f.rank0;
        f.rank1 = f.rank0 + (rest < l->ranks_per_host ? rest : l->ranks_per_host);
        list_layers(&f);
        st = fit_machine(&f, err);
    }
    free(f.layers);
    free(f.before);
    return st == WEFT_OK ? wf_topology_sum_stages(l, err) : st;
}

/* -- printing ------------------------------------------------------------------------------ */

void wf_topology_print_recompute(const struct wf_topology *l, struct wf_text *out)
{
    uint32_t n = l->model.layers;
    const char *comma = "";
    uint8_t last = WEFT_RECOMPUTE_NONE;
    for (uint32_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && l->recompute[end] == l->recompute[first];)
            end++;
        const char *name = weft_recompute_name((enum weft_recompute)l->recompute[first]);
        if (end - first == n) {
            wf_text_adds(out, name);
            return;
        }

        if (l->recompute[first] == WEFT_RECOMPUTE_NONE)
            continue;
        wf_text_adds(out, comma);
        if (l->recompute[first] != last)
            wf_text_addf(out, "%s:", name);
        wf_text_addf(out, "%u", first);
        if (end - first > 1)
            wf_text_addf(out, "-%u", end - 1);
        last = l->recompute[first];
        comma = ",";
    }
}
