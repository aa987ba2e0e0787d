/* PyTorch's lowering, apart from the messages: which parameters are gathered when, when
 * gradients are reduced, and where sends are waited for.  The result equals what the runtime of
 * PyTorch (_PipelineScheduleRuntime) makes of the same table. */
#include <stdlib.h>

#include "base/error.h"
#include "base/size.h"
#include "planning/sched/deps.h"
#include "planning/sched/lower_priv.h"
#include "planning/sched/schedule_priv.h"

/* -- rows ----------------------------------------------------------------------------------- */

/* A schedule that is written action by action, rank by rank. */
struct rows {
    struct weft_schedule *s; /* owned until rows_finish() */
    size_t n, cap;
    bool failed; /* no memory */
};

static void rows_init(struct rows *w, const struct weft_schedule *like)
{
    *w = (struct rows){.s = wf_schedule_dup_empty(like)};
    w->failed = w->s == NULL;
}

static void push(struct rows *w, struct weft_action a)
{
    if (!w->failed && w->n == w->cap) {
        size_t cap = w->cap > 0 ? w->cap + w->cap / 2 : 256;
        struct weft_action *grown = realloc(w->s->actions, cap * sizeof *grown);
        w->failed = grown == NULL;
        if (grown != NULL) {
            w->s->actions = grown;
            w->cap = cap;
        }
    }
    if (!w->failed)
        w->s->actions[w->n++] = a;
}

static void push_kind(struct rows *w, enum weft_act_kind kind, uint32_t stage)
{
    push(w, (struct weft_action){.stage = stage & (WEFT_MAX_STAGES - 1), .kind = kind});
}

static void end_row(struct rows *w, uint32_t rank)
{
    if (!w->failed)
        w->s->first[rank + 1] = w->n;
}

static enum weft_status rows_finish(struct rows *w, bool has_messages,
                                    struct weft_schedule **out, struct weft_error *err)
{
    if (w->failed || !wf_schedule_finalize(w->s, has_messages)) {
        weft_schedule_free(w->s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory to lower a schedule");
    }
    *out = w->s;
    return WEFT_OK;
}

/* -- sharding ------------------------------------------------------------------------------- */

/* PyTorch keeps the parameters of the next three stages that a rank will use.  A pair is
 * atomic, so a window that ends within a pair has a fourth stage. */
enum { WINDOW = 3, WINDOW_MAX = WINDOW + 1 };

struct window {
    uint32_t stage[WINDOW_MAX];
    uint32_t n;
};

/* The next stages of a rank in the order of their first use, seen from one cell, and the cell
 * of this use. */
struct upcoming {
    uint32_t stage[WINDOW_MAX];
    size_t cell[WINDOW_MAX];
    uint32_t n;
};

static void prepend(struct upcoming *u, uint32_t stage, size_t cell)
{
    uint32_t at = 0;
    while (at < u->n && u->stage[at] != stage)
        at++;
    if (at == u->n && u->n < WINDOW_MAX)
        u->n++;
    if (at == WINDOW_MAX)
        at--; /* the last one leaves the list */
    for (; at > 0; at--) {
        u->stage[at] = u->stage[at - 1];
        u->cell[at] = u->cell[at - 1];
    }
    u->stage[0] = stage;
    u->cell[0] = cell;
}

/* Computes the window of every cell of a rank, from the last cell to the first.  The window of
 * a pair is stored at its first action. */
static void find_windows(struct weft_action_span row, struct window *out)
{
    struct upcoming u = {.n = 0};
    for (size_t i = row.len; i-- > 0;) {
        bool second = i > 0 && row.at[i - 1].paired;
        prepend(&u, row.at[i].stage, second ? i - 1 : i);
        if (second)
            continue;

        bool whole_pair = u.n == WINDOW_MAX && u.cell[WINDOW] == u.cell[WINDOW - 1];
        out[i].n = whole_pair || u.n < WINDOW ? u.n : WINDOW;
        for (uint32_t k = 0; k < out[i].n; k++)
            out[i].stage[k] = u.stage[k];
    }
}

static bool window_has(const struct window *w, uint32_t stage)
{
    for (uint32_t k = 0; k < w->n; k++)
        if (w->stage[k] == stage)
            return true;
    return false;
}

/* Adds a stage to the gathered ones.  From 2.15 on, PyTorch frees stages in the order in which
 * it gathered them, before that in ascending order. */
static void gather(struct window *active, uint32_t stage, struct wf_torch_dialect dialect)
{
    uint32_t at = active->n++;
    for (; !dialect.waits && at > 0 && active->stage[at - 1] > stage; at--)
        active->stage[at] = active->stage[at - 1];
    active->stage[at] = stage;
}

/* Frees the gathered stages that are not in the next window. */
static void free_stages(struct rows *w, struct window *active, const struct window *next)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < active->n; k++) {
        if (window_has(next, active->stage[k]))
            active->stage[n++] = active->stage[k];
        else
            push_kind(w, WEFT_ACT_RESHARD, active->stage[k]);
    }
    active->n = n;
}

static void move_window(struct rows *w, struct window *active, const struct window *next,
                        struct wf_torch_dialect dialect)
{
    free_stages(w, active, next);
    for (uint32_t k = 0; k < next->n; k++) {
        if (window_has(active, next->stage[k]))
            continue;
        push_kind(w, WEFT_ACT_UNSHARD, next->stage[k]);
        gather(active, next->stage[k], dialect);
    }
}

