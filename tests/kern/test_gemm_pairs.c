/* Tests the kernels on pairs of bf16 with an emulated dot-product instruction, which runs on
 * any AVX-512 machine. */
#if defined(__AVX512F__)

#include <immintrin.h>

static inline __m512 pair_dot(__m512 acc, __m512i a, __m512i b)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    __m512 odd = _mm512_fmadd_ps((__m512)_mm512_and_si512(a, high),
                                 (__m512)_mm512_and_si512(b, high), acc);
    return _mm512_fmadd_ps((__m512)_mm512_slli_epi32(a, 16), (__m512)_mm512_slli_epi32(b, 16),
                           odd);
}

#define PAIR_DOT(acc, a, b) pair_dot(acc, a, b)
#include "compute/kern/gemm_pairs.h"

#include "gemm_tiles.h"

static void check_pairs(void **state)
{
    static const struct wf_gemm_kernel kernel = {
        .rows = pair_panel_rows,
        .sink = pair_sink,
        .pack_strips = pair_pack_strips,
        .pack_panel = pair_pack_panel,
        .pack_weight = pair_pack_weight,
    };
    (void)state;
    if (wf_isa() < WF_ISA_AVX512)
        skip();
    tile_check_all(&kernel, wf_ops_of(WF_ISA_AVX512), WF_PACK_BF16_PAIRS);
}

#else

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check_pairs(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
