/* Causal attention by blocks of 64 queries and 64 keys, for one instruction set.
 *
 *                 keys ->                  The forward takes a few blocks of queries and goes
 *     queries   x                          over the keys before them: each block of keys is
 *        |      . x                        packed once for all of them.  The backward takes
 *        v      . . x      x: diagonal     one block of queries at a time, computes its whole
 *               . . . x    .: whole        gradient, and adds to the gradients of all keys
 *                                          before it.
 *
 * Exponentials have base 2: with c = log2(e) / sqrt(head), a probability is 2^(c s - m). */
#include "compute/kern/fast/attention.h"

#include <assert.h>
#include <math.h>

#include "compute/kern/fast/attention_math.h"
#include "compute/kern/fast/attention_tile.h"

enum { SPAN = ATTENTION_SPAN };

static const double log2_e = 1.4426950408889634;

static float *carve(float **free, size_t n)
{
    float *at = *free;
    *free += n;
    return at;
}

/* The properties of a task's head that the forward and the backward use. */
struct view {
    const struct wf_attention *a;
    size_t seq, head, ld; /* ld: row length in scratch memory */
    float c;
    size_t first; /* first row of the sequence */
};

static struct view view_of(const struct wf_attention *a, size_t sequence)
{
    return (struct view){
        .a = a,
        .seq = a->seq,
        .head = a->head,
        .ld = attention_row(a),
        .c = (float)(log2_e / sqrt((double)a->head)),
        .first = sequence * a->seq,
    };
}

/* Returns the part of m that belongs to head h and starts at position `at` of the sequence. */
static struct wf_mat part_of(const struct view *v, struct wf_mat m, size_t h, size_t at)
{
    return wf_mat_at(m, v->first + at, h * v->head);
}

static void prefetch_keys(const struct view *v, size_t g, size_t key, struct prefetch *prefetch)
{
    size_t n = wf_size_min(SEGMENT, v->seq - key);
    prefetch_add(prefetch, part_of(v, v->a->v, g, key), n, v->head);
    prefetch_add(prefetch, part_of(v, v->a->k, g, key), n, v->head);
}

/* -- forward ------------------------------------------------------------------------------- */

struct forward {
    struct view v;
    float *qt;    /* (SPAN / SEGMENT, ld, SEGMENT): the queries of each block, transposed */
    float *out;   /* (SPAN, ld): weighted sums of values so far, not yet divided by `sum` */
    float *max;   /* (SPAN): m, which is c times the maximum score so far */
    float *sum;   /* (SPAN): sums of 2^(c s - m) so far */
    float *scale; /* factor that corrects the sums so far when m grows; at the end 1 / sum */
    float *k, *x; /* (SEGMENT, ld): keys and values of one block */
    float *s;     /* (SEGMENT, SEGMENT) */
    float *rows;  /* (SEGMENT, ld) */
    struct prefetch prefetch;
};

static struct forward forward_of(const struct wf_attention *a, size_t sequence, float *scratch)
{
    struct forward f = {.v = view_of(a, sequence)};
    float *free = scratch;
    f.qt = carve(&free, SPAN * f.v.ld);
    f.out = carve(&free, SPAN * f.v.ld);
    f.k = carve(&free, SEGMENT * f.v.ld);
    f.x = carve(&free, SEGMENT * f.v.ld);
    f.rows = carve(&free, SEGMENT * f.v.ld);
    f.s = carve(&free, SEGMENT * SEGMENT);
    f.max = carve(&free, SPAN);
    f.sum = carve(&free, SPAN);
    f.scale = carve(&free, SPAN);
    assert(free == scratch + attention_forward_floats(a));
    return f;
}

/* Sets scores above the diagonal to minus infinity in those vectors that the diagonal
 * crosses. */
static void mask_square(float *s)
{
    vec_i32 lane;
    for (int i = 0; i < VEC; i++)
        lane[i] = i;
    for (int key = 1; key < VEC; key++, s += SEGMENT)
        vec_store(s + SEGMENT,
                  vec_select(lane < key, vec_set(-INFINITY), vec_load(s + SEGMENT)));
}

/* Replaces scores by 2^(c s - m) for VEC queries, one per lane; `keys` is a multiple of 4. */
static void softmax_lanes(const struct forward *f, float *s, size_t keys, size_t query)
{
    vec max[4];
    for (int i = 0; i < 4; i++)
        max[i] = vec_load(s + i * SEGMENT);
    for (size_t k = 4; k < keys; k += 4)
        for (size_t i = 0; i < 4; i++)
            max[i] = larger(max[i], vec_load(s + (k + i) * SEGMENT));
    vec all = larger(larger(max[0], max[1]), larger(max[2], max[3]));

    vec before = vec_load(f->max + query);
    const vec c = vec_set(f->v.c);
    vec m = larger(all * c, before);
    vec sum = {0};
    for (size_t k = 0; k < keys; k++) {
        vec p = exp2_or_zero(vec_fms(vec_load(s + k * SEGMENT), c, m));
        vec_store(s + k * SEGMENT, p);
        sum += p;
    }

    vec scale = exp2_or_zero(before - m);
    vec_store(f->max + query, m);
    vec_store(f->scale + query, scale);
    vec_store(f->sum + query, vec_fma(vec_load(f->sum + query), scale, sum));
}

