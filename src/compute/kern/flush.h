/* The floating-point mode of products on bf16: subnormal operands and results count as zero.
 * The machine instruction vdpbf16ps always works in this way, so all other instructions do so
 * during products on bf16, including what is added to a product. */
#ifndef COMPUTE_KERN_FLUSH_H
#define COMPUTE_KERN_FLUSH_H

#include <stdint.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* Enters the mode and returns the previous mode for wf_flush_end().  The functions in between
 * must not be inlined, since the compiler does not know that arithmetic depends on the mode. */
static inline uint64_t wf_flush_begin(void)
{
    uint64_t before = 0;
#if defined(__SSE2__)
    before = _mm_getcsr();
    _mm_setcsr((unsigned)before | 0x8040); /* flush to zero, denormals are zero */
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | 1 << 24) : "memory");
#endif
    __asm__ volatile("" : : : "memory");
    return before;
}

static inline void wf_flush_end(uint64_t before)
{
    __asm__ volatile("" : : : "memory");
#if defined(__SSE2__)
    _mm_setcsr((unsigned)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory");
#endif
    (void)before;
}

#endif
