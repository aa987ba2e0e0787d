/* Models, and the time and memory of their items.
 *
 * An item is a part of the model that is never divided: the embedding, one transformer layer,
 * or the head (final norm, logits, loss).  Items are derived from a model, or created with
 * equal costs for all layers:
 *
 *     struct weft_model model;
 *     struct weft_items items;
 *     if (weft_model_find("gpt2-124m", &model, &err) != WEFT_OK ||
 *         weft_items_init_model(&items, &model, 4, 1024, &err) != WEFT_OK)
 *         ...
 *     use(&items.at[0]); ... the embedding; 1 .. n-2: the layers; n-1: the head
 *     weft_items_release(&items);
 *
 * weft/part.h groups items into stages.
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
    /* Low frequencies divided by `factor`, high frequencies unchanged, interpolated between. */
    WEFT_ROPE_LLAMA3,
};

/* Rotary position embeddings of Llama.  A kind uses only the fields that are listed for it. */
struct weft_rope {
    enum weft_rope_kind kind;
    double theta;
    double factor; /* linear, llama3 */
    /* llama3: a frequency is low if its wavelength is > ctx / low, and high if it is < ctx /
     * high. */
    double low, high;
    uint32_t ctx; /* llama3: maximum sequence length before the context was extended */
};

/* The shape and the constants of a decoder-only transformer.  An attention head has dim / heads
 * elements. */
struct weft_model {
    enum weft_arch arch;
    uint32_t layers, dim;
    /* Both are equal without grouped-query attention, and always for GPT-2. */
    uint32_t heads, kv_heads;
    uint32_t ffn;        /* hidden width of the MLP */
    uint32_t vocab, ctx; /* vocabulary size; maximum sequence length */
    bool tied;           /* the head shares the weight of the embedding */
    float norm_eps;      /* added to the variance or mean square in every norm */
    /* Layers per block of block attention residuals: before each attention and each MLP, a
     * learned query mixes the embedding, the sums of finished blocks and the current sum.  0:
     * plain residuals. */
    uint32_t residual_block_layers;
    struct weft_rope rope; /* used by Llama only */
};

/* Default constants of a model.  The default kind of RoPE is plain. */
#define WEFT_NORM_EPS_DEFAULT 1e-5F
#define WEFT_ROPE_THETA_DEFAULT 10000.0

struct weft_preset {
    const char *name, *help;
    struct weft_model model;
};

/* Returns the name of an architecture: "gpt2" or "llama". */
WEFT_API const char *weft_arch_name(enum weft_arch arch);

/* Returns the table of named models, in display order, and stores its length in *n.  The table
 * does not list the names "dN" with 1 <= N <= 256.  "dN" is GPT-2 with N layers of dimension 64
 * * N, so "d12" has the shape of gpt2-124m. */
WEFT_API const struct weft_preset *weft_presets(size_t *n);

/* Finds a model by name.  Returns WEFT_USAGE with the nearest name if the name is unknown. */
WEFT_API enum weft_status weft_model_find(const char *name, struct weft_model *out,
                                          struct weft_error *err);

/* Checks a model: every size is at least 1, `heads` divides `dim`, `kv_heads` divides `heads`,
 * the head size is even if RoPE is used, layers are at most WEFT_MAX_LAYERS, a residual block
 * has at most as many layers as the model, and constants are finite and positive. */
WEFT_API enum weft_status weft_model_check(const struct weft_model *model,
                                           struct weft_error *err);

/* Counts the parameters of a model.  A tied weight counts once.  Block residuals add a query
 * and a norm of dim elements before each attention, each MLP and the head. */
WEFT_API enum weft_status weft_model_count_params(const struct weft_model *model, size_t *out,
                                                  struct weft_error *err);

/* Computes the floating-point operations of training per token of sequences of length `seq`, as
 * is usual for utilization (MFU).  Every parameter of a matrix product counts 6 (2 in the
 * forward, 4 in the backward); this includes the head, tied or not.  Attention counts 6 *
 * layers * seq * dim, half of the full product because of the causal mask.  Recomputation is
 * not counted. */
