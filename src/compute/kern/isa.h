/* Which instructions the kernels use.  Decided once, from what the machine has; the environment
 * variable WEFT_ISA (portable, avx2, avx512, avx512_bf16) can lower it, never raise it. */
#ifndef COMPUTE_KERN_ISA_H
#define COMPUTE_KERN_ISA_H

#include <stdbool.h>

enum wf_isa {
    WF_ISA_PORTABLE, /* what every machine of the architecture has */
    WF_ISA_AVX2,     /* AVX2, FMA, F16C */
    WF_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL */
    WF_ISA_AVX512_BF16,
};

/* Safe from any thread. */
enum wf_isa wf_isa(void);

/* Is this a name that WEFT_ISA may have? */
bool wf_isa_is_name(const char *name);

/* "portable", "avx2", "avx512", "avx512_bf16" */
const char *wf_isa_name(enum wf_isa isa);

/* Picks the row of a table that has one for each set of instructions; sets without functions of
 * their own use the next lower one's. */
#define WF_ISA_PICK(portable, avx2, avx512)                                                    \
    (wf_isa() >= WF_ISA_AVX512 ? (avx512) : wf_isa() >= WF_ISA_AVX2 ? (avx2) : (portable))

#endif
