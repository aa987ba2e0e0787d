/* Branch and bound over semi-active schedules, for a makespan of at most `limit`.
 *
 * A node is a prefix of every rank's list, with times.  An action is ready if all its
 * dependencies are in the prefixes and the memory suffices for it.  The search continues with
 * the rank whose ready action can start first.  The next action of this rank's list is
 *
 *   - a ready action, which then starts as early as possible; or
 *   - an action that is not ready yet, because another rank has not sent its input.  In this
 *     case the ready actions are barred until the rank gets its next action.
 *
 * Only one ready action needs to be tried if it ends before any other action of the rank could
 * start and it needs no memory.  Every schedule could then be changed to run this action first.
 *
 * Windows (propagate.h) prune nodes in which an action cannot end in time.  A node is also
 * pruned if another node with the same counts has failed and none of its times was later.
 */
#include "planning/tune/exact.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "planning/tune/propagate.h"

struct failed {
    struct failed *next;
    uint64_t hash;
    uint32_t n_values;
    int64_t values[]; /* (n_values) */
};

enum { BUCKETS = 1 << 14, MAX_BYTES = 48 << 20, NARROW_ROUNDS = 4, MAX_VALUES = 2048 };

struct search {
    const struct wf_instance *x;
    struct wf_windows w;
    int64_t limit;
    uint64_t nodes, max_nodes;
    bool gave_up;
    uint32_t *count; /* owned: (rows), number of the row's actions in the prefixes */
    bool *barred;    /* owned: (rows), true if the row's next action is barred */
    double *mem;     /* owned: (ranks), memory in use */
    int64_t *free;   /* owned: (ranks), time at which the rank becomes free */
    int64_t *end;    /* owned: (n_ops), end of each action in the prefixes */
    /* owned: (n_ops), (ranks): the lists of all ranks, and their lengths */
    uint32_t *order, *len;
    size_t *base; /* owned: (ranks), index of each rank's list in `order` */
    /* owned: (depth, 2, n_ops), windows of the nodes on the path to this node */
    int64_t *saved;
    int64_t *values;       /* owned: (MAX_VALUES), scratch: the encoding of a node */
    struct failed **table; /* owned: (BUCKETS) */
    size_t bytes;
};

static void search_release(struct search *s)
{
    for (size_t i = 0; s->table != NULL && i < BUCKETS; i++)
        while (s->table[i] != NULL) {
            struct failed *next = s->table[i]->next;
            free(s->table[i]);
            s->table[i] = next;
        }

    free(s->table);
    free(s->count);
    free(s->barred);
    free(s->mem);
    free(s->free);
    free(s->end);
    free(s->order);
    free(s->len);
    free(s->base);
    free(s->saved);
    free(s->values);
    wf_windows_release(&s->w);
}

static enum weft_status search_init(struct search *s, const struct wf_instance *x,
                                    struct weft_error *err)
{
    *s = (struct search){.x = x};
    WEFT_TRY(wf_windows_init(&s->w, x, err));

    /* Before an action is appended, the search waits at most as many times as the rank has
     * rows. */
    size_t rows = 0;
    for (uint32_t r = 0; r < x->n_ranks; r++)
        rows = wf_instance_n_rows(x, r) > rows ? wf_instance_n_rows(x, r) : rows;
    assert(rows <= WF_EXACT_MAX_ROWS);
    size_t depth = x->n_ops * rows + 2;
    s->count = calloc(x->n_rows, sizeof *s->count);
    s->barred = calloc(x->n_rows, sizeof *s->barred);
    s->mem = calloc(x->n_ranks, sizeof *s->mem);
    s->free = calloc(x->n_ranks, sizeof *s->free);
    s->end = calloc(x->n_ops, sizeof *s->end);
    s->order = calloc(x->n_ops, sizeof *s->order);
    s->len = calloc(x->n_ranks, sizeof *s->len);
    s->base = calloc(x->n_ranks, sizeof *s->base);
    s->saved = malloc(sizeof *s->saved * depth * 2 * x->n_ops);
    s->values = malloc(sizeof *s->values * MAX_VALUES);
    s->table = calloc(BUCKETS, sizeof *s->table);
    if (s->count == NULL || s->barred == NULL || s->mem == NULL || s->free == NULL ||
        s->end == NULL || s->order == NULL || s->len == NULL || s->base == NULL ||
        s->saved == NULL || s->values == NULL || s->table == NULL) {
        search_release(s);
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory for the exact search");
    }

