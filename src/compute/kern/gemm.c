/* Packed factors and products: how a product is tiled, scratch memory, and the tasks.  The
 * inner loops are in fast/gemm.c and gemm_pairs.h. */
#include "compute/kern/gemm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/flush.h"
#include "compute/kern/gemm_kernel.h"

extern const struct wf_gemm_kernel wf_gemm_kernel_portable, wf_gemm_kernel_paired_portable;
#if defined(__x86_64__)
extern const struct wf_gemm_kernel wf_gemm_kernel_avx2, wf_gemm_kernel_paired_avx2;
extern const struct wf_gemm_kernel wf_gemm_kernel_avx512, wf_gemm_kernel_paired_avx512;
extern const struct wf_gemm_kernel wf_gemm_kernel_bf16;
#endif

const struct wf_gemm_kernel *wf_gemm_kernel_of(enum wf_isa isa, enum wf_pack form)
{
    if (isa > wf_isa())
        return NULL;
    bool paired = form == WF_PACK_BF16_AS_F32;
#if defined(__x86_64__)
    if (form == WF_PACK_BF16_PAIRS)
        return isa == WF_ISA_AVX512_BF16 ? &wf_gemm_kernel_bf16 : NULL;
    if (isa >= WF_ISA_AVX512)
        return paired ? &wf_gemm_kernel_paired_avx512 : &wf_gemm_kernel_avx512;
    if (isa == WF_ISA_AVX2)
        return paired ? &wf_gemm_kernel_paired_avx2 : &wf_gemm_kernel_avx2;
#endif
    if (form == WF_PACK_BF16_PAIRS)
        return NULL;
    return paired ? &wf_gemm_kernel_paired_portable : &wf_gemm_kernel_portable;
}

/* -- packed factors ------------------------------------------------------------------------ */

enum wf_pack wf_pack_form(enum wf_dtype type)
{
    if (type == WF_DTYPE_F32)
        return WF_PACK_F32;
    return wf_isa() >= WF_ISA_AVX512_BF16 ? WF_PACK_BF16_PAIRS : WF_PACK_BF16_AS_F32;
}

size_t wf_packed_bytes(size_t k, size_t n, enum wf_pack form)
{
    return wf_pack_bytes(k, wf_panels_of(n) * WF_PANEL, form);
}

void *wf_packed_at(const struct wf_packed *b, size_t k0, size_t p)
{
    size_t rows = wf_size_min(wf_pack_k_slice(b->k), b->k - k0);
    size_t before = wf_pack_bytes(k0, wf_panels_of(b->n) * WF_PANEL, b->form);
    return (char *)b->at + before + p * wf_pack_bytes(rows, WF_PANEL, b->form);
}

void wf_pack_rows(const struct wf_packed *direct, const struct wf_packed *transposed,
                  const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    const struct wf_packed *any = direct != NULL ? direct : transposed;
    if (any == NULL)
        return;
    const struct wf_gemm_kernel *kernel = wf_gemm_kernel_of(wf_isa(), any->form);
    for (size_t r = row0; r < row1; r += WF_PANEL)
        kernel->pack_weight(direct, transposed, w, rows, cols, r,
                            wf_size_min(r + WF_PANEL, row1));
}

/* -- products ------------------------------------------------------------------------------ */

/* How a product with a given number of rows is divided into tiles.  The rows of A of a tile
 * stay in a second-level cache while the tile's panels of B are read: the more rows a tile has,
 * the more often each panel is reused. */
struct tiling {
    size_t rows;
    size_t tile_rows, tile_cols, k_slice;
    size_t n_row_tiles, n_col_tiles;
    /* Each of the first n_whole tiles is one task.  Each remaining tile is divided into n_parts
     * tasks, so that no thread waits long for the last tile. */
    size_t n_whole, n_parts;
};

struct wf_gemm {
    struct wf_gemm_shape shape;
    enum wf_pack form;
    const struct wf_gemm_kernel *kernel;
    unsigned workers;
    /* C is narrower than fp32 and k has several slices, so partial sums are kept in scratch
     * memory. */
    bool c_buffered;
    size_t n_tilings;
    struct tiling *tilings; /* owned */
    /* Scratch memory per worker: a tile of C if c_buffered, then rows of A. */
    size_t scratch_bytes;
    size_t a_offset;
    char *scratch; /* owned */
};

