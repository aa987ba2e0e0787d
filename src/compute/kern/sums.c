/* Dispatches struct wf_sum_ops to the table of an instruction set. */
#include "compute/kern/sums.h"

/* fast/sums.c defines one table per instruction set. */
extern const struct wf_sum_ops wf_sum_ops_portable;
#if defined(__x86_64__)
extern const struct wf_sum_ops wf_sum_ops_avx2, wf_sum_ops_avx512;
#endif

const struct wf_sum_ops *wf_sum_ops_of(enum wf_isa isa)
{
    if (isa > wf_isa())
        return NULL;
#if defined(__x86_64__)
    if (isa >= WF_ISA_AVX512)
        return &wf_sum_ops_avx512;
    if (isa == WF_ISA_AVX2)
        return &wf_sum_ops_avx2;
#endif
    return &wf_sum_ops_portable;
}

const struct wf_sum_ops *wf_sum_ops(void)
{
    return wf_sum_ops_of(wf_isa());
}
