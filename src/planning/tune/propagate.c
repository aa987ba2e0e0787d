/* The rules of propagation.  Each rule is sound by itself.  est is the earliest start of an
 * action and lct is its latest end.
 *
 *   precedence   An action starts after all its dependencies have ended (plus hops).  The
 *                dependencies are its input, the previous action of its row, and the I and W
 *                that memory requires.
 *   sets         An action starts after all actions that must precede it on its rank.  A set S
 *                of actions of one rank cannot end before
 *                ect(S) = max over subsets U of S of (min est of U + time of U).
 *   detected     If action i cannot end before action j must have started, j precedes i.  So i
 *                starts after the set of all such j.
 *   edge         If a set and an action i together cannot end by the last deadline of the set,
 *                i follows the whole set.  If the set alone cannot end by this deadline, there
 *                is no schedule.
 *   memory       Consequences of windows and memory together, see propagate_memory.c.
 *
 * The ect() of a changing set is stored in a tree over the actions sorted by est (Vilim's theta
 * tree), so each rule takes O(n log n) time per rank.  Every rule is also applied in reversed
 * time, which narrows lct.
 */
#include "planning/tune/propagate.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NEVER (-((int64_t)1 << 60))

/* A node of the tree.  It has the total time and the ect of its actions, both values with
 * the best grey action added, and the indices of these grey actions. */
struct wf_theta {
    int64_t sum, ect;
    int64_t grey_sum, grey_ect;
    uint32_t by_sum, by_ect;
};

static const struct wf_theta empty = {0, NEVER, 0, NEVER, UINT32_MAX, UINT32_MAX};

enum weft_status wf_windows_init(struct wf_windows *w, const struct wf_instance *x,
                                 struct weft_error *err)
{
    uint32_t max_ops = 1, rows = 1;
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        max_ops = x->rank_ops[r] > max_ops ? x->rank_ops[r] : max_ops;
        rows = wf_instance_n_rows(x, r) > rows ? wf_instance_n_rows(x, r) : rows;
    }
    *w = (struct wf_windows){.x = x, .max_ops = max_ops, .leaves = 1};
    while (w->leaves < max_ops)
        w->leaves *= 2;

    w->est = malloc(sizeof *w->est * x->n_ops);
    w->lct = malloc(sizeof *w->lct * x->n_ops);
    w->dirty = calloc(x->n_ranks, sizeof *w->dirty);
    w->e = malloc(sizeof *w->e * max_ops);
    w->l = malloc(sizeof *w->l * max_ops);
    w->p = malloc(sizeof *w->p * max_ops);
    w->now = malloc(sizeof *w->now * max_ops);
    w->slot = malloc(sizeof *w->slot * max_ops);
    w->by_a = malloc(sizeof *w->by_a * max_ops);
    w->by_b = malloc(sizeof *w->by_b * max_ops);
    w->row = malloc(sizeof *w->row * max_ops);
    w->cursor = malloc(sizeof *w->cursor * rows);
    w->tree = malloc(sizeof *w->tree * 2 * w->leaves);
    bool tables = x->need_before != NULL;
    w->before = tables ? malloc(sizeof *w->before * (x->n_needs + 1)) : NULL;
    w->after = tables ? malloc(sizeof *w->after * (x->n_needs + 1)) : NULL;
    if ((tables && (w->before == NULL || w->after == NULL)) || w->est == NULL ||
        w->lct == NULL || w->dirty == NULL || w->e == NULL || w->l == NULL || w->p == NULL ||
        w->now == NULL || w->slot == NULL || w->by_a == NULL || w->by_b == NULL ||
        w->row == NULL || w->cursor == NULL || w->tree == NULL) {
        wf_windows_release(w);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for a bound over %zu actions", x->n_ops);
    }
    return WEFT_OK;
}

void wf_windows_release(struct wf_windows *w)
{
    free(w->est);
    free(w->lct);
    free(w->dirty);
    free(w->e);
    free(w->l);
    free(w->p);
    free(w->now);
    free(w->slot);
    free(w->by_a);
    free(w->by_b);
    free(w->row);
    free(w->cursor);
    free(w->tree);
    free(w->before);
    free(w->after);
    *w = (struct wf_windows){0};
}

