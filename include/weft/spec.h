/* What is partitioned: models, and the time and bytes of their items.
 *
 * An item is a piece of the model that is never cut: the embedding, one transformer layer, or
 * the head (final norm, logits, loss).  Items come from a model's shape, or are all alike:
 *
 *     struct weft_model model;
 *     struct weft_items items;
 *     if (weft_model_find("gpt2-124m", &model, &err) != WEFT_OK ||
 *         weft_items_init_model(&items, &model, 4, 1024, &err) != WEFT_OK)
 *         ...
 *     use(&items.at[0]); ... the embedding; 1 .. n-2: the layers; n-1: the head
 *     weft_items_release(&items);
 *
 * weft/part.h cuts items into stages.
 */
#ifndef WEFT_SPEC_H
#define WEFT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_MAX_LAYERS = 1 << 20 };

/* -- models -------------------------------------------------------------------------------- */

enum weft_arch {
    WEFT_ARCH_GPT2,  /* LayerNorm, learned positions, GELU, biases */
    WEFT_ARCH_LLAMA, /* RMSNorm, RoPE, SwiGLU, grouped-query attention, no biases */
};

enum weft_rope_kind {
    WEFT_ROPE_PLAIN,  /* frequency i of a head of d elements: theta^(-2i/d) */
    WEFT_ROPE_LINEAR, /* all frequencies divided by `factor` */
    WEFT_ROPE_LLAMA3, /* the low ones divided by `factor`, the high ones kept, a blend between */
};

/* How Llama turns queries and keys by their position.  Fields that a kind does not name are not
 * looked at. */
struct weft_rope {
    enum weft_rope_kind kind;
    double theta;
    double factor;    /* linear, llama3 */
    double low, high; /* llama3: wavelengths above ctx / low are low, below ctx / high high */
    uint32_t ctx;     /* llama3: the longest sequence before the context was stretched */
};

/* The shape of a decoder-only transformer, and the numbers its layers compute with.  A head of
 * attention has dim / heads elements. */
struct weft_model {
    enum weft_arch arch;
    uint32_t layers, dim;
    uint32_t heads, kv_heads; /* the same without grouped queries; always so for GPT-2 */
    uint32_t ffn;             /* width of the MLP's inside */
    uint32_t vocab, ctx;      /* tokens known; the longest sequence */
    bool tied;                /* the head multiplies by the embedding's own weight */
    float norm_eps;           /* added to the variance, or the mean square, in every norm */
    /* Layers of a block of block attention residuals: before each attention and each MLP the
     * embedding, the sums of finished blocks and the open sum are mixed by a learned query.  0:
     * plain residuals. */
    uint32_t residual_block_layers;
    struct weft_rope rope; /* Llama; GPT-2 does not look at it */
};

/* What a model has unless it is said otherwise; rope is plain. */
#define WEFT_NORM_EPS_DEFAULT 1e-5F
#define WEFT_ROPE_THETA_DEFAULT 10000.0

struct weft_preset {
    const char *name, *help;
    struct weft_model model;
};

/* "gpt2", "llama" */
WEFT_API const char *weft_arch_name(enum weft_arch arch);

/* The models known by name, in the order they are shown.  Beside them "dN", 1 <= N <= 256, is
 * GPT-2 with N layers of dimension 64 * N: "d12" has the shape of gpt2-124m. */
WEFT_API const struct weft_preset *weft_presets(size_t *n);

/* WEFT_USAGE with the nearest name when there is none of this one. */
WEFT_API enum weft_status weft_model_find(const char *name, struct weft_model *out,
                                          struct weft_error *err);

/* Every size at least 1, heads that divide evenly (and are of even size, where they are turned),
 * no more layers than WEFT_MAX_LAYERS, no more in a residual block than there are, numbers finite and
 * positive. */
WEFT_API enum weft_status weft_model_check(const struct weft_model *model,
                                           struct weft_error *err);

/* Parameters of the whole model; a tied weight counts once.  Block residuals add a query and a
 * norm of dim elements before each attention, each MLP and the head. */
WEFT_API enum weft_status weft_model_count_params(const struct weft_model *model, size_t *out,
                                                  struct weft_error *err);

