/* The instruction set that the kernels use.  Determined once, from the machine.  The
 * environment variable WEFT_ISA (portable, avx2, avx512, avx512_bf16) can lower it but not
 * raise it. */
#ifndef COMPUTE_KERN_ISA_H
#define COMPUTE_KERN_ISA_H

#include <stdbool.h>

enum wf_isa {
    WF_ISA_PORTABLE, /* the baseline of the architecture */
    WF_ISA_AVX2,     /* AVX2, FMA, F16C */
    WF_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL */
    WF_ISA_AVX512_BF16,
};

/* Returns the instruction set in use.  Safe to call from any thread. */
enum wf_isa wf_isa(void);

/* Returns true if WEFT_ISA accepts this name. */
bool wf_isa_is_name(const char *name);

/* Returns "portable", "avx2", "avx512" or "avx512_bf16". */
const char *wf_isa_name(enum wf_isa isa);

/* Picks the entry for the instruction set in use.  An instruction set without its own functions
 * uses the functions of the next lower instruction set. */
#define WF_ISA_PICK(portable, avx2, avx512)                                                    \
    (wf_isa() >= WF_ISA_AVX512 ? (avx512) : wf_isa() >= WF_ISA_AVX2 ? (avx2) : (portable))

#endif
