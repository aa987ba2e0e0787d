#include "compute/tensor/tensor.h"

const char *weft_type_name(enum weft_type type)
{
    switch (type) {
    case WEFT_F32:
        return "f32";
    case WEFT_BF16:
        return "bf16";
    case WEFT_F16:
        return "f16";
    }
    return "?";
}
