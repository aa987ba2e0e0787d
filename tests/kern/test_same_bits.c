/* Compares hashes of the results of all kernels with recorded ones.  The same hashes must come
 * out on every machine and for every instruction set (WEFT_ISA), compiler, optimization level
 * and number of threads.  A kernel that is changed on purpose so that its results differ needs
 * new hashes, which a failing test prints, and so does tests/trainer/test_constants.c. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "compute/kern/attention.h"
#include "compute/kern/decode.h"
#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"
#include "compute/kern/pool.h"

/* -- inputs -------------------------------------------------------------------------------- */

enum { MAX_BLOCKS = 40, GAP = 5 }; /* GAP: elements between rows */

static struct {
    void *block[MAX_BLOCKS];
    size_t n;
    uint64_t stream; /* of the next matrix */
} memory;

static void *new_block(size_t bytes)
{
    void *at = NULL;
    assert_true(memory.n < MAX_BLOCKS);
    assert_int_equal(posix_memalign(&at, 64, bytes + 64), 0);
    memset(at, 0, bytes + 64);
    return memory.block[memory.n++] = at;
}

static void free_blocks(void)
{
    while (memory.n > 0)
        free(memory.block[--memory.n]);
}

/* Returns the bits of a random number whose exponent is one of `exponents` from `low` on. */
static uint32_t number(uint64_t i, int low, uint32_t exponents)
{
    uint64_t r = wf_random_u64(7, memory.stream, i);
    uint32_t exponent = (uint32_t)(127 + low) + (uint32_t)(r >> 32) % exponents;
    return ((uint32_t)r & 0x807fffff) | exponent << 23;
}

static struct wf_mat new_mat_of(size_t rows, size_t cols, enum wf_dtype type, int low,
                                uint32_t exponents)
{
    size_t ld = cols + GAP;
    struct wf_mat m = {new_block((rows + 1) * ld * wf_dtype_size(type)), ld, type};
    memory.stream++;
    for (size_t i = 0; i < rows * ld; i++) {
        uint32_t bits = number(i, low, exponents);
        uint16_t half = (uint16_t)(bits >> 16);
        if (type == WF_DTYPE_F32)
            memcpy((char *)m.at + 4 * i, &bits, 4);
        else
            memcpy((char *)m.at + 2 * i, &half, 2);
    }
    return m;
}

static struct wf_mat new_mat(size_t rows, size_t cols, enum wf_dtype type)
{
    return new_mat_of(rows, cols, type, -7, 8);
}

static float *new_floats(size_t n)
{
    return new_mat(1, n, WF_DTYPE_F32).at;
}

static int32_t *new_ids(size_t n, uint32_t below)
{
    int32_t *ids = new_block(n * sizeof *ids);
    memory.stream++;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)wf_random_below(7, memory.stream, i, below);
    return ids;
}

static uint64_t hash_mat(uint64_t h, struct wf_mat m, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        h = wf_hash(h, wf_mat_at(m, r, 0).at, cols * wf_dtype_size(m.type));
    return h;
}

static uint64_t hash_floats(uint64_t h, const float *x, size_t n)
{
    return wf_hash(h, x, n * sizeof *x);
}

/* -- operations on rows -------------------------------------------------------------------- */

enum { ROWS = 5 };

static uint64_t hash_norms(uint64_t h, size_t cols, enum wf_dtype type)
{
    const struct wf_ops *ops = wf_ops();
    struct wf_mat x = new_mat(ROWS, cols, WF_DTYPE_F32), out = new_mat(ROWS, cols, type);
    struct wf_mat dy = new_mat(ROWS, cols, type), dx = new_mat(ROWS, cols, WF_DTYPE_F32);
    struct wf_mat copy = new_mat(ROWS, cols, WF_DTYPE_F32), none = {0};
    float *mean = new_floats(ROWS), *rstd = new_floats(ROWS), *w = new_floats(cols),
          *b = new_floats(cols), *dw = new_floats(cols), *db = new_floats(cols);

    ops->layernorm_forward(out, mean, rstd, x, w, b, 1e-5F, ROWS, cols);
    h = hash_floats(hash_floats(hash_mat(h, out, ROWS, cols), mean, ROWS), rstd, ROWS);
    ops->layernorm_backward(dx, dx, copy, dw, db, dy, x, mean, rstd, w, ROWS, cols);
    h = hash_floats(hash_floats(hash_mat(h, dx, ROWS, cols), dw, cols), db, cols);
    h = hash_mat(h, copy, ROWS, cols);

    ops->rmsnorm_forward(out, rstd, x, w, 1e-6F, ROWS, cols);
    h = hash_floats(hash_mat(h, out, ROWS, cols), rstd, ROWS);
    ops->rmsnorm_backward(dx, none, none, dw, dy, x, rstd, w, ROWS, cols);
    return hash_floats(hash_mat(h, dx, ROWS, cols), dw, cols);
}