/* Floating-point operations that training takes for one token of sequences of `seq`, as utilization
 * is usually counted: 6 for each parameter in a matrix product (two in the forward, four in the
 * backward; the head's, tied or not, too) and 6 * layers * seq * dim for attention, of which the
 * causal mask leaves half.  What is computed again is not counted. */
WEFT_API enum weft_status weft_model_token_flops(const struct weft_model *model, uint32_t seq,
                                                 double *out, struct weft_error *err);

/* -- items --------------------------------------------------------------------------------- */

/* What one item costs.  Times are of one micro, in any unit that all items share. */
struct weft_item {
    double f, i, w;     /* forward, input gradient, weight gradient */
    size_t state_bytes; /* held all the time: weights, gradients, optimizer */
    size_t act_bytes;   /* saved activations of one micro, from F to the end of the backward */
};

struct weft_items {
    size_t n;             /* layers + 2 */
    struct weft_item *at; /* owned: the embedding, the layers in order, the head */
    /* Part of both the embedding's and the head's state_bytes: a tied weight.  A rank that
     * holds both has it once. */
    size_t shared_bytes;
};

/* n_layers layers that all cost `layer`.  A zero embedding or head is free.
 * weft_items_release() frees what the caller then owns. */
WEFT_API enum weft_status weft_items_init_uniform(struct weft_items *items, uint32_t n_layers,
                                                  struct weft_item layer,
                                                  struct weft_item embedding,
                                                  struct weft_item head,
                                                  struct weft_error *err);

/* The items of a model for micros of `rows` sequences of `seq` tokens.
 *
 * Times are floating-point operations of the matrix products, two for each multiply-add:
 *
 *                 f                       i                       w
 *     embedding   tokens*dim              0                       tokens*dim (a scatter)
 *     layer       linear + scores         linear + 2 * scores     linear
 *     head        2*tokens*dim*vocab      the same                the same
 *
 * linear = 2 * tokens * the layer's matrix elements; scores = 4 * tokens * seq * dim, the
 * products of queries with keys and of weights with values, counted whole (no half for the
 * causal mask, as is usual for model FLOPs).  Scores have no weights, so their whole backward
 * is in i.  A layer's i + w is 2 f.  Norms, activations and the softmax are not counted.
 *
 * State is 20 bytes a parameter: 4 for the fp32 weight, 8 for the exact gradient sum (int64), 8
 * for the two moments of AdamW.  A matrix that multiplies has 8 more: it lies there once more,
 * packed, for products with it and with its transpose.  A tied weight is in the embedding and in
 * the head, packed in the head alone, and (20 bytes) in shared_bytes.
 *
 * Saved activations are fp32, without recomputation, attention tiled and the logits in pieces,
 * in elements a token:
 *
 *     embedding    1: the token
 *     GPT-2 layer  5*dim (two norms' inputs and outputs, attention's output) + q, k, v
 *                  + 2*ffn (before and after GELU) + heads (log-sum-exp) + 4 (mean, deviation)
 *     Llama layer  the same, but 3*ffn (gate, up, product) and 2 (root mean squares)
 *     head         2*dim (the norm's input and output) + 3 (log-sum-exp, target, deviation),
 *                  GPT-2 one more (mean)
 *
 * With block residuals a layer also keeps its two mixes and the weights they mixed with, the
 * embedding and every block one vector more, and the head the weights of its mix.
 *
 * What only lives within one pass is not counted.  weft_items_release() frees. */
WEFT_API enum weft_status weft_items_init_model(struct weft_items *items,
                                                const struct weft_model *model, uint32_t rows,
                                                uint32_t seq, struct weft_error *err);
WEFT_API void weft_items_release(struct weft_items *items); /* zeroed items are allowed */

/* At least one layer, no more than WEFT_MAX_LAYERS; times finite and not negative. */
WEFT_API enum weft_status weft_items_check(const struct weft_items *items,
                                           struct weft_error *err);

/* For items that have passed weft_items_check(). */
static inline uint32_t weft_items_n_layers(const struct weft_items *items)
{
    return (uint32_t)(items->n - 2);
}

#ifdef __cplusplus
}
#endif

#endif
