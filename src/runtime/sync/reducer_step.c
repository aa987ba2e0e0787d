/* The state of a step: its parameters, the ranks that registered them, the pieces that are
 * still missing, and the callbacks when nothing is missing. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/size.h"
#include "runtime/sync/reducer_priv.h"

/* -- parameters by id ---------------------------------------------------------------------- */

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

/* -- creation ------------------------------------------------------------------------------ */

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
    wf_sync_pool_free(&s->pool, step->grads);
    wf_sync_pool_free(&s->pool, step->table);
    wf_sync_pool_free(&s->pool, step->rank_bits);
    wf_sync_pool_free(&s->pool, step->due_parts);
    wf_sync_pool_free(&s->pool, step->due_results);
    wf_sync_pool_free(&s->pool, step);
}

/* The numbers of things of a step. */
struct amounts {
    size_t n_params, n_pieces, n_grads;
};

static bool take_arrays(struct weft_sync *s, struct sync_step *step, struct amounts a)
{
    size_t words, slots = 4, n = a.n_params;
    while (slots < 2 * n)
        slots *= 2;
    if (!wf_size_mul(n, s->words, &words))
        return false;
    step->n = n;
    step->mask = slots - 1;
    step->params = take_zeros(s, n, sizeof *step->params);
    step->pieces = take_zeros(s, a.n_pieces, sizeof *step->pieces);
    step->grads = take_zeros(s, a.n_grads, sizeof *step->grads);
    step->table = take_zeros(s, slots, sizeof *step->table);
    step->rank_bits = take_zeros(s, words, sizeof *step->rank_bits);
    step->due_parts = take_zeros(s, s->n_ranks, sizeof *step->due_parts);
    step->due_results = take_zeros(s, s->n_ranks, sizeof *step->due_results);
    return step->params != NULL && step->pieces != NULL && step->grads != NULL &&
           step->table != NULL && step->rank_bits != NULL && step->due_parts != NULL &&
           step->due_results != NULL;
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

static uint32_t grads_of(const struct weft_sync_param *p)
{
    return p->n_grads == 0 ? 1 : p->n_grads;
}

static enum weft_status fill_step(struct weft_sync *s, struct sync_step *step,
                                  const struct weft_sync_param *params, struct weft_error *err)
{
    size_t first = 0, first_grad = 0;
    for (size_t i = 0; i < step->n; i++) {
        if (wf_sync_param_find(s, step, params[i].id) != NULL)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u, step %" PRIu64
                             ": parameter %u is listed twice in the set; register it once, "
                             "with its number of gradients",
                             s->rank, step->number, params[i].id);

        struct sync_param *p = &step->params[i];
        p->id = params[i].id;
        p->size = params[i].size;
        p->type = params[i].type;
        p->n_grads = p->all_grads = grads_of(&params[i]);
        p->grads = step->grads + first_grad;

        enter(step, (uint32_t)i);
        fill_param(s, step, (uint32_t)i, first);
        first += p->n_pieces;
        first_grad += p->n_grads;
    }
    return WEFT_OK;
}

/* Checks parameters and counts their pieces and gradients.  The sizes must fit into memory, so
 * that later products cannot overflow. */
static enum weft_status count_all(struct weft_sync *s, uint64_t number,
                                  const struct weft_sync_param *params, size_t n,
                                  struct amounts *out, struct weft_error *err)
{
    *out = (struct amounts){.n_params = n};
    bool fits = n < UINT32_MAX / 2;

    for (size_t i = 0; i < n && fits; i++) {
        const struct weft_sync_param *p = &params[i];
        if ((unsigned)p->type > WEFT_SYNC_F64)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u, step %" PRIu64
                             ": parameter %u has the unknown element type %d",
                             s->rank, number, p->id, (int)p->type);
        if (p->n_grads > SYNC_MAX_GRADS)
            return WEFT_FAIL(err, WEFT_USAGE,
                             "rank %u, step %" PRIu64
                             ": parameter %u has %u gradients (maximum %d)",
                             s->rank, number, p->id, p->n_grads, SYNC_MAX_GRADS);
        fits = p->size <= SIZE_MAX / 64 &&
               wf_size_add(out->n_pieces, p->size / SYNC_PIECE + 1, &out->n_pieces) &&
               wf_size_add(out->n_grads, grads_of(p), &out->n_grads);
    }

    if (!fits)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "rank %u, step %" PRIu64 ": the sizes of %zu parameters overflow",
                         s->rank, number, n);
    return WEFT_OK;
}

