/* Tabu search around the best order, as for job shops.
 *
 * The length of a plan is the length of its critical path, which is a chain of actions without
 * a gap.  The path follows the list of one rank for some actions (a segment), then a message to
 * another rank, then the next segment, and so on.
 *
 *     rank 0   F F F . . . . . [I W I W I W W]     last segment: it ends the plan
 *     rank 1     F F F . [I F I]'                  ends with the I that rank 0 waits for
 *
 * Only a change of the order inside a segment can shorten the path.  There are two kinds of
 * useful moves: moving an action to the front of its segment (before the action that waited for
 * the message), and moving an action to the end of its segment (after the action that sends the
 * next message).  Every step applies the move with the best estimate, even if it makes the plan
 * longer.  For some steps the moved action must not be moved again, so that the search can
 * leave local optima.
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "planning/sched/gen/search.h"

/* MAX_STALLED: steps without improvement after which a walk restarts from the best order.
 * MAX_RESTARTS: restarts without improvement after which the walk ends.  TENURE_MIN,
 * TENURE_MAX: range of the number of steps for which a moved action is tabu.  With a long
 * tenure the walk moves far away; with a short tenure it explores the neighbourhood. */
enum { MAX_STALLED = 300, MAX_RESTARTS = 20, TENURE_MIN = 3, TENURE_MAX = 100 };

struct move {
    /* the action at position `from` of the rank's list moves to position `to` */
    uint32_t rank, from, to;
    double estimate;
};

struct tabu {
    struct wf_search *s;
    uint32_t *order;       /* owned: (ranks, per_rank), the current order */
    uint32_t *best_order;  /* owned: (ranks, per_rank), the best order of this walk */
    struct wf_score score; /* score of best_order */
    uint32_t *pos;         /* owned: (n_ops), position of each action in the list of its rank */
    double *mem;           /* owned: (ranks, per_rank), memory after each action */
    double *peak;          /* owned: (ranks), peak memory of each rank */
    /* owned: (n_ops), minimum time from the end of each action to the end of the plan */
    double *tail;
    double *rank_tail;    /* owned: (ranks), scratch memory of measure_tails() */
    double *ends;         /* owned: (per_rank), scratch memory of estimate() */
    uint32_t *tabu_until; /* owned: (n_ops), step until which each action must not be moved */
    uint32_t step;
    /* number of random numbers drawn so far; random numbers break ties reproducibly */
    uint64_t n_drawn;
    double work; /* number of action visits so far */
    struct move best;
    /* number of moves in this step with the same estimate as `best`; 0: no move yet */
    uint32_t n_ties;
};

static void tabu_release(struct tabu *t)
{
    free(t->order);
    free(t->best_order);
    free(t->pos);
    free(t->mem);
    free(t->peak);
    free(t->tail);
    free(t->tabu_until);
    free(t->ends);
    free(t->rank_tail);
}

static bool tabu_init(struct tabu *t, struct wf_search *s)
{
    *t = (struct tabu){.s = s};
    t->order = malloc(sizeof *t->order * s->n_ops);
    t->best_order = malloc(sizeof *t->best_order * s->n_ops);
    t->pos = malloc(sizeof *t->pos * s->n_ops);
    t->mem = malloc(sizeof *t->mem * s->n_ops);
    t->peak = malloc(sizeof *t->peak * s->n_ranks);
    t->tail = malloc(sizeof *t->tail * s->n_ops);
    t->tabu_until = calloc(s->n_ops, sizeof *t->tabu_until);
    t->rank_tail = malloc(sizeof *t->rank_tail * s->n_ranks);
    t->ends = malloc(sizeof *t->ends * s->per_rank);
    return t->order != NULL && t->best_order != NULL && t->pos != NULL && t->mem != NULL &&
           t->peak != NULL && t->tail != NULL && t->tabu_until != NULL && t->ends != NULL &&
           t->rank_tail != NULL;
}

