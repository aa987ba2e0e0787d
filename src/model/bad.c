/* Where a loss that is no number began. */
#include "base/error.h"
#include "model/stage_priv.h"

static const struct {
    enum field field;
    const char *what;
} watched[] = {{F_X1, "the input"},
               {F_H1, "the mix before attention"},
               {F_A1, "the norm before attention"},
               {F_QKV, "queries, keys or values"},
               {F_ATT, "attention's output"},
               {F_X2, "the stream after attention"},
               {F_H2, "the mix before the MLP"},
               {F_A2, "the norm before the MLP"},
               {F_GATE, "the MLP's gate"},
               {F_UP, "the MLP's inside"},
               {F_ACT, "the MLP's activation"}};

static size_t field_cols(const struct weft_tstage *t, enum field f)
{
    if (f == F_QKV)
        return t->qkv_cols;
    return f == F_UP || f == F_ACT || f == F_GATE ? t->ffn : t->dim;
}

/* The first parameter with a value that is none, which is the cause more often than not. */
static enum weft_status find_bad_value(const struct weft_tstage *t, struct weft_error *err)
{
    for (size_t i = 0; i < t->n_params; i++) {
        const struct weft_param *p = &t->params[i];
        struct weft_mat m = {p->value, p->desc.shape[1], WEFT_F32};
        size_t at = t->ops->find_bad(m, p->desc.shape[0], p->desc.shape[1]);
        if (at != SIZE_MAX)
            return WEFT_FAIL(
                err, WEFT_NUMERIC,
                "the loss is not finite: %s has a value that is not, at element %zu",
                p->desc.name, at);
    }
    return WEFT_OK;
}

static enum weft_status find_bad_in_layer(struct pass *p, uint32_t layer,
                                          struct weft_error *err)
{
    const struct weft_tstage *t = p->t;
    weft_layer_again(p, layer); /* what was not kept */
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) {
        enum field f = watched[i].field;
        if (!t->place[f].there || (f == F_X1 && weft_opens_block(p, layer)))
            continue;
        size_t cols = field_cols(t, f);
        size_t at = t->ops->find_bad(weft_tstage_field(p, layer, f), p->tokens, cols);
        if (at != SIZE_MAX)
            return WEFT_FAIL(err, WEFT_NUMERIC,
                             "the loss is not finite: in layer %u %s is not, at token %zu",
                             t->layer0 + layer, watched[i].what, at / cols);
    }
    size_t at = t->ops->find_bad(weft_layer_output(p, layer), p->tokens, t->dim);
    if (at != SIZE_MAX)
        return WEFT_FAIL(err, WEFT_NUMERIC,
                         "the loss is not finite: layer %u's output is not, at token %zu",
                         t->layer0 + layer, at / t->dim);
    return WEFT_OK;
}

enum weft_status weft_find_bad(struct pass *p, struct weft_error *err)
{
    const struct weft_tstage *t = p->t;
    WEFT_TRY(find_bad_value(t, err));
    for (uint32_t l = 0; l < t->n_layers; l++)
        WEFT_TRY(find_bad_in_layer(p, l, err));
    return WEFT_FAIL(err, WEFT_NUMERIC,
                     "the loss is not finite: the head's logits are too large");
}
