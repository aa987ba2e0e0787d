/* Computes lower bounds by formula: work, chains, the first backward, and memory x time. */
#include "planning/tune/closed_form.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

/* Minimum times along the pipe, in ticks.  Each array has one value per chain. */
struct path_times {
    int64_t *down; /* owned: from time 0 to the start of the chain's first forward */
    int64_t *back; /* owned: from the end of the chain's I to the end of the first stage's I */
    int64_t *turnaround; /* owned: from the end of the chain's forward to the start of its I */
};

/* The inputs of the formulas for one rank.  Times are in ticks. */
struct rank_sums {
    int64_t head; /* earliest start of any action of the rank */
    int64_t tail; /* from the end of the rank's last action to the makespan */
    /* total time of all passes; of forwards; of forwards and I */
    int64_t work, forward, through;
    int64_t after_last_i; /* from the end of the rank's last I to the makespan */
    double memory_time;   /* memory x time; negative if the bound does not apply */
    double max_forward; /* total time of the forwards that fit the memory limit before any I */
};

static void fill_path_times(const struct wf_instance *x, struct path_times *w)
{
    for (uint32_t c = 0; c < x->n_chains; c++) {
        const struct wf_row *f = &x->rows[wf_instance_row(x, c, WF_ROW_F)], *i = f + 1;
        bool first = c % x->n_stages == 0;
        w->down[c] = first ? 0 : w->down[c - 1] + f[-(int)x->n_passes].time + f->hop;
        w->back[c] = first ? 0 : w->back[c - 1] + x->rows[i->to].hop + x->rows[i->to].time;
    }
    for (uint32_t c = x->n_chains; c-- > 0;) {
        const struct wf_row *f = &x->rows[wf_instance_row(x, c, WF_ROW_F)], *i = f + 1;
        bool last = c % x->n_stages + 1 == x->n_stages;
        w->turnaround[c] = last ? 0
                                : x->rows[f->to].hop + x->rows[f->to].time +
                                      w->turnaround[c + 1] + x->rows[i->from].time + i->hop;
    }
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns memory x time of a chain, or -1 if the bound does not apply.  While an action
 * runs, the larger of the memory before and after its start is counted, because both are
 * within the limit.  Then a micro occupies v1 of the chain from the start of F to the end of
 * I, and v2 during W.  All these times are between the rank's first start and last end. */
static double memory_time_of(const struct wf_instance *x, const struct path_times *w,
                             uint32_t chain)
{
    const struct wf_row *f = &x->rows[wf_instance_row(x, chain, WF_ROW_F)];
    double v1 = f[0].delta, v2 = v1 + f[1].delta, v3 = v2;
    double sum = v1 * (double)(f[0].time + w->turnaround[chain] + f[1].time);
    if (x->n_passes == 3) {
        sum += v2 * (double)f[2].time;
        v3 += f[2].delta;
    }
    if (v1 < 0 || v2 < -1e-9 * v1 || v3 < -1e-9 * v1)
        return -1;
    return sum * f->n;
}

static struct rank_sums sum_rank(const struct wf_instance *x, const struct path_times *w,
                                 uint32_t rank)
{
    struct rank_sums s = {.head = INT64_MAX, .tail = INT64_MAX, .after_last_i = INT64_MAX};
    double best = 0; /* maximum forward time per unit of memory */
    uint32_t chains = 0;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        const struct wf_row *row = &x->rows[x->rank_rows[i]];
        s.work += row->time * row->n;
        if (row->pass != WF_ROW_F)
            continue;

        uint32_t c = row->chain, first = c - c % x->n_stages;
        const struct wf_row *last = &x->rows[wf_instance_row(x, first, x->n_passes - 1)];
        double memory_time = memory_time_of(x, w, c);
        s.head = min_of(s.head, w->down[c]);
        s.tail = min_of(s.tail, x->n_passes == 3 ? 0 : w->back[c]);
        s.forward += row->time * row->n;
        s.through += (row[0].time + row[1].time) * row->n;
        s.after_last_i =
            min_of(s.after_last_i, w->back[c] + (x->n_passes == 3 ? last->time : 0));
        s.memory_time = memory_time < 0 || s.memory_time < 0 ? -1 : s.memory_time + memory_time;
        best = row->delta > 0 ? fmax(best, (double)row->time / row->delta) : HUGE_VAL;
        s.max_forward = floor(x->limit[rank] / row->delta * (1 + 1e-9)) * (double)row->time;
        chains++;
    }
    if (chains != 1 || best == HUGE_VAL)
        s.max_forward = best == HUGE_VAL ? HUGE_VAL : best * x->limit[rank] * (1 + 1e-9);
    return s;
}

static void raise_bound(struct wf_closed_form *c, enum weft_bound_kind kind, uint32_t rank,
                        int64_t span, int64_t makespan)
{
    if (span > c->span[kind])
        c->span[kind] = span;
    if (makespan > c->makespan[kind])
        c->makespan[kind] = makespan;
    if (span > c->rank_span[rank])
        c->rank_span[rank] = span;
}

/* WORK.  A rank runs nothing before the first micro reaches it.  Then the rank must do all
 * its work.  With whole backwards, its last action is a backward, whose gradient must return
 * to the first stage by the shortest path of the rank's chains. */
static void bound_work(struct wf_closed_form *c, const struct rank_sums *s, uint32_t rank)
{
    raise_bound(c, WEFT_BOUND_WORK, rank, s->work, s->head + s->work + s->tail);
}