/* Processes one block of queries, which starts at query `query` of the task, with the keys in
 * f->k. */
static void forward_segment(struct forward *f, size_t query, size_t queries, size_t keys,
                            bool diagonal)
{
    size_t ld = f->v.ld, key_rows = wf_size_round_up(keys, SHORT);
    struct scores scores = {f->s, f->k, f->qt + query * ld, ld, f->v.head, &f->prefetch};
    scores_segment(&scores, diagonal, key_rows, queries);

    for (size_t col = 0; col < queries; col += VEC) {
        if (diagonal)
            mask_square(f->s + col * SEGMENT + col);
        softmax_lanes(f, f->s + col, diagonal ? wf_size_min(key_rows, col + VEC) : key_rows,
                      query + col);
    }

    struct tile_product out = {
        .out = f->out + query * ld,
        .s = f->s,
        .x = f->x,
        .scales = f->scale + query,
        .ld = ld,
        .rows = wf_size_round_up(queries, SHORT),
        .terms = keys,
        .diagonal = diagonal,
        .prefetch = &f->prefetch,
    };
    by_keys(&out, f->v.head);
}

/* Loads the queries [begin, begin + n) and zeroes the sums. */
static void forward_begin(const struct forward *f, size_t h, size_t begin, size_t n)
{
    size_t ld = f->v.ld;
    for (size_t at = 0; at < n; at += SEGMENT) {
        size_t rows = wf_size_round_up(wf_size_min(n - at, SEGMENT), VEC);
        pack(f->rows, ld, rows, part_of(&f->v, f->v.a->q, h, begin + at),
             wf_size_min(n - at, SEGMENT), f->v.head);
        transpose(f->qt + at * ld, SEGMENT, f->rows, ld, rows, ld);
    }

    size_t rows = wf_size_round_up(n, VEC);
    memset(f->out, 0, rows * ld * sizeof *f->out);
    for (size_t i = 0; i < rows; i++) {
        f->max[i] = -INFINITY;
        f->sum[i] = 0;
    }
}

/* Divides the weighted sums of values by `sum` and writes the results. */
static void forward_end(const struct forward *f, float *lse, size_t h, size_t begin, size_t n)
{
    const vec ln_2 = vec_set((float)(1 / log2_e));
    for (size_t i = 0; i < n; i += VEC) {
        vec sum = vec_load(f->sum + i);
        vec all = vec_fma(vec_load(f->max + i), ln_2, log_of(sum));
        vec_store(f->scale + i, 1.0f / sum);
        if (n - i >= VEC)
            vec_store(lse + begin + i, all);
        else
            vec_store_part(lse + begin + i, all, n - i);
    }
    unpack(part_of(&f->v, f->v.a->out, h, begin), f->out, f->v.ld, n, f->v.head, f->scale, 1);
}

/* The first tasks process the last queries, which attend to the most keys.  The last tasks,
 * during which some threads are idle, are therefore short. */
void WF_KERN(wf_attention_forward_task)(const struct wf_attention *a, size_t task,
                                        float *scratch)
{
    size_t per_span = a->batch * a->heads, span = attention_span(a);
    size_t begin = (attention_spans(a) - 1 - task / per_span) * span;
    size_t n = wf_size_min(span, a->seq - begin), sequence = task % per_span / a->heads;
    size_t h = task % a->heads, g = h / (a->heads / a->kv_heads);

    struct forward f = forward_of(a, sequence, scratch);
    forward_begin(&f, h, begin, n);
    for (size_t key = 0; key < begin + n; key += SEGMENT) {
        size_t keys = wf_size_min(SEGMENT, a->seq - key);
        size_t rows = wf_size_round_up(keys, SHORT);
        pack(f.k, f.v.ld, rows, part_of(&f.v, a->k, g, key), keys, a->head);
        pack(f.x, f.v.ld, rows, part_of(&f.v, a->v, g, key), keys, a->head);
        f.prefetch.n = 0;
        if (key + SEGMENT < begin + n)
            prefetch_keys(&f.v, g, key + SEGMENT, &f.prefetch);
        else
            prefetch_add(&f.prefetch, part_of(&f.v, a->out, h, begin), n, a->head);
        for (size_t at = key > begin ? key - begin : 0; at < n; at += SEGMENT)
            forward_segment(&f, at, wf_size_min(SEGMENT, n - at), keys, begin + at == key);
    }

    forward_end(&f, a->lse + (sequence * a->heads + h) * a->seq, h, begin, n);
}

