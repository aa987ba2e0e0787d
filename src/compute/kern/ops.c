#include "compute/kern/ops.h"

/* One table for each time that kern/fast/ was compiled. */
extern const struct weft_ops weft_ops_table_portable;
#if defined(__x86_64__)
extern const struct weft_ops weft_ops_table_avx2, weft_ops_table_avx512;
#endif

static const struct weft_ops *table_of(enum weft_isa isa)
{
#if defined(__x86_64__)
    if (isa >= WEFT_ISA_AVX512)
        return &weft_ops_table_avx512;
    if (isa == WEFT_ISA_AVX2)
        return &weft_ops_table_avx2;
#endif
    return isa == WEFT_ISA_PORTABLE ? &weft_ops_table_portable : NULL;
}

const struct weft_ops *weft_ops(void)
{
    return table_of(weft_isa());
}

const struct weft_ops *weft_ops_of(enum weft_isa isa)
{
    return isa <= weft_isa() ? table_of(isa) : NULL;
}
