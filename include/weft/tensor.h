/* Element types and shapes of the tensors that cross the boundary between two stages.
 *
 *     static const struct weft_tensor_shape boundary[] = {
 *         {WEFT_DTYPE_F32, 2, {SEQ, WIDTH}},        hidden states: (rows * SEQ, WIDTH)
 *         {WEFT_DTYPE_U8, 2, {1, SEQ}},             a mask: (rows, SEQ)
 *     };
 *     float *hidden = base;
 *     uint8_t *mask = (uint8_t *)base + weft_tensors_offset(boundary, 2, rows, 1);
 *
 * All tensors of a boundary are in one buffer, in the order of their list, without gaps inside
 * a tensor.  Each tensor starts at a multiple of WEFT_TENSOR_ALIGN bytes.  The first dimension
 * of every tensor grows with the number of rows (sequences or samples) of a micro-batch, so
 * that offsets depend on that number.
 */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum weft_dtype {
    WEFT_DTYPE_NONE, /* not set; never valid */
    WEFT_DTYPE_F64,
    WEFT_DTYPE_F32,
    WEFT_DTYPE_F16,
    WEFT_DTYPE_BF16,
    WEFT_DTYPE_F8E4M3,
    WEFT_DTYPE_F8E5M2,
    WEFT_DTYPE_I64,
    WEFT_DTYPE_I32,
    WEFT_DTYPE_I16,
    WEFT_DTYPE_I8,
    WEFT_DTYPE_U64,
    WEFT_DTYPE_U32,
    WEFT_DTYPE_U16,
    WEFT_DTYPE_U8,
    WEFT_DTYPE_BOOL, /* one byte */
    WEFT_DTYPE_C64,  /* complex: two f32 */
    WEFT_DTYPE_C128, /* complex: two f64 */
};

/* Returns the size of an element in bytes, or 0 if `type` is not a type. */
WEFT_API size_t weft_dtype_bytes(enum weft_dtype type);

/* Returns the name of a type, such as "bf16", or "?" if `type` is not a type. */
WEFT_API const char *weft_dtype_name(enum weft_dtype type);

enum { WEFT_MAX_DIMS = 8, WEFT_MAX_TENSORS = 16, WEFT_TENSOR_ALIGN = 64 };

struct weft_tensor_shape {
    enum weft_dtype dtype;
    uint32_t ndim; /* 1 .. WEFT_MAX_DIMS */
    /* dims[0] is the part of one row: a micro-batch of r rows has r * dims[0] there. */
    uint64_t dims[WEFT_MAX_DIMS];
};

/* Computes the bytes of the buffer of `n` tensors for `rows` rows.  Returns WEFT_USAGE if there
 * are more than WEFT_MAX_TENSORS tensors, or if a tensor has no type or a wrong number of
 * dimensions, and WEFT_NOMEM if the size overflows. */
WEFT_API enum weft_status weft_tensors_bytes(const struct weft_tensor_shape *at, uint32_t n,
                                             uint32_t rows, size_t *out,
                                             struct weft_error *err);

/* Returns the offset in bytes of tensor `index` in the buffer of `n` tensors for `rows` rows.
 * The tensors must be valid and `index` less than n; otherwise the function returns
 * SIZE_MAX. */
WEFT_API size_t weft_tensors_offset(const struct weft_tensor_shape *at, uint32_t n,
                                    uint32_t rows, uint32_t index);

/* Writes the tensors for `rows` rows as text, such as "f32[512,64] u8[4,128]".  A text that
 * does not fit into `size` bytes is cut off and ends in '#' and a hash of the whole text. */
WEFT_API void weft_tensors_print(const struct weft_tensor_shape *at, uint32_t n, uint32_t rows,
                                 char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
