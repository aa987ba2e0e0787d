/* Where numbers lie and what type they have.  No arithmetic beyond the size of things. */
#ifndef COMPUTE_TENSOR_TENSOR_H
#define COMPUTE_TENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum weft_type {
    WEFT_F32,
    WEFT_BF16, /* the upper half of an fp32: eight bits of exponent, seven of fraction */
    WEFT_F16,  /* files only: nothing is computed in it */
};

typedef uint16_t weft_bf16;

static inline size_t weft_type_size(enum weft_type type)
{
    return type == WEFT_F32 ? 4 : 2;
}

/* A matrix by its rows: element (r, c) is at[r * ld + c].  The number of rows and columns goes
 * beside it, since most calls have several matrices of one shape. */
struct weft_mat {
    void *at; /* borrowed; NULL where a call says that a matrix may be absent */
    size_t ld;
    enum weft_type type;
};

static inline float *weft_mat_f32(struct weft_mat m, size_t row, size_t col)
{
    return (float *)m.at + row * m.ld + col;
}

static inline weft_bf16 *weft_mat_bf16(struct weft_mat m, size_t row, size_t col)
{
    return (weft_bf16 *)m.at + row * m.ld + col;
}

/* The part of m that begins at (row, col). */
static inline struct weft_mat weft_mat_at(struct weft_mat m, size_t row, size_t col)
{
    m.at = (char *)m.at + (row * m.ld + col) * weft_type_size(m.type);
    return m;
}

/* The row length to store rows of `cols` elements with.  Rows whose distance is a multiple of
 * 2 KiB fall on the same few sets of a first-level cache, and a product that walks several rows
 * at once would fetch each line again and again: such rows get one cache line more. */
static inline size_t weft_row_length(size_t cols, enum weft_type type)
{
    size_t bytes = cols * weft_type_size(type);
    return bytes % 2048 == 0 ? cols + 64 / weft_type_size(type) : cols;
}

/* "f32", "bf16", "f16" */
const char *weft_type_name(enum weft_type type);

#endif
