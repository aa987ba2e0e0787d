/* Measures each kernel alone, at the shapes of a model.  Matrix products and attention are
 * compared with the machine's peak.  For all other kernels, the bytes moved per second are
 * reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/pages.h"
#include "base/random.h"
#include "base/size.h"
#include "bench/bench_priv.h"
#include "compute/kern/attention.h"
#include "compute/kern/gemm.h"
#include "compute/kern/peak.h"
#include "compute/kern/sums.h"
#include "runtime/sync/wide.h"
#include "weft/spec.h"

enum { BUFFERS = 8, BLOCK = 32 };

struct kernel_bench {
    const struct wf_bench_params *s;
    struct weft_model model;
    enum wf_dtype type;
    struct wf_pool *pool;
    const struct wf_ops *ops;
    wf_bench_kernel_fn *each;
    void *ctx;
    size_t tokens;
    float *buffer[BUFFERS]; /* owned: `size` floats each */
    size_t size;
};

typedef void run_fn(void *arg);

/* Reports the best of several runs.  The machine's peak is measured before each run. */
static void measure(struct kernel_bench *b, struct wf_bench_kernel *f, run_fn *run, void *arg)
{
    double best = 1e30, peak = 0;
    run(arg);
    for (uint32_t i = 0; i < b->s->repeat; i++) {
        double now = wf_peak_flops(b->pool, b->type);
        peak = now > peak ? now : peak;
        int64_t start = wf_clock_ns();
        run(arg);
        double seconds = (double)(wf_clock_ns() - start) / 1e9;
        best = seconds < best ? seconds : best;
    }

    f->seconds = best;
    f->rate = (f->flops != 0 ? f->flops : f->bytes) / best;
    f->share = f->flops != 0 ? f->rate / peak : 0;
    f->threads = wf_pool_threads(b->pool);
    b->each(b->ctx, f);
}

static struct wf_mat mat(const struct kernel_bench *b, int i, size_t cols, enum wf_dtype type)
{
    return (struct wf_mat){b->buffer[i], wf_row_length(cols, type), type};
}

/* -- products ------------------------------------------------------------------------------- */

struct product_case {
    struct kernel_bench *b;
    struct wf_gemm *product;
    struct wf_wgrad *outer;
    struct wf_gemm_args args;
    struct wf_sink sink;
    struct wf_mat x, y;
    size_t in, out;
};

static void run_product(void *arg)
{
    struct product_case *c = arg;
    wf_gemm_run(c->product, c->b->pool, &c->args);
}

static void run_outer(void *arg)
{
    struct product_case *c = arg;
    wf_wgrad_run(c->outer, c->b->pool, c->sink, c->x, c->in, c->y, c->out, c->args.rows);
}

static enum weft_status bench_product(struct kernel_bench *b, const char *name, size_t rows,
                                      size_t n, size_t k, struct weft_error *err)
{
    struct product_case c = {.b = b};
    struct wf_packed packed = {.k = k, .n = n, .form = wf_pack_form(b->type)};
    struct wf_mat x = mat(b, 0, k, b->type), y = mat(b, 1, n, WF_DTYPE_F32);
    struct wf_gemm_shape shape = {
        .n = n, .k = k, .type = b->type, .lda = x.ld, .c_type = WF_DTYPE_F32, .ldc = y.ld};
    WEFT_TRY(wf_gemm_new(&shape, &rows, 1, b->pool, &c.product, err));
    packed.at = b->buffer[2];
    wf_pack_rows(&packed, NULL, b->buffer[3], k, n, 0, k);
    c.args = (struct wf_gemm_args){.rows = rows, .a = x, .b = &packed, .c = y};
    struct wf_bench_kernel f = {.name = name,
                                .flops = 2.0 * (double)rows * (double)n * (double)k};
    snprintf(f.shape, sizeof f.shape, "%zu x %zu x %zu", rows, k, n);
    measure(b, &f, run_product, &c);
    wf_gemm_free(c.product);
    return WEFT_OK;
}

