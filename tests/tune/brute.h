/* Finds the minimum makespan and span of tiny problems by trying every order of every rank:
 * slow, simple, and independent of the code under test. */
#ifndef TESTS_TUNE_BRUTE_H
#define TESTS_TUNE_BRUTE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BRUTE_RANKS = 4, BRUTE_STAGES = 6, BRUTE_MICROS = 4, BRUTE_OPS = 64, BRUTE_MOST = 6000 };

struct brute {
    int ranks, stages, micros, passes;
    int rank_of[BRUTE_STAGES];
    int time[3][BRUTE_STAGES];
    int hop[2][BRUTE_STAGES]; /* delay between stages s and s + 1, forward and backward */
    int delta[3][BRUTE_STAGES], limit[BRUTE_RANKS];
    bool any_order; /* micros of a row in any order; otherwise ascending */

    int n_rows[BRUTE_RANKS], len[BRUTE_RANKS];
    unsigned char *lists[BRUTE_RANKS]; /* all lists of each rank */
    int pick[BRUTE_RANKS];
    bool too_many;
    int makespan, span; /* minimum; -1: no order runs */
};

/* Returns the id of an action. */
static int brute_op(const struct brute *b, int pass, int stage, int micro)
{
    return (pass * b->stages + stage) * b->micros + micro;
}

static void brute_extend(struct brute *b, int rank, unsigned char *list, int n, uint64_t done,
                         int mem)
{
    if (n == b->len[rank]) {
        if (b->n_rows[rank] == BRUTE_MOST) {
            b->too_many = true;
            return;
        }
        memcpy(b->lists[rank] + (size_t)b->n_rows[rank]++ * BRUTE_OPS, list, (size_t)n);
        return;
    }

    for (int op = 0; op < b->passes * b->stages * b->micros && !b->too_many; op++) {
        int micro = op % b->micros, row = op / b->micros, stage = row % b->stages;
        int pass = row / b->stages;

        if (b->rank_of[stage] != rank || (done >> op & 1))
            continue;
        if (pass > 0 && !(done >> (op - b->stages * b->micros) & 1))
            continue;
        if (!b->any_order && micro > 0 && !(done >> (op - 1) & 1))
            continue;

        int now = mem + b->delta[pass][stage];
        if (now > b->limit[rank])
            continue;

        list[n] = (unsigned char)op;
        brute_extend(b, rank, list, n + 1, done | UINT64_C(1) << op, now);
    }
}

/* Times one choice of lists, with ranks starting no earlier than `release`.  Returns false
 * for a deadlock. */
static bool brute_time(const struct brute *b, const int *release, int *first, int *last)
{
    int end[BRUTE_OPS * 2], pc[BRUTE_RANKS] = {0}, left = b->passes * b->stages * b->micros;

    for (int i = 0; i < left; i++)
        end[i] = -1;
    for (int r = 0; r < b->ranks; r++)
        last[r] = release[r];

    for (bool moved = true; moved && left > 0;) {
        moved = false;
        for (int r = 0; r < b->ranks; r++)
            while (pc[r] < b->len[r]) {
                int op = b->lists[r][(size_t)b->pick[r] * BRUTE_OPS + pc[r]];
                int micro = op % b->micros, row = op / b->micros, stage = row % b->stages;
                int pass = row / b->stages, t = last[r];
                int other = pass == 0 ? stage - 1 : pass == 1 ? stage + 1 : -1;

                if (other >= 0 && other < b->stages) {
                    int arrival = end[brute_op(b, pass, other, micro)];
                    if (arrival < 0)
                        break;
                    arrival +=
                        b->rank_of[other] == r ? 0 : b->hop[pass][pass == 0 ? other : stage];
                    t = arrival > t ? arrival : t;
                }

                if (pc[r] == 0)
                    first[r] = t;
                last[r] = end[op] = t + b->time[pass][stage];
                pc[r]++;
                left--;
                moved = true;
            }
    }
    return left == 0;
}

/* Returns true if these lists can run such that no rank's span exceeds t. */
static bool brute_within(const struct brute *b, int t, int far)
{
    int release[BRUTE_RANKS] = {0}, first[BRUTE_RANKS], last[BRUTE_RANKS];
    for (;;) {
        bool late = false;
        if (!brute_time(b, release, first, last))
            return false;
        for (int r = 0; r < b->ranks; r++)
            if (b->len[r] > 0 && last[r] - first[r] > t) {
                release[r] = last[r] - t;
                late = true;
                if (release[r] > far)
                    return false;
            }
        if (!late)
            return true;
    }
}

static void brute_judge(struct brute *b)
{
    int release[BRUTE_RANKS] = {0}, first[BRUTE_RANKS], last[BRUTE_RANKS], makespan = 0,
        span = 0;
    if (!brute_time(b, release, first, last))
        return;
    for (int r = 0; r < b->ranks; r++) {
        makespan = last[r] > makespan ? last[r] : makespan;
        span = b->len[r] > 0 && last[r] - first[r] > span ? last[r] - first[r] : span;
    }
    if (b->makespan < 0 || makespan < b->makespan)
        b->makespan = makespan;
    if (b->span < 0 || span < b->span)
        b->span = span;
    while (b->span > 0 && brute_within(b, b->span - 1, 4 * makespan + 4))
        b->span--;
}

static void brute_combine(struct brute *b, int rank)
{
    if (rank == b->ranks) {
        brute_judge(b);
        return;
    }
    for (int i = 0; i < b->n_rows[rank]; i++) {
        b->pick[rank] = i;
        brute_combine(b, rank + 1);
    }
}

/* Solves a problem.  Returns false if there are too many orders to try. */
static bool brute_solve(struct brute *b, double most_orders)
{
    double orders = 1;
    unsigned char list[BRUTE_OPS];
    b->makespan = b->span = -1;
    b->too_many = false;
    for (int r = 0; r < b->ranks; r++) {
        b->len[r] = b->n_rows[r] = 0;
        for (int s = 0; s < b->stages; s++)
            b->len[r] += b->rank_of[s] == r ? b->passes * b->micros : 0;
        b->lists[r] = malloc((size_t)BRUTE_MOST * BRUTE_OPS);
        brute_extend(b, r, list, 0, 0, 0);
        orders *= b->n_rows[r];
    }
    bool all = !b->too_many && orders <= most_orders;
    if (all)
        brute_combine(b, 0);
    for (int r = 0; r < b->ranks; r++)
        free(b->lists[r]);
    return all;
}

#endif
