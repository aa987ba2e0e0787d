/* Gradients of weights, A^T B: how a product is tiled, the packing of both factors, and the
 * tasks. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/flush.h"
#include "compute/kern/gemm_kernel.h"

enum {
    /* The strips of a task (its rows of C) fill most of a second-level cache.  Their number is
     * bounded. */
    WGRAD_STRIPS_BYTES = 640 << 10,
    WGRAD_MIN_STRIPS = 8,
    WGRAD_MAX_STRIPS = 48,
    WGRAD_MIN_PANELS = 8,
    /* If all panels together are this small, reading them again costs less than packing strips
     * again, and tasks are divided by rows. */
    WGRAD_FEW_BYTES = 4 << 20,
    /* With few tokens, much of the time is spent on the sums in memory.  A group has as many
     * panels as fit into a second-level cache beside the strips, which makes contiguous row
     * segments of the sums longer. */
    WGRAD_GROUP_BYTES = 200 << 10,
    PACK_TOKENS = 32,
};

struct wf_wgrad {
    size_t max_k, max_n;
    enum wf_dtype type;
    enum wf_pack form;
    const struct wf_gemm_kernel *kernel;
    const struct wf_ops *ops;
    unsigned workers;
    size_t strips_bytes;   /* bytes of strips per worker */
    char *panels, *strips; /* owned */
    bool *bad;             /* owned; for each worker: a sum is out of range */
};

/* Returns the number of strips per task.  Shorter strips give more strips per task, with the
 * same total size in bytes. */
static size_t strips_of_task(size_t k, enum wf_pack form)
{
    size_t fit = WGRAD_STRIPS_BYTES / wf_strip_bytes(k, form);
    return fit < WGRAD_MIN_STRIPS ? WGRAD_MIN_STRIPS : wf_size_min(fit, WGRAD_MAX_STRIPS);
}

static size_t panels_bytes(const struct wf_wgrad *o)
{
    return wf_pack_bytes(o->max_k, wf_panels_of(o->max_n) * WF_PANEL, o->form);
}

/* Sets everything that follows from the arguments of wf_wgrad_new(). */
static void set_sizes(struct wf_wgrad *o, size_t max_k, size_t max_n, enum wf_dtype type,
                      unsigned threads)
{
    o->max_k = wf_size_min(max_k, WF_WGRAD_TOKENS);
    o->max_n = max_n;
    o->type = type;
    o->form = wf_pack_form(type);
    o->workers = threads;
    o->strips_bytes = strips_of_task(o->max_k, o->form) * wf_strip_bytes(o->max_k, o->form);
}

enum weft_status wf_wgrad_new(size_t max_k, size_t max_n, enum wf_dtype type,
                              struct wf_pool *pool, struct wf_wgrad **out,
                              struct weft_error *err)
{
    struct wf_wgrad *o = calloc(1, sizeof *o);
    if (o == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "weight gradient: out of memory");
    set_sizes(o, max_k, max_n, type, wf_pool_threads(pool));
    o->kernel = wf_gemm_kernel_of(wf_isa(), o->form);
    o->ops = wf_ops();

