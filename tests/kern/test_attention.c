/* Compares attention for every instruction set of the machine with the reference in double, and
 * the gradients of the reference with finite differences of a forward in double. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/kern/attention.h"

enum { LEN_GUARD = 37 }; /* guard elements around and between written ranges */

static const float guard = -12352.0f; /* exact in bf16 */

/* -- matrices ------------------------------------------------------------------------------ */

static float get(struct wf_mat m, size_t r, size_t c)
{
    if (m.type == WF_DTYPE_F32)
        return *wf_mat_f32(m, r, c);
    uint32_t bits = (uint32_t)*wf_mat_bf16(m, r, c) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Sets an element.  x must be exact in bf16 if m has that type. */
static void set(struct wf_mat m, size_t r, size_t c, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (m.type == WF_DTYPE_F32)
        *wf_mat_f32(m, r, c) = x;
    else
        *wf_mat_bf16(m, r, c) = (wf_bf16)(bits >> 16);
}

/* Returns a number in [-1, 1) with eight bits, which is exact in bf16. */
static float draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int)((*state >> 33) % 256) / 128.0f - 1.0f;
}

/* A matrix (rows, cols) between guards; `memory` is owned. */
struct owned {
    struct wf_mat m;
    size_t rows, cols;
    void *memory;
};

static struct owned owned_new(size_t rows, size_t cols, enum wf_dtype type, size_t extra)
{
    struct owned o = {.m = {NULL, cols + extra, type}, .rows = rows, .cols = cols};
    size_t n = rows * o.m.ld + 2 * LEN_GUARD;
    o.memory = malloc(n * sizeof(float));
    assert_non_null(o.memory);
    o.m.at = o.memory;
    struct wf_mat line = {o.memory, n, type};
    for (size_t i = 0; i < n; i++)
        set(line, 0, i, guard);
    o.m = wf_mat_at(o.m, 0, LEN_GUARD);
    return o;
}

static void owned_draw(struct owned *o, uint64_t *state, float size)
{
    for (size_t r = 0; r < o->rows; r++)
        for (size_t c = 0; c < o->cols; c++)
            set(o->m, r, c, draw(state) * size);
}

static void check_guards(const struct owned *o)
{
    struct wf_mat before = o->m;
    before.at = o->memory;
    for (size_t i = 0; i < LEN_GUARD; i++) {
        assert_true(get(before, 0, i) == guard);
        assert_true(get(o->m, o->rows, i) == guard);
    }
    for (size_t r = 0; r < o->rows; r++)
        for (size_t c = o->cols; c < o->m.ld; c++)
            assert_true(get(o->m, r, c) == guard);
}

static void owned_copy(struct owned *to, const struct owned *from)
{
    for (size_t r = 0; r < to->rows; r++)
        for (size_t c = 0; c < to->cols; c++)
            set(to->m, r, c, get(from->m, r, c));
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void check_same(const struct owned *a, const struct owned *b)
{
    for (size_t r = 0; r < a->rows; r++)
        for (size_t c = 0; c < a->cols; c++)
            assert_true(same_bits(get(a->m, r, c), get(b->m, r, c)));
}

static double largest(const struct owned *o)
{
    double top = 0;
    for (size_t r = 0; r < o->rows; r++)
        for (size_t c = 0; c < o->cols; c++)
            top = fmax(top, fabs(get(o->m, r, c)));
    return top;
}

/* -- a call with all its matrices ---------------------------------------------------------- */

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, N_MATS };
enum { F32 = 0, BF16 = 0xff & ~(1 << DOUT) };

struct shape {
    size_t batch, seq, heads, kv_heads, head;
    unsigned bf16; /* bit i: matrix i is bf16, the others are fp32 */
};

struct call {
    struct wf_attention a;
    struct owned m[N_MATS];
    struct owned lse; /* one row */
    void *scratch;
};

