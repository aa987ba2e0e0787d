#include "planning/tune/closed_form.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

/* Ways along the pipe, by chain. */
struct path_times {
    int64_t *there; /* owned: (chains), from 0 to the start of its first forward */
    int64_t *back;  /* owned: (chains), from the end of its I to the end of the first stage's */
    int64_t
        *turnaround; /* owned: (chains), from the end of its forward to the start of its I */
};

/* What the formulas need to know of a rank. */
struct rank_sums {
    int64_t head;                   /* nothing starts before */
    int64_t tail;                   /* from its last end to the makespan */
    int64_t work, forward, through; /* all passes; forwards; forwards and I */
    int64_t after_last_i;           /* from the end of its last I to the makespan */
    double held;                    /* memory x time, or a negative number: no such bound */
    double most_forward; /* forwards, by time, that fit the limit before any I is done */
};

static void fill_path_times(const struct wf_instance *x, struct path_times *w)
{
    for (uint32_t c = 0; c < x->n_chains; c++) {
        const struct wf_row *f = &x->rows[wf_instance_row(x, c, WF_ROW_F)], *i = f + 1;
        bool first = c % x->n_stages == 0;
        w->there[c] = first ? 0 : w->there[c - 1] + f[-(int)x->n_passes].time + f->hop;
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

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Memory x time.  While an action runs, count as held the more of what is held before and after
 * its start: both are within the limit.  Then a micro holds v1 of a chain from the start of F to
 * the end of I, and v2 during W; all of it between the rank's first start and last end. */
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
    double best = 0; /* forward time for each unit of memory */
    uint32_t chains = 0;
    for (uint32_t i = x->rank_first[rank]; i < x->rank_first[rank + 1]; i++) {
        const struct wf_row *row = &x->rows[x->rank_rows[i]];
        s.work += row->time * row->n;
        if (row->pass != WF_ROW_F)
            continue;
        uint32_t c = row->chain, first = c - c % x->n_stages;
        const struct wf_row *last = &x->rows[wf_instance_row(x, first, x->n_passes - 1)];
        double held = memory_time_of(x, w, c);
        s.head = least(s.head, w->there[c]);
        s.tail = least(s.tail, x->n_passes == 3 ? 0 : w->back[c]);
        s.forward += row->time * row->n;
        s.through += (row[0].time + row[1].time) * row->n;
        s.after_last_i =
            least(s.after_last_i, w->back[c] + (x->n_passes == 3 ? last->time : 0));
        s.held = held < 0 || s.held < 0 ? -1 : s.held + held;
        best = row->delta > 0 ? fmax(best, (double)row->time / row->delta) : HUGE_VAL;
        s.most_forward = floor(x->limit[rank] / row->delta * (1 + 1e-9)) * (double)row->time;
        chains++;
    }
    if (chains != 1 || best == HUGE_VAL)
        s.most_forward = best == HUGE_VAL ? HUGE_VAL : best * x->limit[rank] * (1 + 1e-9);
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

/* WORK.  Nothing runs on a rank before the first micro reaches it; then it has its work to do;
 * with whole backwards its last action is a backward, whose gradient has to go back to the first
 * stage (of whichever of its chains has the shortest way). */
static void bound_work(struct wf_closed_form *c, const struct rank_sums *s, uint32_t rank)
{
    raise_bound(c, WEFT_BOUND_WORK, rank, s->work, s->head + s->work + s->tail);
}

/* CHAIN.  All forwards and I of rank q run between the first micro's coming there and the last
 * gradient's leaving, which goes back to the first stage, and W there is still to do.  Seen from a
 * rank r whose first stage is before q's: from its own first start (the same micro's) to its last
 * W after that gradient.  And one micro goes all the way and back. */
static void bound_chain(struct wf_closed_form *c, const struct wf_instance *x,
                        const struct path_times *w, const struct rank_sums *sums)
{
    for (uint32_t q = 0; q < x->n_ranks; q++) {
        uint32_t there = wf_instance_first_row(x, q);
        if (wf_instance_n_rows(x, q) == 0)
            continue;
        raise_bound(c, WEFT_BOUND_CHAIN, q, 0,
                    sums[q].head + sums[q].through + sums[q].after_last_i);
        for (uint32_t r = 0; r < x->n_ranks && there != WF_NO_ROW; r++) {
            uint32_t here = wf_instance_first_row(x, r);
            if (here == WF_NO_ROW || here > there)
                continue;
            uint32_t a = x->rows[here].chain, b = x->rows[there].chain;
            int64_t w_time = x->n_passes == 3 ? x->rows[here + 2].time : 0;
            raise_bound(c, WEFT_BOUND_CHAIN, r,
                        w->there[b] - w->there[a] + sums[q].through + w->back[b] - w->back[a] +
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

/* FIRST_BACK.  The first I of a rank is of micro 0 on its last stage.  From the rank's first start
 * (micro 0 on its first stage) that is as far as the micro's way to the end and back.  Until then
 * the rank can only do forwards, and no more than fit its memory: the rest of the time it waits. */
static void bound_first_back(struct wf_closed_form *c, const struct wf_instance *x,
                             const struct path_times *w, const struct rank_sums *s,
                             uint32_t rank)
{
    uint32_t opening = wf_instance_first_row(x, rank);
    if (opening == WF_NO_ROW)
        return;
    const struct wf_row *f = &x->rows[opening];
    uint32_t last = x->rows[x->rank_rows[x->rank_first[rank + 1] - 1]].chain;
    int64_t way = w->there[last] - w->there[f->chain] + w->turnaround[last] +
                  x->rows[wf_instance_row(x, last, WF_ROW_F)].time;
    bool all_fit =
        !(s->most_forward <= (double)s->forward); /* also where 0 * infinity was met */
    int64_t can = all_fit ? s->forward : (int64_t)s->most_forward;
    int64_t idle = way > can ? way - can : 0;
    raise_bound(c, WEFT_BOUND_FIRST_BACK, rank, s->work + idle,
                s->head + s->work + idle + s->tail);
}

static void bound_memory_time(struct wf_closed_form *c, const struct wf_instance *x,
                              const struct rank_sums *s, uint32_t rank)
{
    double limit = x->limit[rank] * (1 + 1e-9);
    if (s->held <= 0 || limit <= 0 || limit == HUGE_VAL)
        return;
    int64_t span = (int64_t)(s->held / limit * (1 - 1e-9));
    raise_bound(c, WEFT_BOUND_MEMORY_TIME, rank, span, s->head + span + s->tail);
}

enum weft_status wf_closed_form_init(struct wf_closed_form *c, const struct wf_instance *x,
                                     struct weft_error *err)
{
    struct path_times w = {
        .there = malloc(sizeof *w.there * x->n_chains),
        .back = malloc(sizeof *w.back * x->n_chains),
        .turnaround = malloc(sizeof *w.turnaround * x->n_chains),
    };
    struct rank_sums *sums = malloc(sizeof *sums * x->n_ranks);
    *c = (struct wf_closed_form){.rank_span = calloc(x->n_ranks, sizeof *c->rank_span)};
    enum weft_status st = WEFT_OK;
    if (w.there == NULL || w.back == NULL || w.turnaround == NULL || sums == NULL ||
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
    free(w.there);
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
