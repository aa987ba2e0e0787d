/* Checks that the loops that measure the peak compute correct sums, and that the measured rates
 * are positive. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "compute/kern/isa.h"
#include "compute/kern/peak.h"
#include "compute/kern/peak_priv.h"

static const struct wf_peak_loop *loop_of(enum wf_isa isa)
{
    if (isa > wf_isa())
        return NULL;
    switch (isa) {
    case WF_ISA_PORTABLE:
        return &wf_peak_loop_portable;
#if defined(__x86_64__)
    case WF_ISA_AVX2:
        return &wf_peak_loop_avx2;
    case WF_ISA_AVX512:
        return &wf_peak_loop_avx512;
    case WF_ISA_AVX512_BF16:
        return wf_peak_loop_bf16.run != NULL ? &wf_peak_loop_bf16 : NULL;
#endif
    default:
        return NULL;
    }
}

/* s = s / 2 + 1 / 2 converges to 1, so the sum of all lanes converges to their number.  The
 * sums of pairs keep their values 1 .. 12. */
static void check_loops(void **state)
{
    for (int isa = WF_ISA_PORTABLE; isa <= WF_ISA_AVX512_BF16; isa++) {
        const struct wf_peak_loop *loop = loop_of((enum wf_isa)isa);
        if (loop == NULL)
            continue;
        size_t lanes = loop->flops / 2 / WF_PEAK_SUMS;
        double want = isa == WF_ISA_AVX512_BF16 ? 16 * 78 : (double)(lanes * WF_PEAK_SUMS);
        assert_true(fabs(loop->run(200) - want) < 1e-4 * want);
    }
    (void)state;
}

static void check_peak(void **state)
{
    static const unsigned threads[] = {1, 2};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        struct wf_pool *pool = NULL;
        assert_int_equal(wf_pool_new(threads[i], &pool, NULL), WEFT_OK);
        double f32 = wf_peak_flops(pool, WF_DTYPE_F32),
               bf16 = wf_peak_flops(pool, WF_DTYPE_BF16);
        print_message("%u threads: %.1f GFLOP/s, bf16 %.1f\n", threads[i], f32 * 1e-9,
                      bf16 * 1e-9);
        assert_true(isfinite(f32) && f32 > 1e6);
        assert_true(isfinite(bf16) && bf16 > 1e6);
        wf_pool_free(pool);
    }
    (void)state;
}

static void multiply(void *arg, size_t task, unsigned worker)
{
    (void)task;
    ((float *)arg)[16 * worker] += wf_peak_loop_portable.run(1000);
}

/* Checks that each thread takes samples during other work, none without, and that reading
 * resets them. */
static void check_sampler(void **state)
{
    struct wf_pool *pool = NULL;
    struct wf_peak_sampler *sampler = NULL;
    float kept[2 * 16] = {0};

    assert_int_equal(wf_pool_new(2, &pool, NULL), WEFT_OK);
    assert_int_equal(wf_peak_sampler_new(pool, WF_DTYPE_F32, &sampler, NULL), WEFT_OK);
    assert_true(wf_peak_sampler_read(sampler).flops == 0);

    struct wf_peak_sample peak = {0};
    for (int i = 0; i < 100 && peak.flops == 0; i++) { /* a thread may have had no task */
        for (int run = 0; run < 100; run++)
            wf_pool_run(pool, 200, multiply, kept);
        peak = wf_peak_sampler_read(sampler);
    }

    assert_true(isfinite(peak.flops) && peak.flops > 1e6);
    assert_true(isfinite(peak.seconds) && peak.seconds > 0);
    struct wf_peak_sample none = wf_peak_sampler_read(sampler);
    assert_true(none.flops == 0 && none.seconds == 0);

    wf_peak_sampler_free(sampler);
    wf_pool_run(pool, 200, multiply, kept);
    wf_pool_free(pool);
    (void)state;
}

static void check_read_bandwidth(void **state)
{
    static float floats[200001];
    struct wf_pool *pool = NULL;
    (void)state;
    assert_int_equal(wf_pool_new(2, &pool, NULL), WEFT_OK);
    assert_true(wf_read_bandwidth(pool, floats, WEFT_LEN(floats)) > 0);
    wf_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_loops),
        cmocka_unit_test(check_peak),
        cmocka_unit_test(check_sampler),
        cmocka_unit_test(check_read_bandwidth),
    };
    return cmocka_run_group_tests_name("peak", tests, NULL, NULL) != 0;
}
