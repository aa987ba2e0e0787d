/* The table of functions that compute/kern/fast/decode.c defines for each instruction set. */
#ifndef COMPUTE_KERN_DECODE_PRIV_H
#define COMPUTE_KERN_DECODE_PRIV_H

#include "compute/kern/decode.h"

struct wf_decode_ops {
    void (*gemv)(const struct wf_gemv *g, size_t row0, size_t row1);
    void (*attend)(const struct wf_attend *a);
};

#endif
