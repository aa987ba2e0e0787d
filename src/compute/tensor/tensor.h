/* Element types, and matrices as address, row length and type.  No arithmetic except sizes. */
#ifndef COMPUTE_TENSOR_TENSOR_H
#define COMPUTE_TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum wf_dtype {
    WF_DTYPE_F32,
    WF_DTYPE_BF16, /* the upper half of an fp32: 8 bits of exponent, 7 of fraction */
    WF_DTYPE_F16,  /* used in files only; no kernel supports fp16 */
};

typedef uint16_t wf_bf16;

/* Returns the bytes of an element. */
static inline size_t wf_dtype_size(enum wf_dtype type)
{
    return type == WF_DTYPE_F32 ? 4 : 2;
}

/* A matrix stored by rows: element (r, c) is at[r * ld + c].  The numbers of rows and columns
 * are not stored: most functions take several matrices of the same shape and get these numbers
 * as separate arguments. */
struct wf_mat {
    void *at; /* borrowed; NULL if the matrix is absent, where a function allows this */
    size_t ld;
    enum wf_dtype type;
};

/* Returns the address of an element of an fp32 matrix. */
static inline float *wf_mat_f32(struct wf_mat m, size_t row, size_t col)
{
    return (float *)m.at + row * m.ld + col;
}

/* Returns the address of an element of a bf16 matrix. */
static inline wf_bf16 *wf_mat_bf16(struct wf_mat m, size_t row, size_t col)
{
    return (wf_bf16 *)m.at + row * m.ld + col;
}

/* Returns the part of m that begins at (row, col). */
static inline struct wf_mat wf_mat_at(struct wf_mat m, size_t row, size_t col)
{
    m.at = (char *)m.at + (row * m.ld + col) * wf_dtype_size(m.type);
    return m;
}

/* Returns the row length (ld), in elements, for storing rows of `cols` elements.  Rows at a
 * distance of a multiple of 2 KiB share a few sets of a first-level cache, and a product that
 * reads several rows at once would load each line repeatedly.  Such rows get one additional
 * cache line. */
static inline size_t wf_row_length(size_t cols, enum wf_dtype type)
{
    size_t bytes = cols * wf_dtype_size(type);
    return bytes % 2048 == 0 ? cols + 64 / wf_dtype_size(type) : cols;
}

/* Returns "f32", "bf16" or "f16". */
const char *wf_dtype_name(enum wf_dtype type);

#endif
