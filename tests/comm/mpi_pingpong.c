/* Measures the latency of a message through weft and through MPI alone, with two ranks:
 *
 *     mpirun -n 2 mpi_pingpong_openmpi [BYTES [ROUNDS]]
 *
 * Rank 0 prints the minimum of several alternating measurements; nothing is asserted. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "weft/comm.h"

struct sizes {
    size_t bytes;
    int rounds;
};

enum { REPEATS = 200 };

static enum weft_status through_weft(struct weft_comm *comm, char *at, const struct sizes *s,
                                     struct weft_error *err)
{
    uint32_t rank = weft_comm_rank(comm);
    for (int i = 0; i < s->rounds; i++)
        for (uint32_t from = 0; from < 2; from++) {
            struct weft_message m = {
                .peer = 1 - rank, .channel = WEFT_USER_CHANNEL, .bytes = s->bytes, .data = at};
            WEFT_TRY(from == rank ? weft_comm_send(comm, &m, err)
                                  : weft_comm_post(comm, &m, err));
            WEFT_TRY(weft_comm_wait(comm, &m, err));
            if (from != rank)
                weft_comm_release(comm, &m);
        }
    return WEFT_OK;
}

static void through_mpi(uint32_t rank, char *at, const struct sizes *s)
{
    for (int i = 0; i < s->rounds; i++)
        for (uint32_t from = 0; from < 2; from++)
            if (from == rank)
                MPI_Send(at, (int)s->bytes, MPI_BYTE, 1 - (int)rank, 0, MPI_COMM_WORLD);
            else
                MPI_Recv(at, (int)s->bytes, MPI_BYTE, 1 - (int)rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
}

static enum weft_status measure(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct sizes *s = arg;
    int64_t best[2] = {INT64_MAX, INT64_MAX};

    if (weft_comm_size(comm) != 2)
        return WEFT_FAIL(err, WEFT_USAGE, "mpi_pingpong needs two ranks");

    char *at = calloc(1, s->bytes + 1);
    if (at == NULL)
        return WEFT_FAIL(err, WEFT_NOMEM, "no memory");

    enum weft_status st = WEFT_OK;
    for (int k = 0; st == WEFT_OK && k < 2 * REPEATS; k++) {
        st = weft_comm_barrier(comm, err);
        int64_t begin = wf_clock_ns();
        if (st == WEFT_OK && k % 2 == 0)
            st = through_weft(comm, at, s, err);
        else if (st == WEFT_OK)
            through_mpi(weft_comm_rank(comm), at, s);
        int64_t ns = wf_clock_ns() - begin;
        if (ns < best[k % 2])
            best[k % 2] = ns;
    }

    free(at);
    if (st == WEFT_OK && weft_comm_rank(comm) == 0)
        printf("%zu bytes: weft %.2f us, MPI %.2f us: %.1f %% of MPI's rate\n", s->bytes,
               (double)best[0] / 2e3 / s->rounds, (double)best[1] / 2e3 / s->rounds,
               100.0 * (double)best[1] / (double)best[0]);
    return st;
}

int main(int argc, char **argv)
{
    struct sizes s = {argc > 1 ? (size_t)atol(argv[1]) : 1000000, argc > 2 ? atoi(argv[2]) : 1};
    struct weft_error err = {0};
    enum weft_status st = weft_comm_run_mpi(measure, &s, &err);
    if (st != WEFT_OK)
        fprintf(stderr, "%s\n", err.msg);
    return weft_status_exit_code(st);
}
