/* Computes the positions of the empty cells in PyTorch's schedule tables. */
#include "planning/sched/gen/pytorch_idle.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "planning/sched/schedule_priv.h"

struct wf_idle_cells wf_pytorch_idle_interleaved(const struct weft_gen_params *params,
                                                 uint32_t rank, uint64_t n_warm_up, bool split)
{
    int64_t ranks = params->ranks, behind = ranks - 1 - rank;
    struct wf_idle_cells idle = {.first = rank, .in_cool_down = split ? 0 : 1};
    if (n_warm_up > 0)
        idle.after_warm_up =
            split ? behind : params->chunks * ranks + 2 * behind - ((int64_t)n_warm_up + rank);
    return idle;
}

size_t wf_pytorch_idle_max(const struct weft_gen_params *params)
{
    return (size_t)params->ranks * (params->chunks + 4) +
           (size_t)params->micros * params->chunks;
}

/* The state of one pass over the table.  The pass processes one column of all rows at a
 * time. */
struct spacer {
    const struct weft_schedule *s;
    /* owned: (stages, micros), 1 if the forward is in an earlier column */
    uint8_t *seen;
    size_t *pc;                /* owned: (ranks) */
    struct weft_action **rows; /* owned: (ranks), the new rows */
    size_t *n_row, *cap_row;   /* owned: (ranks) */
};

static bool row_add(struct spacer *sp, uint32_t rank, struct weft_action a)
{
    if (sp->n_row[rank] == sp->cap_row[rank]) {
        size_t cap = sp->cap_row[rank] ? sp->cap_row[rank] * 2 : 64;
        struct weft_action *row = realloc(sp->rows[rank], cap * sizeof *row);
        if (row == NULL)
            return false;
        sp->rows[rank] = row;
        sp->cap_row[rank] = cap;
    }
    sp->rows[rank][sp->n_row[rank]++] = a;
    return true;
}

static size_t forward_cell(const struct spacer *sp, uint32_t stage, uint32_t micro)
{
    return (size_t)stage * sp->s->place.n_micros + micro;
}

/* Appends one column to the new rows.  Sets *more to true if any rank has cells left.  Returns
 * false if there is no memory. */
static bool space_column(struct spacer *sp, bool *more)
{
    static const struct weft_action idle = {.kind = WEFT_ACT_IDLE};
    uint32_t n_ranks = sp->s->place.n_ranks;
    *more = false;
    for (uint32_t r = 0; r < n_ranks; r++) {
        struct weft_action_span row = weft_schedule_rank(sp->s, r);
        if (sp->pc[r] >= row.len)
            continue;
        *more = true;
        struct weft_action a = row.at[sp->pc[r]];
        bool wait = a.kind == WEFT_ACT_F && a.stage > 0 &&
                    !sp->seen[forward_cell(sp, a.stage - 1, a.micro)];
        if (!row_add(sp, r, wait ? idle : a))
            return false;
        sp->pc[r] += !wait;
    }

    /* Other stages can use the results of this column's forwards starting with the next
     * column. */
    for (uint32_t r = 0; r < n_ranks; r++) {
        if (sp->n_row[r] == 0)
            continue;
        struct weft_action a = sp->rows[r][sp->n_row[r] - 1];
        if (a.kind == WEFT_ACT_F)
            sp->seen[forward_cell(sp, a.stage, a.micro)] = 1;
    }
    return true;
}

static struct weft_schedule *join_rows(const struct spacer *sp)
{
    struct weft_schedule *d = wf_schedule_dup_empty(sp->s);
    size_t n = 0;
    for (uint32_t r = 0; r < sp->s->place.n_ranks; r++)
        n += sp->n_row[r];
    if (d != NULL)
        d->actions = malloc(sizeof *d->actions * (n + 1));
    if (d == NULL || d->actions == NULL) {
        weft_schedule_free(d);
        return NULL;
    }

    for (uint32_t r = 0; r < sp->s->place.n_ranks; r++) {
        if (sp->n_row[r] > 0)
            memcpy(d->actions + d->first[r], sp->rows[r], sp->n_row[r] * sizeof *d->actions);
        d->first[r + 1] = d->first[r] + sp->n_row[r];
    }
    if (!wf_schedule_finalize(d, false)) {
        weft_schedule_free(d);
        return NULL;
    }
    return d;
}

static struct weft_schedule *space_forwards(const struct weft_schedule *s)
{
    uint32_t n_ranks = s->place.n_ranks;
    struct weft_schedule *spaced = NULL;
    struct spacer sp = {.s = s};
    sp.seen = calloc((size_t)s->place.n_stages * s->place.n_micros + 1, 1);
    sp.pc = calloc(n_ranks, sizeof *sp.pc);
    sp.rows = calloc(n_ranks, sizeof *sp.rows);
    sp.n_row = calloc(n_ranks, sizeof *sp.n_row);
    sp.cap_row = calloc(n_ranks, sizeof *sp.cap_row);
    if (sp.seen != NULL && sp.pc != NULL && sp.rows != NULL && sp.n_row != NULL &&
        sp.cap_row != NULL) {
        bool ok = true, more = true;
        while (ok && more)
            ok = space_column(&sp, &more);
        if (ok)
            spaced = join_rows(&sp);
    }

    for (uint32_t r = 0; sp.rows != NULL && r < n_ranks; r++)
        free(sp.rows[r]);
    free(sp.seen);
    free(sp.pc);
    free(sp.rows);
    free(sp.n_row);
    free(sp.cap_row);
    return spaced;
}

enum weft_status wf_pytorch_space_forwards(const struct weft_gen_params *params,
                                           struct weft_schedule *s, struct weft_schedule **out,
                                           struct weft_error *err)
{
    if (!params->idle_hints) {
        *out = s;
        return WEFT_OK;
    }
    struct weft_schedule *spaced = space_forwards(s);
    weft_schedule_free(s);
    if (spaced == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to space a table");
    *out = spaced;
    return WEFT_OK;
}
