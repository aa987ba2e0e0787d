/* Runs one rank of the programs in tests/support/ranks.h. tests/comm/test_mpi.sh starts it
 * under an MPI launcher.
 *
 *     mpi_ranks all | sizes | busy | own    runs a program; exits with 0
 *     mpi_ranks faults                      lists the faults
 *     mpi_ranks fault NAME                  injects a fault; exits with its code
 *     mpi_ranks work TIMEOUT SECONDS        prints its process id, then passes messages around
 *     mpi_ranks launcher                    prints the name of the launcher
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "ranks.h"

struct work {
    double timeout, seconds;
};

/* Repeats: sleep for a millisecond, then wait for all other ranks. */
static enum weft_status work(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct work *w = arg;
    int64_t begin = wf_clock_ns();
    weft_comm_set_timeout(comm, w->timeout);
    WEFT_TRY(weft_comm_barrier(comm, err));
    printf("rank %u is process %ld\n", weft_comm_rank(comm), (long)getpid());
    fflush(stdout);
    bool more = true;
    for (uint64_t step = 0; more; step++) {
        weft_comm_publish(comm, step, 0);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        more = (double)(wf_clock_ns() - begin) * 1e-9 < w->seconds;
        WEFT_TRY(ranks_ring(comm, NULL, err));
        WEFT_TRY(weft_comm_broadcast(comm, &more, sizeof more, err)); /* rank 0 decides */
    }
    return WEFT_OK;
}

static int report(enum weft_status st, const struct weft_error *err)
{
    if (st != WEFT_OK)
        fprintf(stderr, "weft: %s\n", err->msg);
    return weft_status_exit_code(st);
}

static int run_fault(const char *name)
{
    struct weft_error err = {0};
    for (size_t i = 0; i < ranks_n_faults; i++) {
        const struct ranks_fault *c = &ranks_faults[i];
        if (strcmp(name, c->name) != 0)
            continue;
        enum weft_status st = weft_comm_run_mpi(ranks_faulty, (void *)c, &err);
        bool as_expected = st == c->status && strstr(err.msg, c->message) != NULL;
        fprintf(stderr, "%s: status %d, %s\n", as_expected ? "as expected" : "WRONG", st,
                err.msg);
        return weft_status_exit_code(st);
    }
    return 99;
}

/* Prints one line per fault: exit code, number of reporting ranks, name. */
static int list_faults(void)
{
    for (size_t i = 0; i < ranks_n_faults; i++)
        printf("%d %u %s\n", weft_status_exit_code(ranks_faults[i].status),
               ranks_faults[i].n_reporting, ranks_faults[i].name);
    return 0;
}

static enum weft_status run_programs(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    WEFT_TRY(ranks_ring(comm, arg, err));
    WEFT_TRY(ranks_collect(comm, arg, err));
    return ranks_sizes(comm, arg, err);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    struct weft_error err = {0};
    if (strcmp(command, "faults") == 0)
        return list_faults();
    if (strcmp(command, "fault") == 0 && argc == 3)
        return run_fault(argv[2]);
    if (strcmp(command, "launcher") == 0)
        return puts(weft_comm_launcher() != NULL ? weft_comm_launcher() : "none") < 0;
    if (strcmp(command, "work") == 0 && argc == 4) {
        struct work w = {atof(argv[2]), atof(argv[3])};
        return report(weft_comm_run_mpi(work, &w, &err), &err);
    }
    if (strcmp(command, "all") == 0)
        return report(weft_comm_run_mpi(run_programs, NULL, &err), &err);
    if (strcmp(command, "sizes") == 0)
        return report(weft_comm_run_mpi(ranks_sizes, NULL, &err), &err);
    if (strcmp(command, "busy") == 0)
        return report(weft_comm_run_mpi(ranks_busy, NULL, &err), &err);
    if (strcmp(command, "own") == 0)
        return report(weft_comm_run_mpi(ranks_own_work, NULL, &err), &err);
    return 99;
}
