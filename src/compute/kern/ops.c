/* Dispatches struct wf_ops to the table of an instruction set. */
#include "compute/kern/ops.h"

/* fast/ops_table.c defines one table per instruction set. */
extern const struct wf_ops wf_ops_table_portable;
#if defined(__x86_64__)
extern const struct wf_ops wf_ops_table_avx2, wf_ops_table_avx512;
#endif

static const struct wf_ops *table_of(enum wf_isa isa)
{
#if defined(__x86_64__)
    if (isa >= WF_ISA_AVX512)
        return &wf_ops_table_avx512;
    if (isa == WF_ISA_AVX2)
        return &wf_ops_table_avx2;
#endif
    return isa == WF_ISA_PORTABLE ? &wf_ops_table_portable : NULL;
}

const struct wf_ops *wf_ops(void)
{
    return table_of(wf_isa());
}

const struct wf_ops *wf_ops_of(enum wf_isa isa)
{
    return isa <= wf_isa() ? table_of(isa) : NULL;
}