static struct call call_new(struct shape s, size_t extra)
{
    struct call c = {.a = {s.batch, s.seq, s.heads, s.kv_heads, s.head}};
    for (int i = 0; i < N_MATS; i++) {
        bool kv = i == K || i == V || i == DK || i == DV;
        c.m[i] = owned_new(s.batch * s.seq, (kv ? s.kv_heads : s.heads) * s.head,
                           s.bf16 >> i & 1 ? WF_DTYPE_BF16 : WF_DTYPE_F32, extra);
    }
    c.lse = owned_new(1, s.batch * s.heads * s.seq, WF_DTYPE_F32, 0);
    struct wf_mat *to[] = {&c.a.q,    &c.a.k,  &c.a.v,  &c.a.out,
                           &c.a.dout, &c.a.dq, &c.a.dk, &c.a.dv};
    for (int i = 0; i < N_MATS; i++)
        *to[i] = c.m[i].m;
    c.a.lse = c.lse.m.at;
    size_t bytes = (wf_attention_scratch(&c.a) + 63) / 64 * 64;
    c.scratch = aligned_alloc(64, bytes);
    assert_non_null(c.scratch);
    memset(c.scratch, 0xff, bytes); /* NaNs */
    return c;
}

static void call_free(struct call *c)
{
    for (int i = 0; i < N_MATS; i++)
        free(c->m[i].memory);
    free(c->lse.memory);
    free(c->scratch);
}

static void call_draw(struct call *c, float query_size)
{
    uint64_t state = 1;
    owned_draw(&c->m[Q], &state, query_size);
    owned_draw(&c->m[K], &state, 1);
    owned_draw(&c->m[V], &state, 1);
    owned_draw(&c->m[DOUT], &state, 1);
}

/* Copies the inputs and the results of the forward. */
static void call_copy(struct call *to, const struct call *from)
{
    for (int i = Q; i <= DOUT; i++)
        owned_copy(&to->m[i], &from->m[i]);
    owned_copy(&to->lse, &from->lse);
}

static void check_all_guards(const struct call *c)
{
    for (int i = 0; i < N_MATS; i++)
        check_guards(&c->m[i]);
    check_guards(&c->lse);
}

static bool run_forward(enum wf_isa isa, struct call *c, bool turned)
{
    size_t n = wf_attention_forward_tasks(&c->a);
    for (size_t i = 0; i < n; i++)
        if (!wf_attention_forward_of(isa, &c->a, turned ? n - 1 - i : i, c->scratch))
            return false;
    return true;
}

static bool run_backward(enum wf_isa isa, struct call *c, bool turned)
{
    size_t n = wf_attention_backward_tasks(&c->a);
    for (size_t i = 0; i < n; i++)
        if (!wf_attention_backward_of(isa, &c->a, turned ? n - 1 - i : i, c->scratch))
            return false;
    return true;
}

/* -- against the reference ----------------------------------------------------------------- */

/* Checks that |x - want| <= bound * size.  bf16 allows one more rounding, of half of the last
 * of its eight bits. */
static void check_close(const struct owned *x, const struct owned *want, double bound,
                        double size)
{
    for (size_t r = 0; r < x->rows; r++)
        for (size_t c = 0; c < x->cols; c++) {
            double w = get(want->m, r, c), off = fabs(get(x->m, r, c) - w);
            double memory = bound * size + (x->m.type == WF_DTYPE_BF16 ? fabs(w) / 256 : 0);
            if (!(off <= memory))
                fail_msg(
                    "row %zu column %zu of %zu x %zu: %.9g instead of %.9g, off by %.3g > %.3g",
                    r, c, x->rows, x->cols, (double)get(x->m, r, c), w, off, memory);
        }
}

/* Returns the reference's results for c's inputs, as fp32. */
static struct call reference_of(struct call *c)
{
    struct shape s = {c->a.batch, c->a.seq, c->a.heads, c->a.kv_heads, c->a.head, F32};
    struct call ref = call_new(s, 3);
    call_copy(&ref, c);
    wf_attention_forward_ref(&ref.a);
    return ref;
}

/* Outputs are means of values, and gradients of scores are differences of products of two rows,
 * so errors are relative to the largest of these, not to the result after cancellation. */