/* -- backward ------------------------------------------------------------------------------ */

struct backward {
    struct view v;
    float *k, *x, *dk, *dx; /* (seq, ld): keys, values, and their gradients */
    float *q, *dy;          /* (SEGMENT, ld): queries, and the output's gradient */
    float *qt, *dyt;        /* (ld, SEGMENT): q and dy transposed */
    float *dq;              /* (SEGMENT, ld) */
    float *lse;             /* (SEGMENT): logarithm of the sum of exponentials, to base 2 */
    float *dot;             /* (SEGMENT): dot product of the output and its gradient */
    float *p, *ds;          /* (SEGMENT, SEGMENT): probabilities, and the scores' gradients */
    struct prefetch prefetch;
};

static struct backward backward_of(const struct wf_attention *a, size_t sequence,
                                   float *scratch)
{
    struct backward b = {.v = view_of(a, sequence)};
    size_t all = attention_rows(a) * b.v.ld, some = SEGMENT * b.v.ld;

    float *free = scratch;
    b.k = carve(&free, all);
    b.x = carve(&free, all);
    b.dk = carve(&free, all);
    b.dx = carve(&free, all);
    b.q = carve(&free, some);
    b.dy = carve(&free, some);
    b.qt = carve(&free, some);
    b.dyt = carve(&free, some);
    b.dq = carve(&free, some);
    b.p = carve(&free, SEGMENT * SEGMENT);
    b.ds = carve(&free, SEGMENT * SEGMENT);
    b.lse = carve(&free, SEGMENT);
    b.dot = carve(&free, SEGMENT);
    assert(free == scratch + attention_backward_floats(a));
    return b;
}

/* Computes p = 2^(c s - lse) from scores and ds = p (dp - dot) from the gradients of the
 * probabilities, for VEC queries.  The factor 1 / sqrt(head) of ds is applied when the
 * gradients are written. */
static void gradient_lanes(const struct backward *b, size_t keys, size_t col)
{
    const vec lse = vec_load(b->lse + col), dot = vec_load(b->dot + col), c = vec_set(b->v.c);
    float *p = b->p + col, *ds = b->ds + col;
    for (size_t k = 0; k < keys; k++, p += SEGMENT, ds += SEGMENT) {
        vec x = exp2_or_zero(vec_fms(vec_load(p), c, lse));
        vec_store(p, x);
        vec_store(ds, x * (vec_load(ds) - dot));
    }
}

/* Processes the block's queries with the block of keys that starts at `key`. */
static void backward_segment(struct backward *b, size_t queries, size_t key, size_t keys,
                             bool diagonal)
{
    size_t ld = b->v.ld, head = b->v.head, at = key * ld;
    size_t key_rows = wf_size_round_up(keys, SHORT);
    struct scores s = {b->p, b->k + at, b->qt, ld, head, &b->prefetch};
    struct scores dp = {b->ds, b->x + at, b->dyt, ld, head, &b->prefetch};
    scores_segment(&s, diagonal, key_rows, queries);
    scores_segment(&dp, diagonal, key_rows, queries);
    for (size_t col = 0; col < queries; col += VEC)
        gradient_lanes(b, diagonal ? wf_size_min(key_rows, col + VEC) : key_rows, col);

    struct tile_product dx = {b->dx + at, b->p,    b->dy,    NULL,        ld,
                              key_rows,   queries, diagonal, &b->prefetch};
    struct tile_product dk = {b->dk + at, b->ds,   b->q,     NULL,        ld,
                              key_rows,   queries, diagonal, &b->prefetch};
    size_t query_rows = wf_size_round_up(queries, SHORT);
    struct tile_product dq = {b->dq,      b->ds, b->k + at, NULL,        ld,
                              query_rows, keys,  diagonal,  &b->prefetch};
    by_queries(&dx, head);
    by_queries(&dk, head);
    by_keys(&dq, head);
}

/* Returns the dot product of two rows; n is a multiple of WIDE. */
static float dot_row(const float *x, const float *y, size_t n)
{
    vec sums[PARTS] = {{0}};
    for (size_t c = 0; c < n; c += WIDE)
#pragma GCC unroll 4
        for (int i = 0; i < PARTS; i++)
            sums[i] = vec_fma(vec_load(x + c + i * VEC), vec_load(y + c + i * VEC), sums[i]);
    return wide_sum(sums);
}