    for (uint32_t r = 1; r < x->n_ranks; r++)
        s->base[r] = s->base[r - 1] + x->rank_ops[r - 1];
    return WEFT_OK;
}

/* -- failed nodes ------------------------------------------------------------------------- */

/* Encodes in s->values the state that the rest of a schedule depends on: first counts and
 * bars, which are the key, then times.  Returns the number of values. */
static uint32_t encode_node(const struct search *s, uint64_t *hash)
{
    const struct wf_instance *x = s->x;
    uint32_t n = 0;
    *hash = 0;
    for (uint32_t i = 0; i < x->n_rows; i++) {
        s->values[n] = (int64_t)s->count[i] * 2 + s->barred[i];
        *hash = wf_random_mix(*hash + (uint64_t)s->values[n++] + UINT64_C(0x9e3779b97f4a7c15));
    }

    for (uint32_t r = 0; r < x->n_ranks; r++)
        s->values[n++] = s->free[r];
    for (uint32_t i = 0; i < x->n_rows; i++) {
        const struct wf_row *row = &x->rows[i];
        if (row->to == WF_NO_ROW || x->rows[row->to].rank == row->rank)
            continue;
        for (uint32_t k = s->count[row->to]; k < s->count[i] && n < MAX_VALUES; k++)
            s->values[n++] = s->end[row->first + k];
    }
    return n;
}

/* Returns true if a node failed that has the same key and whose times are all at most as
 * late. */
