/* Compares products and gradients of weights with sums in double, for all shapes, types and
 * numbers of threads, and tests the range checks of gradients. */
#include <stdatomic.h>

#include "compute/kern/gemm.h"
#include "compute/kern/pool.h"
#include "gemm_tiles.h"

enum { MAX_POOLS = 3 };

static struct wf_pool *new_pool(unsigned threads)
{
    struct wf_pool *pool = NULL;
    assert_int_equal(wf_pool_new(threads, &pool, NULL), WEFT_OK);
    return pool;
}

/* -- kernels ------------------------------------------------------------------------------- */

static void check_tiles(void **state)
{
    (void)state;
    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512_BF16; isa++)
        for (int form = WF_PACK_F32; form <= WF_PACK_BF16_PAIRS; form++) {
            const struct wf_gemm_kernel *kernel = wf_gemm_kernel_of(isa, form);
            if (kernel != NULL)
                tile_check_all(kernel, wf_ops_of(isa), form);
        }
}

/* -- products ------------------------------------------------------------------------------ */

static const struct product_case {
    const char *name;
    size_t rows, n, k;
    bool bias;
    int add; /* 1: a matrix, 2: C itself */
    enum wf_dtype type, c_type;
    bool transposed; /* packs the right factor from its transpose */
} product_cases[] = {
    {"one element", 1, 1, 1, false, 0, WF_DTYPE_F32, WF_DTYPE_F32, false},
    {"fewer rows than a strip", 3, 49, 7, true, 0, WF_DTYPE_F32, WF_DTYPE_F32, false},
    {"a strip and a panel", 8, 48, 64, false, 1, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"one more than a strip and panels", 9, 97, 65, true, 2, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"one row", 1, 200, 100, true, 1, WF_DTYPE_F32, WF_DTYPE_F32, false},
    {"one column", 70, 1, 300, false, 2, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"one whole slice of k", 13, 100, 1024, true, 0, WF_DTYPE_F32, WF_DTYPE_F32, false},
    {"one row more than a slice", 13, 100, 1025, true, 1, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"several slices added to C", 20, 65, 1600, true, 2, WF_DTYPE_F32, WF_DTYPE_F32, false},
    {"many tiles", 300, 400, 50, true, 0, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"large", 100, 300, 1600, true, 1, WF_DTYPE_F32, WF_DTYPE_F32, true},
    {"last tiles divided into parts, some empty", 40, 3100, 20, true, 1, WF_DTYPE_F32,
     WF_DTYPE_F32, false},
    {"last tiles divided, many slices", 20, 1000, 6200, true, 0, WF_DTYPE_F32, WF_DTYPE_F32,
     false},
    {"last tiles divided, buffered sums", 20, 3100, 1030, true, 0, WF_DTYPE_F32, WF_DTYPE_BF16,
     true},
    {"bf16 out", 17, 130, 70, true, 0, WF_DTYPE_F32, WF_DTYPE_BF16, false},
    {"bf16 out, several slices", 17, 130, 1601, true, 0, WF_DTYPE_F32, WF_DTYPE_BF16, true},
    {"bf16 in", 17, 130, 71, true, 2, WF_DTYPE_BF16, WF_DTYPE_F32, true},
    {"bf16 in and out", 40, 210, 1537, true, 0, WF_DTYPE_BF16, WF_DTYPE_BF16, false},
};

/* Counts how often each element of C was reported as done. */
struct cover {
    size_t n;
    atomic_uchar *times;
};

static void count_tile(void *arg, size_t row0, size_t row1, size_t col0, size_t col1,
                       unsigned worker)
{
    struct cover *cover = arg;
    (void)worker;
    for (size_t r = row0; r < row1; r++)
        for (size_t c = col0; c < col1; c++)
            atomic_fetch_add(&cover->times[r * cover->n + c], 1);
}

