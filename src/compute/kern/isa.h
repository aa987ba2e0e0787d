/* Which instructions the kernels use.  Decided once, from what the machine has; the environment
 * variable WEFT_ISA (portable, avx2, avx512, avx512_bf16) can lower it, never raise it. */
#ifndef COMPUTE_KERN_ISA_H
#define COMPUTE_KERN_ISA_H

#include <stdbool.h>

enum weft_isa {
    WEFT_ISA_PORTABLE, /* what every machine of the architecture has */
    WEFT_ISA_AVX2,     /* AVX2, FMA, F16C */
    WEFT_ISA_AVX512,   /* AVX-512 F, BW, DQ, VL */
    WEFT_ISA_AVX512_BF16,
};

/* Safe from any thread. */
enum weft_isa weft_isa(void);

/* Is this a name that WEFT_ISA may have? */
bool weft_isa_is_name(const char *name);

/* "portable", "avx2", "avx512", "avx512_bf16" */
const char *weft_isa_name(enum weft_isa isa);

/* Picks the row of a table that has one for each set of instructions; sets without functions of
 * their own use the next lower one's. */
#define WEFT_ISA_PICK(portable, avx2, avx512)                                                  \
    (weft_isa() >= WEFT_ISA_AVX512 ? (avx512)                                                  \
     : weft_isa() >= WEFT_ISA_AVX2 ? (avx2)                                                    \
                                   : (portable))

#endif