static bool has_failed(const struct search *s, uint32_t n, uint64_t hash)
{
    uint32_t key = s->x->n_rows;
    for (const struct failed *f = s->table[hash % BUCKETS]; f != NULL; f = f->next) {
        if (f->hash != hash || f->n_values != n ||
            memcmp(f->values, s->values, sizeof *f->values * key) != 0)
            continue;
        uint32_t i = key;
        while (i < n && f->values[i] <= s->values[i])
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static void store_failed(struct search *s)
{
    uint64_t hash;
    uint32_t n = encode_node(s, &hash);
    size_t bytes = sizeof(struct failed) + sizeof(int64_t) * n;
    struct failed *f = s->bytes + bytes > MAX_BYTES || n >= MAX_VALUES ? NULL : malloc(bytes);
    if (f == NULL)
        return;
    *f = (struct failed){s->table[hash % BUCKETS], hash, n};
    memcpy(f->values, s->values, sizeof *f->values * n);
    s->table[hash % BUCKETS] = f;
    s->bytes += bytes;
}

/* -- branching ---------------------------------------------------------------------------- */

enum row_state {
    ROW_DONE,    /* the row has no action left, or its next action needs one of the same rank */
    ROW_WAITING, /* the next action waits for a message */
    ROW_READY,
};

/* Returns whether a row's next action could be the next action of the rank.  If this action
 * is ready, stores its earliest start in *at. */
static enum row_state inspect_row(const struct search *s, uint32_t id, int64_t *at)
{
    const struct wf_instance *x = s->x;
    const struct wf_row *row = &x->rows[id];
    uint32_t k = s->count[id];
    if (k == row->n || (row->pass > 0 && s->count[id - 1] <= k))
        return ROW_DONE;

    double limit = x->limit[row->rank], mem = s->mem[row->rank] + row->delta;
    if (row->delta > 0 && mem > limit + 1e-9 * (limit > 1 ? limit : 1))
        return ROW_DONE;

    *at = s->free[row->rank];
    if (row->from == WF_NO_ROW)
        return ROW_READY;
    const struct wf_row *from = &x->rows[row->from];
    if (s->count[row->from] <= k)
        return from->rank == row->rank ? ROW_DONE : ROW_WAITING;
    int64_t arrival = s->end[from->first + k] + row->hop;
    *at = arrival > *at ? arrival : *at;
    return ROW_READY;
}

/* Returns the rank whose ready action can start first, or UINT32_MAX if no action is ready. */
static uint32_t choose_rank(const struct search *s)
{
    uint32_t best = UINT32_MAX;
    int64_t first = 0, at = 0;
    for (uint32_t i = 0; i < s->x->n_rows; i++) {
        if (s->barred[i] || inspect_row(s, i, &at) != ROW_READY)
            continue;
        int64_t est = s->w.est[s->x->rows[i].first + s->count[i]];
        at = est > at ? est : at;
        if (best == UINT32_MAX || at < first) {
            best = s->x->rows[i].rank;
            first = at;
        }
    }
    return best;
}

static bool descend(struct search *s, size_t depth);

static void save(struct search *s, size_t depth)
{
    size_t n = s->x->n_ops;
    memcpy(s->saved + depth * 2 * n, s->w.est, sizeof *s->saved * n);
    memcpy(s->saved + (depth * 2 + 1) * n, s->w.lct, sizeof *s->saved * n);
}

static void restore(struct search *s, size_t depth)
{
    size_t n = s->x->n_ops;
    memcpy(s->w.est, s->saved + depth * 2 * n, sizeof *s->saved * n);
    memcpy(s->w.lct, s->saved + (depth * 2 + 1) * n, sizeof *s->saved * n);
    memset(s->w.dirty, false, sizeof *s->w.dirty * s->x->n_ranks);
}

/* Delays the next action of each row of a rank to time t, except for the row `except`.  If
 * `barred_only` is true, delays barred rows only. */
static void delay(struct search *s, uint32_t rank, uint32_t except, bool barred_only, int64_t t)
{
    const struct wf_instance *x = s->x;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        uint32_t id = x->rank_rows[i];
        size_t op = x->rows[id].first + s->count[id];
        if (id != except && s->count[id] < x->rows[id].n && (!barred_only || s->barred[id]) &&
            s->w.est[op] < t)
            s->w.est[op] = t;
    }
    s->w.dirty[rank] = true;
}

/* Appends a row's next action to its rank's list and continues the search.  Returns true if
 * the search finds a schedule. */
static bool branch_action(struct search *s, uint32_t id, int64_t at, size_t depth)
{
    const struct wf_instance *x = s->x;
    const struct wf_row *row = &x->rows[id];
    uint32_t rank = row->rank, rows = wf_instance_n_rows(x, rank);
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    size_t op = row->first + s->count[id];
    int64_t was_free = s->free[rank];
    double was_mem = s->mem[rank];
    bool barred[WF_EXACT_MAX_ROWS] = {false};
    if (s->w.est[op] > at || at + row->time > s->w.lct[op])
        return false;

    for (uint32_t i = 0; i < rows; i++) {
        barred[i] = s->barred[ids[i]];
        s->barred[ids[i]] = false;
    }

    s->w.est[op] = at;
    s->w.lct[op] = at + row->time;
    delay(s, rank, id, false, at + row->time);
    s->end[op] = s->free[rank] = at + row->time;
    s->mem[rank] += row->delta;
    s->order[s->base[rank] + s->len[rank]++] = (uint32_t)op;
    s->count[id]++;
    if (descend(s, depth + 1))
        return true;

    s->count[id]--;
    s->len[rank]--;
    s->mem[rank] = was_mem;
    s->free[rank] = was_free;
    for (uint32_t i = 0; i < rows; i++)
        s->barred[ids[i]] = barred[i];
    return false;
}

/* Bars the ready actions of a rank, so that the rank waits for an action that is not ready,
 * and continues the search. */
static bool branch_wait(struct search *s, uint32_t rank, size_t depth)
{
    const struct wf_instance *x = s->x;
    uint32_t rows = wf_instance_n_rows(x, rank);
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    int64_t soonest = INT64_MAX, at = 0;
    bool barred[WF_EXACT_MAX_ROWS] = {false};

    for (uint32_t i = 0; i < rows; i++) {
        const struct wf_row *row = &x->rows[ids[i]];
        if (inspect_row(s, ids[i], &at) != ROW_WAITING)
            continue;
        int64_t end = s->w.est[row->first + s->count[ids[i]]] + row->time;
        soonest = end < soonest ? end : soonest;
    }
    if (soonest == INT64_MAX)
        return false;

    for (uint32_t i = 0; i < rows; i++) {
        barred[i] = s->barred[ids[i]];
        if (inspect_row(s, ids[i], &at) == ROW_READY)
            s->barred[ids[i]] = true;
    }
    delay(s, rank, UINT32_MAX, true, soonest);
    if (descend(s, depth + 1))
        return true;

    for (uint32_t i = 0; i < rows; i++)
        s->barred[ids[i]] = barred[i];
    return false;
}

/* Returns a ready row whose next action can run first without making any schedule worse, or
 * UINT32_MAX if there is no such row. */
static uint32_t find_dominant(const struct search *s, uint32_t rank)
{
    const struct wf_instance *x = s->x;
    const uint32_t *ids = x->rank_rows + x->rank_first[rank];
    uint32_t rows = wf_instance_n_rows(x, rank);
    for (uint32_t i = 0; i < rows; i++) {
        const struct wf_row *row = &x->rows[ids[i]];
        int64_t at = 0;
        bool harmless = row->delta <= 0 || x->limit[rank] > 1e300;
        if (s->barred[ids[i]] || inspect_row(s, ids[i], &at) != ROW_READY || !harmless)
            continue;

        bool first = true;
        for (uint32_t j = 0; j < rows && first; j++) {
            const struct wf_row *other = &x->rows[ids[j]];
            uint32_t k = s->count[ids[j]];
            if (j != i && k < other->n)
                first = at + row->time <= s->w.est[other->first + k];
        }
        if (first)
            return ids[i];
    }
    return UINT32_MAX;
}

static bool branch(struct search *s, uint32_t rank, size_t depth)
{
    static const uint32_t passes[] = {WF_ROW_I, WF_ROW_F, WF_ROW_W};
    const struct wf_instance *x = s->x;
    uint32_t only = find_dominant(s, rank);
    save(s, depth);
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t i = x->rank_first[rank + 1]; i-- > x->rank_first[rank];) {
            uint32_t id = x->rank_rows[i];
            int64_t at = 0;
            if (x->rows[id].pass != passes[p] || s->barred[id] ||
                inspect_row(s, id, &at) != ROW_READY || (only != UINT32_MAX && id != only))
                continue;
            if (branch_action(s, id, at, depth))
                return true;
            restore(s, depth);
            if (s->gave_up)
                return false;
        }

    if (only == UINT32_MAX && branch_wait(s, rank, depth))
        return true;
    restore(s, depth);
    return false;
}

