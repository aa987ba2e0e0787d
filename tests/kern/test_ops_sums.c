/* Compares exact sums of gradients with integers, and fast sums with additions.  Also tests
 * sums of squares and AdamW. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "mats.h"

enum { N = 1003 };

/* Iterates over all tables, the reference first; NULL after the last. */
static const struct wf_ops *table(int i)
{
    return i == 0 ? &wf_ops_ref : mats_ops(i - 1);
}

/* Returns numbers of all magnitudes below 2^12; every third has a fraction of a unit that is
 * exactly or almost one half. */
static float contribution(uint64_t stream, uint64_t i)
{
    uint64_t bits = wf_random_u64(5, stream, i);
    double sign = bits & 1 ? -1 : 1, part = 1 + (double)(bits >> 41) * 0x1p-23;
    int exponent = (int)(bits >> 1 & 127) - 115; /* -115 .. 12 */
    if (exponent == 12)
        return (float)(sign * nextafterf(4096, 0));
    if (i % 3 == 0)
        return (
            float)(sign *
                   ((double)(bits >> 8 & 0xfffff) + 0.5 + (double)(i / 3 % 3 - 1) * 0x1p-3) *
                   0x1p-50);
    return (float)(sign * ldexp(part, exponent));
}

/* Returns x / 2^-50 rounded to nearest even, with integers: x = whole * 2^exponent. */
static int64_t units(float x)
{
    int exponent;
    int64_t whole = (int64_t)ldexp(frexp(fabs((double)x), &exponent), 24);
    exponent += 50 - 24;
    if (exponent >= 0)
        whole <<= exponent;
    else if (exponent < -30)
        whole = 0;
    else {
        int64_t unit = INT64_C(1) << -exponent, rest = whole % unit;
        whole /= unit;
        if (2 * rest > unit || (2 * rest == unit && whole % 2 == 1))
            whole++;
    }
    return x < 0 ? -whole : whole;
}

static void check_exact(void **state)
{
    (void)state;
    static float x[N];
    static int64_t sums[N + 1], want[N + 1];
    const struct wf_ops *ops;

    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (size_t n = 0; n < N; n = n < 40 ? n + 1 : n * 3) {
            memset(sums, 0x55, sizeof sums); /* garbage */
            memset(want, 0x55, sizeof want);

            for (uint64_t turn = 0; turn < 3; turn++) {
                for (size_t i = 0; i < n; i++) {
                    x[i] = contribution(turn, i);
                    if (turn > 0 && (x[i] > 0) == (want[i] > 0))
                        x[i] = -x[i]; /* toward zero: stays in range */
                    want[i] = turn == 0 ? units(x[i]) : want[i] + units(x[i]);
                }

                assert_false(
                    ops->sink_add((struct wf_sink){.exact = sums, .fresh = turn == 0}, x, n));
                assert_memory_equal(sums, want, sizeof sums);
            }
        }
}

/* A single contribution has the bits of its exact sum, including zeros. */
static void check_single(void **state)
{
    (void)state;
    static float x[N], only[N + 1], want[N + 1];
    static int64_t sums[N];
    const struct wf_ops *ops;
    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (size_t n = 0; n < N; n = n < 40 ? n + 1 : n * 3)
            for (int shift = 0; shift < 40; shift += 3) { /* down to less than a unit */
                memset(only, 0x55, sizeof only);
                memset(want, 0x55, sizeof want);
                for (size_t i = 0; i < n; i++)
                    x[i] = ldexpf(contribution(4, i), -shift);
                struct wf_sink exact = {.exact = sums, .fresh = true},
                               sink = {.fast = only, .fresh = true, .single = true};
                assert_false(ops->sink_add(exact, x, n));
                ops->exact_to_f32(want, sums, n);
                assert_false(ops->sink_add(sink, x, n));
                assert_memory_equal(only, want, sizeof only);
            }
}

/* Checks that neither the order nor the grouping of calls changes a bit. */
static void check_order(void **state)
{
    (void)state;
    enum { CALLS = 24 };
    static float x[CALLS][N];
    static int64_t first[N], again[N], other[N];

    for (int k = 0; k < CALLS; k++)
        for (size_t i = 0; i < N; i++)
            x[k][i] = contribution((uint64_t)k, i) * 0x1p-6f;

    const struct wf_ops *ops;
    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (uint32_t shuffle = 0; shuffle < 6; shuffle++) {
            int order[CALLS];
            for (int k = 0; k < CALLS; k++)
                order[k] = k;

            for (uint32_t k = CALLS; k-- > 1 && shuffle > 0;) {
                uint32_t with = wf_random_below(6, shuffle, k, k + 1);
                int swap = order[k];
                order[k] = order[with];
                order[with] = swap;
            }

            bool bad = false;
            /* the first half in one sum, the second in another */
            for (int k = 0; k < CALLS; k++) {
                int64_t *to = k < CALLS / 2 ? again : other;
                struct wf_sink sink = {.exact = to, .fresh = k % (CALLS / 2) == 0};
                bad |= ops->sink_add(sink, x[order[k]], N);
            }
            bad |= ops->exact_merge(again, other, N);
            assert_false(bad);

            if (t == 0 && shuffle == 0)
                memcpy(first, again, sizeof first);
            assert_memory_equal(again, first, sizeof first);
        }
}

