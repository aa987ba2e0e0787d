#include "compute/kern/gemm.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/gemm_kernel.h"

extern const struct wf_gemm_kernel wf_gemm_kernel_portable;
#if defined(__x86_64__)
extern const struct wf_gemm_kernel wf_gemm_kernel_avx2, wf_gemm_kernel_avx512;
extern const struct wf_gemm_kernel wf_gemm_kernel_bf16;
#endif

const struct wf_gemm_kernel *wf_gemm_kernel_of(enum wf_isa isa, enum wf_pack_form form)
{
    if (isa > wf_isa())
        return NULL;
#if defined(__x86_64__)
    if (form == WF_PACK_BF16_PAIRS)
        return isa == WF_ISA_AVX512_BF16 ? &wf_gemm_kernel_bf16 : NULL;
    if (isa >= WF_ISA_AVX512)
        return &wf_gemm_kernel_avx512;
    if (isa == WF_ISA_AVX2)
        return &wf_gemm_kernel_avx2;
#endif
    return form == WF_PACK_BF16_PAIRS ? NULL : &wf_gemm_kernel_portable;
}

static size_t panels_of(size_t n)
{
    return (n + WF_PANEL - 1) / WF_PANEL;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* -- packed factors ------------------------------------------------------------------------ */

enum wf_pack_form wf_pack_form(enum wf_dtype type)
{
    if (type == WF_DTYPE_F32)
        return WF_PACK_F32;
    return wf_isa() >= WF_ISA_AVX512_BF16 ? WF_PACK_BF16_PAIRS : WF_PACK_BF16_AS_F32;
}

size_t wf_packed_bytes(size_t k, size_t n, enum wf_pack_form form)
{
    return wf_pack_bytes(k, panels_of(n) * WF_PANEL, form);
}

void *wf_packed_at(const struct wf_packed *b, size_t k0, size_t p)
{
    size_t rows = min_size(wf_pack_k_slice(b->k), b->k - k0);
    size_t before = wf_pack_bytes(k0, panels_of(b->n) * WF_PANEL, b->form);
    return (char *)b->at + before + p * wf_pack_bytes(rows, WF_PANEL, b->form);
}

void wf_pack_rows(const struct wf_packed *same, const struct wf_packed *transposed,
                  const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    const struct wf_packed *any = same != NULL ? same : transposed;
    if (any == NULL)
        return;
    const struct wf_gemm_kernel *kernel = wf_gemm_kernel_of(wf_isa(), any->form);
    for (size_t r = row0; r < row1; r += WF_PANEL)
        kernel->pack_weight(same, transposed, w, rows, cols, r, min_size(r + WF_PANEL, row1));
}

/* -- products ------------------------------------------------------------------------------ */

/* So many tasks keep threads about equally long at work; one thread has all of them to do, and is
 * served best by large ones.  How a product is cut changes no bit of it: each element is summed in
 * the order of k, whatever tile it is in. */
static size_t target_tasks(unsigned threads)
{
    return threads == 1 ? 1 : 4 * (size_t)threads;
}

/* How a product with some number of rows is cut.  A tile's rows of A stay in a second-level cache
 * while its panels of B come and go: the more rows, the more often each panel is used. */
struct cut {
    size_t rows;
    size_t tile_rows, tile_cols, k_slice;
    size_t n_row_tiles, n_col_tiles;
    /* Whoever takes the last tile would keep the others waiting: tiles after so many whole ones
     * are several tasks each. */
    size_t n_whole, n_parts;
};

struct wf_gemm {
    struct wf_gemm_shape shape;
    enum wf_pack_form form;
    const struct wf_gemm_kernel *kernel;
    unsigned workers;
    bool c_buffered; /* sums of several chunks, narrower than fp32 in the end: kept beside C */
    size_t n_cuts;
    struct cut *cuts;     /* owned */
    size_t scratch_bytes; /* of one worker: a tile of C, if it is kept apart, then rows of A */
    size_t a_offset;
    char *scratch; /* owned */
};

enum {
    PART_PANELS = 2,
    /* Over so many chunks of k a tile is long at work, and reads its rows of A anew for each:
     * fewer and wider ones do. */
    MANY_SLICES = 8,
};

static size_t n_tiles(const struct cut *cut)
{
    return cut->n_row_tiles * cut->n_col_tiles;
}

static size_t n_tasks(const struct cut *cut)
{
    return cut->n_whole + (n_tiles(cut) - cut->n_whole) * cut->n_parts;
}

/* The last tile of each thread is cut to pieces. */
static struct cut split_last_tiles(struct cut cut, unsigned threads, bool many_slices)
{
    size_t n = threads == 1 ? 0 : min_size(threads, n_tiles(&cut));
    size_t panels = many_slices ? 2 * PART_PANELS : PART_PANELS;
    cut.n_whole = n_tiles(&cut) - n;
    cut.n_parts = cut.tile_cols > panels * WF_PANEL ? cut.tile_cols / (panels * WF_PANEL) : 1;
    return cut;
}

/* Narrow tiles come before low ones: each panel of B is then still read by one task only, for as
 * many rows as there are. */
static struct cut tiling_of(const struct wf_gemm_shape *s, size_t rows, unsigned threads)
{
    static const size_t heights[] = {256, 128, 64, 32}, panels[] = {8, 4, 2};
    struct cut cut = {.rows = rows, .k_slice = wf_pack_k_slice(s->k)};
    bool many_slices = s->k > MANY_SLICES * cut.k_slice;
    size_t enough = many_slices ? (target_tasks(threads) + 1) / 2 : target_tasks(threads);
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
        cut.tile_rows = heights[h];
        cut.n_row_tiles = (rows + cut.tile_rows - 1) / cut.tile_rows;
        for (size_t p = 0; p < sizeof panels / sizeof *panels; p++) {
            cut.tile_cols = panels[p] * WF_PANEL;
            cut.n_col_tiles = (s->n + cut.tile_cols - 1) / cut.tile_cols;
            if (n_tiles(&cut) >= enough)
                return split_last_tiles(cut, threads, many_slices);
        }
    }
    return split_last_tiles(cut, threads, many_slices);
}

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static enum weft_status make_scratch(struct wf_gemm *p, struct weft_error *err)
{
    size_t rows = 0, cols = 0;
    for (size_t i = 0; i < p->n_cuts; i++) {
        rows = p->cuts[i].tile_rows > rows ? p->cuts[i].tile_rows : rows;
        cols = p->cuts[i].tile_cols > cols ? p->cuts[i].tile_cols : cols;
    }
    p->a_offset = p->c_buffered ? round_up(rows * cols * 4) : 0;
    p->scratch_bytes = p->a_offset;
    if (p->form == WF_PACK_BF16_AS_F32) /* the kernel takes rows of fp32 */
        p->scratch_bytes += round_up(rows * wf_pack_k_slice(p->shape.k) * 4);
    p->scratch_bytes += 64; /* never nothing, and no two workers on one cache line */
    p->scratch = wf_pages_alloc(p->scratch_bytes * p->workers);
    if (p->scratch == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the scratch of a product (%zu bytes)",
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
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a product");
    p->shape = *shape;
    p->form = wf_pack_form(shape->type);
    p->kernel = wf_gemm_kernel_of(wf_isa(), p->form);
    p->workers = wf_pool_threads(pool);
    p->c_buffered = shape->c_type != WF_DTYPE_F32 && shape->k > wf_pack_k_slice(shape->k);
    p->n_cuts = n_row_counts;
    p->cuts = calloc(n_row_counts, sizeof *p->cuts);
    if (p->cuts == NULL) {
        wf_gemm_free(p);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a product");
    }
    for (size_t i = 0; i < n_row_counts; i++)
        p->cuts[i] = tiling_of(shape, row_counts[i], p->workers);
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
    free(p->cuts);
    free(p);
}

size_t wf_gemm_bytes(const struct wf_gemm *p)
{
    return p->scratch_bytes * p->workers;
}

struct run {
    struct wf_gemm *p;
    const struct wf_gemm_args *args;
    const struct cut *cut;
};

/* Part of a product: rows, columns, and its place in the worker's scratch. */
struct part {
    size_t row0, row1, col0, col1;
    size_t next_col; /* where the worker's next part probably begins */
    unsigned worker;
    char *scratch;
};

/* The left factor's rows as fp32. */
static struct wf_mat widen(const struct run *run, const struct part *at, size_t k0, size_t k)
{
    struct wf_mat a = wf_mat_at(run->args->a, at->row0, k0);
    if (run->p->form != WF_PACK_BF16_AS_F32)
        return a;
    struct wf_mat wide = {at->scratch + run->p->a_offset, k, WF_DTYPE_F32};
    wf_ops()->convert(wide, a, at->row1 - at->row0, k);
    return wide;
}

static size_t strips_of(size_t rows)
{
    return (rows + WF_STRIP - 1) / WF_STRIP;
}

/* Packed numbers, in pieces for as many calls of a kernel as there are before they are needed. */
static struct wf_prefetch prefetch_of(const void *packed, size_t bytes, size_t calls)
{
    size_t pieces = calls * WF_PREFETCH_PIECES;
    size_t lines = (bytes / 64 + pieces - 1) / pieces;
    return (struct wf_prefetch){.at = packed, .lines = lines};
}

/* What follows a panel. */
static struct wf_prefetch next_panel(const struct run *run, const struct part *at, size_t k0,
                                     size_t col)
{
    const struct wf_packed *b = run->args->b;
    size_t rows = at->row1 - at->row0;
    if (col + WF_PANEL < at->col1) {
        col += WF_PANEL;
    } else if (k0 + run->cut->k_slice < b->k) {
        k0 += run->cut->k_slice;
        col = at->col0;
    } else if (at->next_col < run->p->shape.n) {
        k0 = 0;
        col = at->next_col;
    } else {
        return (struct wf_prefetch){0};
    }
    return prefetch_of(wf_packed_at(b, k0, col / WF_PANEL),
                       wf_pack_bytes(min_size(run->cut->k_slice, b->k - k0), WF_PANEL, b->form),
                       strips_of(rows));
}

static void run_k_slice(const struct run *run, const struct part *at, struct wf_mat c,
                        size_t k0)
{
    const struct wf_gemm_shape *s = &run->p->shape;
    size_t k = min_size(run->cut->k_slice, s->k - k0), rows = at->row1 - at->row0;
    struct wf_mat a = widen(run, at, k0, k);
    struct wf_mat add = {0};
    if (k0 > 0)
        add = c;
    else if (s->add)
        add = wf_mat_at(run->args->add, at->row0, at->col0);
    for (size_t col = at->col0; col < at->col1; col += WF_PANEL) {
        const void *panel = wf_packed_at(run->args->b, k0, col / WF_PANEL);
        const float *bias = s->bias && k0 == 0 ? run->args->bias + col : NULL;
        size_t cols = min_size(WF_PANEL, at->col1 - col);
        run->p->kernel->rows(wf_mat_at(c, 0, col - at->col0), a.at, a.ld, panel, k, bias,
                             add.at == NULL ? add : wf_mat_at(add, 0, col - at->col0), rows,
                             cols, next_panel(run, at, k0, col));
    }
}

/* The rows and columns of a task; none for those past the last column. */
static struct part part_of(const struct run *run, size_t task)
{
    const struct cut *cut = run->cut;
    size_t tile = task, cols = cut->tile_cols, left = 0, n = run->p->shape.n;
    if (task >= cut->n_whole) {
        cols /= cut->n_parts;
        tile = cut->n_whole + (task - cut->n_whole) / cut->n_parts;
        left = (task - cut->n_whole) % cut->n_parts * cols;
    }
    /* Neighbours share the right factor's tile, which is the larger. */
    size_t row0 = tile % cut->n_row_tiles * cut->tile_rows;
    size_t col0 = tile / cut->n_row_tiles * cut->tile_cols + left;
    return (struct part){.row0 = row0,
                         .row1 = min_size(row0 + cut->tile_rows, run->args->rows),
                         .col0 = col0,
                         .col1 = min_size(col0 + cols, n)};
}

static void run_tile(void *arg, size_t task, unsigned worker)
{
    const struct run *run = arg;
    struct wf_gemm *p = run->p;
    const struct cut *cut = run->cut;
    const struct wf_gemm_args *args = run->args;
    struct part at = part_of(run, task);
    if (at.col0 >= at.col1)
        return; /* the last tile is narrower than the others */
    at.worker = worker;
    at.scratch = p->scratch + worker * p->scratch_bytes;
    at.next_col = SIZE_MAX;
    if (task + p->workers < n_tasks(cut)) /* the others take one each meanwhile */
        at.next_col = part_of(run, task + p->workers).col0;
    struct wf_mat c = wf_mat_at(args->c, at.row0, at.col0);
    if (p->c_buffered)
        c = (struct wf_mat){at.scratch, cut->tile_cols, WF_DTYPE_F32};
    for (size_t k0 = 0; k0 < p->shape.k; k0 += cut->k_slice)
        run_k_slice(run, &at, c, k0);
    if (p->c_buffered)
        wf_ops()->convert(wf_mat_at(args->c, at.row0, at.col0), c, at.row1 - at.row0,
                          at.col1 - at.col0);
    if (args->after != NULL)
        args->after(args->after_arg, at.row0, at.row1, at.col0, at.col1, worker);
}

void wf_gemm_run(struct wf_gemm *p, struct wf_pool *pool, const struct wf_gemm_args *args)
{
    size_t i = 0;
    while (i < p->n_cuts && p->cuts[i].rows != args->rows)
        i++;
    assert(i < p->n_cuts);
    assert(args->a.ld == p->shape.lda && args->c.ld == p->shape.ldc);
    assert(args->b->k == p->shape.k && args->b->n >= p->shape.n && args->b->form == p->form);
    struct run run = {p, args, &p->cuts[i]};
    wf_pool_run(pool, n_tasks(run.cut), run_tile, &run);
}

/* -- gradients of weights ------------------------------------------------------------------ */

enum {
    /* Of C in a task: as many rows as strips fit into most of a second-level cache, within
     * bounds. */
    WGRAD_STRIPS_BYTES = 640 << 10,
    WGRAD_MIN_STRIPS = 8,
    WGRAD_MAX_STRIPS = 48,
    WGRAD_MIN_PANELS = 8,
    /* Panels that are few enough all together are read once more at less cost than strips are
     * packed once more: then tasks are cut by rows. */
    WGRAD_FEW_BYTES = 4 << 20,
    /* With few tokens much of the time goes into sums in memory: several panels, as many as stay
     * in a second-level cache beside the strips, make the pieces of their rows longer. */
    WGRAD_GROUP_BYTES = 200 << 10,
    PACK_TOKENS = 32,
};

struct wf_wgrad {
    size_t max_k, max_n;
    enum wf_dtype type;
    enum wf_pack_form form;
    const struct wf_gemm_kernel *kernel;
    const struct wf_ops *ops;
    unsigned workers;
    size_t strips_bytes;   /* of one worker */
    char *panels, *strips; /* owned */
    bool *bad;             /* owned, of each worker */
};

/* Shorter strips are more, but never more bytes. */
static size_t strips_of_task(size_t k, enum wf_pack_form form)
{
    size_t fit = WGRAD_STRIPS_BYTES / wf_strip_bytes(k, form);
    return fit < WGRAD_MIN_STRIPS ? WGRAD_MIN_STRIPS : min_size(fit, WGRAD_MAX_STRIPS);
}

static size_t panels_bytes(const struct wf_wgrad *o)
{
    return wf_pack_bytes(o->max_k, panels_of(o->max_n) * WF_PANEL, o->form);
}

enum weft_status wf_wgrad_new(size_t max_k, size_t max_n, enum wf_dtype type,
                              struct wf_pool *pool, struct wf_wgrad **out,
                              struct weft_error *err)
{
    struct wf_wgrad *o = calloc(1, sizeof *o);
    if (o == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the gradient of a weight");
    o->max_k = min_size(max_k, WF_WGRAD_TOKENS);
    o->max_n = max_n;
    o->type = type;
    o->form = wf_pack_form(type);
    o->kernel = wf_gemm_kernel_of(wf_isa(), o->form);
    o->ops = wf_ops();
    o->workers = wf_pool_threads(pool);
    o->strips_bytes = strips_of_task(o->max_k, o->form) * wf_strip_bytes(o->max_k, o->form);
    o->panels = wf_pages_alloc(panels_bytes(o));
    o->strips = wf_pages_alloc(o->strips_bytes * o->workers);
    o->bad = calloc(o->workers, sizeof *o->bad);
    if (o->panels == NULL || o->strips == NULL || o->bad == NULL) {
        wf_wgrad_free(o);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the gradient of a weight");
    }
    memset(o->panels, 0, panels_bytes(o));
    memset(o->strips, 0, o->strips_bytes * o->workers);
    *out = o;
    return WEFT_OK;
}

void wf_wgrad_free(struct wf_wgrad *o)
{
    if (o == NULL)
        return;
    free(o->panels);
    free(o->strips);
    free(o->bad);
    free(o);
}

size_t wf_wgrad_bytes(const struct wf_wgrad *o)
{
    return panels_bytes(o) + o->strips_bytes * o->workers;
}

struct wgrad_run {
    struct wf_wgrad *o;
    struct wf_sink sink;
    struct wf_mat a, b;
    size_t m, n, k;
    size_t tile_rows, n_row_tiles, tile_cols, n_col_tiles;
    size_t group_cols; /* panels that a strip meets one after the other */
};

static char *wgrad_panel(const struct wgrad_run *run, size_t col)
{
    return run->o->panels + wf_pack_bytes(run->k, col, run->o->form);
}

/* Packs some tokens of B into all panels: rows are read from end to end. */
static void wgrad_pack_task(void *arg, size_t task, unsigned worker)
{
    const struct wgrad_run *run = arg;
    size_t k0 = task * PACK_TOKENS, k = min_size(PACK_TOKENS, run->k - k0);
    (void)worker;
    for (size_t col = 0; col < run->n; col += WF_PANEL)
        run->o->kernel->pack_panel(
            wgrad_panel(run, col) + wf_pack_bytes(k0, WF_PANEL, run->o->form),
            wf_mat_at(run->b, k0, col), min_size(WF_PANEL, run->n - col), k);
}

/* What follows a group of panels that ends before column `end` and takes so many calls. */
static struct wf_prefetch next_group(const struct wgrad_run *run, size_t end, size_t col1,
                                     size_t calls)
{
    if (end >= col1)
        return (struct wf_prefetch){0};
    size_t cols = panels_of(min_size(run->group_cols, col1 - end)) * WF_PANEL;
    return prefetch_of(wgrad_panel(run, end), wf_pack_bytes(run->k, cols, run->o->form), calls);
}

/* Neighbours share panels. */
static void wgrad_task(void *arg, size_t task, unsigned worker)
{
    const struct wgrad_run *run = arg;
    struct wf_wgrad *o = run->o;
    size_t row0 = task % run->n_row_tiles * run->tile_rows;
    size_t rows = min_size(run->tile_rows, run->m - row0);
    size_t col0 = task / run->n_row_tiles * run->tile_cols;
    size_t col1 = min_size(col0 + run->tile_cols, run->n);
    char *strips = o->strips + worker * o->strips_bytes;
    size_t strip_bytes = wf_strip_bytes(run->k, o->form);
    bool bad = false;
    o->kernel->pack_strips(strips, wf_mat_at(run->a, 0, row0), rows, run->k);
    for (size_t group = col0; group < col1; group += run->group_cols) {
        size_t end = min_size(group + run->group_cols, col1);
        struct wf_prefetch prefetch =
            next_group(run, end, col1, strips_of(rows) * panels_of(end - group));
        for (size_t r = 0; r < rows; r += WF_STRIP)
            for (size_t col = group; col < end; col += WF_PANEL, wf_prefetch_advance(&prefetch))
                bad |= o->kernel->sink(
                    o->ops, wf_sink_at(run->sink, (row0 + r) * run->n + col), run->n,
                    strips + r / WF_STRIP * strip_bytes, wgrad_panel(run, col), run->k,
                    min_size(WF_STRIP, rows - r), min_size(WF_PANEL, run->n - col), &prefetch);
    }
    o->bad[worker] |= bad;
    /* What went past the caches is there before anyone hears that it is done. */
    atomic_thread_fence(memory_order_seq_cst);
}

static void wgrad_tile(struct wgrad_run *run)
{
    size_t strips = strips_of_task(run->k, run->o->form);
    size_t enough = target_tasks(run->o->workers);
    if (wf_pack_bytes(run->k, run->n, run->o->form) <= WGRAD_FEW_BYTES) {
        size_t share = (strips_of(run->m) + enough - 1) / enough;
        strips = min_size(strips, share > WGRAD_MIN_STRIPS ? share : WGRAD_MIN_STRIPS);
    }
    run->tile_rows = strips * WF_STRIP;
    run->n_row_tiles = (run->m + run->tile_rows - 1) / run->tile_rows;
    size_t n_panels = panels_of(run->n);
    size_t tiles = (enough + run->n_row_tiles - 1) / run->n_row_tiles;
    tiles = min_size(tiles, (n_panels + WGRAD_MIN_PANELS - 1) / WGRAD_MIN_PANELS);
    run->tile_cols = (n_panels + tiles - 1) / tiles * WF_PANEL;
    run->n_col_tiles = (run->n + run->tile_cols - 1) / run->tile_cols;
    size_t fit = WGRAD_GROUP_BYTES / wf_pack_bytes(run->k, WF_PANEL, run->o->form);
    run->group_cols = (fit > 0 ? fit : 1) * WF_PANEL;
}

bool wf_wgrad_run(struct wf_wgrad *o, struct wf_pool *pool, struct wf_sink sink,
                  struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k)
{
    assert(n <= o->max_n && a.type == o->type && b.type == o->type);
    assert(!sink.only || (sink.fresh && k <= WF_WGRAD_TOKENS));
    bool bad = false;
    memset(o->bad, 0, o->workers * sizeof *o->bad);
    for (size_t k0 = 0; k0 < k; k0 += WF_WGRAD_TOKENS) {
        struct wgrad_run run = {.o = o,
                                .sink = sink,
                                .a = wf_mat_at(a, k0, 0),
                                .b = wf_mat_at(b, k0, 0),
                                .m = m,
                                .n = n,
                                .k = min_size(WF_WGRAD_TOKENS, k - k0)};
        assert(run.k <= o->max_k);
        run.sink.fresh = sink.fresh && k0 == 0;
        wgrad_tile(&run);
        wf_pool_run(pool, (run.k + PACK_TOKENS - 1) / PACK_TOKENS, wgrad_pack_task, &run);
        wf_pool_run(pool, run.n_row_tiles * run.n_col_tiles, wgrad_task, &run);
    }
    for (unsigned w = 0; w < o->workers; w++)
        bad |= o->bad[w];
    return bad;
}