void wf_windows_invalidate(struct wf_windows *w)
{
    const struct wf_instance *x = w->x;
    memset(w->dirty, true, sizeof *w->dirty * x->n_ranks);
    if (w->before != NULL) {
        memcpy(w->before, x->need_before, sizeof *w->before * x->n_needs);
        memcpy(w->after, x->need_after, sizeof *w->after * x->n_needs);
    }
}

/* -- precedence --------------------------------------------------------------------------- */

static inline void raise_est(struct wf_windows *w, const struct wf_row *row, size_t id,
                             int64_t t)
{
    if (w->est[id] < t) {
        w->est[id] = t;
        w->dirty[row->rank] = true;
    }
}

static inline void lower_lct(struct wf_windows *w, const struct wf_row *row, size_t id,
                             int64_t t)
{
    if (w->lct[id] > t) {
        w->lct[id] = t;
        w->dirty[row->rank] = true;
    }
}

/* Raises the earliest start of one action to the time at which its dependencies allow it. */
static void tighten_est(struct wf_windows *w, uint32_t chain, uint32_t pass, uint32_t k)
{
    const struct wf_instance *x = w->x;
    const struct wf_row *rows = x->rows + wf_instance_row(x, chain, 0), *row = &rows[pass];
    size_t id = row->first + k;
    if (k > 0)
        raise_est(w, row, id, w->est[id - 1] + row->time);
    if (row->from != WF_NO_ROW) {
        const struct wf_row *from = &x->rows[row->from];
        raise_est(w, row, id, w->est[from->first + k] + from->time + row->hop);
    }
    if (pass > 0)
        raise_est(w, row, id, w->est[row[-1].first + k] + row[-1].time);
    if (pass == WF_ROW_F && x->need_i[id] > 0)
        raise_est(w, row, id, w->est[rows[1].first + x->need_i[id] - 1] + rows[1].time);
    if (pass < WF_ROW_W && x->need_w[id] > 0)
        raise_est(w, row, id, w->est[rows[2].first + x->need_w[id] - 1] + rows[2].time);
}

/* Lowers the latest ends of the dependencies of one action, so that the action can end in
 * time. */
static void tighten_lct(struct wf_windows *w, uint32_t chain, uint32_t pass, uint32_t k)
{
    const struct wf_instance *x = w->x;
    const struct wf_row *rows = x->rows + wf_instance_row(x, chain, 0), *row = &rows[pass];
    size_t id = row->first + k;
    int64_t start = w->lct[id] - row->time;
    if (k > 0)
        lower_lct(w, row, id - 1, start);
    if (row->from != WF_NO_ROW) {
        const struct wf_row *from = &x->rows[row->from];
        lower_lct(w, from, from->first + k, start - row->hop);
    }
    if (pass > 0)
        lower_lct(w, &row[-1], row[-1].first + k, start);
    if (pass == WF_ROW_F && x->need_i[id] > 0)
        lower_lct(w, &rows[1], rows[1].first + x->need_i[id] - 1, start);
    if (pass < WF_ROW_W && x->need_w[id] > 0)
        lower_lct(w, &rows[2], rows[2].first + x->need_w[id] - 1, start);
}

/* Visits all actions in topological order, micro by micro, because memory requires actions
 * of earlier micros only.  For each micro the order is: forwards down the pipe, I back up,
 * then W.  If `forward` is false, visits the actions in reverse order. */
static void sweep(struct wf_windows *w, bool forward,
                  void (*visit)(struct wf_windows *, uint32_t, uint32_t, uint32_t))
{
    const struct wf_instance *x = w->x;
    uint32_t stages = x->n_stages, per = stages * x->n_passes;
    for (uint32_t pipe = 0; pipe < x->n_pipes; pipe++) {
        uint32_t base = pipe * stages, n = x->rows[wf_instance_row(x, base, 0)].n;
        for (uint64_t i = 0; i < (uint64_t)n * per; i++) {
            uint64_t at = forward ? i : (uint64_t)n * per - 1 - i;
            uint32_t k = (uint32_t)(at / per), rest = (uint32_t)(at % per);
            uint32_t pass = rest / stages, stage = rest % stages;
            visit(w, base + (pass == WF_ROW_I ? stages - 1 - stage : stage), pass, k);
        }
    }
    w->work += (double)x->n_ops;
}

