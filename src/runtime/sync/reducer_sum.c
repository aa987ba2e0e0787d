/* Sums the pieces of parameters exactly and sends the results. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/sync/reducer_priv.h"

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

static enum weft_status no_memory(struct weft_sync *s, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for a sum of gradients", s->rank);
}

/* -- the result ------------------------------------------------------------------------------- */

static void piece_done(struct weft_sync *s, struct sync_piece *p)
{
    struct sync_param *param = &p->step->params[p->param];
    if (--param->left == 0 && --p->step->left == 0)
        s->n_unfinished--;
}

enum weft_status wf_sync_piece_set(struct weft_sync *s, struct sync_piece *p, const float *x,
                                   struct weft_error *err)
{
    struct sync_param *param = &p->step->params[p->param];
    (void)err;
    memcpy(param->grad + sync_piece_begin(p), x, wf_sync_piece_size(p) * sizeof *x);
    piece_done(s, p);
    return WEFT_OK;
}

/* Splits each sum of a piece into an upper and a lower half of 32 bits.  In some orders of the
 * terms a partial sum may leave the range, in other orders not, but the order must not decide
 * between a result and an error.  The first partial sum beyond 2^12 is still exact, because its
 * terms are below 2^12 and the integer has room up to 2^13.  From then on the piece uses two
 * halves, which have room for any number of terms. */
static bool widen(struct weft_sync *s, struct sync_piece *p, size_t n)
{
    p->high = wf_sync_pool_alloc(&s->pool, n * sizeof *p->high);
    if (p->high == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        p->high[i] = p->sum[i] >> 32;
        p->sum[i] &= UINT32_MAX;
    }
    return true;
}

static void add_wide(struct sync_piece *p, size_t at, const int64_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p->high[at + i] += x[i] >> 32;
        p->sum[at + i] += x[i] & UINT32_MAX;
    }
}

/* Joins the halves of the sums.  Returns false if the sum is out of range. */
static bool narrow(struct sync_piece *p, size_t n)
{
    const int64_t limit = INT64_C(1) << (WF_EXACT_BITS + 12 - 32);
    for (size_t i = 0; i < n; i++) {
        int64_t high = p->high[i] + (p->sum[i] >> 32);
        int64_t low = p->sum[i] & UINT32_MAX;
        /* The sum is high + low / 2^32; -limit is out of range as well. */
        if (high >= limit || high < -limit || (high == -limit && low == 0))
            return false;
        p->sum[i] = high * (INT64_C(1) << 32) + low;
    }
    return true;
}

static void mean(float *out, const int64_t *sums, size_t n, uint32_t of)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((double)sums[i] * 0x1p-50 / of);
}

static enum weft_status out_of_range(struct weft_sync *s, const struct sync_piece *p,
                                     const char *what, struct weft_error *err)
{
    return WEFT_FAIL(err, WEFT_NUMERIC,
                     "step %" PRIu64 ", parameter %u: %s (elements %zu to %zu; found by rank "
                     "%u); gradients and their sums must stay below 4096",
                     p->step->number, p->step->params[p->param].id, what, sync_piece_begin(p),
                     sync_piece_begin(p) + wf_sync_piece_size(p) - 1, s->rank);
}

static enum weft_status finish(struct weft_sync *s, struct sync_piece *p,
                               struct weft_error *err)
{
    struct sync_param *param = &p->step->params[p->param];
    const uint64_t *rank_bits = p->step->rank_bits + p->param * s->words;
    size_t n = wf_sync_piece_size(p);
    float *out = param->grad + sync_piece_begin(p);
    if (p->high != NULL && !narrow(p, n))
        return out_of_range(s, p, "a sum is out of range", err);
    if (s->op == WEFT_SYNC_MEAN)
        mean(out, p->sum, n, param->n_ranks);
    else
        s->ops->exact_to_f32(out, p->sum, n);
    struct sync_record record = {.kind = SYNC_KIND_RESULT,
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
            WEFT_TRY(wf_sync_link_put(s, r, record, n * sizeof *out, &at, err));
            memcpy(at, out, n * sizeof *out);
        }
    wf_sync_pool_free(&s->pool, p->sum);
    wf_sync_pool_free(&s->pool, p->high);
    p->sum = p->high = NULL;
    piece_done(s, p);
    return WEFT_OK;
}

/* -- contributions ---------------------------------------------------------------------------- */

/* Adds a contribution.  Returns true if an element is out of range. */
static bool add_first(struct weft_sync *s, struct sync_piece *p, const float *x, size_t n)
{
    return s->ops->sink_add((struct wf_sink){.exact = p->sum, .fresh = true}, x, n);
}

static bool add_more(struct weft_sync *s, struct sync_piece *p, const float *x, size_t n,
                     bool *beyond)
{
    struct wf_sink scratch = {.exact = s->scratch, .fresh = true};
    bool invalid = false;
    for (size_t at = 0; at < n; at += SYNC_TILE) {
        size_t m = wf_size_min(SYNC_TILE, n - at);
        invalid |= s->ops->sink_add(scratch, x + at, m);
        if (invalid)
            break;
        if (p->high != NULL)
            add_wide(p, at, s->scratch, m);
        else
            *beyond |= s->ops->exact_merge(p->sum + at, s->scratch, m);
    }
    return invalid;
}

enum weft_status wf_sync_piece_add(struct weft_sync *s, struct sync_piece *p, uint32_t from,
                                   const float *x, struct weft_error *err)
{
    size_t n = wf_sync_piece_size(p);
    bool invalid, beyond = false;
    if (p->sum == NULL) {
        p->sum = wf_sync_pool_alloc(&s->pool, n * sizeof *p->sum);
        if (p->sum == NULL)
            return no_memory(s, err);
        invalid = add_first(s, p, x, n);
    } else {
        invalid = add_more(s, p, x, n, &beyond);
    }
    if (invalid) {
        char what[64];
        snprintf(what, sizeof what, "the gradient of rank %u is out of range", from);
        return out_of_range(s, p, what, err);
    }
    if (beyond && !widen(s, p, n))
        return no_memory(s, err);
    s->counts.work++;
    p->got++;
    if (p->step->open && p->got == p->step->params[p->param].n_ranks)
        return finish(s, p, err);
    return WEFT_OK;
}

enum weft_status wf_sync_contribute(struct weft_sync *s, struct sync_step *step,
                                    struct sync_param *param, struct weft_error *err)
{
    if (param->n_pieces == 0 && --step->left == 0)
        s->n_unfinished--;
    for (uint32_t i = 0; i < param->n_pieces; i++) {
        struct sync_piece *p = &step->pieces[param->first + i];
        uint32_t owner = wf_sync_piece_owner(s, p);
        if (owner == s->rank) {
            WEFT_TRY(wf_sync_piece_add(s, p, owner, param->grad + sync_piece_begin(p), err));
            continue;
        }
        struct sync_peer *peer = &s->peers[owner];
        p->next = NULL;
        *peer->pending_end = p;
        peer->pending_end = &p->next;
    }
    return WEFT_OK;
}
