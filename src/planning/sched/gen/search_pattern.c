/* Generates orders from a repeated pattern.  A pattern is the timed path of one micro through
 * all ranks.  Every further micro repeats the path one period later.
 *
 *     period 6   rank 0   F . . f I W i w            F, I, W of chunk 0, f, i, w of chunk 1
 *                rank 1     F f . . i w I W
 *
 * The pattern is built along the path of the micro: each pass starts at the first time at which
 * its rank is free in every period.  The delay of the micro on its path down determines how
 * long ranks keep its activations, and thus the memory use.  In the middle of a plan the
 * repeated pattern has no gaps.  At both ends of the plan micros are missing, so the pattern
 * has many gaps.  Therefore the actions are placed again, in the order of the pattern's times:
 * each action goes into the first gap that is long enough, is after the action's inputs, and
 * keeps the rank within its memory limit.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planning/sched/gen/search.h"

/* Returns the earliest time, not before `t`, at which a rank is free for a duration of `time`.
 * The rank is busy in the periodic intervals `busy`.  Returns `t` if there is no such time. */
static double first_gap(const double (*busy)[2], uint32_t n, double period, double t,
                        double time)
{
    double from = t;
    if (period <= 0)
        return t;

    for (uint32_t tries = 0; tries <= 2 * n; tries++) {
        double skip = 0;
        for (uint32_t i = 0; i < n && skip <= 0; i++) {
            /* time from t to the start of the next busy interval */
            double begin = fmod(busy[i][0] - t, period);
            if (begin < -1e-9 * period)
                begin += period;
            /* remaining time of the busy interval that contains t */
            double rest = begin + busy[i][1] - period;
            if (rest > 1e-9 * period)
                skip = rest;
            else if (begin < time - 1e-9 * period && busy[i][1] > 0)
                skip = begin + busy[i][1];
        }
        if (skip <= 0)
            return t;
        t += skip;
    }
    return from;
}

struct queued_op {
    double at;
    uint32_t id;
    /* position on the path of the micro; breaks ties between equal times */
    uint32_t path_position;
};

struct placed {
    double start, end;
    double mem; /* memory of the rank after this action */
    uint32_t id;
};

struct wf_pattern {
    double period;
    bool unit; /* F, I and W take one unit each, and hops take no time */
    /* owned: (passes, stages), durations and start times of the passes of micro 0 */
    double *time, *offset;
    double (*busy)[6][2];    /* owned: (ranks), start and duration of each rank's passes */
    uint32_t *n_busy;        /* owned: (ranks) */
    struct queued_op *queue; /* owned: (n_ops), all actions, sorted by the pattern's times */
    struct placed *placed;   /* owned: (ranks, per_rank), sorted by start time */
    uint32_t *n_placed;      /* owned: (ranks) */
    double *end;             /* owned: (n_ops), end times of the placed actions */
};

struct wf_pattern *wf_pattern_new(const struct wf_search *s)
{
    struct wf_pattern *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->time = malloc(sizeof *b->time * s->n_passes * s->n_stages);
    b->offset = malloc(sizeof *b->offset * s->n_passes * s->n_stages);
    b->busy = malloc(sizeof *b->busy * s->n_ranks);
    b->n_busy = malloc(sizeof *b->n_busy * s->n_ranks);
    b->queue = malloc(sizeof *b->queue * s->n_ops);
    b->placed = malloc(sizeof *b->placed * s->n_ops);
    b->n_placed = malloc(sizeof *b->n_placed * s->n_ranks);
    b->end = malloc(sizeof *b->end * s->n_ops);
    if (b->time == NULL || b->offset == NULL || b->busy == NULL || b->n_busy == NULL ||
        b->queue == NULL || b->placed == NULL || b->n_placed == NULL || b->end == NULL) {
        wf_pattern_free(b);
        return NULL;
    }
    return b;
}