static void check_range(void **state)
{
    (void)state;
    const int64_t limit = INT64_C(1) << 62;
    const float most = nextafterf(4096, 0);
    static const struct {
        float x;
        bool bad;
    } alone[] = {
        {4095.9998f, false}, {-4095.9998f, false}, {4096, true},     {-4096, true},
        {1e30f, true},       {-3e38f, true},       {INFINITY, true}, {-INFINITY, true},
        {NAN, true},         {1e-45f, false},
    };
    const struct {
        int64_t before;
        float x;
        bool bad;
    } added[] = {
        {units(most), most, true},     {units(-most), -most, true},
        {units(most), -most, false},   {limit - 1, 0, false},
        {limit - 1, 0x1p-50f, true},   {1 - limit, 0, false},
        {1 - limit, -0x1p-50f, true},  {limit - 2, 0x1p-50f, false},
        {2 - limit, -0x1p-50f, false}, {limit - 1, -0x1p-50f, false},
    };

    const struct wf_ops *ops;
    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (size_t place = 0; place < 37; place++) {
            float x[37] = {0};
            int64_t sums[37] = {0}, more[37] = {0};

            for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
                for (int fresh = 0; fresh < 2; fresh++) {
                    memset(sums, 0, sizeof sums);
                    x[place] = alone[i].x;
                    struct wf_sink sink = {.exact = sums, .fresh = fresh != 0};
                    assert_int_equal(ops->sink_add(sink, x, 37), alone[i].bad);
                    sink =
                        (struct wf_sink){.fast = (float *)more, .fresh = true, .single = true};
                    assert_int_equal(ops->sink_add(sink, x, 37), alone[i].bad);
                    memset(more, 0, sizeof more);
                }

            for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
                memset(sums, 0, sizeof sums);
                x[place] = added[i].x;
                sums[place] = added[i].before;
                struct wf_sink sink = {.exact = sums};
                assert_int_equal(ops->sink_add(sink, x, 37), added[i].bad);

                memset(sums, 0, sizeof sums);
                sums[place] = added[i].before;
                more[place] = units(added[i].x);
                assert_int_equal(ops->exact_merge(sums, more, 37), added[i].bad);
                if (!added[i].bad)
                    assert_true(sums[place] == added[i].before + more[place]);
                more[place] = 0;
            }
        }
}

static void check_merge(void **state)
{
    (void)state;
    static int64_t a[N], b[N], want[N];
    const struct wf_ops *ops;
    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (size_t n = 0; n < N; n = n < 20 ? n + 1 : n * 4) {
            for (size_t i = 0; i < N; i++) {
                a[i] = (int64_t)wf_random_u64(7, 1, i) >> 2;
                b[i] = (int64_t)wf_random_u64(7, 2, i) >> 3;
                want[i] = i < n ? a[i] + b[i] : a[i];
            }
            assert_false(ops->exact_merge(a, b, n));
            assert_memory_equal(a, want, sizeof a);
        }
}

/* Returns integers near the points where fp32, or an intermediate double, rounds: k 2^s +
 * small. */
static int64_t awkward(uint64_t i)
{
    uint64_t bits = wf_random_u64(8, 1, i);
    int shift = (int)(bits % 40);
    int64_t head = (int64_t)(bits >> 41 | 1 << 22); /* 23 bits and a lowest one */
    int64_t value = ((head * 2 + 1) << shift) + (int64_t)(bits >> 8 & 3) - 1;
    if (bits & 1 << 20)
        value = (int64_t)bits >> (bits >> 30 & 31) >> 2;
    value %= INT64_C(1) << 62;
    return bits & 1 << 21 ? -value : value;
}