static uint64_t hash_activations(uint64_t h, size_t cols, enum wf_dtype type)
{
    const struct wf_ops *ops = wf_ops();
    struct wf_mat pre = new_mat_of(ROWS, cols, type, -20, 27);
    struct wf_mat up = new_mat_of(ROWS, cols, type, -20, 25), dy = new_mat(ROWS, cols, type);
    struct wf_mat out = new_mat(ROWS, cols, type), second = new_mat(ROWS, cols, type);

    ops->gelu_forward(out, pre, ROWS, cols);
    h = hash_mat(h, out, ROWS, cols);
    ops->gelu_backward(out, dy, pre, ROWS, cols);
    h = hash_mat(h, out, ROWS, cols);
    ops->swiglu_forward(out, pre, up, ROWS, cols);
    h = hash_mat(h, out, ROWS, cols);
    ops->swiglu_backward(out, second, dy, pre, up, ROWS, cols);
    return hash_mat(hash_mat(h, out, ROWS, cols), second, ROWS, cols);
}

static uint64_t hash_loss(uint64_t h, size_t cols, enum wf_dtype type)
{
    struct wf_mat logits = new_mat_of(ROWS, cols, WF_DTYPE_F32, -7, 13);
    struct wf_mat d = new_mat(ROWS, cols + 3, type);
    double losses[ROWS];
    wf_ops()->cross_entropy(losses, d, logits, new_ids(ROWS, (uint32_t)cols), 1.0F / 3, ROWS,
                            cols, cols + 3);
    return wf_hash(hash_mat(h, d, ROWS, cols + 3), losses, sizeof losses);
}

static uint64_t hash_mix(uint64_t h, size_t cols, enum wf_dtype type)
{
    enum { N = 4 };
    const struct wf_ops *ops = wf_ops();
    struct wf_mat v[N], dv[N];
    (void)type;
    for (int i = 0; i < N; i++) {
        v[i] = new_mat(ROWS, cols, WF_DTYPE_F32);
        dv[i] = new_mat(ROWS, cols, WF_DTYPE_F32);
    }
    struct wf_mat out = new_mat(ROWS, cols, WF_DTYPE_F32);
    float *alpha = new_floats(ROWS * N), *rstd = new_floats(ROWS * N), *q = new_floats(cols),
          *g = new_floats(cols), *dq = new_floats(cols), *dg = new_floats(cols);

    ops->mix_forward(out, alpha, rstd, v, N, q, g, 1e-6F, ROWS, cols);
    h = hash_floats(hash_mat(h, out, ROWS, cols), alpha, ROWS * N);
    ops->mix_backward(dv, dq, dg, out, alpha, rstd, v, N, q, g, ROWS, cols);
    for (int i = 0; i < N; i++)
        h = hash_mat(h, dv[i], ROWS, cols);
    return hash_floats(hash_floats(h, dq, cols), dg, cols);
}

static uint64_t hash_rows(uint64_t h, size_t cols, enum wf_dtype type)
{
    const struct wf_ops *ops = wf_ops();
    size_t head = 2 * cols;
    struct wf_mat x = new_mat(ROWS, 3 * head, type);
    float *cosines = new_floats(ROWS * cols), *sines = new_floats(ROWS * cols);
    float *sums = new_floats(3 * head);

    ops->column_sums(sums, x, ROWS, 3 * head);
    h = hash_floats(h, sums, 3 * head);
    for (int inverse = 0; inverse < 2; inverse++) {
        ops->rope(x, cosines, sines, new_ids(ROWS, ROWS), inverse != 0, ROWS, 3, head);
        h = hash_mat(h, x, ROWS, 3 * head);
    }
    return h;
}