static enum weft_status bench_outer(struct kernel_bench *b, const char *name, size_t rows,
                                    size_t in, size_t out, struct weft_error *err)
{
    struct product_case c = {.b = b,
                             .in = in,
                             .out = out,
                             .x = mat(b, 0, in, b->type),
                             .y = mat(b, 1, out, b->type),
                             .args.rows = rows};
    WEFT_TRY(wf_wgrad_new(rows, out, b->type, b->pool, &c.outer, err));
    struct wf_bench_kernel f = {.name = name,
                                .flops = 2.0 * (double)rows * (double)in * (double)out};
    snprintf(f.shape, sizeof f.shape, "%zu x %zu x %zu", in, rows, out);
    c.sink = (struct wf_sink){.exact = (int64_t *)b->buffer[2], .fresh = true};
    measure(b, &f, run_outer, &c);
    wf_wgrad_free(c.outer);
    return WEFT_OK;
}

static enum weft_status bench_matrix(struct kernel_bench *b, const char *name, size_t in,
                                     size_t out, size_t rows, struct weft_error *err)
{
    char title[60];
    snprintf(title, sizeof title, "%s, forward", name);
    WEFT_TRY(bench_product(b, title, rows, out, in, err));
    snprintf(title, sizeof title, "%s, input gradient", name);
    WEFT_TRY(bench_product(b, title, rows, in, out, err));
    snprintf(title, sizeof title, "%s, weight gradient", name);
    return bench_outer(b, title, rows, in, out, err);
}

/* -- attention ------------------------------------------------------------------------------ */

struct attention_case {
    struct kernel_bench *b;
    struct wf_attention a;
    char *scratch;
    size_t scratch_bytes;
};

static void attend(void *arg, size_t task, unsigned worker)
{
    struct attention_case *c = arg;
    wf_attention_forward(&c->a, task, c->scratch + worker * c->scratch_bytes);
}

static void attend_back(void *arg, size_t task, unsigned worker)
{
    struct attention_case *c = arg;
    wf_attention_backward(&c->a, task, c->scratch + worker * c->scratch_bytes);
}

static void run_attention(void *arg)
{
    struct attention_case *c = arg;
    wf_pool_run(c->b->pool, wf_attention_forward_tasks(&c->a), attend, c);
}

static void run_attention_back(void *arg)
{
    struct attention_case *c = arg;
    wf_pool_run(c->b->pool, wf_attention_backward_tasks(&c->a), attend_back, c);
}

