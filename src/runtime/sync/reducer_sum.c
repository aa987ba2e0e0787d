/* Sums the pieces of parameters exactly and sends the results.
 *
 * The sum of an element is sum + rest + wide, without any rounding:
 *
 *     sum    a double.  Most sums of a few fp32 are exact in a double.
 *     rest   a double: the sum of the rounding errors of `sum`.  Allocated for the piece when
 *            the first error occurs.
 *     wide   a fixed-point number: the rounding errors of `rest`, and fp64 elements that could
 *            overflow `sum`.  Allocated for single elements.
 *
 * The three parts depend on the order of the additions, but their sum does not.  It is rounded
 * once, so the result does not depend on the order either. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/sync/reducer_priv.h"
#include "runtime/sync/wide.h"

static_assert((int)WEFT_SYNC_F32 == (int)WF_SUM_F32 &&
                  (int)WEFT_SYNC_BF16 == (int)WF_SUM_BF16 &&
                  (int)WEFT_SYNC_F64 == (int)WF_SUM_F64,
              "element types are converted by a cast");

/* The fixed-point parts of a piece. */
struct sync_wide {
    uint32_t *slot;  /* (elements of the piece): 1 + the number of the element's sum, or 0 */
    int64_t *digits; /* (room, digits of the type) */
    uint32_t used, room;
};

size_t wf_sync_piece_size(const struct sync_piece *p)
{
    uint64_t size = p->step->params[p->param].size;
    return wf_size_min(SYNC_PIECE, (size_t)size - sync_piece_begin(p));
}

uint32_t wf_sync_piece_owner(const struct weft_sync *s, const struct sync_piece *p)
{
    const struct sync_param *param = &p->step->params[p->param];
    const uint64_t *rank_bits = p->step->rank_bits + p->param * s->words;
    /* Neighbouring pieces and neighbouring one-piece parameters have different owners. */
    uint32_t skip = (uint32_t)(((uint64_t)param->id + p->index) % param->n_ranks);
    size_t w = 0;
    for (uint32_t n; (n = (uint32_t)__builtin_popcountll(rank_bits[w])) <= skip; w++)
        skip -= n;
    uint64_t bits = rank_bits[w];
    while (skip-- > 0)
        bits &= bits - 1;
    return (uint32_t)(w * 64 + (size_t)__builtin_ctzll(bits));
}

static struct sync_param *param_of(const struct sync_piece *p)
{
    return &p->step->params[p->param];
}

static enum wf_sum_type type_of(const struct sync_piece *p)
{
    return (enum wf_sum_type)param_of(p)->type;
}

void *wf_sync_piece_at(const struct sync_piece *p, uint32_t grad)
{
    const struct sync_param *param = param_of(p);
    return (char *)param->grads[grad] + sync_piece_begin(p) * sync_type_size(param->type);
}

static enum weft_status no_memory(struct weft_sync *s, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for a sum of gradients", s->rank);
}

const char *wf_sync_type_name(enum weft_sync_type type)
{
    static const char *const names[] = {
        [WEFT_SYNC_F32] = "fp32", [WEFT_SYNC_BF16] = "bf16", [WEFT_SYNC_F64] = "fp64"};
    return names[type];
}

/* -- elements ------------------------------------------------------------------------------ */

static double get_element(const void *x, enum wf_sum_type type, size_t i)
{
    uint32_t bits;
    float f;
    switch (type) {
    case WF_SUM_F32:
        return (double)((const float *)x)[i];
    case WF_SUM_BF16:
        bits = (uint32_t)((const uint16_t *)x)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case WF_SUM_F64:
        break;
    }
    return ((const double *)x)[i];
}

/* Stores v, which the type can represent. */
static void put_element(void *x, enum wf_sum_type type, size_t i, double v)
{
    float f = (float)v;
    uint32_t bits;
    switch (type) {
    case WF_SUM_F32:
        ((float *)x)[i] = f;
        return;
    case WF_SUM_BF16:
        memcpy(&bits, &f, sizeof bits);
        ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
        return;
    case WF_SUM_F64:
        ((double *)x)[i] = v;
        return;
    }
}

/* -- fixed-point sums ---------------------------------------------------------------------- */

static void free_sums(struct weft_sync *s, struct sync_piece *p)
{
    if (p->wide != NULL) {
        wf_sync_pool_free(&s->pool, p->wide->slot);
        wf_sync_pool_free(&s->pool, p->wide->digits);
    }
    wf_sync_pool_free(&s->pool, p->wide);
    wf_sync_pool_free(&s->pool, p->rest);
    wf_sync_pool_free(&s->pool, p->sum);
    p->sum = p->rest = NULL;
    p->wide = NULL;
}