static void run_product(const struct product_case *p, struct wf_gemm_args args,
                        unsigned threads)
{
    struct wf_pool *pool = new_pool(threads);
    struct wf_gemm *product = NULL;
    struct wf_gemm_shape shape = {p->n,      p->k,      p->type, args.a.ld,
                                  p->c_type, args.c.ld, p->bias, p->add != 0};
    struct cover cover = {p->n, calloc(p->rows * p->n, 1)};
    size_t counts[] = {p->rows + 5, p->rows};
    args.after = count_tile;
    args.after_arg = &cover;
    assert_int_equal(wf_gemm_new(&shape, counts, 2, pool, &product, NULL), WEFT_OK);
    assert_true(wf_gemm_bytes(product) > 0);
    wf_gemm_run(product, pool, &args);
    for (size_t i = 0; i < p->rows * p->n; i++)
        assert_int_equal(cover.times[i], 1);
    wf_gemm_free(product);
    wf_pool_free(pool);
    free(cover.times);
}

static struct wf_packed pack(const float *w, size_t k, size_t n, enum wf_dtype type,
                             bool transposed)
{
    enum wf_pack form = wf_pack_form(type);
    struct wf_packed b = {k, n, form, tile_memory(wf_packed_bytes(k, n, form))};
    float *t = transposed ? tile_transposed(w, k, n) : NULL;
    size_t rows = transposed ? n : k, cols = transposed ? k : n, half = rows / 2 / 64 * 64;
    wf_pack_rows(transposed ? NULL : &b, transposed ? &b : NULL, transposed ? t : w, rows, cols,
                 0, half);
    wf_pack_rows(transposed ? NULL : &b, transposed ? &b : NULL, transposed ? t : w, rows, cols,
                 half, rows);
    free(t);
    return b;
}

static void check_product(const struct product_case *p)
{
    struct mats m;
    mats_begin(&m, "%s", p->name);
    m.size = tile_size(p->k);

    struct wf_mat a = mats_random(&m, p->rows, p->k, p->type, 1);
    struct wf_mat before = mats_random(&m, p->rows, p->n, p->c_type, 1), want, c[MAX_POOLS];
    float *bias = mats_random_floats(&m, p->n, 1);
    float *w = tile_factor(p->k * p->n, wf_pack_form(p->type));
    struct wf_packed b = pack(w, p->k, p->n, p->type, p->transposed);
    struct wf_mat add = p->add != 0 ? before : (struct wf_mat){0};

    want = mats_copy(&m, before, p->rows, p->n);
    wf_gemm_ref(p->rows, p->n, p->k, a, (struct wf_mat){w, p->n, WF_DTYPE_F32},
                p->bias ? bias : NULL, add, want);

    for (unsigned i = 0; i < MAX_POOLS; i++) {
        c[i] = p->add == 2 ? mats_copy(&m, before, p->rows, p->n)
                           : mats_new(&m, p->rows, p->n, p->c_type);
        run_product(p,
                    (struct wf_gemm_args){.rows = p->rows,
                                          .a = a,
                                          .b = &b,
                                          .bias = bias,
                                          .add = p->add == 2 ? c[i] : add,
                                          .c = c[i]},
                    i + 1);
        mats_allclose(&m, "c", c[i], want, p->rows, p->n, tile_bound(p->k));
        mats_equal(&m, "c by more threads", c[i], c[0], p->rows, p->n);
    }

    free(b.at);
    free(w);
    mats_end(&m);
}

/* -- gradients of weights ------------------------------------------------------------------ */

static const struct outer_case {
    const char *name;
    size_t m, n, k;
    enum wf_dtype type;
} outer_cases[] = {
    {"one element", 1, 1, 1, WF_DTYPE_F32},
    {"less than a tile", 5, 7, 3, WF_DTYPE_F32},
    {"a tile", 8, 48, 16, WF_DTYPE_F32},
    {"one more than a tile", 9, 49, 17, WF_DTYPE_F32},
    {"many rows", 500, 60, 40, WF_DTYPE_F32},
    {"many columns", 50, 900, 33, WF_DTYPE_F32},
    {"all tokens of a contribution", 30, 60, WF_WGRAD_TOKENS, WF_DTYPE_F32},
    {"three contributions", 20, 96, 2 * WF_WGRAD_TOKENS + 52, WF_DTYPE_F32},
    {"bf16", 100, 100, 101, WF_DTYPE_BF16},
    {"bf16, two contributions", 33, 65, WF_WGRAD_TOKENS + 7, WF_DTYPE_BF16},
};