static void check_shape_of(struct shape s, float query_size, double bound)
{
    struct call c = call_new(s, 5);
    call_draw(&c, query_size);
    struct call ref = reference_of(&c);
    double size = largest(&c.m[V]) + DBL_MIN;

    for (enum wf_isa isa = WF_ISA_PORTABLE; run_forward(isa, &c, false); isa++) {
        check_close(&c.m[OUT], &ref.m[OUT], bound, size);
        check_close(&c.lse, &ref.lse, 2 * FLT_EPSILON, largest(&ref.lse) + 1);
        if (isa == WF_ISA_AVX512_BF16)
            break;
    }

    owned_copy(&ref.m[OUT], &c.m[OUT]);
    wf_attention_backward_ref(&ref.a);
    for (enum wf_isa isa = WF_ISA_PORTABLE; run_backward(isa, &c, false); isa++) {
        for (int i = DQ; i <= DV; i++)
            check_close(&c.m[i], &ref.m[i], bound, fmax(1, largest(&ref.m[i])));
        if (isa == WF_ISA_AVX512_BF16)
            break;
    }

    check_all_guards(&c);
    call_free(&ref);
    call_free(&c);
}

static const size_t head_sizes[] = {1, 3, 4, 6, 8, 12, 16, 32, 48, 64, 80, 96, 128};

static void check_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(head_sizes); i++) {
        struct shape s = {1, i % 2 ? 65 : 40, 2, 1, head_sizes[i], F32};
        check_shape_of(s, 2, 2e-6);
        s.bf16 = BF16;
        check_shape_of(s, 2, 2e-6);
    }
}

static struct shape shapes[] = {
    {1, 1, 1, 1, 8, F32},
    {2, 2, 3, 3, 6, F32},
    {3, 7, 2, 2, 4, F32},
    {2, 24, 4, 2, 12, BF16},
    {2, 63, 2, 1, 16, F32},
    {2, 64, 6, 2, 8, F32},
    {1, 65, 3, 1, 3, BF16},
    {1, 127, 1, 1, 20, F32},
    {1, 129, 1, 1, 36, F32},
    {2, 200, 2, 1, 5, F32},
    {1, 257, 2, 2, 16, F32},
    {1, 1024, 1, 1, 4, F32},
    {4, 260, 8, 4, 2, F32},
    {2, 40, 2, 1, 20, 1 << Q | 1 << V | 1 << DK},
    {2, 40, 2, 1, 20, 1 << K | 1 << OUT | 1 << DQ | 1 << DV},
};

static void check_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(shapes); i++)
        check_shape_of(shapes[i], 2, 2e-6);
}

/* Scores up to about +-80 and +-3000: nothing overflows, and errors grow with the rounding of
 * the scores. */
static void check_extremes(void **state)
{
    (void)state;
    struct shape s = {1, 130, 2, 1, 16, F32};
    check_shape_of(s, 40, 4e-5);
    check_shape_of(s, 1500, 2e-3);
}

/* -- bits ---------------------------------------------------------------------------------- */

static struct shape bit_shapes[] = {
    {2, 70, 4, 2, 12, F32},
    {1, 257, 3, 3, 16, F32},
    {1, 64, 2, 1, 64, BF16},
};

/* Checks that the order of tasks, addresses, row lengths and old contents of scratch memory do
 * not change a bit. */
static void check_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(bit_shapes); i++)
        for (enum wf_isa isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512; isa++) {
            struct call a = call_new(bit_shapes[i], 0), b = call_new(bit_shapes[i], 7);
            call_draw(&a, 2);
            call_copy(&b, &a);
            if (run_forward(isa, &a, false) && run_backward(isa, &a, false)) {
                assert_true(run_forward(isa, &b, true));
                assert_true(run_backward(isa, &b, true));
                for (int m = OUT; m < N_MATS; m++)
                    check_same(&a.m[m], &b.m[m]);
                check_same(&a.lse, &b.lse);
            }
            call_free(&a);
            call_free(&b);
        }
}