    o->panels = wf_pages_alloc(panels_bytes(o));
    o->strips = wf_pages_alloc(o->strips_bytes * o->workers);
    o->bad = calloc(o->workers, sizeof *o->bad);
    if (o->panels == NULL || o->strips == NULL || o->bad == NULL) {
        wf_wgrad_free(o);
        return WEFT_FAIL(err, WEFT_NOMEM, "weight gradient: out of memory");
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

size_t wf_wgrad_count_bytes(size_t max_k, size_t max_n, enum wf_dtype type, unsigned threads)
{
    struct wf_wgrad sizes;
    set_sizes(&sizes, max_k, max_n, type, threads);
    return wf_wgrad_bytes(&sizes);
}

struct wgrad_run {
    struct wf_wgrad *o;
    struct wf_sink sink;
    struct wf_mat a, b;
    size_t m, n, k;
    size_t tile_rows, n_row_tiles, tile_cols, n_col_tiles;
    /* Columns of the group of panels that a strip is multiplied by before the next strip. */
    size_t group_cols;
};

static char *wgrad_panel(const struct wgrad_run *run, size_t col)
{
    return run->o->panels + wf_pack_bytes(run->k, col, run->o->form);
}

/* Packs some tokens of B into all panels.  Whole rows are read contiguously. */
static void wgrad_pack_task(void *arg, size_t task, unsigned worker)
{
    const struct wgrad_run *run = arg;
    size_t k0 = task * PACK_TOKENS, k = wf_size_min(PACK_TOKENS, run->k - k0);
    (void)worker;
    for (size_t col = 0; col < run->n; col += WF_PANEL)
        run->o->kernel->pack_panel(
            wgrad_panel(run, col) + wf_pack_bytes(k0, WF_PANEL, run->o->form),
            wf_mat_at(run->b, k0, col), wf_size_min(WF_PANEL, run->n - col), k);
}

/* Returns the prefetch for the group of panels that starts at column `end`, for `calls`
 * calls. */
static struct wf_prefetch next_group(const struct wgrad_run *run, size_t end, size_t col1,
                                     size_t calls)
{
    if (end >= col1)
        return (struct wf_prefetch){0};
    size_t cols = wf_panels_of(wf_size_min(run->group_cols, col1 - end)) * WF_PANEL;
    return wf_prefetch_of(wgrad_panel(run, end), wf_pack_bytes(run->k, cols, run->o->form),
                          calls);
}

/* Computes one task.  Consecutive tasks read the same panels. */
static void wgrad_task(void *arg, size_t task, unsigned worker)
{
    const struct wgrad_run *run = arg;
    struct wf_wgrad *o = run->o;
    size_t row0 = task % run->n_row_tiles * run->tile_rows;
    size_t rows = wf_size_min(run->tile_rows, run->m - row0);
    size_t col0 = task / run->n_row_tiles * run->tile_cols;
    size_t col1 = wf_size_min(col0 + run->tile_cols, run->n);
    char *strips = o->strips + worker * o->strips_bytes;
    size_t strip_bytes = wf_strip_bytes(run->k, o->form);
    bool bad = false;

    uint64_t mode = o->form == WF_PACK_F32 ? 0 : wf_flush_begin();
    o->kernel->pack_strips(strips, wf_mat_at(run->a, 0, row0), rows, run->k);
    for (size_t group = col0; group < col1; group += run->group_cols) {
        size_t end = wf_size_min(group + run->group_cols, col1);
        struct wf_prefetch prefetch =
            next_group(run, end, col1, wf_strips_of(rows) * wf_panels_of(end - group));
        for (size_t r = 0; r < rows; r += WF_STRIP)
            for (size_t col = group; col < end; col += WF_PANEL, wf_prefetch_advance(&prefetch))
                bad |= o->kernel->sink(o->ops, wf_sink_at(run->sink, (row0 + r) * run->n + col),
                                       run->n, strips + r / WF_STRIP * strip_bytes,
                                       wgrad_panel(run, col), run->k,
                                       wf_size_min(WF_STRIP, rows - r),
                                       wf_size_min(WF_PANEL, run->n - col), &prefetch);
    }

    if (o->form != WF_PACK_F32)
        wf_flush_end(mode);
    o->bad[worker] |= bad;
    /* Streaming stores must be visible before the pool reports the task as done. */
    atomic_thread_fence(memory_order_seq_cst);
}

static void wgrad_tile(struct wgrad_run *run)
{
    size_t strips = strips_of_task(run->k, run->o->form);
    size_t enough = wf_gemm_target_tasks(run->o->workers);
    if (wf_pack_bytes(run->k, run->n, run->o->form) <= WGRAD_FEW_BYTES) {
        size_t share = (wf_strips_of(run->m) + enough - 1) / enough;
        strips = wf_size_min(strips, share > WGRAD_MIN_STRIPS ? share : WGRAD_MIN_STRIPS);
    }

    run->tile_rows = strips * WF_STRIP;
    run->n_row_tiles = (run->m + run->tile_rows - 1) / run->tile_rows;

    size_t n_panels = wf_panels_of(run->n);
    size_t tiles = (enough + run->n_row_tiles - 1) / run->n_row_tiles;
    tiles = wf_size_min(tiles, (n_panels + WGRAD_MIN_PANELS - 1) / WGRAD_MIN_PANELS);
    run->tile_cols = (n_panels + tiles - 1) / tiles * WF_PANEL;
    run->n_col_tiles = (run->n + run->tile_cols - 1) / run->tile_cols;

    size_t fit = WGRAD_GROUP_BYTES / wf_pack_bytes(run->k, WF_PANEL, run->o->form);
    run->group_cols = (fit > 0 ? fit : 1) * WF_PANEL;
}

bool wf_wgrad_run(struct wf_wgrad *o, struct wf_pool *pool, struct wf_sink sink,
                  struct wf_mat a, size_t m, struct wf_mat b, size_t n, size_t k)
{
    assert(n <= o->max_n && a.type == o->type && b.type == o->type);
    assert(!sink.single || (sink.fresh && k <= WF_WGRAD_TOKENS));
    bool bad = false;

    memset(o->bad, 0, o->workers * sizeof *o->bad);
    for (size_t k0 = 0; k0 < k; k0 += WF_WGRAD_TOKENS) {
        struct wgrad_run run = {.o = o,
                                .sink = sink,
                                .a = wf_mat_at(a, k0, 0),
                                .b = wf_mat_at(b, k0, 0),
                                .m = m,
                                .n = n,
                                .k = wf_size_min(WF_WGRAD_TOKENS, k - k0)};
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