static bool make_wide(struct weft_sync *s, struct sync_piece *p)
{
    size_t bytes = wf_sync_piece_size(p) * sizeof *p->wide->slot;
    p->wide = wf_sync_pool_alloc(&s->pool, sizeof *p->wide);
    if (p->wide == NULL)
        return false;
    *p->wide = (struct sync_wide){.slot = wf_sync_pool_alloc(&s->pool, bytes)};
    if (p->wide->slot == NULL)
        return false;
    memset(p->wide->slot, 0, bytes);
    return true;
}

static bool grow_wide(struct weft_sync *s, struct sync_wide *w, size_t n_digits)
{
    uint32_t room = w->room == 0 ? 16 : 2 * w->room;
    size_t each = n_digits * sizeof *w->digits;
    int64_t *digits = wf_sync_pool_alloc(&s->pool, room * each);
    if (digits == NULL)
        return false;
    if (w->used != 0)
        memcpy(digits, w->digits, w->used * each);
    wf_sync_pool_free(&s->pool, w->digits);
    w->digits = digits;
    w->room = room;
    return true;
}

/* Adds x to the fixed-point sum of element i. */
static enum weft_status add_wide(struct weft_sync *s, struct sync_piece *p, size_t i, double x,
                                 struct weft_error *err)
{
    size_t n_digits = wf_wide_digits(type_of(p));
    if (p->wide == NULL && !make_wide(s, p))
        return no_memory(s, err);
    struct sync_wide *w = p->wide;
    if (w->slot[i] == 0) {
        if (w->used == w->room && !grow_wide(s, w, n_digits))
            return no_memory(s, err);
        memset(w->digits + w->used * n_digits, 0, n_digits * sizeof *w->digits);
        w->slot[i] = ++w->used;
    }
    wf_wide_add(w->digits + (w->slot[i] - 1) * n_digits, type_of(p), x);
    return WEFT_OK;
}

/* -- the result ---------------------------------------------------------------------------- */

static void piece_done(struct weft_sync *s, struct sync_piece *p)
{
    struct sync_param *param = param_of(p);
    if (--param->left == 0)
        wf_sync_param_done(s, p->step, param);
}

/* Copies the result to all gradients of this rank.  `x` may be one of them. */
static void copy_result(const struct sync_piece *p, const void *x)
{
    const struct sync_param *param = param_of(p);
    size_t bytes = wf_sync_piece_size(p) * sync_type_size(param->type);
    for (uint32_t i = 0; i < param->n_grads; i++) {
        void *to = wf_sync_piece_at(p, i);
        if (to != x)
            memcpy(to, x, bytes);
    }
}

void wf_sync_piece_set(struct weft_sync *s, struct sync_piece *p, const void *x)
{
    copy_result(p, x);
    piece_done(s, p);
}

/* Computes element i from its three parts. */
static double round_wide(const struct sync_piece *p, size_t i, uint32_t of)
{
    int64_t digits[WF_WIDE_MAX_DIGITS] = {0};
    enum wf_sum_type type = type_of(p);
    size_t n_digits = wf_wide_digits(type);
    if (p->wide != NULL && p->wide->slot[i] != 0)
        memcpy(digits, p->wide->digits + (p->wide->slot[i] - 1) * n_digits,
               n_digits * sizeof *digits);
    wf_wide_add(digits, type, p->sum[i]);
    if (p->rest != NULL)
        wf_wide_add(digits, type, p->rest[i]);
    return wf_wide_round(digits, type, of);
}

/* Rounds the sums to `out`.  Elements that double precision does not decide, and elements with
 * a fixed-point part, are computed from all parts. */
static enum weft_status round_sums(struct weft_sync *s, const struct sync_piece *p, void *out,
                                   struct weft_error *err)
{
    const struct sync_param *param = param_of(p);
    enum wf_sum_type type = type_of(p);
    size_t n = wf_sync_piece_size(p);
    uint32_t of = s->op == WEFT_SYNC_MEAN ? param->all_grads : 1;
    bool undecided = s->ops->round(out, p->sum, p->rest, of, type, n);
    for (size_t i = 0; i < n && (undecided || p->wide != NULL); i++) {
        if (!isnan(get_element(out, type, i)) && (p->wide == NULL || p->wide->slot[i] == 0))
            continue;
        double v = round_wide(p, i, of);
        if (isinf(v))
            return WEFT_FAIL(err, WEFT_NUMERIC,
                             "step %" PRIu64 ", parameter %u: the %s of element %zu is out of "
                             "the range of %s (computed by rank %u); scale the gradients down",
                             p->step->number, param->id,
                             s->op == WEFT_SYNC_MEAN ? "mean" : "sum", sync_piece_begin(p) + i,
                             wf_sync_type_name(param->type), s->rank);
        put_element(out, type, i, v);
    }
    return WEFT_OK;
}

static enum weft_status finish(struct weft_sync *s, struct sync_piece *p,
                               struct weft_error *err)
{
    struct sync_param *param = param_of(p);
    const uint64_t *rank_bits = p->step->rank_bits + p->param * s->words;
    size_t n = wf_sync_piece_size(p), bytes = n * sync_type_size(param->type);
    void *out = wf_sync_piece_at(p, 0);

