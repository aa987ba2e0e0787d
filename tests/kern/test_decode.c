/* Compares the products and the attention of decoding with plain C, for every instruction set,
 * and checks that results do not depend on how the work is divided. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/kern/decode.h"
#include "support/mats.h"

static const enum wf_isa isas[] = {WF_ISA_PORTABLE, WF_ISA_AVX2, WF_ISA_AVX512};

static const struct {
    size_t rows, k, n;
} shapes[] = {{1, 1, 1},   {3, 5, 2},    {7, 16, 3},   {5, 17, 4},   {4, 63, 5},
              {9, 64, 1},  {2, 65, 9},   {6, 100, 2},  {11, 128, 4}, {3, 191, 6},
              {5, 300, 1}, {48, 768, 7}, {2, 3072, 1}, {1, 1000, 8}};

static void check_product(enum wf_isa isa, size_t s, enum wf_dtype type, bool more)
{
    struct mats m;
    size_t rows = shapes[s].rows, k = shapes[s].k, n = shapes[s].n;

    mats_begin(&m, "gemv %zu x %zu, %zu vectors, %s, %s", rows, k, n, wf_dtype_name(type),
               wf_isa_name(isa));
    m.size = (double)k / 4;

    struct wf_mat w = mats_random(&m, rows, k, type, 1);
    struct wf_mat x = mats_random(&m, n, k, WF_DTYPE_F32, 1);
    struct wf_mat y = mats_random(&m, n, rows, WF_DTYPE_F32, 1);
    struct wf_mat want = mats_copy(&m, y, n, rows), single = mats_copy(&m, y, n, rows);
    struct wf_gemv g = {.w = w, .k = k, .n = n, .x = x.at, .x_ld = x.ld};
    g.y = y.at;
    g.y_ld = y.ld;

    if (more) { /* adds to y */
        g.bias = mats_random_floats(&m, rows, 1);
        g.add = g.y;
    }

    struct wf_gemv slow = g, alone = g;
    assert_int_equal(want.ld, y.ld);
    slow.y = want.at;
    slow.add = more ? slow.y : NULL;
    wf_gemv_ref(&slow, 0, rows);

    if (wf_gemv_rows_of(isa, &g, 0, rows)) {
        mats_allclose(&m, "y", y, want, n, rows, 1e-6);
        /* One output of one vector at a time gives the same bits. */
        for (size_t t = 0; t < n; t++)
            for (size_t r = 0; r < rows; r++) {
                alone.n = 1;
                alone.x = wf_mat_f32(x, t, 0);
                alone.y = wf_mat_f32(single, t, 0);
                alone.add = more ? alone.y : NULL;
                wf_gemv_rows_of(isa, &alone, r, r + 1);
            }
        mats_equal(&m, "y one by one", y, single, n, rows);
    }

    mats_end(&m);
}

static void check_products(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(isas); i++)
        for (size_t s = 0; s < WEFT_LEN(shapes); s++)
            for (int more = 0; more < 2; more++) {
                check_product(isas[i], s, WF_DTYPE_F32, more);
                check_product(isas[i], s, WF_DTYPE_BF16, more);
            }
}

static void check_attention(enum wf_isa isa, size_t n, size_t head, double scale)
{
    struct mats m;
    mats_begin(&m, "attend %zu x %zu, %s", n, head, wf_isa_name(isa));
    struct wf_attend a = {.n = n, .head = head, .scale = 0.125F};
    a.q = mats_random_floats(&m, head, scale);
    a.k = mats_random_floats(&m, n * head, scale);
    a.v = mats_random_floats(&m, n * head, 1);
    a.scores = mats_floats(&m, n);
    a.out = mats_floats(&m, head);
    struct wf_attend slow = a;
    slow.out = mats_floats(&m, head);
    wf_attend_ref(&slow);
    if (wf_attend_of(isa, &a))
        mats_allclose_floats(&m, "out", a.out, slow.out, head, scale > 1 ? 1e-4 : 1e-5);
    mats_end(&m);
}

static void check_attention_shapes(void **state)
{
    static const size_t counts[] = {1, 2, 15, 16, 17, 64, 100};
    static const size_t heads[] = {1, 2, 8, 12, 16, 20, 64, 80, 100, 128};
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(isas); i++)
        for (size_t c = 0; c < WEFT_LEN(counts); c++)
            for (size_t h = 0; h < WEFT_LEN(heads); h++) {
                check_attention(isas[i], counts[c], heads[h], 1);
                check_attention(isas[i], counts[c], heads[h], 20);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_products),
        cmocka_unit_test(check_attention_shapes),
    };
    return cmocka_run_group_tests_name("decode", tests, NULL, NULL) != 0;
}