static enum weft_status bench_attention(struct kernel_bench *b, struct weft_error *err)
{
    const struct weft_model *m = &b->model;
    size_t dim = m->dim, head = dim / m->heads, kv = head * m->kv_heads;
    struct wf_mat qkv = mat(b, 0, dim + 2 * kv, b->type), d = mat(b, 4, dim + 2 * kv, b->type);
    struct attention_case c = {.b = b,
                               .a = {.batch = b->s->batch,
                                     .seq = b->s->seq,
                                     .heads = m->heads,
                                     .kv_heads = m->kv_heads,
                                     .head = head,
                                     .q = qkv,
                                     .k = wf_mat_at(qkv, 0, dim),
                                     .v = wf_mat_at(qkv, 0, dim + kv),
                                     .out = mat(b, 1, dim, b->type),
                                     .lse = b->buffer[2],
                                     .dout = mat(b, 3, dim, WF_DTYPE_F32),
                                     .dq = d,
                                     .dk = wf_mat_at(d, 0, dim),
                                     .dv = wf_mat_at(d, 0, dim + kv)}};
    c.scratch_bytes = (wf_attention_scratch(&c.a) + 127) / 64 * 64;
    c.scratch = wf_pages_alloc(c.scratch_bytes * wf_pool_threads(b->pool) + 64);
    if (c.scratch == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for attention");
    char *allocated = c.scratch;
    c.scratch += (64 - (uintptr_t)c.scratch % 64) % 64;

    /* The causal mask removes half of the pairs. */
    double pairs = (double)b->tokens * b->s->seq / 2 * (double)dim;
    struct wf_bench_kernel f = {.name = "attention, forward", .flops = 4 * pairs};
    snprintf(f.shape, sizeof f.shape, "%u x %u, %u heads", b->s->batch, b->s->seq, m->heads);
    measure(b, &f, run_attention, &c);
    f.name = "attention, backward";
    f.flops = 10 * pairs; /* the backward pass recomputes the scores */
    measure(b, &f, run_attention_back, &c);
    free(allocated);
    return WEFT_OK;
}

/* -- passes over rows ----------------------------------------------------------------------- */

struct rows_case {
    struct kernel_bench *b;
    size_t rows, cols;
    wf_task_fn *task;
};

/* Returns the number of rows that a task processes. */
static size_t task_rows(const struct rows_case *c, size_t task)
{
    return wf_size_min(BLOCK, c->rows - task * BLOCK);
}

static void norm_forward(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    size_t row = task * BLOCK;
    float *stats = b->buffer[4];
    (void)worker;
    b->ops->layernorm_forward(wf_mat_at(mat(b, 1, c->cols, b->type), row, 0), stats + row,
                              stats + c->rows + row,
                              wf_mat_at(mat(b, 0, c->cols, WF_DTYPE_F32), row, 0), b->buffer[2],
                              b->buffer[2], 1e-5F, task_rows(c, task), c->cols);
}

static void norm_backward(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    size_t row = task * BLOCK;
    float *stats = b->buffer[4], *sums = b->buffer[5] + task * 2 * c->cols;
    struct wf_mat dx = wf_mat_at(mat(b, 3, c->cols, WF_DTYPE_F32), row, 0), none = {0};
    (void)worker;
    b->ops->layernorm_backward(
        dx, dx, none, sums, sums + c->cols, wf_mat_at(mat(b, 1, c->cols, WF_DTYPE_F32), row, 0),
        wf_mat_at(mat(b, 0, c->cols, WF_DTYPE_F32), row, 0), stats + row, stats + c->rows + row,
        b->buffer[2], task_rows(c, task), c->cols);
}

static void gelu_forward(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    (void)worker;
    b->ops->gelu_forward(wf_mat_at(mat(b, 1, c->cols, b->type), task * BLOCK, 0),
                         wf_mat_at(mat(b, 0, c->cols, b->type), task * BLOCK, 0),
                         task_rows(c, task), c->cols);
}

static void gelu_backward(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    struct wf_mat dy = wf_mat_at(mat(b, 1, c->cols, WF_DTYPE_F32), task * BLOCK, 0);
    (void)worker;
    b->ops->gelu_backward(wf_mat_at(mat(b, 3, c->cols, b->type), task * BLOCK, 0), dy,
                          wf_mat_at(mat(b, 0, c->cols, b->type), task * BLOCK, 0),
                          task_rows(c, task), c->cols);
}

static void cross_entropy(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    double losses[BLOCK];
    int32_t targets[BLOCK] = {0};
    struct wf_mat logits = wf_mat_at(mat(b, 1, c->cols, WF_DTYPE_F32), task * BLOCK, 0);
    (void)worker;
    b->ops->cross_entropy(losses, logits, logits, targets, 1e-3F, task_rows(c, task), c->cols,
                          c->cols);
}

static void adamw(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    struct kernel_bench *b = c->b;
    static const struct wf_adamw how = {1e-4F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.1F, 0.05F, 1.0F};
    size_t at = task * BLOCK * c->cols;
    (void)worker;
    b->ops->adamw(b->buffer[0] + at, b->buffer[1] + at, b->buffer[3] + at,
                  (int64_t *)b->buffer[2] + at, NULL, task_rows(c, task) * c->cols, &how);
}

/* -- sums of gradients ---------------------------------------------------------------------- */

/* Adds to the trainer's exact sums: integers in units of 2^-50. */
static void add_narrow(void *arg, size_t task, unsigned worker)
{
    struct rows_case *c = arg;
    size_t at = task * BLOCK * c->cols;
    struct wf_sink sink = {.exact = (int64_t *)c->b->buffer[1] + at};
    (void)worker;
    (void)c->b->ops->sink_add(sink, c->b->buffer[0] + at, task_rows(c, task) * c->cols);
}

/* Adds to the reducer's sums of any value: a double and its rounding errors. */
static void add_any(struct rows_case *c, size_t task, enum wf_sum_type type)
{
    size_t at = task * BLOCK * c->cols;
    const char *x = (const char *)c->b->buffer[0] + at * wf_sum_type_size(type);
    (void)wf_sum_ops()->add((double *)c->b->buffer[1] + at, (double *)c->b->buffer[2] + at, x,
                            type, task_rows(c, task) * c->cols);
}

static void add_any_f32(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    add_any(arg, task, WF_SUM_F32);
}

static void add_any_bf16(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    add_any(arg, task, WF_SUM_BF16);
}

static void add_any_f64(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    add_any(arg, task, WF_SUM_F64);
}

/* Adds to the reducer's fixed-point sums, which only few elements need. */
static void add_fixed(const struct rows_case *c, size_t task, enum wf_sum_type type)
{
    int64_t digits[WF_WIDE_MAX_DIGITS] = {0};
    size_t at = task * BLOCK * c->cols, n = task_rows(c, task) * c->cols;
    for (size_t i = 0; i < n; i++)
        wf_wide_add(digits, type, (double)c->b->buffer[0][at + i]);
    c->b->buffer[3][task] = (float)digits[0]; /* keeps the compiler from dropping the loop */
}

static void add_fixed_f32(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    add_fixed(arg, task, WF_SUM_F32);
}

static void add_fixed_f64(void *arg, size_t task, unsigned worker)
{
    (void)worker;
    add_fixed(arg, task, WF_SUM_F64);
}

static void run_rows(void *arg)
{
    struct rows_case *c = arg;
    wf_pool_run(c->b->pool, (c->rows + BLOCK - 1) / BLOCK, c->task, c);
}

static void bench_rows(struct kernel_bench *b, const char *name, size_t rows, size_t cols,
                       double bytes_each, wf_task_fn *task)
{
    struct rows_case c = {b, rows, cols, task};
    struct wf_bench_kernel f = {.name = name,
                                .bytes = bytes_each * (double)rows * (double)cols};
    snprintf(f.shape, sizeof f.shape, "%zu x %zu", rows, cols);
    measure(b, &f, run_rows, &c);
}

/* Fills the buffers with numbers from -0.5 to 0.5.  The numbers are also finite if the buffers
 * are read as bf16. */
static void fill(struct kernel_bench *b)
{
    for (int i = 0; i < BUFFERS; i++)
        for (size_t k = 0; k < b->size; k++)
            b->buffer[i][k] = (float)wf_random_below(1, (uint64_t)i, k, 1025) / 1024.0F - 0.5F;
}

static enum weft_status run_all(struct kernel_bench *b, struct weft_error *err)
{
    const struct weft_model *m = &b->model;
    size_t n = b->tokens, dim = m->dim, ffn = m->ffn, t = wf_dtype_size(b->type);
    size_t head_rows = n < 512 ? n : 512;
    bool gpt2 = m->arch == WEFT_ARCH_GPT2;

