/* The interface between products (gemm.c, wgrad.c) and their inner loops: one table of
 * functions per instruction set (fast/gemm.c, gemm_bf16.c), and the sizes that both use. */
#ifndef COMPUTE_KERN_GEMM_KERNEL_H
#define COMPUTE_KERN_GEMM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/size.h"
#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"
#include "compute/tensor/tensor.h"

enum {
    /* Rows of C per tile of WF_PANEL columns.  With AVX-512, a tile takes 8 x 3 of 32 vector
     * registers, which leaves registers for a row of B. */
    WF_STRIP = 8,
};

enum { WF_PREFETCH_PIECES = WF_STRIP };

/* Memory to prefetch into the second-level cache.  A call of a kernel prefetches
 * WF_PREFETCH_PIECES pieces of `lines` cache lines, one after the other, while it computes.
 * This is a hint: invalid addresses are not accessed. */
struct wf_prefetch {
    const char *at;
    size_t lines;
    /* The output of the kernel call, of which each piece prefetches one row.  Set by the
     * kernels. */
    const char *out;
    size_t out_ld, out_lines; /* row length in bytes; cache lines per row */
};

/* Prefetches one piece.  Called from the innermost loops. */
static inline __attribute__((always_inline)) void
wf_prefetch_issue(const struct wf_prefetch *prefetch, size_t piece)
{
    /* Without lines the pointers may be NULL, so that nothing may be added to them. */
    for (size_t line = 0; line < prefetch->lines; line++)
        __builtin_prefetch(prefetch->at + (piece * prefetch->lines + line) * 64, 0, 2);
    for (size_t line = 0; line < prefetch->out_lines; line++)
        __builtin_prefetch(prefetch->out + piece * prefetch->out_ld + line * 64, 1, 2);
}

/* Returns the prefetch for a whole tile of a gradient: existing sums are prefetched while their
 * contributions are computed. */
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

/* Advances to the pieces of the next kernel call. */
static inline void wf_prefetch_advance(struct wf_prefetch *prefetch)
{
    if (prefetch->lines > 0) /* otherwise `at` may be NULL, to which nothing may be added */
        prefetch->at += WF_PREFETCH_PIECES * prefetch->lines * 64;
}

struct wf_gemm_kernel {
    /* Computes rows [0, rows) x columns [0, cols) of c = a b for one panel of b; cols <=
     * WF_PANEL.  The rows of a are fp32, or bf16 for WF_PACK_BF16_PAIRS.  Then adds `bias` (may
     * be NULL) and `add` (may be c, or absent).  `prefetch` has pieces for each strip. */
    void (*rows)(struct wf_mat c, const void *a, size_t lda, const void *panel, size_t k,
                 const float *bias, struct wf_mat add, size_t rows, size_t cols,
                 struct wf_prefetch prefetch);

    /* Adds the product of a strip (at most WF_STRIP rows of a packed left factor,
     * strip[k][WF_STRIP]) and a panel to a sink: element (r, c) of the tile is sink[r * ld +
     * c].  Returns true if a sum left the range.  `ops` is the table of the same instruction
     * set. */
    bool (*sink)(const struct wf_ops *ops, struct wf_sink sink, size_t ld, const void *strip,
                 const void *panel, size_t k, size_t rows, size_t cols,
                 const struct wf_prefetch *prefetch);

    /* Packs rows a (k, m) into strips of [k][WF_STRIP], wf_strip_bytes() apart.  Columns past m
     * are zero. */
    void (*pack_strips)(void *strips, struct wf_mat a, size_t m, size_t k);
    /* Packs rows b (k, cols), cols <= WF_PANEL, into k rows of a panel.  For
     * WF_PACK_BF16_PAIRS, k must be even unless these are the last rows. */
    void (*pack_panel)(void *panel, struct wf_mat b, size_t cols, size_t k);

    /* Implements wf_pack_rows() for at most WF_PANEL rows. */
    void (*pack_weight)(const struct wf_packed *direct, const struct wf_packed *transposed,
                        const float *w, size_t rows, size_t cols, size_t row0, size_t row1);
};

/* Returns the bytes of k rows of a panel of `width` columns. */
static inline size_t wf_pack_bytes(size_t k, size_t width, enum wf_pack form)
{
    return form == WF_PACK_BF16_PAIRS ? (k + 1) / 2 * width * 4 : k * width * 4;
}

/* Returns the distance between the starts of consecutive strips, in bytes.  If strips began at
 * multiples of 4 KiB, they would evict each other from a first-level cache while they are
 * packed. */
static inline size_t wf_strip_bytes(size_t k, enum wf_pack form)
{
    return wf_size_round_up(wf_pack_bytes(k, WF_STRIP, form), 64) + 64;
}

/* Returns the number of panels that `cols` columns need. */
static inline size_t wf_panels_of(size_t cols)
{
    return (cols + WF_PANEL - 1) / WF_PANEL;
}

/* Returns the number of strips that `rows` rows need. */
static inline size_t wf_strips_of(size_t rows)
{
    return (rows + WF_STRIP - 1) / WF_STRIP;
}

/* Returns the prefetch for `bytes` bytes at `packed`, divided evenly among `calls` kernel
 * calls. */
static inline struct wf_prefetch wf_prefetch_of(const void *packed, size_t bytes, size_t calls)
{
    size_t pieces = calls * WF_PREFETCH_PIECES;
    size_t lines = (bytes / 64 + pieces - 1) / pieces;
    return (struct wf_prefetch){.at = packed, .lines = lines};
}

/* Returns the number of tasks that balances the load among threads.  A single thread works best
 * with large tasks.  The tiling does not change any bit of a result: each element is summed in
 * the order of k, whatever tile it is in. */
static inline size_t wf_gemm_target_tasks(unsigned threads)
{
    return threads == 1 ? 1 : 4 * (size_t)threads;
}

/* Returns the kernel for an instruction set and a form; NULL if the machine or the build does
 * not support it. */
const struct wf_gemm_kernel *wf_gemm_kernel_of(enum wf_isa isa, enum wf_pack form);

#endif