    WEFT_TRY(round_sums(s, p, out, err));
    struct sync_record record = {.kind = SYNC_KIND_RESULT,
                                 .type = (uint8_t)param->type,
                                 .id = param->id,
                                 .step = p->step->number,
                                 .piece = p->index,
                                 .n = (uint32_t)n};

    for (size_t w = 0; w < s->words; w++)
        for (uint64_t bits = rank_bits[w]; bits != 0; bits &= bits - 1) {
            uint32_t r = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(bits));
            void *at;
            if (r == s->rank)
                continue;
            WEFT_TRY(wf_sync_link_put(s, r, record, bytes, &at, err));
            memcpy(at, out, bytes);
        }

    copy_result(p, out);
    free_sums(s, p);
    piece_done(s, p);
    return WEFT_OK;
}

/* -- contributions ------------------------------------------------------------------------- */

/* Adds the elements of x that the vector operations skipped.  `at` is the position of x in the
 * piece. */
static enum weft_status add_skipped(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                    const void *x, size_t at, size_t n, struct weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        double v = get_element(x, type_of(p), i);
        if (!isfinite(v))
            return WEFT_FAIL(err, WEFT_NUMERIC,
                             "step %" PRIu64 ", parameter %u: the gradient of rank %u is not "
                             "finite (element %zu is %g; found by rank %u)",
                             p->step->number, param_of(p)->id, from,
                             sync_piece_begin(p) + at + i, v, s->rank);
        if (fabs(v) >= WF_SUM_LIMIT)
            WEFT_TRY(add_wide(s, p, at + i, v, err));
    }
    return WEFT_OK;
}

/* Adds the rounding errors of n sums, from position `at` on, to `rest`. */
static enum weft_status add_lost(struct weft_sync *s, struct sync_piece *p, size_t at, size_t n,
                                 struct weft_error *err)
{
    if (p->rest == NULL) {
        size_t bytes = wf_sync_piece_size(p) * sizeof *p->rest;
        p->rest = wf_sync_pool_alloc(&s->pool, bytes);
        if (p->rest == NULL)
            return no_memory(s, err);
        memset(p->rest, 0, bytes);
    }
    unsigned flags = s->ops->add(p->rest + at, s->lost_rest, s->lost, WF_SUM_F64, n);
    for (size_t i = 0; i < n && (flags & WF_SUM_LOST) != 0; i++)
        if (s->lost_rest[i] != 0)
            WEFT_TRY(add_wide(s, p, at + i, s->lost_rest[i], err));
    return WEFT_OK;
}

static enum weft_status add_gradient(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                     const void *x, struct weft_error *err)
{
    enum wf_sum_type type = type_of(p);
    size_t n = wf_sync_piece_size(p);
    bool fresh = p->sum == NULL;
    if (fresh)
        p->sum = wf_sync_pool_alloc(&s->pool, n * sizeof *p->sum);
    if (p->sum == NULL)
        return no_memory(s, err);
    for (size_t at = 0; at < n; at += SYNC_TILE) {
        size_t m = wf_size_min(SYNC_TILE, n - at);
        const void *tile = (const char *)x + at * wf_sum_type_size(type);
        unsigned flags = fresh ? s->ops->set(p->sum + at, tile, type, m)
                               : s->ops->add(p->sum + at, s->lost, tile, type, m);
        if ((flags & WF_SUM_LOST) != 0)
            WEFT_TRY(add_lost(s, p, at, m, err));
        if ((flags & WF_SUM_SKIPPED) != 0)
            WEFT_TRY(add_skipped(s, p, from, tile, at, m, err));
    }
    return WEFT_OK;
}

enum weft_status wf_sync_piece_add(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                   const void *x, struct weft_error *err)
{
    WEFT_TRY(add_gradient(s, p, from, x, err));
    s->counts.work++;
    p->got++;
    if (p->step->open && p->got == param_of(p)->all_grads)
        return finish(s, p, err);
    return WEFT_OK;
}

enum weft_status wf_sync_contribute(struct weft_sync *s, struct sync_step *step,
                                    struct sync_param *param, uint32_t grad,
                                    struct weft_error *err)
{
    if (param->n_pieces == 0 && grad + 1 == param->n_grads)
        wf_sync_param_done(s, step, param);
    for (uint32_t i = 0; i < param->n_pieces; i++) {
        struct sync_piece *p = &step->pieces[param->first + i];
        uint32_t owner = wf_sync_piece_owner(s, p);
        if (owner == s->rank) {
            WEFT_TRY(wf_sync_piece_add(s, p, owner, wf_sync_piece_at(p, grad), err));
            continue;
        }
        /* A piece with gradients that are not sent yet is in the queue already. */
        if (p->sent != grad)
            continue;
        struct sync_peer *peer = &s->peers[owner];
        p->next = NULL;
        *peer->pending_end = p;
        peer->pending_end = &p->next;
    }
    return WEFT_OK;
}