static uint64_t hash_sums(uint64_t h, size_t cols, enum wf_dtype type)
{
    const struct wf_ops *ops = wf_ops();
    const struct wf_adamw how = {1e-3F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.19F, 0.0975F, 0.7F};
    int64_t *exact = new_block(cols * sizeof *exact);
    float *x = new_mat_of(1, cols, WF_DTYPE_F32, -60, 70).at, *y = new_floats(cols);
    float *w = new_floats(cols), *m = new_floats(cols), *v = new_block(cols * sizeof *v);
    (void)type;

    h ^= ops->sink_add((struct wf_sink){.exact = exact, .fresh = true}, x, cols);
    h ^= ops->sink_add((struct wf_sink){.exact = exact}, y, cols);
    h = wf_hash(h, exact, cols * sizeof *exact);
    ops->exact_to_f32(y, exact, cols);
    double squares = ops->sum_squares(exact, NULL, cols);
    for (int step = 0; step < 3; step++)
        ops->adamw(w, m, v, exact, NULL, cols, &how);
    ops->adamw(w, m, v, NULL, x, cols, &how);

    h ^= ops->sink_add((struct wf_sink){.fast = y, .fresh = true, .single = true}, x, cols);
    h = hash_floats(hash_floats(wf_hash(h, &squares, sizeof squares), y, cols), w, cols);
    return hash_floats(hash_floats(h, m, cols), v, cols);
}

/* -- attention and decoding ---------------------------------------------------------------- */

static uint64_t hash_attention(uint64_t h, size_t seq, enum wf_dtype type)
{
    static const size_t heads[][3] = {{4, 2, 64}, {2, 2, 24}, {3, 1, 5}, {1, 1, 80}};
    const size_t *how = heads[seq % WEFT_LEN(heads)];
    size_t rows = 2 * seq, wide = how[0] * how[2], narrow = how[1] * how[2];
    struct wf_attention a = {
        .batch = 2, .seq = seq, .heads = how[0], .kv_heads = how[1], .head = how[2]};

    a.q = new_mat_of(rows, wide, type, -7, 9);
    a.k = new_mat_of(rows, narrow, type, -7, 9);
    a.v = new_mat(rows, narrow, type);
    a.out = new_mat(rows, wide, type);
    a.dout = new_mat(rows, wide, WF_DTYPE_F32);
    a.dq = new_mat(rows, wide, type);
    a.dk = new_mat(rows, narrow, type);
    a.dv = new_mat(rows, narrow, type);
    a.lse = new_floats(2 * how[0] * seq);

    void *scratch = new_block(wf_attention_scratch(&a));
    for (size_t i = 0; i < wf_attention_forward_tasks(&a); i++)
        wf_attention_forward(&a, i, scratch);
    for (size_t i = 0; i < wf_attention_backward_tasks(&a); i++)
        wf_attention_backward(&a, i, scratch);

    h = hash_floats(hash_mat(h, a.out, rows, wide), a.lse, 2 * how[0] * seq);
    h = hash_mat(hash_mat(h, a.dq, rows, wide), a.dk, rows, narrow);
    return hash_mat(h, a.dv, rows, narrow);
}

static uint64_t hash_decode(uint64_t h, size_t k, enum wf_dtype type)
{
    struct wf_mat x = new_mat(7, k, WF_DTYPE_F32), y = new_mat(7, 9, WF_DTYPE_F32);
    struct wf_gemv g = {.w = new_mat(9, k, type), .k = k, .n = 7, .x = x.at, .x_ld = x.ld};
    g.bias = new_floats(9);
    g.y = y.at;
    g.y_ld = y.ld;
    wf_gemv_rows(&g, 0, 9);
    h = hash_mat(h, y, 7, 9);

    size_t head = 1 + k % 70;
    struct wf_attend a = {.n = k, .head = head, .scale = 0.3F, .q = new_floats(head)};
    a.k = new_mat_of(1, k * head, WF_DTYPE_F32, -7, 9).at;
    a.v = new_floats(k * head);
    a.scores = new_floats(k);
    a.out = new_floats(head);
    wf_attend(&a);
    return hash_floats(h, a.out, head);
}

/* -- products ------------------------------------------------------------------------------ */

static struct wf_pool *pool;

/* Returns the hash of a product and of a gradient of a weight.  `low` is the smallest exponent
 * of the factors. */
static uint64_t hash_product_of(uint64_t h, size_t k, enum wf_dtype type, int low)
{
    size_t rows = 1 + k % 21, n = 1 + k * 7 % 131;
    struct wf_mat a = new_mat_of(rows, k, type, low, 8);
    struct wf_mat c = new_mat(rows, n, WF_DTYPE_F32);
    struct wf_mat w = new_mat_of(1, k * n, WF_DTYPE_F32, low, 8);
    enum wf_pack form = wf_pack_form(type);
    struct wf_packed b = {k, n, form, new_block(wf_packed_bytes(k, n, form))};
    struct wf_gemm_shape shape = {n, k, type, a.ld, WF_DTYPE_F32, c.ld, low > -9, low > -9};
    struct wf_gemm_args args = {
        .rows = rows, .a = a, .b = &b, .bias = new_floats(n), .add = c, .c = c};
    struct wf_gemm *product = NULL;

    wf_pack_rows(&b, NULL, w.at, k, n, 0, k);
    assert_int_equal(wf_gemm_new(&shape, &rows, 1, pool, &product, NULL), WEFT_OK);
    wf_gemm_run(product, pool, &args);
    wf_gemm_free(product);
    h = hash_mat(h, c, rows, n);

    struct wf_wgrad *wgrad = NULL;
    struct wf_mat left = new_mat_of(k, rows, type, low, 8),
                  right = new_mat_of(k, n, type, low, 8);
    float *sums = new_floats(rows * n);
    assert_int_equal(wf_wgrad_new(k, n, type, pool, &wgrad, NULL), WEFT_OK);
    h ^= wf_wgrad_run(wgrad, pool, (struct wf_sink){.fast = sums, .fresh = true}, left, rows,
                      right, n, k);
    wf_wgrad_free(wgrad);
    return hash_floats(h, sums, rows * n);
}

