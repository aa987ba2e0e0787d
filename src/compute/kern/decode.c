/* Dispatches the kernels of decode.h to the code for an instruction set. */
#include "compute/kern/decode.h"

#include "compute/kern/decode_priv.h"

extern const struct wf_decode_ops wf_decode_ops_portable;
#if defined(__x86_64__)
extern const struct wf_decode_ops wf_decode_ops_avx2, wf_decode_ops_avx512;
#endif

static const struct wf_decode_ops *ops_of(enum wf_isa isa)
{
#if defined(__x86_64__)
    if (isa >= WF_ISA_AVX512)
        return &wf_decode_ops_avx512;
    if (isa == WF_ISA_AVX2)
        return &wf_decode_ops_avx2;
#endif
    return isa == WF_ISA_PORTABLE ? &wf_decode_ops_portable : NULL;
}

void wf_gemv_rows(const struct wf_gemv *g, size_t row0, size_t row1)
{
    ops_of(wf_isa())->gemv(g, row0, row1);
}

void wf_attend(const struct wf_attend *a)
{
    ops_of(wf_isa())->attend(a);
}

bool wf_gemv_rows_of(enum wf_isa isa, const struct wf_gemv *g, size_t row0, size_t row1)
{
    if (isa > wf_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->gemv(g, row0, row1);
    return true;
}

bool wf_attend_of(enum wf_isa isa, const struct wf_attend *a)
{
    if (isa > wf_isa() || ops_of(isa) == NULL)
        return false;
    ops_of(isa)->attend(a);
    return true;
}
