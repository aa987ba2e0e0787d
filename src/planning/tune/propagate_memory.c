#include <math.h>

#include "planning/tune/propagate.h"

/* Memory within windows.
 *
 * When an action x that takes memory starts, some of each row's actions of its rank have been
 * started before.  How many at most and at least follows from the windows (an action that cannot
 * end before x must start comes later; one that must start before x can end comes earlier) and
 * from the needs.  With F, I and W of a chain at their counts nF >= nI >= nW, the chain holds
 *
 *     nF * f + nI * i + nW * w
 *
 * at least, which is least at one of few values of nI: with as many W as can be, and as few F as
 * must be.  If the sum over all chains and what x takes is over the limit, nothing fits.  If it is
 * under the limit by some slack, a chain may hold more than its least by no more than that: so
 * many of its I, and so many of its W, must come before x.
 */

struct counts {
    uint32_t least_f, least_i, most_i, most_w, least_w;
    double f, i, w; /* memory */
    bool split;
};

/* What the chain holds with a of its I done, and at most b of its W. */
static double memory_held(const struct counts *c, uint32_t a, uint32_t b)
{
    double forwards = a > c->least_f ? a : c->least_f, weights = a < b ? a : b;
    if (weights < c->least_w)
        weights = c->least_w;
    return forwards * c->f + a * c->i + (c->split ? weights * c->w : 0);
}

/* The least of that over all a, for at most b of its W.  It is linear between these values. */
static double min_memory_held(const struct counts *c, uint32_t b)
{
    const uint32_t corners[] = {c->least_i, c->most_i, c->least_f, b, c->least_w};
    double best = HUGE_VAL;
    for (int i = 0; i < 5; i++) {
        uint32_t a = corners[i] < c->least_i  ? c->least_i
                     : corners[i] > c->most_i ? c->most_i
                                              : corners[i];
        best = fmin(best, memory_held(c, a, b));
    }
    return best;
}

/* Where one row stands in the windows as seen from x's k-th: moves on with k. */
struct cursor {
    uint32_t can, must; /* actions that can come before, that must */
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

/* Counts of a chain, whose rows are the rank's `first` and the next ones, before x's k-th. */
static struct counts count(const struct wf_windows *w, uint32_t rank, uint32_t x,
                           uint32_t first, uint32_t k, const struct cursor *at)
{
    const struct wf_instance *in = w->x;
    const uint32_t *ids = in->rank_rows + in->rank_first[rank];
    uint32_t least[3] = {0}, most[3] = {0};
    struct counts c = {.split = in->n_passes == 3};
    for (uint32_t p = 0; p < in->n_passes; p++) {
        uint32_t y = first + p, n = in->rows[ids[y]].n;
        least[p] = larger(at[y].must, w->before[wf_instance_need(in, rank, x, y) + k]);
        most[p] = smaller(at[y].can, n - w->after[wf_instance_need(in, rank, x, y) + k]);
        if (y == x)
            least[p] = most[p] = k;
        most[p] = larger(most[p], least[p]);
    }
    c.least_f = least[0];
    c.least_i = least[1];
    c.most_i = most[1];
    c.least_w = least[2];
    c.most_w = most[2];
    c.f = in->rows[ids[first]].delta;
    c.i = in->rows[ids[first + 1]].delta;
    c.w = c.split ? in->rows[ids[first + 2]].delta : 0;
    return c;
}

/* What x's k-th implies for one chain, given the slack: raises its needs. */
static bool raise_needs(struct wf_windows *w, uint32_t rank, uint32_t x, uint32_t first,
                        uint32_t k, const struct counts *c, double most)
{
    uint32_t *need_i = w->before + wf_instance_need(w->x, rank, x, first + 1) + k;
    uint32_t a = c->least_i;
    bool changed = false;
    while (a < c->most_i && memory_held(c, a, c->most_w) > most)
        a++;
    if (a > *need_i && x != first + 1) {
        *need_i = a;
        changed = true;
    }
    if (c->split && x != first + 2) {
        uint32_t *need_w = w->before + wf_instance_need(w->x, rank, x, first + 2) + k;
        uint32_t b = c->least_w;
        while (b < c->most_w && min_memory_held(c, b) > most)
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
            sum += min_memory_held(&counts[c], counts[c].most_w);
        }
        if (sum > limit)
            return false;
        for (uint32_t c = 0; c < rows; c += passes) {
            double most = min_memory_held(&counts[c], counts[c].most_w) + limit - sum;
            *changed = raise_needs(w, rank, x, c, k, &counts[c], most) || *changed;
        }
    }
    w->work += (double)row->n * rows / 4;
    return true;
}

/* Needs as windows: an action starts after those that it needs, which end before it. */
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

/* Rows in order again.  False: a window is too short. */
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