/* Updates positions, memory and peak after the list of a rank has changed. */
static void update_rank(struct tabu *t, uint32_t rank)
{
    const struct wf_search *s = t->s;
    size_t base = rank * s->per_rank;
    double mem = 0, peak = 0;
    for (uint32_t i = 0; i < s->per_rank; i++) {
        uint32_t id = t->order[base + i];
        t->pos[id] = i;
        mem += s->ops[id].delta;
        t->mem[base + i] = mem;
        peak = mem > peak ? mem : peak;
    }
    t->peak[rank] = peak;
}

static void restore_best(struct tabu *t)
{
    struct wf_search *s = t->s;
    memcpy(t->order, t->best_order, sizeof *t->order * s->n_ops);
    for (uint32_t r = 0; r < s->n_ranks; r++)
        update_rank(t, r);
    memset(t->tabu_until, 0, sizeof *t->tabu_until * s->n_ops);
    wf_search_time(s, t->order);
}

/* Returns the time at which the measured length of a rank's plan starts: the start of its first
 * action if the span is minimized, or else 0. */
static double rank_offset(const struct wf_search *s, uint32_t rank)
{
    return s->minimize == WEFT_MINIMIZE_SPAN ? s->rank_start[rank] : 0;
}

/* Computes the tails of all actions, from the end of the plan to its start.  The actions of a
 * rank are visited from last to first, so rank_tail always belongs to the action that follows
 * the visited action on its rank. */
static void measure_tails(struct tabu *t)
{
    const struct wf_search *s = t->s;
    for (uint32_t r = 0; r < s->n_ranks; r++)
        t->rank_tail[r] = -rank_offset(s, r);
    for (size_t i = s->n_ops; i-- > 0;) {
        uint32_t id = s->topo[i];
        const struct wf_op *op = &s->ops[id];
        double tail = t->rank_tail[op->rank];
        if (op->to != WF_OP_NONE) {
            const struct wf_op *to = &s->ops[op->to];
            tail = wf_double_max(tail, to->hop + to->time + t->tail[op->to]);
        }
        t->tail[id] = tail;
        t->rank_tail[op->rank] = tail + op->time;
    }
    t->work += (double)s->n_ops;
}

/* Returns the current position of the action that the move would place at position k.  k must
 * be between the two positions of the move (inclusive). */
static uint32_t moved(const struct move *m, uint32_t k)
{
    if (k == m->to)
        return m->from;
    return m->from < m->to ? k + 1 : k - 1;
}

/* Estimates the length of the longest chain through the moved range, assuming that the times of
 * all other actions do not change. */
static double estimate(struct tabu *t, const struct move *m)
{
    const struct wf_search *s = t->s;
    const uint32_t *row = t->order + m->rank * s->per_rank;
    uint32_t lo = m->from < m->to ? m->from : m->to, hi = m->from < m->to ? m->to : m->from;

    double now = lo > 0 ? s->end[row[lo - 1]] : 0;
    for (uint32_t k = lo; k <= hi; k++) {
        uint32_t id = row[moved(m, k)];
        const struct wf_op *op = &s->ops[id];
        double arrival = op->from == WF_OP_NONE ? 0 : s->end[op->from] + op->hop;
        now = (arrival > now ? arrival : now) + op->time;
        t->ends[k] = now;
    }

    double tail = -rank_offset(s, m->rank), worst = 0;
    if (hi + 1 < s->per_rank)
        tail = s->ops[row[hi + 1]].time + t->tail[row[hi + 1]];
    for (uint32_t k = hi + 1; k-- > lo;) {
        const struct wf_op *op = &s->ops[row[moved(m, k)]];
        if (op->to != WF_OP_NONE) {
            const struct wf_op *to = &s->ops[op->to];
            double remote = to->hop + to->time + t->tail[op->to];
            tail = remote > tail ? remote : tail;
        }
        worst = t->ends[k] + tail > worst ? t->ends[k] + tail : worst;
        tail += op->time;
    }
    t->work += hi - lo + 1;
    return worst;
}