static uint64_t hash_product(uint64_t h, size_t k, enum wf_dtype type)
{
    return hash_product_of(h, k, type, -7);
}

/* Sums around the smallest normal number: bf16 products flush subnormal numbers to zero. */
static uint64_t hash_tiny_product(uint64_t h, size_t k, enum wf_dtype type)
{
    return hash_product_of(h, k, type, -68);
}

/* -- the recorded hashes ------------------------------------------------------------------- */

static const struct kind {
    const char *name;
    uint64_t (*hash)(uint64_t h, size_t size, enum wf_dtype type);
    uint64_t want[2]; /* fp32, bf16 */
} kinds[] = {
    {"norms", hash_norms, {UINT64_C(0x61e08d55ebae4629), UINT64_C(0x64f817844dfde43f)}},
    {"activations",
     hash_activations,
     {UINT64_C(0x028752398bf9bca3), UINT64_C(0xe316964ab08bcd94)}},
    {"loss", hash_loss, {UINT64_C(0x3fda9d4ac8652d17), UINT64_C(0x090849360a4c223b)}},
    {"mix", hash_mix, {UINT64_C(0x949b6cc2d4cb6406), UINT64_C(0x949b6cc2d4cb6406)}},
    {"rows", hash_rows, {UINT64_C(0xbacf448e68d70cd0), UINT64_C(0x0319a83072ec3794)}},
    {"sums", hash_sums, {UINT64_C(0xf6815cbd9d2b7052), UINT64_C(0xf6815cbd9d2b7052)}},
    {"attention", hash_attention, {UINT64_C(0x418cc0463148ff79), UINT64_C(0x5152cab81ab6519e)}},
    {"decoding", hash_decode, {UINT64_C(0xb916bb73ab7acc8b), UINT64_C(0x11bfa69c637b2820)}},
    {"products", hash_product, {UINT64_C(0x64db9acf36d6e8a5), UINT64_C(0xa45cbc16bbede9ec)}},
    {"tiny products",
     hash_tiny_product,
     {UINT64_C(0x09d557435a3f96f6), UINT64_C(0x0cf5b338286ad175)}},
};

static const size_t sizes[] = {1,   2,   3,   4,   5,   7,   8,   9,   12,  15, 16,
                               17,  20,  23,  24,  31,  32,  33,  40,  47,  48, 49,
                               56,  63,  64,  65,  72,  79,  80,  81,  96,  97, 99,
                               100, 127, 128, 129, 131, 200, 257, 770, 1100};

static void check_kind(void **state)
{
    const struct kind *kind = *state;
    for (unsigned threads = 1; threads <= 2; threads++)
        for (int type = 0; type < 2; type++) {
            uint64_t h = 0;
            assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
            memory.stream = 0;
            for (size_t i = 0; i < WEFT_LEN(sizes); i++) {
                if (kind->hash == hash_attention && sizes[i] > 300)
                    break; /* takes too long without optimization */
                h = kind->hash(h, sizes[i], type == 0 ? WF_DTYPE_F32 : WF_DTYPE_BF16);
                free_blocks();
            }
            wf_pool_free(pool);
            if (h != kind->want[type])
                fail_msg("%s, %s, %s: the hash is 0x%016" PRIx64, kind->name,
                         type == 0 ? "fp32" : "bf16", wf_isa_name(wf_isa()), h);
        }
}

int main(void)
{
    struct CMUnitTest tests[WEFT_LEN(kinds)];
    for (size_t i = 0; i < WEFT_LEN(kinds); i++)
        tests[i] =
            (struct CMUnitTest){kinds[i].name, check_kind, NULL, NULL, (void *)&kinds[i]};
    return cmocka_run_group_tests_name("same bits", tests, NULL, NULL) != 0;
}