/* Limits each rank's actions to the time `span` after the start of the rank's first action. */
static void keep_span(struct wf_windows *w)
{
    const struct wf_instance *x = w->x;
    for (uint32_t r = 0; r < x->n_ranks && w->span > 0; r++) {
        uint32_t first_row = wf_instance_first_row(x, r);
        if (first_row == WF_NO_ROW)
            continue;

        const struct wf_row *first = &x->rows[first_row];
        int64_t end = w->lct[first->first] - first->time + w->span, last = NEVER;
        for (uint32_t i = x->rank_first[r]; i < x->rank_first[r + 1]; i++) {
            const struct wf_row *row = &x->rows[x->rank_rows[i]];
            size_t id = row->first + row->n - 1;
            lower_lct(w, row, id, end);
            last = w->est[id] + row->time > last ? w->est[id] + row->time : last;
        }
        raise_est(w, first, first->first, last - w->span);
    }
}

bool wf_windows_precedence(struct wf_windows *w)
{
    const struct wf_instance *x = w->x;
    keep_span(w);
    sweep(w, true, tighten_est);
    sweep(w, false, tighten_lct);
    for (uint32_t i = 0; i < x->n_rows; i++) {
        const struct wf_row *row = &x->rows[i];
        for (size_t id = row->first; id < row->first + row->n; id++)
            if (w->est[id] + row->time > w->lct[id])
                return false;
    }
    return true;
}

/* -- the tree ----------------------------------------------------------------------------- */

static inline void combine(struct wf_theta *t, uint32_t i)
{
    const struct wf_theta *a = &t[2 * i], *b = &t[2 * i + 1];
    struct wf_theta *o = &t[i];
    o->sum = a->sum + b->sum;
    o->ect = a->ect + b->sum > b->ect ? a->ect + b->sum : b->ect;
}

/* Combines two child nodes, including their grey actions. */
static inline void combine_grey(struct wf_theta *t, uint32_t i)
{
    const struct wf_theta *a = &t[2 * i], *b = &t[2 * i + 1];
    struct wf_theta *o = &t[i];
    combine(t, i);

    bool left = a->grey_sum + b->sum > a->sum + b->grey_sum;
    o->grey_sum = left ? a->grey_sum + b->sum : a->sum + b->grey_sum;
    o->by_sum = left ? a->by_sum : b->by_sum;

    o->grey_ect = b->grey_ect;
    o->by_ect = b->by_ect;
    if (a->ect + b->grey_sum > o->grey_ect) {
        o->grey_ect = a->ect + b->grey_sum;
        o->by_ect = b->by_sum;
    }
    if (a->grey_ect + b->sum > o->grey_ect) {
        o->grey_ect = a->grey_ect + b->sum;
        o->by_ect = a->by_ect;
    }
}

static void tree_clear(struct wf_windows *w, uint32_t n)
{
    for (w->leaves = 1; w->leaves < n;)
        w->leaves *= 2;
    for (uint32_t i = 0; i < 2 * w->leaves; i++)
        w->tree[i] = empty;
}

static void tree_insert(struct wf_windows *w, uint32_t i)
{
    uint32_t at = w->leaves + w->slot[i];
    w->tree[at].sum = w->p[i];
    w->tree[at].ect = w->e[i] + w->p[i];
    for (at /= 2; at > 0; at /= 2)
        combine(w->tree, at);
}

static void tree_remove(struct wf_windows *w, uint32_t i)
{
    uint32_t at = w->leaves + w->slot[i];
    w->tree[at] = empty;
    for (at /= 2; at > 0; at /= 2)
        combine(w->tree, at);
}

static void tree_set_grey(struct wf_windows *w, uint32_t i, bool grey)
{
    uint32_t at = w->leaves + w->slot[i];
    w->tree[at] = empty;
    if (grey) {
        w->tree[at].grey_sum = w->p[i];
        w->tree[at].grey_ect = w->e[i] + w->p[i];
        w->tree[at].by_sum = w->tree[at].by_ect = i;
    }
    for (at /= 2; at > 0; at /= 2)
        combine_grey(w->tree, at);
}

/* -- one rank ----------------------------------------------------------------------------- */

/* Sorts the actions of a rank by key[i] + plus * p[i].  This value increases along each row,
 * so the rows of the rank are merged. */
