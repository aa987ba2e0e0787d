/* The packing functions of struct wf_gemm_kernel for one instruction set. */
#ifndef COMPUTE_KERN_FAST_GEMM_PACK_H
#define COMPUTE_KERN_FAST_GEMM_PACK_H

#include "compute/kern/fast/vec.h"
#include "compute/kern/gemm_kernel.h"

void WF_KERN(wf_gemm_pack_strips)(void *strips, struct wf_mat a, size_t m, size_t k);
void WF_KERN(wf_gemm_pack_panel)(void *panel, struct wf_mat b, size_t cols, size_t k);
void WF_KERN(wf_gemm_pack_weight)(const struct wf_packed *direct,
                                  const struct wf_packed *transposed, const float *w,
                                  size_t rows, size_t cols, size_t row0, size_t row1);

#endif