    /* Matrix products. */
    WEFT_TRY(bench_matrix(b, gpt2 ? "queries, keys, values" : "queries", dim,
                          gpt2 ? 3 * dim : dim, n, err));
    WEFT_TRY(bench_matrix(b, "attention's output", dim, dim, n, err));
    WEFT_TRY(bench_matrix(b, "MLP, up", dim, ffn, n, err));
    WEFT_TRY(bench_matrix(b, "MLP, down", ffn, dim, n, err));
    WEFT_TRY(bench_product(b, "head, forward", head_rows, m->vocab, dim, err));
    WEFT_TRY(bench_product(b, "head, input gradient", head_rows, dim, m->vocab, err));
    WEFT_TRY(bench_outer(b, "head, weight gradient", head_rows, m->vocab, dim, err));

    /* The products left large numbers in the buffers. */
    fill(b);
    WEFT_TRY(bench_attention(b, err));
    fill(b);
    bench_rows(b, "LayerNorm, forward", n, dim, 4.0 + (double)t, norm_forward);
    bench_rows(b, "LayerNorm, backward", n, dim, 16, norm_backward);
    bench_rows(b, "GELU, forward", n, ffn, 2.0 * (double)t, gelu_forward);
    bench_rows(b, "GELU, backward", n, ffn, 4.0 + 2.0 * (double)t, gelu_backward);
    bench_rows(b, "loss and its gradient", head_rows, m->vocab, 8, cross_entropy);
    bench_rows(b, "AdamW, exact gradients", ffn, dim, 32, adamw);

