/* Names of element types. */
#include "compute/tensor/tensor.h"

const char *wf_dtype_name(enum wf_dtype type)
{
    switch (type) {
    case WF_DTYPE_F32:
        return "f32";
    case WF_DTYPE_BF16:
        return "bf16";
    case WF_DTYPE_F16:
        return "f16";
    }
    return "?";
}
