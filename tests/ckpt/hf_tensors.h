/* The tensors of a model as the Hugging Face format lists them, for the tests
 * of its directories. */
#ifndef CKPT_HF_TENSORS_H
#define CKPT_HF_TENSORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "training/ckpt/hf.h"

struct hf_tensors {
    struct wf_hf_tensor at[200];
    char names[200][80];
    size_t n;
};

static inline void hf_add(struct hf_tensors *all, const char *name, uint64_t rows,
                          uint64_t cols)
{
    struct wf_hf_tensor *t = &all->at[all->n];
    snprintf(all->names[all->n], sizeof all->names[0], "%s", name);
    *t = (struct wf_hf_tensor){all->names[all->n], cols > 0 ? 2 : 1, {rows, cols}};
    all->n++;
}

/* Adds a tensor of a layer.  Its name starts with `format`, the number of the layer
 * and a dot. */
static inline void hf_add_in(struct hf_tensors *all, const char *format, uint32_t layer,
                             const char *name, uint64_t rows, uint64_t cols)
{
    char prefix[40], whole[80];
    snprintf(prefix, sizeof prefix, "%s%u", format, layer);
    snprintf(whole, sizeof whole, "%s.%s", prefix, name);
    hf_add(all, whole, rows, cols);
}

static inline void hf_list_gpt2(const struct weft_model *m, struct hf_tensors *all)
{
    uint64_t c = m->dim;
    const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = {
        {"ln_1.weight", c, 0},
        {"ln_1.bias", c, 0},
        {"attn.c_attn.weight", c, 3 * c},
        {"attn.c_attn.bias", 3 * c, 0},
        {"attn.c_proj.weight", c, c},
        {"attn.c_proj.bias", c, 0},
        {"ln_2.weight", c, 0},
        {"ln_2.bias", c, 0},
        {"mlp.c_fc.weight", c, m->ffn},
        {"mlp.c_fc.bias", m->ffn, 0},
        {"mlp.c_proj.weight", m->ffn, c},
        {"mlp.c_proj.bias", c, 0},
    };

    hf_add(all, "transformer.wte.weight", m->vocab, c);
    hf_add(all, "transformer.wpe.weight", m->ctx, c);

    for (uint32_t l = 0; l < m->layers; l++)
        for (size_t i = 0; i < WEFT_LEN(layer); i++)
            hf_add_in(all, "transformer.h.", l, layer[i].name, layer[i].rows, layer[i].cols);

    hf_add(all, "transformer.ln_f.weight", c, 0);
    hf_add(all, "transformer.ln_f.bias", c, 0);
}

static inline void hf_list_llama(const struct weft_model *m, struct hf_tensors *all)
{
    uint64_t d = m->dim, kv = (uint64_t)m->dim / m->heads * m->kv_heads, f = m->ffn;
    const struct {
        const char *name;
        uint64_t rows, cols;
    } layer[] = {
        {"input_layernorm.weight", d, 0},    {"self_attn.q_proj.weight", d, d},
        {"self_attn.k_proj.weight", kv, d},  {"self_attn.v_proj.weight", kv, d},
        {"self_attn.o_proj.weight", d, d},   {"post_attention_layernorm.weight", d, 0},
        {"mlp.gate_proj.weight", f, d},      {"mlp.up_proj.weight", f, d},
        {"mlp.down_proj.weight", d, f},      {"attn_residual.query", d, 0},
        {"attn_residual.norm.weight", d, 0}, {"mlp_residual.query", d, 0},
        {"mlp_residual.norm.weight", d, 0},
    };

    size_t n = m->residual_block_layers > 0 ? WEFT_LEN(layer) : 9;
    hf_add(all, "model.embed_tokens.weight", m->vocab, d);
    for (uint32_t l = 0; l < m->layers; l++)
        for (size_t i = 0; i < n; i++)
            hf_add_in(all, "model.layers.", l, layer[i].name, layer[i].rows, layer[i].cols);

    hf_add(all, "model.norm.weight", d, 0);
    if (m->residual_block_layers > 0) {
        hf_add(all, "model.output_residual.query", d, 0);
        hf_add(all, "model.output_residual.norm.weight", d, 0);
    }
}

static inline void hf_list_tensors(const struct weft_model *m, struct hf_tensors *all)
{
    all->n = 0;
    if (m->arch == WEFT_ARCH_GPT2)
        hf_list_gpt2(m, all);
    else
        hf_list_llama(m, all);
    if (!m->tied)
        hf_add(all, "lm_head.weight", m->vocab, m->dim);
}

static inline size_t hf_elements(const struct wf_hf_tensor *t)
{
    return (size_t)(t->n_dims == 1 ? t->shape[0] : t->shape[0] * t->shape[1]);
}

static inline void hf_names_of(const struct hf_tensors *all, const char *names[200])
{
    for (size_t i = 0; i < all->n; i++)
        names[i] = all->at[i].name;
}
static inline void hf_assert_model(const struct weft_model *m, const struct weft_model *want)
{
    assert_int_equal(m->arch, want->arch);
    assert_int_equal(m->layers, want->layers);
    assert_int_equal(m->dim, want->dim);
    assert_int_equal(m->heads, want->heads);
    assert_int_equal(m->kv_heads, want->kv_heads);
    assert_int_equal(m->ffn, want->ffn);
    assert_int_equal(m->vocab, want->vocab);
    assert_int_equal(m->ctx, want->ctx);
    assert_int_equal(m->tied, want->tied);
    assert_true(m->norm_eps == want->norm_eps);
    assert_int_equal(m->residual_block_layers, want->residual_block_layers);
    assert_true(m->arch == WEFT_ARCH_GPT2 || m->rope.theta == want->rope.theta);
}

#endif