WEFT_API enum weft_status weft_model_token_flops(const struct weft_model *model, uint32_t seq,
                                                 double *out, struct weft_error *err);

/* -- recomputation ------------------------------------------------------------------------- */

/* The activations of a layer that the backward recomputes instead of storing them.  Results do
 * not depend on it. */
enum weft_recompute {
    WEFT_RECOMPUTE_NONE,
    /* The first norm, queries, keys, values and the output of attention. */
    WEFT_RECOMPUTE_ATTENTION,
    WEFT_RECOMPUTE_FULL, /* everything except the input of the layer */
};
enum { WEFT_N_RECOMPUTE = 3 };

/* Returns the name of a kind of recomputation: "none", "attention" or "full". */
WEFT_API const char *weft_recompute_name(enum weft_recompute r);

/* Returns the operations that a layer recomputes, divided by the operations of its forward, for
 * a model that has passed weft_model_check() and sequences of `seq` tokens: 0 for none; for
 * attention the products that compute queries, keys and values, and the scores; for full all
 * products except the last one of the MLP. */
WEFT_API double weft_recompute_share(const struct weft_model *model, enum weft_recompute r,
                                     uint32_t seq);

/* -- memory of training -------------------------------------------------------------------- */

/* How a model is trained, as far as its memory depends on it.  A zeroed struct means products
 * in fp32, exact sums and no recomputation. */
struct weft_training {
    bool bf16; /* matrix products, and the activations that they read, are in bf16 */
    /* With bf16: the processor multiplies bf16.  Otherwise weights are packed in fp32. */
    bool bf16_packed;
    bool fast_sums; /* gradients are summed in fp32 instead of exactly */
    /* enum weft_recompute of each layer, (model.layers); borrowed; NULL: none. */
    const uint8_t *recompute;
};

/* The permanent memory of parameters in bytes. */
struct weft_state_bytes {
    size_t weights;   /* 4 per parameter: fp32 */
    size_t packed;    /* 8 per factor: a copy for products, and a transposed copy; bf16: 4 */
    size_t gradients; /* 8 per parameter: an exact sum; 4 with fast sums */
    size_t moments;   /* 8 per parameter: two moments of AdamW in fp32 */
};

/* Computes the memory of n_params parameters, n_factors of which belong to matrices of matrix
 * products.  `how` may be NULL, which means the same as a zeroed struct.  Returns WEFT_USAGE if
 * the bytes overflow. */
WEFT_API enum weft_status weft_state_bytes_init(struct weft_state_bytes *out, size_t n_params,
                                                size_t n_factors,
                                                const struct weft_training *how,
                                                struct weft_error *err);

/* Returns the sum of all parts. */
WEFT_API size_t weft_state_bytes_total(const struct weft_state_bytes *b);

/* Returns the number of parameters whose state, without packed copies, has this many bytes. */
WEFT_API size_t weft_state_params(size_t state_bytes, const struct weft_training *how);

/* Returns the bytes per parameter that a reduction sends as gradients: 8, or 4 for fast
 * sums. */
WEFT_API size_t weft_gradient_bytes(const struct weft_training *how);

/* -- items --------------------------------------------------------------------------------- */

/* The cost of one item.  Times are per micro-batch, in any unit that all items share. */
struct weft_item {
    double f, i, w;     /* forward, input gradient, weight gradient */
    size_t state_bytes; /* permanent memory: weights, gradients, optimizer state */
    size_t act_bytes; /* saved activations per micro-batch, from F to the end of the backward */
    /* Activations per micro-batch that the backward recomputes.  A stage has memory for its
     * largest layer, and for all its layers for each micro-batch between I and W. */
    size_t work_bytes;
    /* Buffers that exist once per stage.  The layers of a stage share those of one layer. */
    size_t scratch_bytes;
    struct weft_state_bytes state; /* the parts of state_bytes; all 0: not known */
};

struct weft_items {
    size_t n;             /* layers + 2 */
    struct weft_item *at; /* owned: the embedding, the layers in order, the head */
    /* The bytes of a tied weight, which state_bytes includes for both the embedding and the
     * head.  A stage that has both items stores the weight once. */
    size_t shared_bytes;
    struct weft_state_bytes shared; /* the parts of shared_bytes; all 0: not known */
    size_t stage_bytes;             /* buffers of every stage, whatever its items */
    size_t boundary_bytes;          /* a message between two stages; 0: not known */
};

