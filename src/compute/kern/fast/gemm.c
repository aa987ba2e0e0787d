/* Products and weight gradients on fp32, for one instruction set. */
#include <stdbool.h>

#define PAIRED false
#include "compute/kern/fast/gemm_loops.h"

extern const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel);
const struct wf_gemm_kernel WF_KERN(wf_gemm_kernel) = GEMM_KERNEL;