void wf_pattern_free(struct wf_pattern *b)
{
    if (b == NULL)
        return;
    free(b->time);
    free(b->offset);
    free(b->busy);
    free(b->n_busy);
    free(b->queue);
    free(b->placed);
    free(b->n_placed);
    free(b->end);
    free(b);
}

/* -- the pattern of one micro -------------------------------------------------------------- */

/* Returns the delay of an action's input. */
static double hop_of(const struct wf_pattern *b, const struct wf_op *op)
{
    return b->unit ? 0 : op->hop;
}

static double place_pass(struct wf_pattern *b, uint32_t rank, uint32_t row, double t)
{
    double at = first_gap(b->busy[rank], b->n_busy[rank], b->period, t, b->time[row]);
    double *slot = b->busy[rank][b->n_busy[rank]++];
    slot[0] = at;
    slot[1] = b->time[row];
    b->offset[row] = at;
    return at;
}

/* Sets the durations of the passes and the period.  The period is the time that the busiest
 * rank needs for one micro. */
static void set_times(struct wf_pattern *b, const struct wf_search *s, bool unit)
{
    b->unit = unit;
    b->period = 0;
    for (uint32_t p = 0; p < s->n_passes; p++)
        for (uint32_t stage = 0; stage < s->n_stages; stage++)
            b->time[p * s->n_stages + stage] = !unit ? wf_search_stage_op(s, p, stage)->time
                                               : s->setup.whole && p == WF_PASS_I ? 2
                                                                                  : 1;

    for (uint32_t r = 0; r < s->n_ranks; r++) {
        double work = 0;
        for (uint32_t p = 0; p < s->n_passes; p++)
            for (uint32_t c = 0; c < s->n_chunks; c++)
                work += b->time[p * s->n_stages + wf_search_stage(s, r, c)];
        b->period = wf_double_max(b->period, work);
        b->n_busy[r] = 0;
    }
}

static void build_pattern(struct wf_pattern *b, const struct wf_search *s,
                          const struct wf_pattern_options *options)
{
    double t = 0;
    set_times(b, s, options->unit);

    /* Place forwards and input gradients along the path of the micro. */
    for (uint32_t k = 0; k < 2 * s->n_stages; k++) {
        bool back = k >= s->n_stages;
        uint32_t stage = back ? 2 * s->n_stages - 1 - k : k, row = back * s->n_stages + stage;
        uint32_t leg = s->n_chunks == 1 ? 3 * back : k / s->n_ranks;
        const struct wf_op *op = wf_search_stage_op(s, back, stage);
        double at =
            place_pass(b, op->rank, row, options->given != NULL ? options->given[row] : t);
        t = at + b->time[row];
        if (op->to != WF_OP_NONE && s->ops[op->to].rank != op->rank)
            t = wf_double_max(t + hop_of(b, &s->ops[op->to]),
                              at + options->step[leg] * b->period / 6);
    }

    for (uint32_t stage = s->n_stages; s->n_passes == 3 && stage-- > 0;) {
        uint32_t row = s->n_stages + stage;
        place_pass(b, wf_search_stage_op(s, WF_PASS_W, stage)->rank, row + s->n_stages,
                   b->offset[row] + b->time[row]);
    }
}

/* -- all micros ---------------------------------------------------------------------------- */