/* Sums between guards. */
struct sums {
    size_t n;
    int64_t *all, *exact;
    float *fast; /* same memory */
};

enum { SUM_GUARDS = 8 };

static struct sums new_sums(size_t n)
{
    int64_t *all = tile_memory((n + 2 * SUM_GUARDS) * sizeof *all);
    memset(all, 0xee, (n + 2 * SUM_GUARDS) * sizeof *all);
    return (struct sums){n, all, all + SUM_GUARDS, (float *)(all + SUM_GUARDS)};
}

static void free_sums(struct sums s)
{
    for (size_t i = 0; i < SUM_GUARDS; i++) {
        assert_int_equal(s.all[i], (int64_t)0xeeeeeeeeeeeeeeee);
        assert_int_equal(s.all[SUM_GUARDS + s.n + i], (int64_t)0xeeeeeeeeeeeeeeee);
    }
    free(s.all);
}

static bool run_outer(const struct outer_case *o, struct wf_sink sink, struct wf_mat a,
                      struct wf_mat b, size_t k, unsigned threads)
{
    struct wf_pool *pool = new_pool(threads);
    struct wf_wgrad *outer = NULL;
    assert_int_equal(wf_wgrad_new(o->k, o->n, o->type, pool, &outer, NULL), WEFT_OK);
    assert_true(wf_wgrad_bytes(outer) > 0);
    bool bad = wf_wgrad_run(outer, pool, sink, a, o->m, b, o->n, k);
    wf_wgrad_free(outer);
    wf_pool_free(pool);
    return bad;
}

static void check_exact(const struct outer_case *o, struct mats *m, struct wf_mat a,
                        struct wf_mat b, const float *want, unsigned threads)
{
    size_t n = o->m * o->n, bytes = n * sizeof(int64_t);
    struct sums whole = new_sums(n), parts = new_sums(n);
    float *got = mats_floats(m, n);

    assert_false(run_outer(o, (struct wf_sink){.exact = whole.exact, .fresh = true}, a, b, o->k,
                           threads));
    for (size_t i = 0; i < n; i++)
        got[i] = (float)((double)whole.exact[i] * 0x1p-50);
    mats_allclose_floats(m, "exact sums", got, want, n, tile_bound(o->k));

    if (o->k <= WF_WGRAD_TOKENS) { /* a single contribution: the same bits in fp32 */
        struct wf_sink only = {.fast = parts.fast, .fresh = true, .single = true};
        assert_false(run_outer(o, only, a, b, o->k, threads));
        assert_memory_equal(parts.fast, got, n * sizeof *got);
    }

    /* Adds the contributions one by one, the last first, with one thread. */
    memset(parts.exact, 0, bytes);
    size_t last = (o->k - 1) / WF_WGRAD_TOKENS;
    for (size_t i = 0; i <= last; i++) {
        size_t k0 = (last - i) * WF_WGRAD_TOKENS;
        size_t k = i == 0 ? o->k - k0 : WF_WGRAD_TOKENS;
        assert_false(run_outer(o, (struct wf_sink){.exact = parts.exact}, wf_mat_at(a, k0, 0),
                               wf_mat_at(b, k0, 0), k, 1));
    }
    assert_memory_equal(whole.exact, parts.exact, bytes);

    free_sums(whole);
    free_sums(parts);
}

static void check_fast(const struct outer_case *o, struct mats *m, struct wf_mat a,
                       struct wf_mat b, const float *want)
{
    size_t n = o->m * o->n;
    struct sums one = new_sums(n), two = new_sums(n);
    float *twice = mats_floats(m, n);
    assert_false(
        run_outer(o, (struct wf_sink){.fast = one.fast, .fresh = true}, a, b, o->k, 1));
    assert_false(
        run_outer(o, (struct wf_sink){.fast = two.fast, .fresh = true}, a, b, o->k, 3));
    assert_memory_equal(one.fast, two.fast, n * sizeof(float));
    mats_allclose_floats(m, "fast sums", one.fast, want, n, tile_bound(o->k));
    assert_false(run_outer(o, (struct wf_sink){.fast = two.fast}, a, b, o->k, 2));
    for (size_t i = 0; i < n; i++)
        twice[i] = 2 * want[i];
    mats_allclose_floats(m, "fast sums added to", two.fast, twice, n, 2 * tile_bound(o->k));
    free_sums(one);
    free_sums(two);
}

