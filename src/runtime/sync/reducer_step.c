/* The state of a step: its parameters, the ranks that registered them, and the pieces that are
 * still missing. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/sync/reducer_priv.h"

/* -- parameters by id --------------------------------------------------------------- */

static size_t hash(uint32_t id)
{
    uint64_t x = id * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(x >> 32);
}

struct sync_param *wf_sync_param_find(struct weft_sync *s, const struct sync_step *step,
                                      uint32_t id)
{
    if (step->n == 0)
        return NULL;
    for (size_t i = hash(id) & step->mask;; i = (i + 1) & step->mask) {
        s->counts.work++;
        if (step->table[i] == 0)
            return NULL;
        struct sync_param *p = &step->params[step->table[i] - 1];
        if (p->id == id)
            return p;
    }
}

static void enter(struct sync_step *step, uint32_t index)
{
    size_t i = hash(step->params[index].id) & step->mask;
    while (step->table[i] != 0)
        i = (i + 1) & step->mask;
    step->table[i] = index + 1;
}

struct sync_step *wf_sync_step_find(const struct weft_sync *s, uint64_t number)
{
    struct sync_step *k = s->steps;
    while (k != NULL && k->number < number)
        k = k->next;
    return k != NULL && k->number == number ? k : NULL;
}

/* -- creation ------------------------------------------------------------------------------- */

static void *take_zeros(struct weft_sync *s, size_t n, size_t size)
{
    size_t bytes;
    if (!wf_size_mul(n, size, &bytes))
        return NULL;
    void *at = wf_sync_pool_alloc(&s->pool, bytes);
    if (at != NULL)
        memset(at, 0, bytes);
    return at;
}

void wf_sync_step_free(struct weft_sync *s, struct sync_step *step)
{
    if (step == NULL)
        return;
    wf_sync_pool_free(&s->pool, step->params);
    wf_sync_pool_free(&s->pool, step->pieces);
    wf_sync_pool_free(&s->pool, step->table);
    wf_sync_pool_free(&s->pool, step->rank_bits);
    wf_sync_pool_free(&s->pool, step->due_parts);
    wf_sync_pool_free(&s->pool, step->due_results);
    wf_sync_pool_free(&s->pool, step);
}

static bool take_arrays(struct weft_sync *s, struct sync_step *step, size_t n, size_t n_pieces)
{
    size_t words, slots = 4;
    while (slots < 2 * n)
        slots *= 2;
    if (!wf_size_mul(n, s->words, &words))
        return false;
    step->n = n;
    step->mask = slots - 1;
    step->params = take_zeros(s, n, sizeof *step->params);
    step->pieces = take_zeros(s, n_pieces, sizeof *step->pieces);
    step->table = take_zeros(s, slots, sizeof *step->table);
    step->rank_bits = take_zeros(s, words, sizeof *step->rank_bits);
    step->due_parts = take_zeros(s, s->n_ranks, sizeof *step->due_parts);
    step->due_results = take_zeros(s, s->n_ranks, sizeof *step->due_results);
    return step->params != NULL && step->pieces != NULL && step->table != NULL &&
           step->rank_bits != NULL && step->due_parts != NULL && step->due_results != NULL;
}

static void fill_param(struct weft_sync *s, struct sync_step *step, uint32_t index,
                       size_t first)
{
    struct sync_param *p = &step->params[index];
    p->first = first;
    p->n_pieces = p->left = (uint32_t)(p->size / SYNC_PIECE + (p->size % SYNC_PIECE != 0));
    p->n_ranks = 1;
    step->rank_bits[index * s->words + s->rank / 64] |= UINT64_C(1) << s->rank % 64;
    for (uint32_t i = 0; i < p->n_pieces; i++)
        step->pieces[first + i] = (struct sync_piece){.step = step, .param = index, .index = i};
}

