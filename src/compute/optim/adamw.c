/* AdamW: moments, the norm of the gradients, and the update, all on the pool. */
#include "compute/optim/adamw.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/math.h"
#include "base/pages.h"
#include "base/size.h"
#include "compute/kern/gemm.h"
#include "compute/kern/ops.h"

enum {
    VECTOR_ROWS = 4096, /* elements of a vector per task */
    /* Rows of a matrix per task.  The updated values, their moments and gradients must fit into
     * a second-level cache, since the values are packed immediately afterwards. */
    NARROW_ROWS = 3 * WF_PACK_ROWS,
    WIDE_ROWS = WF_PACK_ROWS,
    WIDE = 1024,
    PART_ELEMENTS = 16384, /* elements per task, for a tensor that is only partly updated */
    NORM_SEGMENTS = 16,    /* segments per task, so that a task takes some microseconds */
};

struct wf_optim {
    size_t n;
    struct wf_optim_tensor *at; /* owned */
    struct wf_optim_settings settings;
    struct wf_pool *pool; /* borrowed */
    float *moments;       /* owned; moments of all tensors */
    size_t moment_bytes;
    /* Tensor i has segments [first_segment[i], first_segment[i + 1]) and tasks [first_task[i],
     * first_task[i + 1]). */
    size_t *first_segment, *first_task; /* owned, n + 1 each */
    double *squares;                    /* owned, one per segment */
};

static size_t task_rows(const struct wf_optim_tensor *t)
{
    if (t->cols == 1)
        return VECTOR_ROWS;
    return t->cols < WIDE ? NARROW_ROWS : WIDE_ROWS;
}

static size_t div_round_up(size_t n, size_t size)
{
    return n / size + (n % size != 0);
}

static bool is_whole(const struct wf_optim_tensor *t)
{
    return t->begin == 0 && t->end == t->rows * t->cols;
}

static size_t n_tasks(const struct wf_optim_tensor *t)
{
    return is_whole(t) ? div_round_up(t->rows, task_rows(t))
                       : div_round_up(t->end - t->begin, PART_ELEMENTS);
}

/* Returns the tensor that contains segment or task `index`: the last tensor i with first[i] <=
 * index. */