static void merge(struct wf_windows *w, uint32_t rank, const int64_t *key, int plus,
                  uint32_t *out)
{
    const struct wf_instance *x = w->x;
    uint32_t rows = wf_instance_n_rows(x, rank), n = 0, at[64], end[64];
    int64_t head[64];
    uint32_t *begin = w->cursor;

    for (uint32_t a = 0; a < rows; a++) {
        begin[a] = n;
        n += x->rows[x->rank_rows[x->rank_first[rank] + a]].n;
    }

    if (rows > 64) { /* too many rows for the local arrays: use insertion sort */
        for (uint32_t i = 0; i < n; i++) {
            uint32_t j = i;
            int64_t k = key[i] + plus * w->p[i];
            for (; j > 0 && key[out[j - 1]] + plus * w->p[out[j - 1]] > k; j--)
                out[j] = out[j - 1];
            out[j] = i;
        }
        return;
    }

    for (uint32_t a = 0; a < rows; a++) {
        at[a] = begin[a];
        end[a] = a + 1 < rows ? begin[a + 1] : n;
        head[a] = at[a] < end[a] ? key[at[a]] + plus * w->p[at[a]] : INT64_MAX;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = 0;
        for (uint32_t a = 1; a < rows; a++)
            if (head[a] < head[best])
                best = a;
        out[i] = at[best]++;
        head[best] = at[best] < end[best] ? key[at[best]] + plus * w->p[at[best]] : INT64_MAX;
    }
}

/* Assigns the actions to the leaves of the tree by est and clears the tree.  Must be called
 * after est has changed. */
static void assign_slots(struct wf_windows *w, uint32_t rank, uint32_t n)
{
    merge(w, rank, w->e, 0, w->by_a);
    for (uint32_t i = 0; i < n; i++)
        w->slot[w->by_a[i]] = i;
    tree_clear(w, n);
}

/* Applies the new earliest starts and keeps each row in order. */
static void apply_starts(struct wf_windows *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (w->now[i] > w->e[i])
            w->e[i] = w->now[i];
        if (i > 0 && w->row[i] == w->row[i - 1] && w->e[i] < w->e[i - 1] + w->p[i - 1])
            w->e[i] = w->e[i - 1] + w->p[i - 1];
    }
}

static void filter_sets(struct wf_windows *w, uint32_t rank, uint32_t n, const uint32_t *needs,
                        bool mirrored)
{
    const struct wf_instance *x = w->x;
    uint32_t rows = wf_instance_n_rows(x, rank), per = x->need_n[rank], first[64], put[64];
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    if (rows > 64)
        return;

    needs += x->need_first[rank];
    for (uint32_t a = 0, at = 0; a < rows; at += x->rows[ids[a++]].n)
        first[a] = at;
    assign_slots(w, rank, n);
    for (uint32_t a = 0; a < rows; a++) {
        uint32_t len = x->rows[ids[a]].n;
        tree_clear(w, n);
        memset(put, 0, sizeof put);
        for (uint32_t k = 0; k < len; k++) {
            for (uint32_t b = 0; b < rows; b++) {
                uint32_t need =
                    needs[((size_t)a * rows + b) * per + (mirrored ? len - 1 - k : k)];
                for (; put[b] < need; put[b]++)
                    tree_insert(w, first[b] + put[b]);
            }
            w->now[first[a] + k] = w->tree[1].ect;
        }
        w->work += n;
    }
    apply_starts(w, n);
}

static void filter_detected(struct wf_windows *w, uint32_t rank, uint32_t n)
{
    uint32_t put = 0;
    assign_slots(w, rank, n);
    merge(w, rank, w->e, 1, w->by_a);
    merge(w, rank, w->l, -1, w->by_b);
    for (uint32_t a = 0; a < n; a++) {
        uint32_t i = w->by_a[a];
        while (put < n && w->e[i] + w->p[i] > w->l[w->by_b[put]] - w->p[w->by_b[put]])
            tree_insert(w, w->by_b[put++]);
        bool inside = w->tree[w->leaves + w->slot[i]].ect != NEVER;
        if (inside)
            tree_remove(w, i);
        w->now[i] = w->tree[1].ect;
        if (inside)
            tree_insert(w, i);
    }
    apply_starts(w, n);
    w->work += n;
}

