/* The product kernel that uses AVX-512 bf16 dot products.  Compiled for AVX512_BF16 where the
 * compiler supports it (CMakeLists.txt). */
#if defined(__AVX512BF16__)

#include <immintrin.h>

#define PAIR_DOT(acc, a, b) _mm512_dpbf16_ps(acc, (__m512bh)(a), (__m512bh)(b))
#include "compute/kern/gemm_pairs.h"

extern const struct wf_gemm_kernel wf_gemm_kernel_bf16;
const struct wf_gemm_kernel wf_gemm_kernel_bf16 = {
    .rows = pair_panel_rows,
    .sink = pair_sink,
    .pack_strips = pair_pack_strips,
    .pack_panel = pair_pack_panel,
    .pack_weight = pair_pack_weight,
};

#else
typedef int wf_gemm_bf16_is_elsewhere; /* ISO C forbids an empty file */
#endif
