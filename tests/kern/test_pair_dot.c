/* Checks on a CPU with AVX512_BF16 what products on bf16 rely on elsewhere: vdpbf16ps computes
 * two fused multiply-adds, first with the odd elements of the pairs, then with the even ones,
 * and subnormal operands and results count as zero. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "compute/kern/flush.h"
#include "compute/kern/isa.h"
#include "support/deep.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WITH_BF16 __attribute__((noinline, target("avx512f,avx512bw,avx512vl,avx512bf16")))

enum { N = 16, CASES = 200000, DEEP_CASES = 4000000 };

struct pair_case {
    uint32_t sum[N], a[N], b[N];
};

WITH_BF16 static void run_instruction(uint32_t out[N], const struct pair_case *c)
{
    __m512 sum = _mm512_dpbf16_ps(_mm512_loadu_ps(c->sum), (__m512bh)_mm512_loadu_si512(c->a),
                                  (__m512bh)_mm512_loadu_si512(c->b));
    _mm512_storeu_ps(out, sum);
}

/* Called between wf_flush_begin() and wf_flush_end(). */
WITH_BF16 static void run_two(uint32_t out[N], const struct pair_case *c)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000);
    __m512i a = _mm512_loadu_si512(c->a), b = _mm512_loadu_si512(c->b);
    __m512 sum = _mm512_loadu_ps(c->sum);
    sum = _mm512_fmadd_ps((__m512)_mm512_and_si512(a, high), (__m512)_mm512_and_si512(b, high),
                          sum);
    sum = _mm512_fmadd_ps((__m512)_mm512_slli_epi32(a, 16), (__m512)_mm512_slli_epi32(b, 16),
                          sum);
    _mm512_storeu_ps(out, sum);
}

/* Returns 16 random bits with an exponent from `low` on. */
static uint32_t bf16_from(uint32_t random, uint32_t low, uint32_t exponents)
{
    return (random & 0x807f) | (low + (random >> 16) % exponents) << 7;
}

/* Every second case has any bits.  The products and sums of the others are around the smallest
 * normal number or around 1. */
static void make_case(struct pair_case *c, uint64_t seed)
{
    for (uint64_t i = 0; i < N; i++) {
        uint64_t r = wf_random_u64(seed, 1, i), s = wf_random_u64(seed, 2, i);
        uint64_t t = wf_random_u64(seed, 3, i);
        uint32_t low = seed % 4 == 1 ? 57 : 122, near_zero = seed % 4 == 1;
        c->sum[i] = (uint32_t)t;
        c->a[i] = (uint32_t)r;
        c->b[i] = (uint32_t)s;
        if (seed % 2 == 0)
            continue;
        c->a[i] = bf16_from((uint32_t)r, low, 10) | bf16_from((uint32_t)(r >> 32), low, 10)
                                                        << 16;
        c->b[i] = bf16_from((uint32_t)s, low, 10) | bf16_from((uint32_t)(s >> 32), low, 10)
                                                        << 16;
        c->sum[i] = ((uint32_t)t & 0x807fffff) |
                    (uint32_t)(near_zero ? (t >> 32) % 4 : 120 + (t >> 32) % 15) << 23;
    }
}

static void check_instruction(void **state)
{
    uint64_t n = test_is_deep() ? DEEP_CASES : CASES;
    (void)state;
    if (wf_isa() < WF_ISA_AVX512_BF16)
        skip();
    for (uint64_t seed = 0; seed < n; seed++) {
        struct pair_case c;
        uint32_t one[N], two[N];
        make_case(&c, seed);
        run_instruction(one, &c);
        uint64_t mode = wf_flush_begin();
        run_two(two, &c);
        wf_flush_end(mode);
        for (int i = 0; i < N; i++) {
            bool nan = (one[i] & 0x7fffffff) > 0x7f800000 && (two[i] & 0x7fffffff) > 0x7f800000;
            if (one[i] != two[i] && !nan)
                fail_msg("sum %08x a %08x b %08x: %08x, two operations give %08x", c.sum[i],
                         c.a[i], c.b[i], one[i], two[i]);
        }
    }
}

#else

static void check_instruction(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_instruction)};
    return cmocka_run_group_tests_name("pair dot", tests, NULL, NULL);
}
