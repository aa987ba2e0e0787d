/* The memory rule of propagation.
 *
 * When an action x that needs memory starts, some actions of each row of its rank precede x.
 * The minimum and the maximum number of these actions follow from the needs and from the
 * windows: an action that cannot end before x must start comes later than x, and an action
 * that must start before x can end comes earlier than x.  With the numbers nF >= nI >= nW of
 * completed F, I and W, a chain occupies
 *
 *     nF * f + nI * i + nW * w
 *
 * This memory is minimal for one of a few values of nI, with the maximum nW and the minimum nF.
 * If the sum over all chains plus the memory of x exceeds the limit, there is no schedule.
 * Otherwise each chain may exceed its minimum by at most the remaining slack, so a minimum
 * number of its I and W must precede x.
 */
#include <math.h>

#include "planning/tune/propagate.h"

/* The numbers of actions of one chain that precede x. */
struct counts {
    uint32_t min_f, min_i, max_i, max_w, min_w;
    double f, i, w; /* memory change per F, I and W */
    bool split;
};

/* Returns the memory of a chain if a of its I and at most b of its W are done. */
static double chain_memory(const struct counts *c, uint32_t a, uint32_t b)
{
    double forwards = a > c->min_f ? a : c->min_f, weights = a < b ? a : b;
    if (weights < c->min_w)
        weights = c->min_w;
    return forwards * c->f + a * c->i + (c->split ? weights * c->w : 0);
}

/* Returns the minimum memory of a chain over all possible a, if at most b of its W are done.
 * The memory is linear in a between the corners, so only the corners are computed. */
static double min_chain_memory(const struct counts *c, uint32_t b)
{
    const uint32_t corners[] = {c->min_i, c->max_i, c->min_f, b, c->min_w};
    double best = HUGE_VAL;
    for (int i = 0; i < 5; i++) {
        uint32_t a = corners[i] < c->min_i   ? c->min_i
                     : corners[i] > c->max_i ? c->max_i
                                             : corners[i];
        best = fmin(best, chain_memory(c, a, b));
    }
    return best;
}

/* Progress in one row.  It contains the number of actions of the row that can precede the
 * k-th action of x, and the number that must precede it.  Both numbers increase with k. */
struct cursor {
    uint32_t can, must;
};