/* Compares a move with the best move of this step so far, and keeps the better move. */
static void consider(struct tabu *t, struct move m)
{
    struct wf_search *s = t->s;
    m.estimate = estimate(t, &m);
    uint32_t id = t->order[m.rank * s->per_rank + m.from];
    if (t->tabu_until[id] > t->step && m.estimate >= t->score.first)
        return;

    if (t->n_ties > 0 && m.estimate > t->best.estimate)
        return;
    if (t->n_ties > 0 && m.estimate == t->best.estimate) {
        t->n_ties++;
        if (wf_random_below(1 + s->setup.seed, 0, t->n_drawn++, t->n_ties) != 0)
            return;
        t->best = m;
        return;
    }
    t->best = m;
    t->n_ties = 1;
}

/* Returns the first position in the segment to which the action at position `at` can move. */
static uint32_t furthest_left(const struct tabu *t, uint32_t rank, uint32_t first, uint32_t at)
{
    const struct wf_search *s = t->s;
    const uint32_t *row = t->order + rank * s->per_rank;
    const double *mem = t->mem + rank * s->per_rank;
    double delta = s->ops[row[at]].delta;
    uint32_t to = at;
    while (to > first && !wf_search_must_follow(s, row[to - 1], row[at]) &&
           (delta <= 0 || (wf_search_fits(s, rank, mem[to - 1] + delta) &&
                           wf_search_fits(s, rank, (to > 1 ? mem[to - 2] : 0) + delta))))
        to--;
    return to;
}

/* Returns the last position in the segment to which the action at position `at` can move. */
static uint32_t furthest_right(const struct tabu *t, uint32_t rank, uint32_t last, uint32_t at)
{
    const struct wf_search *s = t->s;
    const uint32_t *row = t->order + rank * s->per_rank;
    const double *mem = t->mem + rank * s->per_rank;
    double delta = s->ops[row[at]].delta;
    uint32_t to = at;
    while (to < last && !wf_search_must_follow(s, row[at], row[to + 1]) &&
           (delta >= 0 || wf_search_fits(s, rank, mem[to + 1] - delta)))
        to++;
    return to;
}

static void consider_segment(struct tabu *t, uint32_t rank, uint32_t first, uint32_t last)
{
    for (uint32_t at = first; at <= last; at++) {
        uint32_t left = furthest_left(t, rank, first, at);
        if (left < at)
            consider(t, (struct move){rank, at, left, 0});
        uint32_t right = furthest_right(t, rank, last, at);
        if (right > at)
            consider(t, (struct move){rank, at, right, 0});
    }
}

/* Returns the last action of a critical path. */
static uint32_t critical_end(struct tabu *t)
{
    const struct wf_search *s = t->s;
    uint32_t found = 0, ties = 0;
    double longest = -1;
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double own = s->rank_end[r] - rank_offset(s, r);
        if (own > longest)
            ties = 0;
        if (own >= longest && wf_random_below(1 + s->setup.seed, 1, t->n_drawn++, ++ties) == 0)
            found = r;
        longest = own > longest ? own : longest;
    }
    return t->order[found * s->per_rank + s->per_rank - 1];
}

/* Follows a critical path from its end, and considers the moves in each of its segments. */
static void consider_path(struct tabu *t)
{
    const struct wf_search *s = t->s;
    uint32_t id = critical_end(t), last = t->pos[id];
    for (;;) {
        const struct wf_op *op = &s->ops[id];
        uint32_t at = t->pos[id], prev = WF_OP_NONE;
        if (at > 0)
            prev = t->order[op->rank * s->per_rank + at - 1];
        bool by_rank = prev != WF_OP_NONE && s->end[prev] == s->start[id];
        bool by_message = op->from != WF_OP_NONE &&
                          s->end[op->from] + op->hop == s->start[id] &&
                          s->ops[op->from].rank != op->rank;
        if (by_rank && by_message)
            by_rank = wf_random_below(1 + s->setup.seed, 2, t->n_drawn++, 2) == 0;
        if (by_rank) {
            id = prev;
            continue;
        }

        consider_segment(t, op->rank, at, last);
        if (!by_message)
            return;
        id = op->from;
        last = t->pos[id];
    }
}