static bool filter_edge(struct wf_windows *w, uint32_t rank, uint32_t n)
{
    assign_slots(w, rank, n);
    merge(w, rank, w->l, 0, w->by_b);
    for (uint32_t i = 0; i < n; i++) {
        struct wf_theta *leaf = &w->tree[w->leaves + w->slot[i]];
        w->now[i] = w->e[i];
        leaf->sum = leaf->grey_sum = w->p[i];
        leaf->ect = leaf->grey_ect = w->e[i] + w->p[i];
    }
    for (uint32_t i = w->leaves; i-- > 1;)
        combine_grey(w->tree, i);

    for (uint32_t a = n; a-- > 0;) {
        uint32_t j = w->by_b[a];
        if (w->tree[1].ect > w->l[j])
            return false;
        while (w->tree[1].grey_ect > w->l[j] && w->tree[1].by_ect != UINT32_MAX) {
            uint32_t i = w->tree[1].by_ect;
            if (w->tree[1].ect > w->now[i])
                w->now[i] = w->tree[1].ect;
            tree_set_grey(w, i, false);
        }
        tree_set_grey(w, j, true);
    }
    apply_starts(w, n);
    w->work += 2 * (double)n;
    return true;
}

/* Copies the windows of a rank to the scratch arrays, in reversed time if `mirrored`. */
static void load(struct wf_windows *w, uint32_t rank, bool mirrored)
{
    const struct wf_instance *x = w->x;
    uint32_t at = 0;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        const struct wf_row *row = &x->rows[x->rank_rows[i]];
        for (uint32_t k = 0; k < row->n; k++, at++) {
            size_t id = row->first + (mirrored ? row->n - 1 - k : k);
            w->e[at] = mirrored ? -w->lct[id] : w->est[id];
            w->l[at] = mirrored ? -w->est[id] : w->lct[id];
            w->p[at] = row->time;
            w->row[at] = i;
        }
    }
}

/* Copies the new earliest starts back to the windows.  Returns true if a window changed. */
static bool store(struct wf_windows *w, uint32_t rank, bool mirrored)
{
    const struct wf_instance *x = w->x;
    uint32_t at = 0;
    bool changed = false;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        const struct wf_row *row = &x->rows[x->rank_rows[i]];
        for (uint32_t k = 0; k < row->n; k++, at++) {
            size_t id = row->first + (mirrored ? row->n - 1 - k : k);
            int64_t *to = mirrored ? &w->lct[id] : &w->est[id];
            int64_t value = mirrored ? -w->e[at] : w->e[at];
            changed = changed || *to != value;
            *to = value;
        }
    }
    return changed;
}

/* Applies the rules to one rank.  Sets *changed if a window changed.  Returns false if no
 * schedule is within the windows. */
static bool narrow_rank(struct wf_windows *w, uint32_t rank, bool *changed)
{
    const struct wf_instance *x = w->x;
    uint32_t n = x->rank_ops[rank];
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        load(w, rank, mirrored);
        if (w->before != NULL)
            filter_sets(w, rank, n, mirrored ? w->after : w->before, mirrored);
        filter_detected(w, rank, n);
        if (!filter_edge(w, rank, n))
            return false;
        *changed = store(w, rank, mirrored) || *changed;
    }
    return true;
}

bool wf_windows_narrow(struct wf_windows *w, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        bool changed = false;
        if (!wf_windows_precedence(w))
            return false;

        for (uint32_t r = 0; r < w->x->n_ranks; r++) {
            if (!w->dirty[r] || w->x->rank_ops[r] == 0)
                continue;
            if (w->max_work > 0 && w->work > w->max_work)
                return true;

            w->dirty[r] = false;
            bool own = false;
            if (w->use_memory && w->before != NULL && !wf_windows_memory(w, r, &own))
                return false;
            if (!narrow_rank(w, r, &own))
                return false;
            changed = changed || own;
            w->dirty[r] = own; /* the changes of the rank itself may allow more narrowing */
        }
        if (!changed)
            return true;
    }
    return true;
}

/* -- preemptive schedules ----------------------------------------------------------------- */

/* The length of Jackson's preemptive schedule, including tails, is the maximum over all sets
 * of min est + time + min tail.  For the set of all actions with a tail of at least q, this
 * value is ect() plus q.  So actions are inserted from the longest tail to the shortest. */
int64_t wf_windows_preemptive(struct wf_windows *w)
{
    const struct wf_instance *x = w->x;
    int64_t longest = 0;
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        uint32_t n = x->rank_ops[r];
        load(w, r, false);
        assign_slots(w, r, n);
        merge(w, r, w->l, 0, w->by_b);
        for (uint32_t a = 0; a < n; a++) {
            tree_insert(w, w->by_b[a]);
            int64_t t = w->tree[1].ect - w->l[w->by_b[a]];
            longest = t > longest ? t : longest;
        }
    }
    return longest;
}
