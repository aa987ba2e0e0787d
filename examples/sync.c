/* Averages gradients over ranks: three ranks fit a line y = a x + b, each to its own points.
 * In every step a rank pushes the gradients of both parameters.  A callback updates a parameter
 * as soon as its gradient is the mean over the ranks that pushed.  All ranks always have
 * bit-identical a and b.
 *
 * Rank 2 has fewer points than the others.  After its last point it leaves, and
 * the others continue.
 *
 *     cc sync.c $(pkg-config --cflags --libs weft) -lm
 *     ./a.out                 three threads
 *     mpirun -n 3 ./a.out     three processes
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "weft/sync.h"

enum { RANKS = 3, STEPS = 600, FEWER = 200, POINTS = 16, SLOPE = 0, OFFSET = 1 };

struct line {
    float slope, offset;
};

/* Returns the mean gradient of (y - target)^2 / 2 over the rank's points of this step. */
static struct line gradient(struct line at, uint32_t rank, uint64_t step)
{
    struct line g = {0, 0};
    for (int i = 0; i < POINTS; i++) {
        float x = sinf((float)(step * POINTS + (uint64_t)i) + 0.7F * (float)rank);
        float target = 3 * x - 1;
        float off = at.slope * x + at.offset - target;
        g.slope += off * x / POINTS;
        g.offset += off / POINTS;
    }
    return g;
}

struct fit {
    struct line line, gradient;
};

/* Updates a parameter: its gradient is the mean now. */
static enum weft_status update(void *arg, uint64_t step, uint32_t id, struct weft_error *err)
{
    struct fit *fit = (struct fit *)arg;
    (void)step;
    (void)err;
    if (id == SLOPE)
        fit->line.slope -= 0.1F * fit->gradient.slope;
    else
        fit->line.offset -= 0.1F * fit->gradient.offset;
    return WEFT_OK;
}

static enum weft_status train(struct weft_sync *sync, uint32_t rank, struct fit *fit,
                              struct weft_error *err)
{
    const uint32_t ids[] = {SLOPE, OFFSET};
    const size_t sizes[] = {1, 1};
    uint64_t steps = rank == 2 ? FEWER : STEPS;
    for (uint64_t step = 0; step < steps; step++) {
        enum weft_status st = weft_sync_register(sync, step, ids, sizes, 2, err);
        fit->gradient = gradient(fit->line, rank, step);
        if (st == WEFT_OK) /* weft uses the gradient from here to update() */
            st = weft_sync_push(sync, step, OFFSET, &fit->gradient.offset, err);
        if (st == WEFT_OK)
            st = weft_sync_push(sync, step, SLOPE, &fit->gradient.slope, err);
        if (st == WEFT_OK)
            st = weft_sync_wait(sync, step, err);
        if (st != WEFT_OK)
            return st;
    }
    return weft_sync_leave(sync, err);
}

static enum weft_status run_rank(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    struct line *lines = (struct line *)arg;
    uint32_t rank = weft_comm_rank(comm);
    struct weft_sync *sync = NULL;
    struct fit fit = {{0, 0}, {0, 0}};
    enum weft_status st = weft_sync_new(comm, WEFT_SYNC_MEAN, &sync, err);
    if (st != WEFT_OK)
        return st;
    weft_sync_on_complete(sync, update, NULL, &fit);
    st = train(sync, rank, &fit, err);
    weft_sync_free(sync);
    if (rank < RANKS)
        lines[rank] = fit.line;
    return st;
}

int main(void)
{
    struct line lines[RANKS] = {{0, 0}};
    struct weft_error err;
    enum weft_status st = weft_comm_launcher() != NULL
                              ? weft_comm_run_mpi(run_rank, lines, &err)
                              : weft_comm_run_threads(RANKS, run_rank, lines, &err);
    if (st != WEFT_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    if (weft_comm_launcher() != NULL)
        return 0;
    for (int r = 0; r < RANKS; r++)
        printf("rank %d: y = %.4f x %+.4f\n", r, (double)lines[r].slope,
               (double)lines[r].offset);
    int same = lines[0].slope == lines[1].slope && lines[0].offset == lines[1].offset;
    int good = fabsf(lines[0].slope - 3) < 1e-3F && fabsf(lines[0].offset + 1) < 1e-3F;
    return same && good ? 0 : 1;
}
