/* Sets the recomputation of each layer from a list of ranges. */
#include "planning/part/recompute_layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The layers that are being set. */
struct marks {
    const char *what;
    uint32_t n_layers;
    uint8_t *kinds;
    bool *listed; /* owned: the layers that an earlier range has set */
};

static enum weft_status check_range(const struct marks *m, const struct wf_recompute_range *r,
                                    const struct weft_partition *p, struct weft_error *err)
{
    bool stages = r->unit == WF_RECOMPUTE_STAGES;
    uint32_t n = stages ? p->n_stages : m->n_layers;
    if (r->unit == WF_RECOMPUTE_ALL || r->last < n)
        return WEFT_OK;
    return WEFT_FAIL(err, WEFT_USAGE, "%s: column %zu: there is no %s %u; expected 0 to %u",
                     m->what, r->column, stages ? "stage" : "layer", r->last, n - 1);
}

static enum weft_status set_range(struct marks *m, const struct wf_recompute_range *r,
                                  const struct weft_partition *p, struct weft_error *err)
{
    uint32_t begin = r->first, end = r->last + 1;
    WEFT_TRY(check_range(m, r, p, err));
    if (r->unit == WF_RECOMPUTE_ALL) {
        begin = 0;
        end = m->n_layers;
    } else if (r->unit == WF_RECOMPUTE_STAGES) { /* stages are consecutive */
        begin = p->at[r->first].first_layer;
        end = p->at[r->last].end_layer;
    }

    for (uint32_t layer = begin; layer < end; layer++) {
        if (m->listed[layer])
            return WEFT_FAIL(err, WEFT_USAGE, "%s: column %zu: layer %u is listed twice",
                             m->what, r->column, layer);
        m->listed[layer] = true;
        m->kinds[layer] = (uint8_t)r->kind;
    }
    return WEFT_OK;
}

enum weft_status wf_recompute_set_layers(const struct wf_recompute_list *list, const char *what,
                                         uint32_t n_layers, const struct weft_partition *p,
                                         uint8_t *out, struct weft_error *err)
{
    struct marks m = {what, n_layers, out, calloc(n_layers, sizeof *m.listed)};
    enum weft_status st = WEFT_OK;
    if (m.listed == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %u layers", n_layers);
    memset(out, WEFT_RECOMPUTE_NONE, n_layers);
    for (size_t i = 0; st == WEFT_OK && i < list->n; i++)
        if (p != NULL || list->at[i].unit != WF_RECOMPUTE_STAGES)
            st = set_range(&m, &list->at[i], p, err);
    free(m.listed);
    return st;
}

bool wf_recompute_has_stages(const struct wf_recompute_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].unit == WF_RECOMPUTE_STAGES)
            return true;
    return false;
}