static void apply(struct tabu *t, const struct move *m)
{
    uint32_t *row = t->order + m->rank * t->s->per_rank, id = row[m->from];
    if (m->from < m->to)
        memmove(row + m->from, row + m->from + 1, sizeof *row * (m->to - m->from));
    else
        memmove(row + m->to + 1, row + m->to, sizeof *row * (m->from - m->to));
    row[m->to] = id;
    update_rank(t, m->rank);
}

static bool keep_if_better(struct tabu *t)
{
    struct wf_search *s = t->s;
    struct wf_score score = wf_search_score(s);
    for (uint32_t r = 0; r < s->n_ranks; r++)
        score.peak = t->peak[r] > score.peak ? t->peak[r] : score.peak;
    if (wf_score_compare(score, t->score) >= 0)
        return false;
    t->score = score;
    memcpy(t->best_order, t->order, sizeof *t->order * s->n_ops);
    return true;
}

/* Applies the move with the best estimate.  Returns false if there is no move. */
static bool step(struct tabu *t)
{
    struct wf_search *s = t->s;
    t->step++;
    t->n_ties = 0;
    measure_tails(t);
    consider_path(t);
    if (t->n_ties == 0)
        return false;

    struct move m = t->best;
    uint32_t id = t->order[m.rank * s->per_rank + m.from];
    apply(t, &m);
    t->work += (double)s->n_ops;
    t->tabu_until[id] =
        t->step + TENURE_MIN +
        wf_random_below(1 + s->setup.seed, 3, t->n_drawn++, TENURE_MAX - TENURE_MIN + 1);

    if (!wf_search_time(s, t->order)) { /* deadlock: undo the move */
        apply(t, &(struct move){m.rank, m.to, m.from, 0});
        wf_search_time(s, t->order);
        t->work += (double)s->n_ops;
    }
    return true;
}

/* Searches from t->best_order, and replaces t->best_order by the best order found. */
static void walk(struct tabu *t, double work)
{
    /* number of steps and restarts since the last improvement */
    uint32_t stalled = 0, n_restarts = 0;
    double until = t->work + work;
    restore_best(t);
    while (t->work < until && !wf_search_is_optimal(t->s, t->score)) {
        bool moves = step(t);
        if (keep_if_better(t)) {
            stalled = n_restarts = 0;
        } else if (++stalled > MAX_STALLED || !moves) {
            if (++n_restarts > MAX_RESTARTS)
                return;
            restore_best(t);
            stalled = 0;
        }
    }
}

enum weft_status wf_search_improve_from(struct wf_search *s, enum wf_family family,
                                        const uint32_t *order, struct wf_score score,
                                        double work, struct weft_error *err)
{
    struct tabu t;
    if (!tabu_init(&t, s)) {
        tabu_release(&t);
        return WEFT_FAIL(err, WEFT_NOMEM, "%s: no memory to improve %zu actions", s->setup.name,
                         s->n_ops);
    }
    memcpy(t.best_order, order, sizeof *t.best_order * s->n_ops);
    t.score = score;
    walk(&t, work);
    wf_search_try(s, family, t.best_order);
    tabu_release(&t);
    return WEFT_OK;
}

enum weft_status wf_search_improve(struct wf_search *s, enum wf_family family, double work,
                                   struct weft_error *err)
{
    const struct wf_incumbent *best = &s->best[family];
    return wf_search_improve_from(s, family, best->order, best->score, work, err);
}