/* CHAIN.  All forwards and I of rank q run between the arrival of the first micro and the
 * departure of the last gradient.  That gradient returns to the first stage, which then has
 * to run W.  If the first stage of rank r is before the first stage of rank q, the span of r
 * includes this whole time: from r's first start (of the same micro) to r's last W after
 * that gradient.  In addition, one micro takes the whole path down and back. */
static void bound_chain(struct wf_closed_form *c, const struct wf_instance *x,
                        const struct path_times *w, const struct rank_sums *sums)
{
    for (uint32_t q = 0; q < x->n_ranks; q++) {
        uint32_t q_first = wf_instance_first_row(x, q);
        if (wf_instance_n_rows(x, q) == 0)
            continue;
        raise_bound(c, WEFT_BOUND_CHAIN, q, 0,
                    sums[q].head + sums[q].through + sums[q].after_last_i);
        for (uint32_t r = 0; r < x->n_ranks && q_first != WF_NO_ROW; r++) {
            uint32_t r_first = wf_instance_first_row(x, r);
            if (r_first == WF_NO_ROW || r_first > q_first)
                continue;
            uint32_t a = x->rows[r_first].chain, b = x->rows[q_first].chain;
            int64_t w_time = x->n_passes == 3 ? x->rows[r_first + 2].time : 0;
            raise_bound(c, WEFT_BOUND_CHAIN, r,
                        w->down[b] - w->down[a] + sums[q].through + w->back[b] - w->back[a] +
                            w_time,
                        0);
        }
    }

    for (uint32_t chain = 0; chain < x->n_chains; chain++) {
        const struct wf_row *f = &x->rows[wf_instance_row(x, chain, 0)];
        int64_t own = f[0].time + w->turnaround[chain] + f[1].time;
        own += x->n_passes == 3 ? f[2].time : 0;
        if (f->n > 0)
            raise_bound(c, WEFT_BOUND_CHAIN, f->rank, own, chain % x->n_stages == 0 ? own : 0);
    }
}

/* FIRST_BACK.  The first I of a rank is the I of micro 0 on the rank's last stage.  Between
 * the rank's first start (micro 0 on its first stage) and this I, micro 0 must travel to the
 * last stage of the pipe and back.  During this time the rank can only run forwards, and
 * only as many as fit its memory.  The remaining time is idle. */
static void bound_first_back(struct wf_closed_form *c, const struct wf_instance *x,
                             const struct path_times *w, const struct rank_sums *s,
                             uint32_t rank)
{
    uint32_t opening = wf_instance_first_row(x, rank);
    if (opening == WF_NO_ROW)
        return;
    const struct wf_row *f = &x->rows[opening];
    uint32_t last = x->rows[x->rank_rows[x->rank_first[rank + 1] - 1]].chain;
    int64_t path = w->down[last] - w->down[f->chain] + w->turnaround[last] +
                   x->rows[wf_instance_row(x, last, WF_ROW_F)].time;
    /* also true for NaN (0 * infinity) */
    bool all_fit = !(s->max_forward <= (double)s->forward);
    int64_t can = all_fit ? s->forward : (int64_t)s->max_forward;
    int64_t idle = path > can ? path - can : 0;
    raise_bound(c, WEFT_BOUND_FIRST_BACK, rank, s->work + idle,
                s->head + s->work + idle + s->tail);
}

static void bound_memory_time(struct wf_closed_form *c, const struct wf_instance *x,
                              const struct rank_sums *s, uint32_t rank)
{
    double limit = x->limit[rank] * (1 + 1e-9);
    if (s->memory_time <= 0 || limit <= 0 || limit == HUGE_VAL)
        return;
    int64_t span = (int64_t)(s->memory_time / limit * (1 - 1e-9));
    raise_bound(c, WEFT_BOUND_MEMORY_TIME, rank, span, s->head + span + s->tail);
}

enum weft_status wf_closed_form_init(struct wf_closed_form *c, const struct wf_instance *x,
                                     struct weft_error *err)
{
    struct path_times w = {
        .down = malloc(sizeof *w.down * x->n_chains),
        .back = malloc(sizeof *w.back * x->n_chains),
        .turnaround = malloc(sizeof *w.turnaround * x->n_chains),
    };
    struct rank_sums *sums = malloc(sizeof *sums * x->n_ranks);
    *c = (struct wf_closed_form){.rank_span = calloc(x->n_ranks, sizeof *c->rank_span)};
    enum weft_status st = WEFT_OK;
    if (w.down == NULL || w.back == NULL || w.turnaround == NULL || sums == NULL ||
        c->rank_span == NULL) {
        wf_closed_form_release(c);
        st = WEFT_FAIL(err, WEFT_NOMEM, "no memory for the bounds of %u stages", x->n_chains);
        goto done;
    }

    fill_path_times(x, &w);
    for (uint32_t r = 0; r < x->n_ranks; r++) {
        sums[r] = sum_rank(x, &w, r);
        if (wf_instance_n_rows(x, r) == 0)
            continue;
        bound_work(c, &sums[r], r);
        bound_first_back(c, x, &w, &sums[r], r);
        bound_memory_time(c, x, &sums[r], r);
    }
    bound_chain(c, x, &w, sums);
done:
    free(w.down);
    free(w.back);
    free(w.turnaround);
    free(sums);
    return st;
}

void wf_closed_form_release(struct wf_closed_form *c)
{
    free(c->rank_span);
    *c = (struct wf_closed_form){0};
}