static void check_value(void **state)
{
    (void)state;
    enum { MANY = 40003 };
    int64_t *sums = malloc(MANY * sizeof *sums);
    float *out = malloc(MANY * sizeof *out);
    assert_true(sums != NULL && out != NULL);

    for (size_t i = 0; i < MANY; i++)
        sums[i] = awkward(i);
    sums[0] = 0;
    sums[1] = (INT64_C(1) << 62) - 1;
    sums[2] = -sums[1];
    sums[3] = (INT64_C(1) << 61) + (INT64_C(1) << 37) + 1; /* a tie except for the last bit */
    sums[4] = (INT64_C(1) << 61) + (INT64_C(1) << 37);
    sums[5] = (INT64_C(1) << 61) + (INT64_C(3) << 37) - 1;

    const struct wf_ops *ops;
    for (int t = 0; (ops = table(t)) != NULL; t++) {
        ops->exact_to_f32(out, sums, MANY);
        for (size_t i = 0; i < MANY; i++)
            assert_true(out[i] == (float)sums[i] * 0x1p-50f); /* the cast rounds once */
        for (size_t n = 0; n < 20; n++) {
            memset(out, 0, 21 * sizeof *out);
            ops->exact_to_f32(out, sums + 1, n);
            for (size_t i = 0; i < 21; i++)
                assert_true(out[i] == (i < n ? (float)sums[i + 1] * 0x1p-50f : 0));
        }
    }

    free(sums);
    free(out);
}

static void check_fast(void **state)
{
    (void)state;
    static float x[N], sums[N + 1], want[N + 1];
    const struct wf_ops *ops;

    for (int t = 0; (ops = table(t)) != NULL; t++)
        for (size_t n = 0; n < N; n = n < 40 ? n + 1 : n * 3) {
            memset(sums, 0xff, sizeof sums);
            memset(want, 0xff, sizeof want);

            for (int turn = 0; turn < 3; turn++) {
                for (size_t i = 0; i < n; i++) {
                    x[i] = (float)(1e5 * mats_number());
                    want[i] = turn == 0 ? x[i] : want[i] + x[i];
                }
                assert_false(
                    ops->sink_add((struct wf_sink){.fast = sums, .fresh = turn == 0}, x, n));
                assert_memory_equal(sums, want, sizeof sums);
            }

            if (n > 0) {
                x[n - 1] = n % 2 ? NAN : INFINITY;
                assert_true(ops->sink_add((struct wf_sink){.fast = sums}, x, n));
            }
        }
}

/* Adds rows with the same id, by ranges of columns. */
static void check_scatter(void **state)
{
    (void)state;
    enum { TABLE = 5, COLS = 83, ROWS = 9 };
    static const int32_t ids[ROWS] = {4, 0, 2, 2, 4, 2, 1, 0, 2};
    static const size_t cuts[] = {0, 1, 20, 52, COLS};
    static int64_t sums[TABLE * COLS], want[TABLE * COLS];
    static float fast[TABLE * COLS], fast_want[TABLE * COLS];
    const struct wf_ops *ops;

    for (int t = 0; (ops = table(t)) != NULL; t++) {
        struct mats m;
        mats_begin(&m, "scatter, table %d", t);
        struct wf_mat dx = mats_random(&m, ROWS, COLS, WF_DTYPE_F32, 3);

        for (size_t i = 0; i < TABLE * COLS; i++) {
            sums[i] = want[i] = (int64_t)i << 40;
            fast[i] = fast_want[i] = (float)i;
        }

        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < COLS; c++) {
                want[(size_t)ids[r] * COLS + c] += units(*wf_mat_f32(dx, r, c));
                fast_want[(size_t)ids[r] * COLS + c] += *wf_mat_f32(dx, r, c);
            }

        struct wf_sink exact_sink = {.exact = sums}, fast_sink = {.fast = fast};
        for (int k = 3; k >= 0; k--) {
            assert_false(ops->scatter(exact_sink, COLS, ids, dx, ROWS, cuts[k], cuts[k + 1]));
            assert_false(ops->scatter(fast_sink, COLS, ids, dx, ROWS, cuts[k], cuts[k + 1]));
        }
        assert_memory_equal(sums, want, sizeof sums);
        assert_memory_equal(fast, fast_want, sizeof fast);

        /* Into a table with a single contribution: the exact sums, rounded. */
        struct wf_sink only = {.fast = fast, .single = true};
        for (size_t i = 0; i < TABLE * COLS; i++) {
            fast[i] = (float)i * 0x1p-10f;
            want[i] = units(fast[i]);
        }

        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < COLS; c++)
                want[(size_t)ids[r] * COLS + c] += units(*wf_mat_f32(dx, r, c));
        ops->exact_to_f32(fast_want, want, TABLE * COLS);

        for (int k = 3; k >= 0; k--)
            assert_false(ops->scatter(only, COLS, ids, dx, ROWS, cuts[k], cuts[k + 1]));
        assert_memory_equal(fast, fast_want, sizeof fast);

        mats_put(dx, 6, 51, 5000);
        assert_true(ops->scatter(only, COLS, ids, dx, ROWS, 20, 52));
        assert_true(ops->scatter(exact_sink, COLS, ids, dx, ROWS, 20, 52));
        assert_false(ops->scatter(exact_sink, COLS, ids, dx, ROWS, 52, COLS));

        mats_end(&m);
    }
}