    /* Sums of gradients.  The bytes are those of the elements, so that rates can be compared. */
    fill(b);
    memset(b->buffer[1], 0, b->size * sizeof(float));
    bench_rows(b, "sums in training, fp32", ffn, dim, 4, add_narrow);
    memset(b->buffer[1], 0, b->size * sizeof(float));
    bench_rows(b, "sums of any value, fp32", ffn, dim, 4, add_any_f32);
    bench_rows(b, "sums of any value, bf16", ffn, dim, 2, add_any_bf16);
    for (size_t i = 0; i < b->size / 2; i++)
        ((double *)b->buffer[0])[i] = (double)b->buffer[3][i];
    bench_rows(b, "sums of any value, fp64", ffn, dim, 8, add_any_f64);
    fill(b);
    bench_rows(b, "fixed-point sums, fp32", ffn, dim, 4, add_fixed_f32);
    bench_rows(b, "fixed-point sums, fp64", ffn, dim, 8, add_fixed_f64);
    return WEFT_OK;
}

static enum weft_status prepare(struct kernel_bench *b, struct weft_error *err)
{
    const struct wf_bench_params *s = b->s;
    WEFT_TRY(weft_model_find(s->spec, &b->model, err));
    WEFT_TRY(wf_pool_new(s->threads, &b->pool, err));
    b->ops = wf_ops();
    b->type = strcmp(s->precision, "bf16") == 0 ? WF_DTYPE_BF16 : WF_DTYPE_F32;
    b->tokens = (size_t)s->batch * s->seq;

    size_t widest = wf_size_max(4 * (size_t)b->model.dim, b->model.ffn) + 128, vocab;
    /* The size is the maximum of three sizes: the exact sums of the head's matrix, the logits
     * of the head, and a micro-batch. */
    vocab = ((size_t)b->model.vocab + 128) * wf_size_max(2 * (size_t)b->model.dim + 128, 513);
    b->size = wf_size_max(wf_size_max(b->tokens * widest, vocab), 2 * widest * widest);
    for (int i = 0; i < BUFFERS; i++) {
        b->buffer[i] = wf_pages_alloc(b->size * sizeof(float));
        if (b->buffer[i] == NULL)
            return WEFT_FAIL(err, WEFT_NOMEM, "no memory for %zu numbers", b->size);
    }
    fill(b);
    return WEFT_OK;
}

enum weft_status wf_bench_kernels(const struct wf_bench_params *p, wf_bench_kernel_fn *each,
                                  void *ctx, struct weft_error *err)
{
    struct kernel_bench b = {.s = p, .each = each, .ctx = ctx};
    enum weft_status st = prepare(&b, err);
    if (st == WEFT_OK)
        st = run_all(&b, err);
    for (int i = 0; i < BUFFERS; i++)
        free(b.buffer[i]);
    wf_pool_free(b.pool);
    return st;
}