enum {
    PART_PANELS = 2,
    /* With at least this many slices of k, a task takes long and reads its rows of A again for
     * each slice, so fewer and wider tiles suffice. */
    MANY_SLICES = 8,
};

static size_t n_tiles(const struct tiling *tiling)
{
    return tiling->n_row_tiles * tiling->n_col_tiles;
}

static size_t n_tasks(const struct tiling *tiling)
{
    return tiling->n_whole + (n_tiles(tiling) - tiling->n_whole) * tiling->n_parts;
}

/* Divides the last tile of each thread into several tasks. */
static struct tiling split_last_tiles(struct tiling tiling, unsigned threads, bool many_slices)
{
    size_t n = threads == 1 ? 0 : wf_size_min(threads, n_tiles(&tiling));
    size_t panels = many_slices ? 2 * PART_PANELS : PART_PANELS;
    tiling.n_whole = n_tiles(&tiling) - n;
    tiling.n_parts =
        tiling.tile_cols > panels * WF_PANEL ? tiling.tile_cols / (panels * WF_PANEL) : 1;
    return tiling;
}

/* Returns the tiling for a number of rows.  Prefers tiles with fewer columns to tiles with
 * fewer rows, so that each panel of B is read by one task, for as many rows as possible. */
static struct tiling tiling_for(const struct wf_gemm_shape *s, size_t rows, unsigned threads)
{
    static const size_t heights[] = {256, 128, 64, 32}, panels[] = {8, 4, 2};
    struct tiling tiling = {.rows = rows, .k_slice = wf_pack_k_slice(s->k)};
    bool many_slices = s->k > MANY_SLICES * tiling.k_slice;
    size_t enough =
        many_slices ? (wf_gemm_target_tasks(threads) + 1) / 2 : wf_gemm_target_tasks(threads);

    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
        tiling.tile_rows = heights[h];
        tiling.n_row_tiles = (rows + tiling.tile_rows - 1) / tiling.tile_rows;
        for (size_t p = 0; p < sizeof panels / sizeof *panels; p++) {
            tiling.tile_cols = panels[p] * WF_PANEL;
            tiling.n_col_tiles = (s->n + tiling.tile_cols - 1) / tiling.tile_cols;
            if (n_tiles(&tiling) >= enough)
                return split_last_tiles(tiling, threads, many_slices);
        }
    }
    return split_last_tiles(tiling, threads, many_slices);
}

/* Sets everything that follows from the shape and the number of threads, except the tilings:
 * the form of the factors, and the sizes of the scratch memory. */
static void set_sizes(struct wf_gemm *p, const struct wf_gemm_shape *shape,
                      const size_t *row_counts, size_t n_row_counts, unsigned threads)
{
    size_t rows = 0, cols = 0;
    for (size_t i = 0; i < n_row_counts; i++) {
        struct tiling tiling = tiling_for(shape, row_counts[i], threads);
        rows = wf_size_max(rows, tiling.tile_rows);
        cols = wf_size_max(cols, tiling.tile_cols);
    }

    p->shape = *shape;
    p->form = wf_pack_form(shape->type);
    p->workers = threads;
    p->c_buffered = shape->c_type != WF_DTYPE_F32 && shape->k > wf_pack_k_slice(shape->k);
    p->a_offset = p->c_buffered ? wf_size_round_up(rows * cols * 4, 64) : 0;
    p->scratch_bytes = p->a_offset;
    if (p->form == WF_PACK_BF16_AS_F32) /* the kernel reads rows of fp32 */
        p->scratch_bytes += wf_size_round_up(rows * wf_pack_k_slice(p->shape.k) * 4, 64);
    p->scratch_bytes += 64; /* avoids a size of zero, and cache lines that two workers share */
}

