/* The innermost parts of products, one table for each set of instructions (compute/kern/fast/gemm.c). */
#ifndef COMPUTE_KERN_GEMM_KERNEL_H
#define COMPUTE_KERN_GEMM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"
#include "compute/tensor/tensor.h"

enum {
    /* Rows of C that go together, with WEFT_PANEL columns: 8 x 3 vectors of 16 leave room for a
     * row of B among 32 registers. */
    WEFT_STRIP = 8,
};

enum { WEFT_SOON_PIECES = WEFT_STRIP };

/* What is needed soon and should be on its way into the second-level cache.  A call asks for
 * WEFT_SOON_PIECES pieces of so many lines, one after the other, while it computes.  A hint:
 * memory that is not there is not touched. */
struct weft_soon {
    const char *at;
    size_t lines;
    /* What the call will write, a row in each piece: for kernels themselves. */
    const char *out;
    size_t out_ld, out_lines; /* the first in bytes */
};

/* Asks for a piece; part of the innermost loops. */
static inline __attribute__((always_inline)) void weft_soon_ask(const struct weft_soon *soon,
                                                                size_t piece)
{
    const char *at = soon->at + piece * soon->lines * 64;
    for (size_t line = 0; line < soon->lines; line++)
        __builtin_prefetch(at + line * 64, 0, 2);
    const char *out = soon->out + piece * soon->out_ld;
    for (size_t line = 0; line < soon->out_lines; line++)
        __builtin_prefetch(out + line * 64, 1, 2);
}

/* For a whole tile of a gradient.  Sums that are added to are asked for while their contributions are
 * computed. */
static inline struct weft_soon weft_soon_with_sink(const struct weft_soon *soon,
                                                   const struct weft_sink *sink, size_t ld)
{
    struct weft_soon with = {.at = soon->at, .lines = soon->lines};
    size_t size = sink->exact != NULL ? sizeof *sink->exact : sizeof *sink->fast;
    if (sink->fresh)
        return with;
    with.out = sink->exact != NULL ? (const char *)sink->exact : (const char *)sink->fast;
    with.out_ld = ld * size;
    with.out_lines = WEFT_PANEL * size / 64;
    return with;
}

/* From one call to the next. */
static inline void weft_soon_next(struct weft_soon *soon)
{
    soon->at += WEFT_SOON_PIECES * soon->lines * 64;
}

struct weft_gemm_kernel {
    /* Rows [0, rows) x columns [0, cols) of c = a b for one panel of b; cols <= WEFT_PANEL.  a:
     * rows of fp32, or of bf16 for pairs.  Ends by adding bias (or NULL) and `add` (which may be
     * c, or absent).  `soon` has pieces for each strip. */
    void (*rows)(struct weft_mat c, const void *a, size_t lda, const void *panel, size_t k,
                 const float *bias, struct weft_mat add, size_t rows, size_t cols,
                 struct weft_soon soon);

    /* WEFT_STRIP rows or fewer of a left factor packed in strips, a[k][WEFT_STRIP], into a sink:
     * element (r, c) of the tile is sink[r * ld + c].  True when a sum left the range.  `ops`: of
     * the same instructions. */
    bool (*sink)(const struct weft_ops *ops, struct weft_sink sink, size_t ld,
                 const void *strip, const void *panel, size_t k, size_t rows, size_t cols,
                 const struct weft_soon *soon);

    /* Strips of [k][WEFT_STRIP], weft_strip_bytes() apart, from rows a (k, m); what is past m is
     * zero. */
    void (*pack_strips)(void *strips, struct weft_mat a, size_t m, size_t k);
    /* One panel, or k rows of it, from rows b (k, cols), cols <= WEFT_PANEL; for pairs k is even
     * unless these are the last. */
    void (*pack_panel)(void *panel, struct weft_mat b, size_t cols, size_t k);

    /* weft_pack_rows() for at most WEFT_PANEL rows. */
    void (*pack_weight)(const struct weft_packed *same, const struct weft_packed *turned,
                        const float *w, size_t rows, size_t cols, size_t row0, size_t row1);
};

/* bytes of k rows of a panel (`width` columns) */
static inline size_t weft_pack_bytes(size_t k, size_t width, enum weft_pack_form form)
{
    return form == WEFT_PACK_BF16_PAIRS ? (k + 1) / 2 * width * 4 : k * width * 4;
}

/* From one strip to the next.  Strips that begin at multiples of 4 KiB would not be in a
 * first-level cache together while they are packed. */
static inline size_t weft_strip_bytes(size_t k, enum weft_pack_form form)
{
    return (weft_pack_bytes(k, WEFT_STRIP, form) + 63) / 64 * 64 + 64;
}

const struct weft_gemm_kernel *weft_gemm_kernel_of(enum weft_isa isa, enum weft_pack_form form);

#endif
