#include "compute/kern/gemm.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/gemm_kernel.h"

extern const struct weft_gemm_kernel weft_gemm_kernel_portable;
#if defined(__x86_64__)
extern const struct weft_gemm_kernel weft_gemm_kernel_avx2, weft_gemm_kernel_avx512;
extern const struct weft_gemm_kernel weft_gemm_kernel_bf16;
#endif

const struct weft_gemm_kernel *weft_gemm_kernel_of(enum weft_isa isa, enum weft_pack_form form)
{
    if (isa > weft_isa())
        return NULL;
#if defined(__x86_64__)
    if (form == WEFT_PACK_BF16_PAIRS)
        return isa == WEFT_ISA_AVX512_BF16 ? &weft_gemm_kernel_bf16 : NULL;
    if (isa >= WEFT_ISA_AVX512)
        return &weft_gemm_kernel_avx512;
    if (isa == WEFT_ISA_AVX2)
        return &weft_gemm_kernel_avx2;
#endif
    return form == WEFT_PACK_BF16_PAIRS ? NULL : &weft_gemm_kernel_portable;
}

static size_t panels_of(size_t n)
{
    return (n + WEFT_PANEL - 1) / WEFT_PANEL;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* -- packed factors ------------------------------------------------------------------------ */

enum weft_pack_form weft_pack_form(enum weft_type type)
{
    if (type == WEFT_F32)
        return WEFT_PACK_F32;
    return weft_isa() >= WEFT_ISA_AVX512_BF16 ? WEFT_PACK_BF16_PAIRS : WEFT_PACK_BF16_AS_F32;
}

size_t weft_packed_bytes(size_t k, size_t n, enum weft_pack_form form)
{
    return weft_pack_bytes(k, panels_of(n) * WEFT_PANEL, form);
}

void *weft_packed_at(const struct weft_packed *b, size_t k0, size_t p)
{
    size_t rows = min_size(weft_pack_chunk(b->k), b->k - k0);
    size_t before = weft_pack_bytes(k0, panels_of(b->n) * WEFT_PANEL, b->form);
    return (char *)b->at + before + p * weft_pack_bytes(rows, WEFT_PANEL, b->form);
}

void weft_pack_rows(const struct weft_packed *same, const struct weft_packed *turned,
                    const float *w, size_t rows, size_t cols, size_t row0, size_t row1)
{
    const struct weft_packed *any = same != NULL ? same : turned;
    if (any == NULL)
        return;
    const struct weft_gemm_kernel *kernel = weft_gemm_kernel_of(weft_isa(), any->form);
    for (size_t r = row0; r < row1; r += WEFT_PANEL)
        kernel->pack_weight(same, turned, w, rows, cols, r, min_size(r + WEFT_PANEL, row1));
}

/* -- products ------------------------------------------------------------------------------ */

/* So many tasks keep threads about equally long at work; one thread has all of them to do, and is
 * served best by large ones.  How a product is cut changes no bit of it: each element is summed in
 * the order of k, whatever tile it is in. */
static size_t enough_tasks(unsigned threads)
{
    return threads == 1 ? 1 : 4 * (size_t)threads;
}

/* How a product with some number of rows is cut.  A tile's rows of A stay in a second-level cache
 * while its panels of B come and go: the more rows, the more often each panel is used. */
struct cut {
    size_t rows;
    size_t tile_rows, tile_cols, chunk;
    size_t n_row_tiles, n_col_tiles;
    /* Whoever takes the last tile would keep the others waiting: tiles after so many whole ones
     * are several tasks each. */
    size_t n_whole, n_parts;
};

struct weft_product {
    struct weft_product_shape shape;
    enum weft_pack_form form;
    const struct weft_gemm_kernel *kernel;
    unsigned workers;
    bool c_apart; /* sums of several chunks, narrower than fp32 in the end: kept beside C */
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
    MANY_CHUNKS = 8,
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
static struct cut with_parts(struct cut cut, unsigned threads, bool many_chunks)
{
    size_t n = threads == 1 ? 0 : min_size(threads, n_tiles(&cut));
    size_t panels = many_chunks ? 2 * PART_PANELS : PART_PANELS;
    cut.n_whole = n_tiles(&cut) - n;
    cut.n_parts =
        cut.tile_cols > panels * WEFT_PANEL ? cut.tile_cols / (panels * WEFT_PANEL) : 1;
    return cut;
}

/* Narrow tiles come before low ones: each panel of B is then still read by one task only, for as
 * many rows as there are. */
static struct cut cut_of(const struct weft_product_shape *s, size_t rows, unsigned threads)
{
    static const size_t heights[] = {256, 128, 64, 32}, panels[] = {8, 4, 2};
    struct cut cut = {.rows = rows, .chunk = weft_pack_chunk(s->k)};
    bool many_chunks = s->k > MANY_CHUNKS * cut.chunk;
    size_t enough = many_chunks ? (enough_tasks(threads) + 1) / 2 : enough_tasks(threads);
    for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
        cut.tile_rows = heights[h];
        cut.n_row_tiles = (rows + cut.tile_rows - 1) / cut.tile_rows;
        for (size_t p = 0; p < sizeof panels / sizeof *panels; p++) {
            cut.tile_cols = panels[p] * WEFT_PANEL;
            cut.n_col_tiles = (s->n + cut.tile_cols - 1) / cut.tile_cols;
            if (n_tiles(&cut) >= enough)
                return with_parts(cut, threads, many_chunks);
        }
    }
    return with_parts(cut, threads, many_chunks);
}

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static enum weft_status make_scratch(struct weft_product *p, struct weft_error *err)
{
    size_t rows = 0, cols = 0;
    for (size_t i = 0; i < p->n_cuts; i++) {
        rows = p->cuts[i].tile_rows > rows ? p->cuts[i].tile_rows : rows;
        cols = p->cuts[i].tile_cols > cols ? p->cuts[i].tile_cols : cols;
    }
    p->a_offset = p->c_apart ? round_up(rows * cols * 4) : 0;
    p->scratch_bytes = p->a_offset;
    if (p->form == WEFT_PACK_BF16_AS_F32) /* the kernel takes rows of fp32 */
        p->scratch_bytes += round_up(rows * weft_pack_chunk(p->shape.k) * 4);
    p->scratch_bytes += 64; /* never nothing, and no two workers on one cache line */
    p->scratch = weft_pages_alloc(p->scratch_bytes * p->workers);
    if (p->scratch == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the scratch of a product (%zu bytes)",
                         p->scratch_bytes * p->workers);
    memset(p->scratch, 0, p->scratch_bytes * p->workers);
    return WEFT_OK;
}

enum weft_status weft_product_new(const struct weft_product_shape *shape,
                                  const size_t *row_counts, size_t n_row_counts,
                                  struct weft_pool *pool, struct weft_product **out,
                                  struct weft_error *err)
{
    struct weft_product *p = calloc(1, sizeof *p);
    if (p == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a product");
    p->shape = *shape;
    p->form = weft_pack_form(shape->type);
    p->kernel = weft_gemm_kernel_of(weft_isa(), p->form);
    p->workers = weft_pool_threads(pool);
    p->c_apart = shape->c_type != WEFT_F32 && shape->k > weft_pack_chunk(shape->k);
    p->n_cuts = n_row_counts;
    p->cuts = calloc(n_row_counts, sizeof *p->cuts);
    if (p->cuts == NULL) {
        weft_product_free(p);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a product");
    }
    for (size_t i = 0; i < n_row_counts; i++)
        p->cuts[i] = cut_of(shape, row_counts[i], p->workers);
    enum weft_status st = make_scratch(p, err);
    if (st != WEFT_OK) {
        weft_product_free(p);
        return st;
    }
    *out = p;
    return WEFT_OK;
}

void weft_product_free(struct weft_product *p)
{
    if (p == NULL)
        return;
    free(p->scratch);
    free(p->cuts);
    free(p);
}

size_t weft_product_bytes(const struct weft_product *p)
{
    return p->scratch_bytes * p->workers;
}

struct run {
    struct weft_product *p;
    const struct weft_product_args *args;
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
static struct weft_mat widen(const struct run *run, const struct part *at, size_t k0, size_t k)
{
    struct weft_mat a = weft_mat_at(run->args->a, at->row0, k0);
    if (run->p->form != WEFT_PACK_BF16_AS_F32)
        return a;
    struct weft_mat wide = {at->scratch + run->p->a_offset, k, WEFT_F32};
    weft_ops()->convert(wide, a, at->row1 - at->row0, k);
    return wide;
}

static size_t strips_of(size_t rows)
{
    return (rows + WEFT_STRIP - 1) / WEFT_STRIP;
}

/* Packed numbers, in pieces for as many calls of a kernel as there are before they are needed. */
static struct weft_soon soon_in(const void *packed, size_t bytes, size_t calls)
{
    size_t pieces = calls * WEFT_SOON_PIECES;
    size_t lines = (bytes / 64 + pieces - 1) / pieces;
    return (struct weft_soon){.at = packed, .lines = lines};
}

/* What follows a panel. */
static struct weft_soon next_panel(const struct run *run, const struct part *at, size_t k0,
                                   size_t col)
{
    const struct weft_packed *b = run->args->b;
    size_t rows = at->row1 - at->row0;
    if (col + WEFT_PANEL < at->col1) {
        col += WEFT_PANEL;
    } else if (k0 + run->cut->chunk < b->k) {
        k0 += run->cut->chunk;
        col = at->col0;
    } else if (at->next_col < run->p->shape.n) {
        k0 = 0;
        col = at->next_col;
    } else {
        return (struct weft_soon){0};
    }
    return soon_in(weft_packed_at(b, k0, col / WEFT_PANEL),
                   weft_pack_bytes(min_size(run->cut->chunk, b->k - k0), WEFT_PANEL, b->form),
                   strips_of(rows));
}

static void run_chunk(const struct run *run, const struct part *at, struct weft_mat c,
                      size_t k0)
{
    const struct weft_product_shape *s = &run->p->shape;
    size_t k = min_size(run->cut->chunk, s->k - k0), rows = at->row1 - at->row0;
    struct weft_mat a = widen(run, at, k0, k);
    struct weft_mat add = {0};
    if (k0 > 0)
        add = c;
    else if (s->add)
        add = weft_mat_at(run->args->add, at->row0, at->col0);
    for (size_t col = at->col0; col < at->col1; col += WEFT_PANEL) {
        const void *panel = weft_packed_at(run->args->b, k0, col / WEFT_PANEL);
        const float *bias = s->bias && k0 == 0 ? run->args->bias + col : NULL;
        size_t cols = min_size(WEFT_PANEL, at->col1 - col);
        run->p->kernel->rows(weft_mat_at(c, 0, col - at->col0), a.at, a.ld, panel, k, bias,
                             add.at == NULL ? add : weft_mat_at(add, 0, col - at->col0), rows,
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
    struct weft_product *p = run->p;
    const struct cut *cut = run->cut;
    const struct weft_product_args *args = run->args;
    struct part at = part_of(run, task);
    if (at.col0 >= at.col1)
        return; /* the last tile is narrower than the others */
    at.worker = worker;
    at.scratch = p->scratch + worker * p->scratch_bytes;
    at.next_col = SIZE_MAX;
    if (task + p->workers < n_tasks(cut)) /* the others take one each meanwhile */
        at.next_col = part_of(run, task + p->workers).col0;
    struct weft_mat c = weft_mat_at(args->c, at.row0, at.col0);
    if (p->c_apart)
        c = (struct weft_mat){at.scratch, cut->tile_cols, WEFT_F32};
    for (size_t k0 = 0; k0 < p->shape.k; k0 += cut->chunk)
        run_chunk(run, &at, c, k0);
    if (p->c_apart)
        weft_ops()->convert(weft_mat_at(args->c, at.row0, at.col0), c, at.row1 - at.row0,
                            at.col1 - at.col0);
    if (args->after != NULL)
        args->after(args->after_arg, at.row0, at.row1, at.col0, at.col1, worker);
}

void weft_product_run(struct weft_product *p, struct weft_pool *pool,
                      const struct weft_product_args *args)
{
    size_t i = 0;
    while (i < p->n_cuts && p->cuts[i].rows != args->rows)
        i++;
    assert(i < p->n_cuts);
    assert(args->a.ld == p->shape.lda && args->c.ld == p->shape.ldc);
    assert(args->b->k == p->shape.k && args->b->n >= p->shape.n && args->b->form == p->form);
    struct run run = {p, args, &p->cuts[i]};
    weft_pool_run(pool, n_tasks(run.cut), run_tile, &run);
}

/* -- gradients of weights ------------------------------------------------------------------ */

enum {
    /* Of C in a task: as many rows as strips fit into most of a second-level cache, within
     * bounds. */
    OUTER_STRIPS_BYTES = 640 << 10,
    OUTER_MIN_STRIPS = 8,
    OUTER_MAX_STRIPS = 48,
    OUTER_MIN_PANELS = 8,
    /* Panels that are few enough all together are read once more at less cost than strips are
     * packed once more: then tasks are cut by rows. */
    OUTER_FEW_BYTES = 4 << 20,
    /* With few tokens much of the time goes into sums in memory: several panels, as many as stay
     * in a second-level cache beside the strips, make the pieces of their rows longer. */
    OUTER_GROUP_BYTES = 200 << 10,
    PACK_TOKENS = 32,
};

struct weft_outer {
    size_t max_k, max_n;
    enum weft_type type;
    enum weft_pack_form form;
    const struct weft_gemm_kernel *kernel;
    const struct weft_ops *ops;
    unsigned workers;
    size_t strips_bytes;   /* of one worker */
    char *panels, *strips; /* owned */
    bool *bad;             /* owned, of each worker */
};

/* Shorter strips are more, but never more bytes. */
static size_t strips_of_task(size_t k, enum weft_pack_form form)
{
    size_t fit = OUTER_STRIPS_BYTES / weft_strip_bytes(k, form);
    return fit < OUTER_MIN_STRIPS ? OUTER_MIN_STRIPS : min_size(fit, OUTER_MAX_STRIPS);
}

static size_t panels_bytes(const struct weft_outer *o)
{
    return weft_pack_bytes(o->max_k, panels_of(o->max_n) * WEFT_PANEL, o->form);
}

enum weft_status weft_outer_new(size_t max_k, size_t max_n, enum weft_type type,
                                struct weft_pool *pool, struct weft_outer **out,
                                struct weft_error *err)
{
    struct weft_outer *o = calloc(1, sizeof *o);
    if (o == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the gradient of a weight");
    o->max_k = min_size(max_k, WEFT_OUTER_TOKENS);
    o->max_n = max_n;
    o->type = type;
    o->form = weft_pack_form(type);
    o->kernel = weft_gemm_kernel_of(weft_isa(), o->form);
    o->ops = weft_ops();
    o->workers = weft_pool_threads(pool);
    o->strips_bytes = strips_of_task(o->max_k, o->form) * weft_strip_bytes(o->max_k, o->form);
    o->panels = weft_pages_alloc(panels_bytes(o));
    o->strips = weft_pages_alloc(o->strips_bytes * o->workers);
    o->bad = calloc(o->workers, sizeof *o->bad);
    if (o->panels == NULL || o->strips == NULL || o->bad == NULL) {
        weft_outer_free(o);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the gradient of a weight");
    }
    memset(o->panels, 0, panels_bytes(o));
    memset(o->strips, 0, o->strips_bytes * o->workers);
    *out = o;
    return WEFT_OK;
}

void weft_outer_free(struct weft_outer *o)
{
    if (o == NULL)
        return;
    free(o->panels);
    free(o->strips);
    free(o->bad);
    free(o);
}

size_t weft_outer_bytes(const struct weft_outer *o)
{
    return panels_bytes(o) + o->strips_bytes * o->workers;
}

struct outer_run {
    struct weft_outer *o;
    struct weft_sink sink;
    struct weft_mat a, b;
    size_t m, n, k;
    size_t tile_rows, n_row_tiles, tile_cols, n_col_tiles;
    size_t group_cols; /* panels that a strip meets one after the other */
};

static char *outer_panel(const struct outer_run *run, size_t col)
{
    return run->o->panels + weft_pack_bytes(run->k, col, run->o->form);
}

/* Packs some tokens of B into all panels: rows are read from end to end. */
static void outer_pack_task(void *arg, size_t task, unsigned worker)
{
    const struct outer_run *run = arg;
    size_t k0 = task * PACK_TOKENS, k = min_size(PACK_TOKENS, run->k - k0);
    (void)worker;
    for (size_t col = 0; col < run->n; col += WEFT_PANEL)
        run->o->kernel->pack_panel(
            outer_panel(run, col) + weft_pack_bytes(k0, WEFT_PANEL, run->o->form),
            weft_mat_at(run->b, k0, col), min_size(WEFT_PANEL, run->n - col), k);
}

/* What follows a group of panels that ends before column `end` and takes so many calls. */
static struct weft_soon next_group(const struct outer_run *run, size_t end, size_t col1,
                                   size_t calls)
{
    if (end >= col1)
        return (struct weft_soon){0};
    size_t cols = panels_of(min_size(run->group_cols, col1 - end)) * WEFT_PANEL;
    return soon_in(outer_panel(run, end), weft_pack_bytes(run->k, cols, run->o->form), calls);
}

/* Neighbours share panels. */
static void outer_task(void *arg, size_t task, unsigned worker)
{
    const struct outer_run *run = arg;
    struct weft_outer *o = run->o;
    size_t row0 = task % run->n_row_tiles * run->tile_rows;
    size_t rows = min_size(run->tile_rows, run->m - row0);
    size_t col0 = task / run->n_row_tiles * run->tile_cols;
    size_t col1 = min_size(col0 + run->tile_cols, run->n);
    char *strips = o->strips + worker * o->strips_bytes;
    size_t strip_bytes = weft_strip_bytes(run->k, o->form);
    bool bad = false;
    o->kernel->pack_strips(strips, weft_mat_at(run->a, 0, row0), rows, run->k);
    for (size_t group = col0; group < col1; group += run->group_cols) {
        size_t end = min_size(group + run->group_cols, col1);
        struct weft_soon soon =
            next_group(run, end, col1, strips_of(rows) * panels_of(end - group));
        for (size_t r = 0; r < rows; r += WEFT_STRIP)
            for (size_t col = group; col < end; col += WEFT_PANEL, weft_soon_next(&soon))
                bad |= o->kernel->sink(
                    o->ops, weft_sink_at(run->sink, (row0 + r) * run->n + col), run->n,
                    strips + r / WEFT_STRIP * strip_bytes, outer_panel(run, col), run->k,
                    min_size(WEFT_STRIP, rows - r), min_size(WEFT_PANEL, run->n - col), &soon);
    }
    o->bad[worker] |= bad;
    /* What went past the caches is there before anyone hears that it is done. */
    atomic_thread_fence(memory_order_seq_cst);
}

static void cut_outer(struct outer_run *run)
{
    size_t strips = strips_of_task(run->k, run->o->form);
    size_t enough = enough_tasks(run->o->workers);
    if (weft_pack_bytes(run->k, run->n, run->o->form) <= OUTER_FEW_BYTES) {
        size_t share = (strips_of(run->m) + enough - 1) / enough;
        strips = min_size(strips, share > OUTER_MIN_STRIPS ? share : OUTER_MIN_STRIPS);
    }
    run->tile_rows = strips * WEFT_STRIP;
    run->n_row_tiles = (run->m + run->tile_rows - 1) / run->tile_rows;
    size_t n_panels = panels_of(run->n);
    size_t tiles = (enough + run->n_row_tiles - 1) / run->n_row_tiles;
    tiles = min_size(tiles, (n_panels + OUTER_MIN_PANELS - 1) / OUTER_MIN_PANELS);
    run->tile_cols = (n_panels + tiles - 1) / tiles * WEFT_PANEL;
    run->n_col_tiles = (run->n + run->tile_cols - 1) / run->tile_cols;
    size_t fit = OUTER_GROUP_BYTES / weft_pack_bytes(run->k, WEFT_PANEL, run->o->form);
    run->group_cols = (fit > 0 ? fit : 1) * WEFT_PANEL;
}

bool weft_outer_run(struct weft_outer *o, struct weft_pool *pool, struct weft_sink sink,
                    struct weft_mat a, size_t m, struct weft_mat b, size_t n, size_t k)
{
    assert(n <= o->max_n && a.type == o->type && b.type == o->type);
    assert(!sink.only || (sink.fresh && k <= WEFT_OUTER_TOKENS));
    bool bad = false;
    memset(o->bad, 0, o->workers * sizeof *o->bad);
    for (size_t k0 = 0; k0 < k; k0 += WEFT_OUTER_TOKENS) {
        struct outer_run run = {.o = o,
                                .sink = sink,
                                .a = weft_mat_at(a, k0, 0),
                                .b = weft_mat_at(b, k0, 0),
                                .m = m,
                                .n = n,
                                .k = min_size(WEFT_OUTER_TOKENS, k - k0)};
        assert(run.k <= o->max_k);
        run.sink.fresh = sink.fresh && k0 == 0;
        cut_outer(&run);
        weft_pool_run(pool, (run.k + PACK_TOKENS - 1) / PACK_TOKENS, outer_pack_task, &run);
        weft_pool_run(pool, run.n_row_tiles * run.n_col_tiles, outer_task, &run);
    }
    for (unsigned w = 0; w < o->workers; w++)
        bad |= o->bad[w];
    return bad;
}