enum weft_status wf_sync_step_new(struct weft_sync *s, uint64_t number,
                                  const struct weft_sync_param *params, size_t n,
                                  struct sync_step **out, struct weft_error *err)
{
    struct amounts amounts;
    WEFT_TRY(count_all(s, number, params, n, &amounts, err));
    struct sync_step *step = take_zeros(s, 1, sizeof *step);
    if (step == NULL || !take_arrays(s, step, amounts)) {
        wf_sync_step_free(s, step);
        return WEFT_FAIL(err, WEFT_NOMEM, "rank %u: no memory for a step of %zu parameters",
                         s->rank, n);
    }
    step->number = number;
    step->left = step->unpushed = n;
    enum weft_status st = fill_step(s, step, params, err);
    if (st != WEFT_OK) {
        wf_sync_step_free(s, step);
        return st;
    }
    *out = step;
    return WEFT_OK;
}

void wf_sync_step_end(struct weft_sync *s, struct sync_step *step)
{
    struct sync_step **at = &s->steps;
    assert(step->reported);
    while (*at != step)
        at = &(*at)->next;
    *at = step->next;
    wf_sync_step_free(s, step);
}

/* -- sets of other ranks ------------------------------------------------------------------- */

/* Compares a parameter of this rank with the entry of a peer. */
static enum weft_status check_same(const struct weft_sync *s, const struct sync_step *step,
                                   const struct sync_param *p, uint32_t peer,
                                   const struct sync_entry *e, struct weft_error *err)
{
    if (p->size != e->size)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "step %" PRIu64 ", parameter %u has %" PRIu64
                         " elements on rank %u and %" PRIu64 " on rank %u",
                         step->number, p->id, p->size, s->rank, e->size, peer);

    if (e->type > WEFT_SYNC_F64 || e->n_grads == 0 || e->n_grads > SYNC_MAX_GRADS)
        return WEFT_FAIL(err, WEFT_INTERNAL,
                         "step %" PRIu64 ", parameter %u: rank %u sent an invalid entry "
                         "(element type %u, %u gradients)",
                         step->number, p->id, peer, e->type, e->n_grads);

    if ((uint32_t)p->type != e->type)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "step %" PRIu64 ", parameter %u has %s elements on rank %u and %s on "
                         "rank %u",
                         step->number, p->id, wf_sync_type_name(p->type), s->rank,
                         wf_sync_type_name((enum weft_sync_type)e->type), peer);

    if (e->n_grads > SYNC_MAX_GRADS - p->all_grads)
        return WEFT_FAIL(err, WEFT_USAGE,
                         "step %" PRIu64 ", parameter %u has too many gradients: %u on rank %u "
                         "and %u on other ranks (maximum %d)",
                         step->number, p->id, e->n_grads, peer, p->all_grads, SYNC_MAX_GRADS);
    return WEFT_OK;
}

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
        WEFT_TRY(check_same(s, step, p, peer, &at[i], err));
        step->rank_bits[(size_t)(p - step->params) * s->words + peer / 64] |= UINT64_C(1)
                                                                              << peer % 64;
        p->n_ranks++;
        p->all_grads += at[i].n_grads;
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
        for (uint32_t k = 0; k < step->params[i].n_pushed; k++)
            WEFT_TRY(wf_sync_contribute(s, step, &step->params[i], k, err));
    return WEFT_OK;
}

/* -- callbacks ----------------------------------------------------------------------------- */

void wf_sync_param_done(struct weft_sync *s, struct sync_step *step, struct sync_param *param)
{
    uint32_t number = (uint32_t)(param - step->params) + 1;
    if (step->first_done == 0)
        step->first_done = number;
    else
        step->params[step->last_done - 1].next_done = number;
    step->last_done = number;
    s->n_reports++;
    if (--step->left == 0) {
        s->n_unfinished--;
        s->n_reports++;
    }
}

/* Calls one callback.  The callback may end the step. */
static enum weft_status report_one(struct weft_sync *s, struct sync_step *step, bool *called,
                                   struct weft_error *err)
{
    s->n_reports--;
    if (step->first_done != 0) {
        const struct sync_param *p = &step->params[step->first_done - 1];
        step->first_done = p->next_done;
        if (s->on_param == NULL)
            return WEFT_OK;
        *called = true;
        return s->on_param(s->callback_arg, step->number, p->id, err);
    }
    step->reported = true;
    if (s->on_step == NULL)
        return WEFT_OK;
    *called = true;
    return s->on_step(s->callback_arg, step->number, err);
}

enum weft_status wf_sync_report(struct weft_sync *s, bool *called, struct weft_error *err)
{
    *called = false;
    while (s->n_reports != 0) {
        struct sync_step *step = s->steps;
        while (step->first_done == 0 && (step->left != 0 || step->reported))
            step = step->next;
        uint64_t number = step->number;
        err->msg[0] = '\0';
        s->in_callback = true;
        enum weft_status st = report_one(s, step, called, err);
        s->in_callback = false;
        if (st != WEFT_OK && err->msg[0] == '\0')
            return WEFT_FAIL(err, st, "rank %u, step %" PRIu64 ": a callback failed", s->rank,
                             number);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}