static enum weft_status make_scratch(struct wf_gemm *p, struct weft_error *err)
{
    p->scratch = wf_pages_alloc(p->scratch_bytes * p->workers);
    if (p->scratch == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "matrix product: out of memory for scratch (%zu bytes)",
                         p->scratch_bytes * p->workers);
    memset(p->scratch, 0, p->scratch_bytes * p->workers);
    return WEFT_OK;
}

enum weft_status wf_gemm_new(const struct wf_gemm_shape *shape, const size_t *row_counts,
                             size_t n_row_counts, struct wf_pool *pool, struct wf_gemm **out,
                             struct weft_error *err)
{
    struct wf_gemm *p = calloc(1, sizeof *p);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "matrix product: out of memory");
    set_sizes(p, shape, row_counts, n_row_counts, wf_pool_threads(pool));
    p->kernel = wf_gemm_kernel_of(wf_isa(), p->form);

    p->n_tilings = n_row_counts;
    p->tilings = calloc(n_row_counts, sizeof *p->tilings);
    if (p->tilings == NULL) {
        wf_gemm_free(p);
        return WEFT_FAIL(err, WEFT_NOMEM, "matrix product: out of memory");
    }
    for (size_t i = 0; i < n_row_counts; i++)
        p->tilings[i] = tiling_for(shape, row_counts[i], p->workers);

    enum weft_status st = make_scratch(p, err);
    if (st != WEFT_OK) {
        wf_gemm_free(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

void wf_gemm_free(struct wf_gemm *p)
{
    if (p == NULL)
        return;
    free(p->scratch);
    free(p->tilings);
    free(p);
}

size_t wf_gemm_bytes(const struct wf_gemm *p)
{
    return p->scratch_bytes * p->workers;
}

size_t wf_gemm_count_bytes(const struct wf_gemm_shape *shape, const size_t *row_counts,
                           size_t n_row_counts, unsigned threads)
{
    struct wf_gemm sizes;
    set_sizes(&sizes, shape, row_counts, n_row_counts, threads);
    return wf_gemm_bytes(&sizes);
}

struct gemm_run {
    struct wf_gemm *p;
    const struct wf_gemm_args *args;
    const struct tiling *tiling;
};

/* The part of a product that a task computes. */
struct part {
    size_t row0, row1, col0, col1;
    size_t next_col; /* first column of the worker's next task, as a guess for prefetching */
    char *scratch;
};

/* Returns the rows of the left factor, converted to fp32 if the kernel requires fp32. */
static struct wf_mat widen(const struct gemm_run *run, const struct part *at, size_t k0,
                           size_t k)
{
    struct wf_mat a = wf_mat_at(run->args->a, at->row0, k0);
    if (run->p->form != WF_PACK_BF16_AS_F32)
        return a;
    struct wf_mat wide = {at->scratch + run->p->a_offset, k, WF_DTYPE_F32};
    wf_ops()->convert(wide, a, at->row1 - at->row0, k);
    return wide;
}

/* Returns the prefetch for the panel that the worker reads next. */
static struct wf_prefetch next_panel(const struct gemm_run *run, const struct part *at,
                                     size_t k0, size_t col)
{
    const struct wf_packed *b = run->args->b;
    size_t rows = at->row1 - at->row0;
    if (col + WF_PANEL < at->col1) {
        col += WF_PANEL;
    } else if (k0 + run->tiling->k_slice < b->k) {
        k0 += run->tiling->k_slice;
        col = at->col0;
    } else if (at->next_col < run->p->shape.n) {
        k0 = 0;
        col = at->next_col;
    } else {
        return (struct wf_prefetch){0};
    }
    return wf_prefetch_of(
        wf_packed_at(b, k0, col / WF_PANEL),
        wf_pack_bytes(wf_size_min(run->tiling->k_slice, b->k - k0), WF_PANEL, b->form),
        wf_strips_of(rows));
}

static void run_k_slice(const struct gemm_run *run, const struct part *at, struct wf_mat c,
                        size_t k0)
{
    const struct wf_gemm_shape *s = &run->p->shape;
    size_t k = wf_size_min(run->tiling->k_slice, s->k - k0), rows = at->row1 - at->row0;
    struct wf_mat a = widen(run, at, k0, k);
    struct wf_mat add = {0};
    if (k0 > 0)
        add = c;
    else if (s->add)
        add = wf_mat_at(run->args->add, at->row0, at->col0);

    for (size_t col = at->col0; col < at->col1; col += WF_PANEL) {
        const void *panel = wf_packed_at(run->args->b, k0, col / WF_PANEL);
        const float *bias = s->bias && k0 == 0 ? run->args->bias + col : NULL;
        size_t cols = wf_size_min(WF_PANEL, at->col1 - col);
        run->p->kernel->rows(wf_mat_at(c, 0, col - at->col0), a.at, a.ld, panel, k, bias,
                             add.at == NULL ? add : wf_mat_at(add, 0, col - at->col0), rows,
                             cols, next_panel(run, at, k0, col));
    }
}

/* Returns the rows and columns of a task.  The range is empty if it starts past the last
 * column. */
static struct part task_part(const struct gemm_run *run, size_t task)
{
    const struct tiling *tiling = run->tiling;
    size_t tile = task, cols = tiling->tile_cols, offset = 0, n = run->p->shape.n;
    if (task >= tiling->n_whole) {
        cols /= tiling->n_parts;
        tile = tiling->n_whole + (task - tiling->n_whole) / tiling->n_parts;
        offset = (task - tiling->n_whole) % tiling->n_parts * cols;
    }
    /* Consecutive tasks use the same columns of the right factor, which is the larger
     * factor. */
    size_t row0 = tile % tiling->n_row_tiles * tiling->tile_rows;
    size_t col0 = tile / tiling->n_row_tiles * tiling->tile_cols + offset;
    return (struct part){.row0 = row0,
                         .row1 = wf_size_min(row0 + tiling->tile_rows, run->args->rows),
                         .col0 = col0,
                         .col1 = wf_size_min(col0 + cols, n)};
}

static void run_tile(void *arg, size_t task, unsigned worker)
{
    const struct gemm_run *run = arg;
    struct wf_gemm *p = run->p;
    const struct tiling *tiling = run->tiling;
    const struct wf_gemm_args *args = run->args;
    struct part at = task_part(run, task);
    if (at.col0 >= at.col1)
        return; /* the last column tile is narrower than the others */

    at.scratch = p->scratch + worker * p->scratch_bytes;
    at.next_col = SIZE_MAX;
    /* Assume that each other worker takes one task before this worker takes its next task. */
    if (task + p->workers < n_tasks(tiling))
        at.next_col = task_part(run, task + p->workers).col0;

    struct wf_mat c = wf_mat_at(args->c, at.row0, at.col0);
    if (p->c_buffered)
        c = (struct wf_mat){at.scratch, tiling->tile_cols, WF_DTYPE_F32};
    uint64_t mode = p->form == WF_PACK_F32 ? 0 : wf_flush_begin();
    for (size_t k0 = 0; k0 < p->shape.k; k0 += tiling->k_slice)
        run_k_slice(run, &at, c, k0);
    if (p->form != WF_PACK_F32)
        wf_flush_end(mode);
    if (p->c_buffered)
        wf_ops()->convert(wf_mat_at(args->c, at.row0, at.col0), c, at.row1 - at.row0,
                          at.col1 - at.col0);

    if (args->after != NULL)
        args->after(args->after_arg, at.row0, at.row1, at.col0, at.col1, worker);
}

void wf_gemm_run(struct wf_gemm *p, struct wf_pool *pool, const struct wf_gemm_args *args)
{
    size_t i = 0;
    while (i < p->n_tilings && p->tilings[i].rows != args->rows)
        i++;
    assert(i < p->n_tilings);
    assert(args->a.ld == p->shape.lda && args->c.ld == p->shape.ldc);
    assert(args->b->k == p->shape.k && args->b->n >= p->shape.n && args->b->form == p->form);

    struct gemm_run run = {p, args, &p->tilings[i]};
    wf_pool_run(pool, n_tasks(run.tiling), run_tile, &run);
}
