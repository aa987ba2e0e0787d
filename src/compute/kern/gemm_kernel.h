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
    /* Rows of C that go together, with WF_PANEL columns: 8 x 3 vectors of 16 leave room for a
     * row of B among 32 registers. */
    WF_STRIP = 8,
};

enum { WF_PREFETCH_PIECES = WF_STRIP };

/* What is needed prefetch and should be on its way into the second-level cache.  A call asks for
 * WF_PREFETCH_PIECES pieces of so many lines, one after the other, while it computes.  A hint:
 * memory that is not there is not touched. */
struct wf_prefetch {
    const char *at;
    size_t lines;
    /* What the call will write, a row in each piece: for kernels themselves. */
    const char *out;
    size_t out_ld, out_lines; /* the first in bytes */
};

/* Asks for a piece; part of the innermost loops. */
static inline __attribute__((always_inline)) void
wf_prefetch_issue(const struct wf_prefetch *prefetch, size_t piece)
{
    const char *at = prefetch->at + piece * prefetch->lines * 64;
    for (size_t line = 0; line < prefetch->lines; line++)
        __builtin_prefetch(at + line * 64, 0, 2);
    const char *out = prefetch->out + piece * prefetch->out_ld;
    for (size_t line = 0; line < prefetch->out_lines; line++)
        __builtin_prefetch(out + line * 64, 1, 2);
}

/* For a whole tile of a gradient.  Sums that are added to are asked for while their contributions are
 * computed. */
static inline struct wf_prefetch wf_prefetch_with_sink(const struct wf_prefetch *prefetch,
                                                       const struct wf_sink *sink, size_t ld)
{
    struct wf_prefetch with = {.at = prefetch->at, .lines = prefetch->lines};
    size_t size = sink->exact != NULL ? sizeof *sink->exact : sizeof *sink->fast;
    if (sink->fresh)
        return with;
    with.out = sink->exact != NULL ? (const char *)sink->exact : (const char *)sink->fast;
    with.out_ld = ld * size;
    with.out_lines = WF_PANEL * size / 64;
    return with;
}

/* From one call to the next. */
static inline void wf_prefetch_advance(struct wf_prefetch *prefetch)
{
    prefetch->at += WF_PREFETCH_PIECES * prefetch->lines * 64;
}

struct wf_gemm_kernel {
    /* Rows [0, rows) x columns [0, cols) of c = a b for one panel of b; cols <= WF_PANEL.  a:
     * rows of fp32, or of bf16 for pairs.  Ends by adding bias (or NULL) and `add` (which may be
     * c, or absent).  `prefetch` has pieces for each strip. */
    void (*rows)(struct wf_mat c, const void *a, size_t lda, const void *panel, size_t k,
                 const float *bias, struct wf_mat add, size_t rows, size_t cols,
                 struct wf_prefetch prefetch);

    /* WF_STRIP rows or fewer of a left factor packed in strips, a[k][WF_STRIP], into a sink:
     * element (r, c) of the tile is sink[r * ld + c].  True when a sum left the range.  `ops`: of
     * the same instructions. */
    bool (*sink)(const struct wf_ops *ops, struct wf_sink sink, size_t ld, const void *strip,
                 const void *panel, size_t k, size_t rows, size_t cols,
                 const struct wf_prefetch *prefetch);

    /* Strips of [k][WF_STRIP], wf_strip_bytes() apart, from rows a (k, m); what is past m is
     * zero. */
    void (*pack_strips)(void *strips, struct wf_mat a, size_t m, size_t k);
    /* One panel, or k rows of it, from rows b (k, cols), cols <= WF_PANEL; for pairs k is even
     * unless these are the last. */
    void (*pack_panel)(void *panel, struct wf_mat b, size_t cols, size_t k);

    /* wf_pack_rows() for at most WF_PANEL rows. */
    void (*pack_weight)(const struct wf_packed *same, const struct wf_packed *transposed,
                        const float *w, size_t rows, size_t cols, size_t row0, size_t row1);
};

/* bytes of k rows of a panel (`width` columns) */
static inline size_t wf_pack_bytes(size_t k, size_t width, enum wf_pack_form form)
{
    return form == WF_PACK_BF16_PAIRS ? (k + 1) / 2 * width * 4 : k * width * 4;
}

/* From one strip to the next.  Strips that begin at multiples of 4 KiB would not be in a
 * first-level cache together while they are packed. */
static inline size_t wf_strip_bytes(size_t k, enum wf_pack_form form)
{
    return (wf_pack_bytes(k, WF_STRIP, form) + 63) / 64 * 64 + 64;
}

const struct wf_gemm_kernel *wf_gemm_kernel_of(enum wf_isa isa, enum wf_pack_form form);

#endif