static enum weft_status fill_step(struct weft_sync *s, struct sync_step *step,
                                  const uint32_t *ids, const size_t *sizes,
                                  struct weft_error *err)
{
    size_t first = 0;
    for (size_t i = 0; i < step->n; i++) {
        if (wf_sync_param_find(s, step, ids[i]) != NULL)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u, step %" PRIu64
                             ": parameter %u is listed twice in the set; register it once",
                             s->rank, step->number, ids[i]);
        step->params[i].id = ids[i];
        step->params[i].size = sizes[i];
        enter(step, (uint32_t)i);
        fill_param(s, step, (uint32_t)i, first);
        first += step->params[i].n_pieces;
    }
    return WEFT_OK;
}

/* Counts the pieces of all parameters.  Returns false if the sizes do not fit into memory, so
 * that later products cannot overflow. */
static bool count_pieces(const size_t *sizes, size_t n, size_t *n_pieces)
{
    *n_pieces = 0;
    for (size_t i = 0; i < n; i++)
        if (sizes[i] > SIZE_MAX / 64 ||
            !wf_size_add(*n_pieces, sizes[i] / SYNC_PIECE + 1, n_pieces))
            return false;
    return n < UINT32_MAX / 2;
}

enum weft_status wf_sync_step_new(struct weft_sync *s, uint64_t number, const uint32_t *ids,
                                  const size_t *sizes, size_t n, struct sync_step **out,
                                  struct weft_error *err)
{
    size_t n_pieces;
    if (!count_pieces(sizes, n, &n_pieces))
        return WEFT_FAIL(err, WEFT_USAGE,
                         "rank %u, step %" PRIu64 ": the sizes of %zu parameters overflow",
                         s->rank, number, n);
    struct sync_step *step = take_zeros(s, 1, sizeof *step);
    if (step == NULL || !take_arrays(s, step, n, n_pieces)) {
        wf_sync_step_free(s, step);
        return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for a step of %zu parameters",
                         s->rank, n);
    }
    step->number = number;
    step->left = step->unpushed = n;
    enum weft_status st = fill_step(s, step, ids, sizes, err);
    if (st != WEFT_OK) {
        wf_sync_step_free(s, step);
        return st;
    }
    *out = step;
    return WEFT_OK;
}

/* -- sets of other ranks ----------------------------------------------------------------------- */

enum weft_status wf_sync_step_match(struct weft_sync *s, struct sync_step *step, uint32_t peer,
                                    const struct sync_entry *at, size_t n,
                                    struct weft_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct sync_param *p = wf_sync_param_find(s, step, at[i].id);
        /* Not registered on this rank; the ranks that registered the parameter compare
         * sizes. */
        if (p == NULL)
            continue;
        if (p->size != at[i].size)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "step %" PRIu64 ", parameter %u has %" PRIu64
                             " elements on rank %u and %" PRIu64 " on rank %u",
                             step->number, p->id, p->size, s->rank, at[i].size, peer);
        step->rank_bits[(size_t)(p - step->params) * s->words + peer / 64] |= UINT64_C(1)
                                                                              << peer % 64;
        p->n_ranks++;
    }
    return WEFT_OK;
}

/* Computes how many pieces each peer has to send to this rank. */
static void count_due(struct weft_sync *s, struct sync_step *step, const struct sync_piece *p)
{
    const uint64_t *rank_bits = step->rank_bits + p->param * s->words;
    uint32_t owner = wf_sync_piece_owner(s, p);
    if (owner != s->rank) {
        step->due_results[owner]++;
        return;
    }
    for (size_t w = 0; w < s->words; w++)
        for (uint64_t bits = rank_bits[w]; bits != 0; bits &= bits - 1)
            step->due_parts[w * 64 + (size_t)__builtin_ctzll(bits)]++;
    step->due_parts[s->rank] = 0;
}

enum weft_status wf_sync_step_open(struct weft_sync *s, struct sync_step *step,
                                   struct weft_error *err)
{
    step->open = true;
    for (size_t i = 0; i < step->n; i++)
        for (uint32_t k = 0; k < step->params[i].n_pieces; k++)
            count_due(s, step, &step->pieces[step->params[i].first + k]);
    for (size_t i = 0; i < step->n; i++)
        if (step->params[i].pushed)
            WEFT_TRY(wf_sync_contribute(s, step, &step->params[i], err));
    return WEFT_OK;
}