/* Searches below a node.  Returns true if a schedule ends in time; s->order then contains
 * it. */
static bool descend(struct search *s, size_t depth)
{
    uint64_t hash;
    if (++s->nodes > s->max_nodes) {
        s->gave_up = true;
        return false;
    }
    if (!wf_windows_narrow(&s->w, NARROW_ROUNDS))
        return false;

    uint32_t rank = choose_rank(s);
    if (rank == UINT32_MAX) {
        for (uint32_t i = 0; i < s->x->n_rows; i++)
            if (s->count[i] < s->x->rows[i].n)
                return false;
        return true;
    }

    uint32_t n = encode_node(s, &hash);
    if (has_failed(s, n, hash))
        return false;
    bool found = branch(s, rank, depth);
    if (!found && !s->gave_up)
        store_failed(s);
    return found;
}

enum weft_status wf_exact_search(const struct wf_instance *x, uint64_t nodes,
                                 struct wf_exact *out, struct weft_error *err)
{
    struct search s;
    WEFT_TRY(search_init(&s, x, err));
    out->found = out->proven = false;
    s.max_nodes = nodes;

    for (;;) { /* after each schedule found, search for a shorter one */
        s.limit = out->makespan - 1;
        for (size_t i = 0; i < x->n_ops; i++) {
            s.w.est[i] = 0;
            s.w.lct[i] = s.limit;
        }
        wf_windows_invalidate(&s.w);
        if (!descend(&s, 0)) {
            out->proven = !s.gave_up;
            break;
        }

        out->makespan = 0;
        for (uint32_t r = 0; r < x->n_ranks; r++)
            out->makespan = s.free[r] > out->makespan ? s.free[r] : out->makespan;
        out->found = true;
        memcpy(out->order, s.order, sizeof *s.order * x->n_ops);

        memset(s.count, 0, sizeof *s.count * x->n_rows);
        memset(s.barred, 0, sizeof *s.barred * x->n_rows);
        memset(s.mem, 0, sizeof *s.mem * x->n_ranks);
        memset(s.free, 0, sizeof *s.free * x->n_ranks);
        memset(s.len, 0, sizeof *s.len * x->n_ranks);
    }

    out->nodes = s.nodes;
    search_release(&s);
    return WEFT_OK;
}