static void check_squares(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 100, 4095, WF_NORM_SEGMENT};
    static float x[WF_NORM_SEGMENT];
    static int64_t sums[WF_NORM_SEGMENT];

    for (size_t i = 0; i < WF_NORM_SEGMENT; i++) {
        sums[i] = awkward(i);
        x[i] = (float)sums[i] * 0x1p-50f;
    }

    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        double want = 0, first = 0;
        for (size_t i = 0; i < lengths[k]; i++)
            want += (double)x[i] * x[i];

        const struct wf_ops *ops;
        for (int t = 0; (ops = table(t)) != NULL; t++) {
            double exact = ops->sum_squares(sums, NULL, lengths[k]);
            double fast = ops->sum_squares(NULL, x, lengths[k]);
            assert_true(fabs(exact - want) <= 1e-14 * want);
            first = t == 0 ? exact : first;
            assert_true(exact == first && fast == first); /* same bits in every table */
        }
    }
}

static struct adamw_case {
    const char *name;
    struct wf_adamw how;
} adamw_cases[] = {
    {"first step", {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f, 1}},
    {"clipped, no decay", {6e-4f, 0.9f, 0.999f, 1e-8f, 0, 0.9f, 0.5f, 0.03f}},
    {"after the warm-up", {1, 0.8f, 0.99f, 1e-3f, 0.01f, 1, 1, 0.5f}},
};

static void adamw_run(const struct wf_ops *ops, const struct adamw_case *k, size_t n, int isa,
                      bool exact)
{
    struct mats m;
    mats_begin(&m, "adamw, %s, isa %d, %zu, %s", k->name, isa, n, exact ? "exact" : "fast");
    float *state[2][3], *x = mats_random_floats(&m, n, 2);
    int64_t sums[200];

    for (size_t i = 0; i < n; i++)
        sums[i] = units(x[i]);
    for (int j = 0; j < 3; j++) {
        state[0][j] = mats_random_floats(&m, n, 1);
        for (size_t i = 0; i < n; i++)
            state[0][j][i] = j == 2 ? fabsf(state[0][j][i]) : state[0][j][i];
        state[1][j] = mats_floats(&m, n);
        memcpy(state[1][j], state[0][j], n * sizeof(float));
    }

    /* The formula of the header in double. */
    const struct wf_adamw *h = &k->how;
    float *want_w = mats_floats(&m, n), *want_m = mats_floats(&m, n),
          *want_v = mats_floats(&m, n);
    for (size_t i = 0; i < n; i++) {
        double g = (double)x[i] * h->scale, w = state[0][0][i];
        double m1 = (double)h->beta1 * state[0][1][i] + (1 - (double)h->beta1) * g;
        double v1 = (double)h->beta2 * state[0][2][i] + (1 - (double)h->beta2) * g * g;
        want_w[i] = (float)(w * (1 - (double)h->lr * h->decay) -
                            h->lr * (m1 / h->correct1) / (sqrt(v1 / h->correct2) + h->eps));
        want_m[i] = (float)m1;
        want_v[i] = (float)v1;
    }

    for (int j = 0; j < 2; j++)
        (j == 0 ? &wf_ops_ref : ops)
            ->adamw(state[j][0], state[j][1], state[j][2], exact ? sums : NULL,
                    exact ? NULL : x, n, h);
    for (int j = 0; j < 2; j++) {
        mats_allclose_floats(&m, "w", state[j][0], want_w, n, 3e-7);
        mats_allclose_floats(&m, "m", state[j][1], want_m, n, 3e-7);
        mats_allclose_floats(&m, "v", state[j][2], want_v, n, 3e-7);
    }

    mats_end(&m);
}

static void check_adamw(void **state)
{
    static const size_t lengths[] = {0, 1, 7, 16, 17, 33, 200};
    const struct wf_ops *ops;
    for (int isa = 0; (ops = mats_ops(isa)) != NULL; isa++)
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            for (int exact = 0; exact < 2; exact++)
                adamw_run(ops, *state, lengths[i], isa, exact != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_exact),
        cmocka_unit_test(check_single),
        cmocka_unit_test(check_order),
        cmocka_unit_test(check_range),
        cmocka_unit_test(check_merge),
        cmocka_unit_test(check_value),
        cmocka_unit_test(check_fast),
        cmocka_unit_test(check_scatter),
        cmocka_unit_test(check_squares),
        {adamw_cases[0].name, check_adamw, NULL, NULL, &adamw_cases[0]},
        {adamw_cases[1].name, check_adamw, NULL, NULL, &adamw_cases[1]},
        {adamw_cases[2].name, check_adamw, NULL, NULL, &adamw_cases[2]},
    };
    return cmocka_run_group_tests_name("ops_sums", tests, NULL, NULL) != 0;
}