static int by_time(const void *x, const void *y)
{
    const struct queued_op *a = x, *b = y;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    if (a->path_position != b->path_position)
        return a->path_position < b->path_position ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Lists all actions in the order of the pattern's times.  With `late_w`, weight gradients that
 * start after the forward of the last micro on stage 0 are listed last, because in the
 * cool-down other ranks wait only for input gradients. */
static void fill_queue(struct wf_pattern *b, const struct wf_search *s, bool late_w)
{
    double last = b->offset[0] + b->period * (s->n_micros - 1), far = 1e3 * (last + b->period);
    uint32_t n = 0;
    for (uint32_t row = 0; row < s->n_passes * s->n_stages; row++) {
        uint32_t pass = row / s->n_stages, stage = row % s->n_stages;
        uint32_t path_position = pass == WF_PASS_I ? 2 * s->n_stages - stage : row;
        for (uint32_t m = 0; m < s->n_micros; m++) {
            double at = b->offset[row] + b->period * m;
            if (late_w && pass == WF_PASS_W && at > last)
                at += far;
            b->queue[n] = (struct queued_op){at, n, path_position};
            n++;
        }
    }
    qsort(b->queue, n, sizeof *b->queue, by_time);
}

/* Returns the earliest time, not before `t`, at which the inputs of an action are available. */
static double ready_at(const struct wf_pattern *b, const struct wf_search *s, uint32_t id,
                       double t)
{
    const struct wf_op *op = &s->ops[id];
    if (op->from != WF_OP_NONE)
        t = wf_double_max(t, b->end[op->from] + hop_of(b, op));
    /* the action also needs the previous pass of its (stage, micro) */
    if (op->row >= s->n_stages)
        t = wf_double_max(t, b->end[id - s->n_stages * s->n_micros]);
    return t;
}

/* Places one action into the first gap that is long enough and not before `after`.  Returns
 * false if the memory limit permits no gap.  The memory of the action is added to the memory
 * after all later actions of the rank.  So the action must not precede an action that would
 * then exceed the limit. */
static bool place_action(struct wf_pattern *b, const struct wf_search *s, uint32_t id,
                         double after)
{
    const struct wf_op *op = &s->ops[id];
    uint32_t n = b->n_placed[op->rank], k = n;
    struct placed *row = b->placed + op->rank * s->per_rank;
    double t = ready_at(b, s, id, after), time = b->time[op->row], slack = 1e-9 * b->period;
    bool grows = op->delta > 0;

    if (grows && !wf_search_fits(s, op->rank, (n > 0 ? row[n - 1].mem : 0) + op->delta))
        return false;
    while (k > 0 && row[k - 1].end > t + slack && row[k - 1].start > t - slack &&
           (!grows || wf_search_fits(s, op->rank, (k > 1 ? row[k - 2].mem : 0) + op->delta)))
        k--;
    while (k < n && wf_double_max(t, k > 0 ? row[k - 1].end : 0) + time > row[k].start + slack)
        k++;

    t = wf_double_max(t, k > 0 ? row[k - 1].end : 0);
    memmove(row + k + 1, row + k, sizeof *row * (n - k));
    row[k] = (struct placed){t, t + time, k > 0 ? row[k - 1].mem : 0, id};
    for (uint32_t i = k; i <= n; i++)
        row[i].mem += op->delta;
    b->end[id] = t + time;
    b->n_placed[op->rank]++;
    return true;
}

const double *wf_pattern_place(struct wf_pattern *b, const struct wf_search *s,
                               const struct wf_pattern_options *options, double *period)
{
    build_pattern(b, s, options);
    *period = b->period;
    return b->offset;
}

struct wf_score wf_pattern_try(struct wf_pattern *b, struct wf_search *s,
                               const struct wf_pattern_options *options)
{
    build_pattern(b, s, options);
    fill_queue(b, s, options->late_w);
    memset(b->n_placed, 0, sizeof *b->n_placed * s->n_ranks);

    /* With `pin`, the middle of the plan keeps the pattern.  The middle is the time between the
     * start of the first input gradient on stage 0 and the start of the last micro. */
    double begin = b->offset[s->n_stages], end = b->period * (s->n_micros - 1);
    for (size_t i = 0; i < s->n_ops; i++) {
        double at = b->queue[i].at;
        bool pinned = options->pin && at >= begin && at <= end;
        if (!place_action(b, s, b->queue[i].id, pinned ? at : 0))
            return WF_SCORE_INFEASIBLE;
    }

    for (size_t i = 0; i < s->n_ops; i++)
        s->order[i] = b->placed[i].id;
    return wf_search_try(s, WF_FAMILY_PATTERN, s->order);
}