static void check_outer(const struct outer_case *o)
{
    struct mats m;
    mats_begin(&m, "%s", o->name);
    m.size = tile_size(o->k);
    struct wf_mat a = mats_random(&m, o->k, o->m, o->type, 1);
    struct wf_mat b = mats_random(&m, o->k, o->n, o->type, 1);
    float *want = mats_floats(&m, o->m * o->n);
    wf_wgrad_ref(want, a, o->m, b, o->n, o->k);
    for (unsigned threads = 1; threads <= MAX_POOLS; threads++)
        check_exact(o, &m, a, b, want, threads);
    check_fast(o, &m, a, b, want);
    mats_end(&m);
}

/* One element of C is the sum of `times` products `x * y`; all others are zero. */
static const struct range_case {
    const char *name;
    size_t row, col; /* position in the 20 x 112 sums, in a whole or partial tile */
    float x, y;
    int times;
    bool exact_bad, fast_bad;
} range_cases[] = {
    {"in range", 3, 5, 63, 64, 1, false, false},
    {"a contribution of 2^12", 3, 5, 64, 64, 1, true, false},
    {"a contribution of -2^12 in a partial tile", 19, 99, -64, 64, 1, true, false},
    {"a sum of 2^12", 8, 50, 32, 64, 2, true, false},
    {"a sum of -2^12", 3, 5, -32, 64, 2, true, false},
    {"a sum just below 2^12", 8, 50, -63, 32, 2, false, false},
    {"a sum of -2^12 in a partial tile", 17, 97, -32, 64, 2, true, false},
    {"infinity", 0, 0, 1e30f, 1e30f, 1, true, true},
    {"infinity in a partial tile", 16, 0, 1e30f, 1e30f, 1, true, true},
    {"NaN", 7, 47, NAN, 1, 1, true, true},
    {"NaN in a partial tile", 0, 96, NAN, 1, 1, true, true},
};

static void check_range(const struct range_case *r)
{
    /* rows of sums are aligned to cache lines: whole tiles use the fast path */
    enum { M = 20, N = 112 };
    const struct outer_case shape = {r->name, M, N, 3, WF_DTYPE_F32};
    float a[3][M] = {{0}}, b[3][N] = {{0}};

    a[1][r->row] = r->x;
    b[1][r->col] = r->y;
    if (isnan(r->x)) /* NaN times zero is NaN: one factor is enough */
        for (size_t i = 0; i < N; i++)
            b[1][i] = i == r->col;

    for (int kind = 0; kind < 3; kind++) { /* exact, fast, single */
        bool fast = kind == 1;
        if (kind == 2 && r->times > 1)
            continue;
        struct sums s = new_sums(M * N);
        bool bad = false;

        for (int i = 0; i < r->times; i++) {
            struct wf_sink sink = {.exact = kind == 0 ? s.exact : NULL,
                                   .fast = kind == 0 ? NULL : s.fast,
                                   .fresh = i == 0,
                                   .single = kind == 2};
            assert_false(bad);
            bad = run_outer(&shape, sink, (struct wf_mat){a, M, WF_DTYPE_F32},
                            (struct wf_mat){b, N, WF_DTYPE_F32}, 3, 2);
        }

        if (bad != (fast ? r->fast_bad : r->exact_bad))
            fail_msg("%s: sums of kind %d say %d", r->name, kind, bad);
        free_sums(s);
    }
}

/* All cases of a table are one test; a failure prints the name of the case. */
static void check_products(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof product_cases / sizeof *product_cases; i++)
        check_product(&product_cases[i]);
}

static void check_weight_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof outer_cases / sizeof *outer_cases; i++)
        check_outer(&outer_cases[i]);
}

static void check_ranges(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof range_cases / sizeof *range_cases; i++)
        check_range(&range_cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_tiles),
        cmocka_unit_test(check_products),
        cmocka_unit_test(check_weight_gradients),
        cmocka_unit_test(check_ranges),
    };
    return cmocka_run_group_tests_name("gemm", tests, NULL, NULL);
}