static size_t find(const size_t *first, size_t n, size_t index)
{
    size_t low = 0, high = n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (first[middle] <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* -- construction -------------------------------------------------------------------------- */

/* Checks all sizes, computes first_segment and first_task, and counts the elements of all
 * tensors. */
static enum weft_status count(struct wf_optim *o, size_t *elements, struct weft_error *err)
{
    *elements = 0;
    for (size_t i = 0; i < o->n; i++) {
        struct wf_optim_tensor *t = &o->at[i];
        size_t size;
        if (!wf_size_mul(t->rows, t->cols, &size))
            return WEFT_FAIL(err, WEFT_NOMEM, "optimizer: %s is too large", t->name);

        if (t->end == 0)
            t->end = size;
        if (t->begin > t->end || t->end > size || t->begin % WF_NORM_SEGMENT != 0 ||
            (t->end != size && t->end % WF_NORM_SEGMENT != 0))
            return WEFT_FAIL(err, WEFT_INTERNAL,
                             "optimizer: elements %zu to %zu of %s are not whole segments",
                             t->begin, t->end, t->name);
        if (!wf_size_add(*elements, t->end - t->begin, elements) || *elements > SIZE_MAX / 64)
            return WEFT_FAIL(err, WEFT_NOMEM, "optimizer: %s is too large", t->name);

        o->first_segment[i + 1] =
            o->first_segment[i] + div_round_up(t->end - t->begin, WF_NORM_SEGMENT);
        o->first_task[i + 1] = o->first_task[i] + n_tasks(t);
    }
    return WEFT_OK;
}

static void clear_moments(void *arg, size_t task, unsigned worker)
{
    struct wf_optim *o = arg;
    (void)worker;
    size_t n = o->moment_bytes / sizeof(float), each = (size_t)1 << 20;
    size_t begin = task * each, end = wf_size_min(begin + each, n);
    memset(o->moments + begin, 0, (end - begin) * sizeof(float));
}

static enum weft_status make_moments(struct wf_optim *o, size_t elements,
                                     struct weft_error *err)
{
    o->moment_bytes = 2 * elements * sizeof(float);
    o->moments = wf_pages_alloc(o->moment_bytes);
    o->squares = malloc((o->first_segment[o->n] + 1) * sizeof *o->squares);
    if (o->moments == NULL || o->squares == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM,
                         "optimizer: out of memory for the moments of %zu parameters",
                         elements);
    /* The pool zeroes the moments in parallel, since this causes all page faults. */
    wf_pool_run(o->pool, div_round_up(2 * elements, (size_t)1 << 20), clear_moments, o);

    float *next = o->moments;
    for (size_t i = 0; i < o->n; i++) {
        size_t size = o->at[i].end - o->at[i].begin;
        o->at[i].m = next;
        o->at[i].v = next + size;
        next += 2 * size;
    }
    return WEFT_OK;
}

enum weft_status wf_optim_new(const struct wf_optim_tensor *tensors, size_t n,
                              const struct wf_optim_settings *settings, struct wf_pool *pool,
                              struct wf_optim **out, struct weft_error *err)
{
    struct wf_optim *o = calloc(1, sizeof *o);
    size_t elements = 0;
    if (o == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "optimizer: out of memory");
    *o = (struct wf_optim){.n = n, .settings = *settings, .pool = pool};
    o->at = calloc(n + 1, sizeof *o->at);
    o->first_segment = calloc(n + 1, sizeof *o->first_segment);
    o->first_task = calloc(n + 1, sizeof *o->first_task);

    enum weft_status st = WEFT_OK;
    if (o->at == NULL || o->first_segment == NULL || o->first_task == NULL)
        st = WEFT_FAIL(err, WEFT_NOMEM, "optimizer: out of memory for the list of tensors");
    if (st == WEFT_OK) {
        memcpy(o->at, tensors, n * sizeof *tensors);
        st = count(o, &elements, err);
    }
    if (st == WEFT_OK)
        st = make_moments(o, elements, err);

    if (st != WEFT_OK) {
        wf_optim_free(o);
        return st;
    }
    *out = o;
    return WEFT_OK;
}

void wf_optim_free(struct wf_optim *o)
{
    if (o == NULL)
        return;
    free(o->at);
    free(o->moments);
    free(o->first_segment);
    free(o->first_task);
    free(o->squares);
    free(o);
}

const struct wf_optim_tensor *wf_optim_tensors(const struct wf_optim *o, size_t *n)
{
    *n = o->n;
    return o->at;
}

size_t wf_optim_bytes(const struct wf_optim *o)
{
    return o->moment_bytes;
}

/* -- the norm ------------------------------------------------------------------------------ */

static double squares_of_segment(const struct wf_optim *o, size_t block)
{
    size_t i = find(o->first_segment, o->n, block);
    const struct wf_optim_tensor *t = &o->at[i];
    size_t begin = t->begin + (block - o->first_segment[i]) * WF_NORM_SEGMENT;
    size_t n = wf_size_min(t->end - begin, WF_NORM_SEGMENT);
    return wf_ops()->sum_squares(t->exact != NULL ? t->exact + begin : NULL,
                                 t->fast != NULL ? t->fast + begin : NULL, n);
}

static void squares_task(void *arg, size_t task, unsigned worker)
{
    struct wf_optim *o = arg;
    (void)worker;
    size_t begin = task * NORM_SEGMENTS;
    size_t end = wf_size_min(begin + NORM_SEGMENTS, o->first_segment[o->n]);
    for (size_t b = begin; b < end; b++)
        o->squares[b] = squares_of_segment(o, b);
}

const double *wf_optim_segment_squares(struct wf_optim *o, size_t *n)
{
    *n = o->first_segment[o->n];
    wf_pool_run(o->pool, div_round_up(*n, NORM_SEGMENTS), squares_task, o);
    return o->squares;
}

double wf_optim_norm_squared(struct wf_optim *o)
{
    size_t n_segments;
    const double *squares = wf_optim_segment_squares(o, &n_segments);
    double sum = 0;
    for (size_t b = 0; b < n_segments; b++)
        sum += squares[b];
    return sum;
}

/* -- the update ---------------------------------------------------------------------------- */

struct update {
    struct wf_optim *o;
    struct wf_adamw how; /* how.decay is the weight decay of tensors that have one */
    wf_optim_updated_fn *updated;
    void *arg;
};

static void update_part(const struct update *u, const struct wf_optim_tensor *t, size_t at,
                        size_t n)
{
    struct wf_adamw how = u->how;
    how.decay = t->decay ? how.decay : 0.0F;
    wf_ops()->adamw(t->value + at, t->m + (at - t->begin), t->v + (at - t->begin),
                    t->exact != NULL ? t->exact + at : NULL,
                    t->fast != NULL ? t->fast + at : NULL, n, &how);
}

static void update_task(void *arg, size_t task, unsigned worker)
{
    const struct update *u = arg;
    (void)worker;
    size_t i = find(u->o->first_task, u->o->n, task);
    const struct wf_optim_tensor *t = &u->o->at[i];
    task -= u->o->first_task[i];
    if (!is_whole(t)) {
        size_t at = t->begin + task * PART_ELEMENTS;
        update_part(u, t, at, wf_size_min(PART_ELEMENTS, t->end - at));
        return;
    }
    size_t row0 = task * task_rows(t);
    size_t row1 = wf_size_min(row0 + task_rows(t), t->rows);
    update_part(u, t, row0 * t->cols, (row1 - row0) * t->cols);
    if (u->updated != NULL)
        u->updated(u->arg, i, row0, row1);
}

void wf_optim_update(struct wf_optim *o, const struct wf_optim_step *step,
                     wf_optim_updated_fn *updated, void *arg)
{
    const struct wf_optim_settings *s = &o->settings;
    struct update u = {
        .o = o,
        .how = {.lr = (float)step->lr,
                .beta1 = (float)s->beta1,
                .beta2 = (float)s->beta2,
                .eps = (float)s->eps,
                .decay = (float)s->weight_decay,
                .correct1 = (float)(1 - wf_math_power(s->beta1, step->t)),
                .correct2 = (float)(1 - wf_math_power(s->beta2, step->t)),
                .scale = (float)step->scale},
        .updated = updated,
        .arg = arg,
    };
    wf_pool_run(o->pool, o->first_task[o->n], update_task, &u);
}