/* Creates n_layers layers that all cost `layer`.  An embedding or head whose fields are all 0
 * costs nothing.  The caller releases *items. */
WEFT_API enum weft_status weft_items_init_uniform(struct weft_items *items, uint32_t n_layers,
                                                  struct weft_item layer,
                                                  struct weft_item embedding,
                                                  struct weft_item head,
                                                  struct weft_error *err);

/* Creates the items of a model for micro-batches of `rows` sequences of `seq` tokens.  The
 * caller releases *items.
 *
 * Times are floating-point operations of the matrix products, two per multiply-add:
 *
 *                 f                       i                       w
 *     embedding   tokens*dim              0                       tokens*dim (a scatter)
 *     layer       linear + scores         linear + 2 * scores     linear
 *     head        2*tokens*dim*vocab      the same                the same
 *
 * linear = 2 * tokens * the layer's matrix elements.  scores = 4 * tokens * seq * dim: the
 * products of queries with keys and of attention weights with values, counted in full (not
 * halved for the causal mask, as is usual for model FLOPs).  Scores have no weights, so their
 * whole backward is in i.  For a layer, i + w is 2 f.  Norms, activation functions and the
 * softmax are not counted.
 *
 * State is 20 bytes per parameter: 4 for the fp32 weight, 8 for the exact gradient sum (int64),
 * 8 for the two moments of AdamW.  A matrix of a matrix product takes 8 more bytes per
 * parameter, because two packed copies are also stored: one for products with the matrix and
 * one for products with its transpose.  A tied weight is part of the embedding and of the head,
 * is packed in the head only, and is counted (20 bytes) in shared_bytes.
 *
 * Saved activations are fp32.  There is no recomputation, attention is tiled, and logits are
 * computed in pieces.  The saved elements per token are:
 *
 *     embedding    1: the token
 *     GPT-2 layer  5*dim (two norms' inputs and outputs, attention's output) + q, k, v
 *                  + 2*ffn (before and after GELU) + heads (log-sum-exp) + 4 (mean, deviation)
 *     Llama layer  the same, but 3*ffn (gate, up, product) and 2 (root mean squares)
 *     head         2*dim (the norm's input and output) + 3 (log-sum-exp, target, deviation),
 *                  GPT-2 one more (mean)
 *
 * With block attention residuals a layer also saves its two mixes and their weights, the
 * embedding and every block save one more vector, and the head saves the weights of its mix.
 *
 * The buffers of a stage are those of fp32 products with one thread: the gradient of a layer's
 * input, the inside of its MLP, and packed factors; on the last stage also the logits of 512
 * tokens. */
WEFT_API enum weft_status weft_items_init_model(struct weft_items *items,
                                                const struct weft_model *model, uint32_t rows,
                                                uint32_t seq, struct weft_error *err);

/* Creates the items of a model that is trained as `how` describes (NULL: as a zeroed struct).
 * Recomputation adds its operations to i and moves bytes from act_bytes to work_bytes.  With
 * bf16, activations that products read have 2 bytes per element, and a layer also saves two
 * gradients of dim elements.  The caller releases *items. */
WEFT_API enum weft_status weft_items_init_training(struct weft_items *items,
                                                   const struct weft_model *model,
                                                   uint32_t rows, uint32_t seq,
                                                   const struct weft_training *how,
                                                   struct weft_error *err);

/* Frees the items.  Zeroed items are allowed. */
WEFT_API void weft_items_release(struct weft_items *items);

/* Checks items: 1 to WEFT_MAX_LAYERS layers, and times that are finite and not negative. */
WEFT_API enum weft_status weft_items_check(const struct weft_items *items,
                                           struct weft_error *err);

/* Returns the number of layers.  The items must have passed weft_items_check(). */
static inline uint32_t weft_items_n_layers(const struct weft_items *items)
{
    return (uint32_t)(items->n - 2);
}

#ifdef __cplusplus
}
#endif

#endif