/* Loads everything that belongs to the queries [begin, begin + n) of head h. */
static void backward_begin(const struct backward *b, const float *lse, size_t h, size_t begin,
                           size_t n)
{
    const struct wf_attention *a = b->v.a;
    size_t ld = b->v.ld, head = b->v.head, rows = wf_size_round_up(n, VEC);
    pack(b->q, ld, rows, part_of(&b->v, a->q, h, begin), n, head);
    pack(b->dy, ld, rows, part_of(&b->v, a->dout, h, begin), n, head);

    transpose(b->qt, SEGMENT, b->q, ld, rows, ld);
    transpose(b->dyt, SEGMENT, b->dy, ld, rows, ld);

    pack(b->dq, ld, rows, part_of(&b->v, a->out, h, begin), n, head);
    for (size_t i = 0; i < rows; i++) {
        b->dot[i] = dot_row(b->dq + i * ld, b->dy + i * ld, ld);
        b->lse[i] = i < n ? lse[begin + i] * (float)log2_e : 0;
    }

    memset(b->dq, 0, rows * ld * sizeof *b->dq);
}

/* Selects what to prefetch while the queries from `begin` on are processed: the destination of
 * results and the inputs of the next queries.  The last queries of a head are followed by the
 * first queries of the next head of the group. */
static void prefetch_backward(struct backward *b, size_t g, size_t h, size_t begin)
{
    const struct wf_attention *a = b->v.a;
    size_t group = a->heads / a->kv_heads, next = begin + SEGMENT, next_h = h;
    if (next >= a->seq) {
        next = 0;
        next_h++;
    }

    b->prefetch.n = 0;
    if (next_h < (g + 1) * group) {
        size_t n = wf_size_min(SEGMENT, a->seq - next);
        if (h == g * group && next > 0)
            prefetch_keys(&b->v, g, next, &b->prefetch);
        prefetch_add(&b->prefetch, part_of(&b->v, a->out, next_h, next), n, a->head);
        prefetch_add(&b->prefetch, part_of(&b->v, a->dout, next_h, next), n, a->head);
        prefetch_add(&b->prefetch, part_of(&b->v, a->q, next_h, next), n, a->head);
    } else {
        size_t n = wf_size_min(a->seq, SPAN);
        prefetch_add(&b->prefetch, part_of(&b->v, a->dv, g, 0), n, a->head);
        prefetch_add(&b->prefetch, part_of(&b->v, a->dk, g, 0), n, a->head);
    }
    prefetch_add(&b->prefetch, part_of(&b->v, a->dq, h, begin),
                 wf_size_min(SEGMENT, a->seq - begin), a->head);
}

/* Loads the keys and values [begin, begin + n) and zeroes the sums of their gradients. */
static void backward_keys(const struct backward *b, size_t g, size_t begin, size_t n)
{
    const struct wf_attention *a = b->v.a;
    size_t ld = b->v.ld, rows = wf_size_round_up(n, SHORT), at = begin * ld;
    pack(b->k + at, ld, rows, part_of(&b->v, a->k, g, begin), n, a->head);
    pack(b->x + at, ld, rows, part_of(&b->v, a->v, g, begin), n, a->head);
    memset(b->dk + at, 0, rows * ld * sizeof *b->dk);
    memset(b->dx + at, 0, rows * ld * sizeof *b->dx);
}

/* A task owns everything that belongs to one head of keys and values in one sequence.
 * Gradients may overwrite q, k and v: the queries of a block are read before their gradient is
 * written, and the gradients of keys and values are written last. */
void WF_KERN(wf_attention_backward_task)(const struct wf_attention *a, size_t task,
                                         float *scratch)
{
    size_t sequence = task / a->kv_heads, g = task % a->kv_heads,
           group = a->heads / a->kv_heads;

    struct backward b = backward_of(a, sequence, scratch);
    const float scale = (float)(1 / sqrt((double)a->head)), one = 1;
    for (size_t h = g * group; h < (g + 1) * group; h++)
        for (size_t begin = 0; begin < a->seq; begin += SEGMENT) {
            size_t n = wf_size_min(SEGMENT, a->seq - begin);
            if (h == g * group)
                backward_keys(&b, g, begin, n);
            backward_begin(&b, a->lse + (sequence * a->heads + h) * a->seq, h, begin, n);
            prefetch_backward(&b, g, h, begin);
            for (size_t key = 0; key <= begin; key += SEGMENT)
                backward_segment(&b, n, key, wf_size_min(SEGMENT, a->seq - key), key == begin);
            unpack(part_of(&b.v, a->dq, h, begin), b.dq, b.v.ld, n, a->head, &scale, 0);
        }

    unpack(part_of(&b.v, a->dk, g, 0), b.dk, b.v.ld, a->seq, a->head, &scale, 0);
    unpack(part_of(&b.v, a->dv, g, 0), b.dx, b.v.ld, a->seq, a->head, &one, 0);
}
