#include "kern/gemm_dnnl.h"

#include <assert.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The engine and its stream hold no state of ours; one of each serves all products. */
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static bool usable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void release_engine(void)
{
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
}

static void make_engine(void)
{
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        return;
    if (dnnl_stream_create(&stream, engine, dnnl_stream_default_flags) != dnnl_success) {
        dnnl_engine_destroy(engine);
        return;
    }
    usable = true;
    atexit(release_engine);
}

enum { SRC, WEIGHTS, DST, BIAS, SCRATCH, N_ARGS };
static const int arg_ids[N_ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                    DNNL_ARG_SCRATCHPAD};

struct weft_dnnl_tile {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    bool bias;
    unsigned workers;
    dnnl_memory_t (*memories)[N_ARGS]; /* owned, of each worker; BIAS may be NULL */
    dnnl_exec_arg_t (*args)[N_ARGS];   /* owned, of each worker */
    int n_args;
};

static enum weft_type factor_type(enum weft_pack_form form)
{
    return form == WEFT_PACK_BF16_PAIRS ? WEFT_BF16 : WEFT_F32;
}

static dnnl_data_type_t type_of(enum weft_type type)
{
    return type == WEFT_F32 ? dnnl_f32 : dnnl_bf16;
}

/* dnnl.h asks for arrays of its largest rank. */
static bool plain_desc(dnnl_memory_desc_t *md, size_t rows, size_t cols, size_t ld,
                       dnnl_data_type_t type)
{
    dnnl_dims_t dims = {(dnnl_dim_t)rows, (dnnl_dim_t)cols};
    dnnl_dims_t strides = {(dnnl_dim_t)ld, 1};
    return dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides) == dnnl_success;
}

static bool packed_desc(dnnl_memory_desc_t *md, const struct weft_dnnl_shape *s)
{
    dnnl_dims_t dims = {(dnnl_dim_t)s->k, (dnnl_dim_t)s->n};
    dnnl_format_tag_t tag = s->form == WEFT_PACK_BF16_PAIRS ? dnnl_BA16a64b2a : dnnl_BA16a64b;
    return dnnl_memory_desc_init_by_tag(md, 2, dims, type_of(factor_type(s->form)), tag) ==
           dnnl_success;
}

static dnnl_primitive_attr_t make_attr(const struct weft_dnnl_shape *s)
{
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success)
        return NULL;
    bool ok = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
              dnnl_success;
    if (ok && s->sum) {
        ok = dnnl_post_ops_create(&post) == dnnl_success;
        if (ok) {
            ok = dnnl_post_ops_append_sum(post, 1.0f) == dnnl_success &&
                 dnnl_primitive_attr_set_post_ops(attr, post) == dnnl_success;
            dnnl_post_ops_destroy(post);
        }
    }
    if (!ok) {
        dnnl_primitive_attr_destroy(attr);
        return NULL;
    }
    return attr;
}

/* Only kernels made for packed factors: oneDNN's others would unpack and pack again. */
static bool made_for_packed(dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name) ==
               dnnl_success &&
           name != NULL && strncmp(name, "brg:", 4) == 0;
}

static bool make_desc(struct weft_dnnl_tile *t, const struct weft_dnnl_shape *s)
{
    dnnl_memory_desc_t src, weights, dst, bias;
    dnnl_matmul_desc_t op;
    dnnl_dims_t bias_dims = {1, (dnnl_dim_t)s->n};
    if (!plain_desc(&src, s->m, s->k, s->lda, type_of(factor_type(s->form))) ||
        !packed_desc(&weights, s) ||
        !plain_desc(&dst, s->m, s->n, s->ldc, type_of(s->c_type)) ||
        dnnl_memory_desc_init_by_tag(&bias, 2, bias_dims, dnnl_f32, dnnl_ab) != dnnl_success ||
        dnnl_matmul_desc_init(&op, &src, &weights, s->bias ? &bias : NULL, &dst) !=
            dnnl_success)
        return false;
    dnnl_primitive_attr_t attr = make_attr(s);
    if (attr == NULL)
        return false;
    dnnl_status_t st = dnnl_primitive_desc_create(&t->desc, &op, attr, engine, NULL);
    dnnl_primitive_attr_destroy(attr);
    if (st != dnnl_success) {
        t->desc = NULL;
        return false;
    }
    return made_for_packed(t->desc);
}