static void advance(const struct wf_windows *w, const struct wf_row *row, int64_t start,
                    int64_t end, struct cursor *at)
{
    while (at->can < row->n && w->est[row->first + at->can] + row->time <= start)
        at->can++;
    while (at->must < row->n && w->lct[row->first + at->must] - row->time < end)
        at->must++;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

enum { MAX_ROWS = 64 };

/* Returns the counts of a chain before the k-th action of row x.  The rows of the chain
 * start at the rank's row `first`. */
static struct counts count(const struct wf_windows *w, uint32_t rank, uint32_t x,
                           uint32_t first, uint32_t k, const struct cursor *at)
{
    const struct wf_instance *in = w->x;
    const uint32_t *ids = in->rank_rows + in->rank_first[rank];
    uint32_t min[3] = {0}, max[3] = {0};
    struct counts c = {.split = in->n_passes == 3};

    for (uint32_t p = 0; p < in->n_passes; p++) {
        uint32_t y = first + p, n = in->rows[ids[y]].n;
        min[p] = larger(at[y].must, w->before[wf_instance_need(in, rank, x, y) + k]);
        max[p] = smaller(at[y].can, n - w->after[wf_instance_need(in, rank, x, y) + k]);
        if (y == x)
            min[p] = max[p] = k;
        max[p] = larger(max[p], min[p]);
    }

    c.min_f = min[0];
    c.min_i = min[1];
    c.max_i = max[1];
    c.min_w = min[2];
    c.max_w = max[2];
    c.f = in->rows[ids[first]].delta;
    c.i = in->rows[ids[first + 1]].delta;
    c.w = c.split ? in->rows[ids[first + 2]].delta : 0;
    return c;
}

/* Raises the needs of the k-th action of row x, given the maximum memory of one chain.
 * Returns true if a need changed. */
static bool raise_needs(struct wf_windows *w, uint32_t rank, uint32_t x, uint32_t first,
                        uint32_t k, const struct counts *c, double max_memory)
{
    uint32_t *need_i = w->before + wf_instance_need(w->x, rank, x, first + 1) + k;
    uint32_t a = c->min_i;
    bool changed = false;

    while (a < c->max_i && chain_memory(c, a, c->max_w) > max_memory)
        a++;
    if (a > *need_i && x != first + 1) {
        *need_i = a;
        changed = true;
    }

    if (c->split && x != first + 2) {
        uint32_t *need_w = w->before + wf_instance_need(w->x, rank, x, first + 2) + k;
        uint32_t b = c->min_w;
        while (b < c->max_w && min_chain_memory(c, b) > max_memory)
            b++;
        if (b > *need_w) {
            *need_w = b;
            changed = true;
        }
    }
    return changed;
}

static bool check_row_memory(struct wf_windows *w, uint32_t rank, uint32_t x, bool *changed)
{
    const struct wf_instance *in = w->x;
    uint32_t rows = wf_instance_n_rows(in, rank), passes = in->n_passes;
    const uint32_t *ids = in->rank_rows + in->rank_first[rank];
    const struct wf_row *row = &in->rows[ids[x]];
    struct cursor at[MAX_ROWS] = {{0}};
    struct counts counts[MAX_ROWS];
    double limit = in->limit[rank];
    limit += 1e-9 * fmax(1, limit);

    for (uint32_t k = 0; k < row->n; k++) {
        size_t id = row->first + k;
        double sum = row->delta;
        for (uint32_t y = 0; y < rows; y++)
            advance(w, &in->rows[ids[y]], w->lct[id] - row->time, w->est[id] + row->time,
                    &at[y]);
        for (uint32_t c = 0; c < rows; c += passes) {
            counts[c] = count(w, rank, x, c, k, at);
            sum += min_chain_memory(&counts[c], counts[c].max_w);
        }
        if (sum > limit)
            return false;

        for (uint32_t c = 0; c < rows; c += passes) {
            double max_memory = min_chain_memory(&counts[c], counts[c].max_w) + limit - sum;
            *changed = raise_needs(w, rank, x, c, k, &counts[c], max_memory) || *changed;
        }
    }
    w->work += (double)row->n * rows / 4;
    return true;
}

/* Narrows windows by the needs.  An action starts after all actions that it needs have
 * ended. */
static void apply_needs(struct wf_windows *w, uint32_t rank, uint32_t x)
{
    const struct wf_instance *in = w->x;
    uint32_t rows = wf_instance_n_rows(in, rank);
    const uint32_t *ids = in->rank_rows + in->rank_first[rank];
    const struct wf_row *row = &in->rows[ids[x]];
    for (uint32_t y = 0; y < rows; y++) {
        const uint32_t *need = w->before + wf_instance_need(in, rank, x, y);
        const struct wf_row *other = &in->rows[ids[y]];
        for (uint32_t k = 0; k < row->n && y != x; k++) {
            if (need[k] == 0)
                continue;
            size_t id = row->first + k, by = other->first + need[k] - 1;
            if (w->est[id] < w->est[by] + other->time)
                w->est[id] = w->est[by] + other->time;
            if (w->lct[by] > w->lct[id] - row->time)
                w->lct[by] = w->lct[id] - row->time;
        }
    }
}

/* Restores the order of the windows within a row.  Returns false if a window is too short. */
static bool restore_row_order(struct wf_windows *w, const struct wf_row *row)
{
    for (size_t id = row->first + 1; id < row->first + row->n; id++)
        if (w->est[id] < w->est[id - 1] + row->time)
            w->est[id] = w->est[id - 1] + row->time;
    for (size_t id = row->first + row->n; id-- > row->first;) {
        if (id + 1 < row->first + row->n && w->lct[id] > w->lct[id + 1] - row->time)
            w->lct[id] = w->lct[id + 1] - row->time;
        if (w->est[id] + row->time > w->lct[id])
            return false;
    }
    return true;
}

bool wf_windows_memory(struct wf_windows *w, uint32_t rank, bool *changed)
{
    const struct wf_instance *in = w->x;
    uint32_t rows = wf_instance_n_rows(in, rank);
    bool raised = false;
    if (rows > MAX_ROWS || in->limit[rank] > 1e300)
        return true;
    for (uint32_t x = 0; x < rows; x++)
        if (in->rows[in->rank_rows[in->rank_first[rank] + x]].delta > 0 &&
            !check_row_memory(w, rank, x, &raised))
            return false;
    if (!raised)
        return true;

    wf_instance_close(in, rank, w->before, w->after);
    for (uint32_t x = 0; x < rows; x++)
        apply_needs(w, rank, x);
    w->work += (double)rows * rows * rows * in->need_n[rank] / 8;
    *changed = true;

    for (uint32_t x = 0; x < rows; x++)
        if (!restore_row_order(w, &in->rows[in->rank_rows[in->rank_first[rank] + x]]))
            return false;
    return true;
}