/* Appends REDUCE_GRAD if `a` is the last weight gradient of its stage. */
static void push_reduction(struct rows *w, struct weft_action a, uint32_t *n_weights,
                           struct wf_torch_dialect dialect)
{
    if (!wf_act_frees_activation(a.kind) || ++n_weights[a.stage] != w->s->place.n_micros)
        return;
    push_kind(w, WEFT_ACT_REDUCE_GRAD, a.stage);
    if (dialect.waits)
        push_kind(w, WEFT_ACT_WAIT_REDUCE_GRAD, a.stage);
}

static void add_sharding_to_row(struct rows *w, struct weft_action_span row,
                                const struct window *windows, uint32_t *n_weights,
                                struct wf_torch_dialect dialect)
{
    struct window active = {.n = 0}, none = {.n = 0};
    size_t unit;
    for (size_t i = 0; !w->failed && i < row.len; i += unit) {
        unit = row.at[i].paired ? 2 : 1;
        move_window(w, &active, &windows[i], dialect);
        for (size_t k = i; k < i + unit; k++)
            push(w, row.at[k]);
        for (size_t k = i; k < i + unit; k++)
            push_reduction(w, row.at[k], n_weights, dialect);
    }
    free_stages(w, &active, &none);
}

/* Returns the compute actions of a rank in `out`, which has space for all actions of the
 * rank. */
static struct weft_action_span compute_actions(const struct weft_schedule *s, uint32_t rank,
                                               struct weft_action *out)
{
    struct weft_action_span row = weft_schedule_rank(s, rank);
    size_t n = 0;
    for (size_t i = 0; i < row.len; i++)
        if (weft_act_is_compute(row.at[i].kind))
            out[n++] = row.at[i];
    return (struct weft_action_span){out, n};
}

enum weft_status wf_torch_add_sharding(const struct weft_schedule *s,
                                       struct wf_torch_dialect dialect,
                                       struct weft_schedule **out, struct weft_error *err)
{
    size_t longest = 0;
    for (uint32_t r = 0; r < s->place.n_ranks; r++)
        longest = wf_size_max(longest, weft_schedule_rank(s, r).len);

    struct rows w;
    rows_init(&w, s);
    struct weft_action *compute = malloc(sizeof *compute * (longest + 1));
    struct window *windows = malloc(sizeof *windows * (longest + 1));
    uint32_t *n_weights = calloc(s->place.n_stages, sizeof *n_weights);
    w.failed = w.failed || compute == NULL || windows == NULL || n_weights == NULL;

    for (uint32_t r = 0; !w.failed && r < s->place.n_ranks; r++) {
        struct weft_action_span row = compute_actions(s, r, compute);
        find_windows(row, windows);
        add_sharding_to_row(&w, row, windows, n_weights, dialect);
        end_row(&w, r);
    }
    free(compute);
    free(windows);
    free(n_weights);
    return rows_finish(&w, false, out, err);
}

/* -- waits for sends ------------------------------------------------------------------------ */

/* Appends the waits that are left at the end of a row, in the order of their sends. */
static void push_remaining(struct rows *w, struct weft_action_span row, const uint8_t *pending)
{
    for (size_t i = 0; i < row.len; i++) {
        struct weft_action a = row.at[i];
        size_t cell = (size_t)a.stage * w->s->place.n_micros + a.micro;
        bool forward = a.kind == WEFT_ACT_SEND_F;
        if (a.kind != WEFT_ACT_SEND_B && !(forward && pending[cell]))
            continue;
        a.kind = forward ? WEFT_ACT_WAIT_SEND_F : WEFT_ACT_WAIT_SEND_B;
        push(w, a);
    }
}

/* Adds the waits of a row.  The local backward shows that the other rank has received the
 * activation, so the wait for the send of the activation follows it.  All other waits are at
 * the end.  `pending` has one entry per (stage, micro). */
static void add_waits_to_row(struct rows *w, struct weft_action_span row, uint8_t *pending)
{
    size_t unit;
    for (size_t i = 0; i < row.len; i += unit) {
        unit = row.at[i].paired ? 2 : 1;
        for (size_t k = i; k < i + unit; k++)
            push(w, row.at[k]);

        for (size_t k = i; k < i + unit; k++) {
            struct weft_action a = row.at[k];
            size_t cell = (size_t)a.stage * w->s->place.n_micros + a.micro;
            bool backward = a.kind == WEFT_ACT_B || a.kind == WEFT_ACT_I;
            if (a.kind == WEFT_ACT_SEND_F)
                pending[cell] = 1;
            if (!backward || !pending[cell])
                continue;
            pending[cell] = 0;
            push(w, (struct weft_action){
                        .micro = a.micro, .stage = a.stage, .kind = WEFT_ACT_WAIT_SEND_F});
        }
    }
    push_remaining(w, row, pending);
}

enum weft_status wf_torch_add_send_waits(const struct weft_schedule *s,
                                         struct weft_schedule **out, struct weft_error *err)
{
    struct rows w;
    rows_init(&w, s);
    uint8_t *pending = calloc((size_t)s->place.n_stages * s->place.n_micros + 1, 1);
    w.failed = w.failed || pending == NULL;

    for (uint32_t r = 0; !w.failed && r < s->place.n_ranks; r++) {
        add_waits_to_row(&w, weft_schedule_rank(s, r), pending);
        end_row(&w, r);
    }
    free(pending);
    return rows_finish(&w, weft_schedule_is_lowered(s), out, err);
}