static bool make_memories(struct weft_dnnl_tile *t)
{
    static const dnnl_query_t queries[N_ARGS] = {dnnl_query_src_md, dnnl_query_weights_md,
                                                 dnnl_query_dst_md, dnnl_query_weights_md,
                                                 dnnl_query_scratchpad_md};
    t->memories = calloc(t->workers, sizeof *t->memories);
    t->args = calloc(t->workers, sizeof *t->args);
    if (t->memories == NULL || t->args == NULL)
        return false;
    for (unsigned w = 0; w < t->workers; w++) {
        t->n_args = 0;
        for (int i = 0; i < N_ARGS; i++) {
            if (i == BIAS && !t->bias)
                continue;
            const dnnl_memory_desc_t *md =
                dnnl_primitive_desc_query_md(t->desc, queries[i], i == BIAS);
            if (md == NULL || dnnl_memory_create(&t->memories[w][i], md, engine,
                                                 DNNL_MEMORY_NONE) != dnnl_success)
                return false;
            t->args[w][t->n_args++] = (dnnl_exec_arg_t){arg_ids[i], t->memories[w][i]};
        }
    }
    return true;
}

struct weft_dnnl_tile *weft_dnnl_tile_new(const struct weft_dnnl_shape *shape, unsigned workers)
{
    pthread_once(&once, make_engine);
    /* Its panels have whole groups of 16 or 32 rows; ours have just the factor's. */
    size_t group = shape->form == WEFT_PACK_BF16_PAIRS ? 32 : 16;
    if (!usable || weft_isa() < WEFT_ISA_AVX512 || shape->k % group != 0)
        return NULL;
    struct weft_dnnl_tile *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->bias = shape->bias;
    t->workers = workers;
    if (!make_desc(t, shape) || dnnl_primitive_create(&t->primitive, t->desc) != dnnl_success ||
        !make_memories(t)) {
        weft_dnnl_tile_free(t);
        return NULL;
    }
    return t;
}

void weft_dnnl_tile_free(struct weft_dnnl_tile *t)
{
    if (t == NULL)
        return;
    for (unsigned w = 0; t->memories != NULL && w < t->workers; w++)
        for (int i = 0; i < N_ARGS; i++)
            if (t->memories[w][i] != NULL)
                dnnl_memory_destroy(t->memories[w][i]);
    if (t->primitive != NULL)
        dnnl_primitive_destroy(t->primitive);
    if (t->desc != NULL)
        dnnl_primitive_desc_destroy(t->desc);
    free(t->memories);
    free(t->args);
    free(t);
}

size_t weft_dnnl_tile_scratch(const struct weft_dnnl_tile *t)
{
    return dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(t->desc, dnnl_query_scratchpad_md, 0));
}

const char *weft_dnnl_tile_name(const struct weft_dnnl_tile *t)
{
    const char *name = "";
    dnnl_primitive_desc_query(t->desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

void weft_dnnl_tile_run(struct weft_dnnl_tile *t, unsigned worker, const void *a, const void *b,
                        const float *bias, void *c, void *scratch)
{
    dnnl_memory_t *m = t->memories[worker];
    dnnl_memory_set_data_handle(m[SRC], (void *)a);
    dnnl_memory_set_data_handle(m[WEIGHTS], (void *)b);
    dnnl_memory_set_data_handle(m[DST], c);
    if (t->bias)
        dnnl_memory_set_data_handle(m[BIAS], (void *)bias);
    dnnl_memory_set_data_handle(m[SCRATCH], scratch);
    dnnl_status_t st = dnnl_primitive_execute(t->primitive, stream, t->n_args, t->args[worker]);
    assert(st == dnnl_success);
    (void)st;
}