/* Checks gradients that overwrite q, k and v, all column ranges of one matrix as in a model. */
static void check_in_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_LEN(bit_shapes); i++)
        for (enum wf_isa isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512; isa++) {
            struct call a = call_new(bit_shapes[i], 0), b = call_new(bit_shapes[i], 0);
            size_t dim = a.m[Q].cols, kv = a.m[K].cols;
            struct owned qkv = owned_new(a.m[Q].rows, dim + 2 * kv, a.m[Q].m.type, 2);

            call_draw(&a, 2);
            struct owned part[3] = {a.m[Q], a.m[K], a.m[V]};
            for (int p = 0; p < 3; p++) {
                part[p].m = wf_mat_at(qkv.m, 0, p == 0 ? 0 : p == 1 ? dim : dim + kv);
                owned_copy(&part[p], &a.m[Q + p]);
            }

            if (run_forward(isa, &a, false) && run_backward(isa, &a, false)) {
                call_copy(&b, &a);
                b.a.q = b.a.dq = part[0].m;
                b.a.k = b.a.dk = part[1].m;
                b.a.v = b.a.dv = part[2].m;
                assert_true(run_backward(isa, &b, true));
                for (int p = 0; p < 3; p++)
                    check_same(&part[p], &a.m[DQ + p]);
                check_guards(&qkv);
            }

            free(qkv.memory);
            call_free(&a);
            call_free(&b);
        }
}

/* -- not a number -------------------------------------------------------------------------- */

/* The tests put a NaN into one head.  Results that depend on it become NaN, and all others keep
 * their bits. */
enum { NAN_SEQ = 150, NAN_AT = 70, NAN_HEAD = 6 };

static void check_nan_rows(const struct owned *with, const struct owned *clean, size_t begin,
                           size_t end)
{
    for (size_t r = 0; r < with->rows; r++)
        for (size_t c = 0; c < with->cols; c++) {
            bool hit = r >= begin && r < end && c < NAN_HEAD;
            float x = get(with->m, r, c);
            if (hit ? !isnan(x) : !same_bits(x, get(clean->m, r, c)))
                fail_msg("row %zu column %zu: %g instead of %g", r, c, (double)x,
                         hit ? NAN : (double)get(clean->m, r, c));
        }
}

static void check_nan(void **state)
{
    (void)state;
    struct shape s = {1, NAN_SEQ, 2, 2, NAN_HEAD, F32};
    for (enum wf_isa isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512; isa++)
        for (int where = Q; where <= DOUT; where++) {
            struct call clean = call_new(s, 0), c = call_new(s, 0);
            call_draw(&clean, 2);
            if (where == OUT || !run_forward(isa, &clean, false)) {
                call_free(&clean);
                call_free(&c);
                continue;
            }

            assert_true(run_backward(isa, &clean, false));
            call_copy(&c, &clean);
            for (size_t i = 0; i < NAN_HEAD; i++)
                set(c.m[where].m, NAN_AT, i, NAN);

            assert_true(run_forward(isa, &c, false));
            if (where == DOUT) {
                assert_true(run_backward(isa, &c, false));
                check_nan_rows(&c.m[DQ], &clean.m[DQ], NAN_AT, NAN_AT + 1);
                check_nan_rows(&c.m[DK], &clean.m[DK], 0, NAN_AT + 1);
                check_nan_rows(&c.m[DV], &clean.m[DV], 0, NAN_AT + 1);
            } else {
                size_t end = where == Q ? NAN_AT + 1 : NAN_SEQ;
                check_nan_rows(&c.m[OUT], &clean.m[OUT], NAN_AT, end);
            }

            call_free(&clean);
            call_free(&c);
        }
}

/* -- gradients ----------------------------------------------------------------------------- */

