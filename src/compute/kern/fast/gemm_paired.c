/* Products and weight gradients on bf16 that are stored as fp32, for one instruction set. */
#include <stdbool.h>

#define PAIRED true
#include "compute/kern/fast/gemm_loops.h"

extern const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel_paired);
const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel_paired) = GEMM_KERNEL;