/* Returns the sum of dout * out, in double, from x = {q, k, v}: (seq, heads * head) each. */
static double loss_of(const struct call *c, double *const x[3])
{
    size_t seq = c->a.seq, head = c->a.head, group = c->a.heads / c->a.kv_heads;
    size_t q_cols = c->a.heads * head, kv_cols = c->a.kv_heads * head;
    double loss = 0;
    for (size_t h = 0; h < c->a.heads; h++)
        for (size_t i = 0; i < seq; i++) {
            double sum = 0, part = 0;

            for (size_t j = 0; j <= i; j++) {
                const double *q = x[0] + i * q_cols + h * head;
                const double *k = x[1] + j * kv_cols + h / group * head;
                const double *v = x[2] + j * kv_cols + h / group * head;
                double s = 0, dy = 0;
                for (size_t d = 0; d < head; d++) {
                    s += q[d] * k[d];
                    dy += v[d] * get(c->a.dout, i, h * head + d);
                }
                sum += exp(s / sqrt((double)head));
                part += exp(s / sqrt((double)head)) * dy;
            }

            loss += part / sum;
        }
    return loss;
}

static void check_differences(void **state)
{
    (void)state;
    struct call c = call_new((struct shape){1, 9, 4, 2, 3, F32}, 1);
    call_draw(&c, 1);
    wf_attention_forward_ref(&c.a);
    wf_attention_backward_ref(&c.a);

    double *x[3];
    for (int p = 0; p < 3; p++) {
        const struct owned *m = &c.m[Q + p];
        x[p] = malloc(m->rows * m->cols * sizeof(double));
        assert_non_null(x[p]);
        for (size_t i = 0; i < m->rows * m->cols; i++)
            x[p][i] = get(m->m, i / m->cols, i % m->cols);
    }

    const double step = 1e-5;
    for (int p = 0; p < 3; p++) {
        const struct owned *d = &c.m[DQ + p];
        for (size_t i = 0; i < d->rows * d->cols; i++) {
            double at = x[p][i];

            x[p][i] = at + step;
            double more = loss_of(&c, x);
            x[p][i] = at - step;
            double less = loss_of(&c, x);
            x[p][i] = at;
            double slope = (more - less) / (2 * step);
            assert_true(fabs(slope - get(d->m, i / d->cols, i % d->cols)) <= 1e-6);
        }
    }

    for (int p = 0; p < 3; p++)
        free(x[p]);
    call_free(&c);
}

/* -- tasks and memory ---------------------------------------------------------------------- */

static void check_sizes(void **state)
{
    (void)state;
    struct wf_attention a = {.batch = 1, .seq = 1024, .heads = 12, .kv_heads = 12, .head = 64};
    size_t bytes = wf_attention_scratch(&a);
    assert_true(bytes <= 1200000); /* four rows of floats per token, and a block of queries */
    assert_int_equal(wf_attention_forward_tasks(&a), 12 * 4);
    assert_int_equal(wf_attention_backward_tasks(&a), 12);
    a.seq *= 8;
    assert_true(wf_attention_scratch(&a) <= 8 * bytes);
    a.kv_heads = 4;
    assert_int_equal(wf_attention_backward_tasks(&a), 4);
}

/* Checks that calls without an instruction set use the best one. */
static void check_dispatch(void **state)
{
    (void)state;
    struct shape s = {1, 66, 2, 1, 8, F32};
    struct call a = call_new(s, 0), b = call_new(s, 0);
    call_draw(&a, 2);
    call_copy(&b, &a);
    assert_true(run_forward(wf_isa(), &a, false) && run_backward(wf_isa(), &a, false));
    for (size_t i = 0; i < wf_attention_forward_tasks(&b.a); i++)
        wf_attention_forward(&b.a, i, b.scratch);
    for (size_t i = 0; i < wf_attention_backward_tasks(&b.a); i++)
        wf_attention_backward(&b.a, i, b.scratch);
    for (int m = OUT; m < N_MATS; m++)
        check_same(&a.m[m], &b.m[m]);
    call_free(&a);
    call_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_heads),       cmocka_unit_test(check_shapes),
        cmocka_unit_test(check_extremes),    cmocka_unit_test(check_order),
        cmocka_unit_test(check_in_place),    cmocka_unit_test(check_nan),
        cmocka_unit_test(check_differences), cmocka_unit_test(check_sizes),
        cmocka_unit_test(check_dispatch),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL) != 0;
}
