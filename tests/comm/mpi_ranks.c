/* Runs one rank of the conformance suite.  tests/comm/test_mpi.sh starts it under
 * an MPI launcher.
 *
 *     mpi_ranks sizes                  lists the numbers of ranks of the cases that succeed
 *     mpi_ranks good                   runs all such cases for this number of ranks
 *     mpi_ranks faults                 lists the cases with a fault
 *     mpi_ranks case NAME              runs a case; exits with its code
 *     mpi_ranks work TIMEOUT SECONDS   prints its process id, then passes messages around
 *     mpi_ranks launcher               prints the name of the launcher
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "weft/conformance.h"

static const struct weft_conformance_case *find_case(const char *name)
{
    size_t n;
    const struct weft_conformance_case *all = weft_conformance_cases(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i].name, name) == 0)
            return &all[i];
    fprintf(stderr, "there is no case '%s'\n", name);
    exit(99);
}

struct work {
    double timeout, seconds;
};

/* Sleeps for a millisecond and waits for all other ranks, again and again. */
static enum weft_status work(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    const struct work *w = arg;
    const struct weft_conformance_case *ring = find_case("a ring of 3 ranks");
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
        WEFT_TRY(ring->run(comm, (void *)ring, err));
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

static int run_case(const char *name)
{
    const struct weft_conformance_case *c = find_case(name);
    struct weft_error err = {0}, why = {0};
    enum weft_status st = weft_comm_run_mpi(c->run, (void *)c, &err);
    if (weft_conformance_judge(c, st, &err, &why) == WEFT_OK)
        fprintf(stderr, "as expected: status %d, %s\n", st, err.msg);
    else
        fprintf(stderr, "WRONG: %s\n", why.msg);
    return weft_status_exit_code(st);
}

/* Prints one line per fault that ranks survive: exit code, number of ranks, number of
 * reporting ranks, name. */
static int list_faults(void)
{
    size_t n;
    const struct weft_conformance_case *all = weft_conformance_cases(&n);
    for (size_t i = 0; i < n; i++)
        if (all[i].status != WEFT_OK && !all[i].kills)
            printf("%d %u %u %s\n", weft_status_exit_code(all[i].status), all[i].n_ranks,
                   all[i].n_ranks - (all[i].silent != UINT32_MAX), all[i].name);
    return 0;
}

static int list_sizes(void)
{
    size_t n;
    const struct weft_conformance_case *all = weft_conformance_cases(&n);
    for (size_t i = 0; i < n; i++)
        if (all[i].status == WEFT_OK)
            printf("%u\n", all[i].n_ranks);
    return 0;
}

/* Runs one case after the other over the same endpoint. */
static enum weft_status run_good(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    size_t n;
    const struct weft_conformance_case *all = weft_conformance_cases(&n);
    (void)arg;
    for (size_t i = 0; i < n; i++)
        if (all[i].status == WEFT_OK && all[i].n_ranks == weft_comm_size(comm)) {
            weft_comm_set_timeout(comm, 60);
            enum weft_status st = all[i].run(comm, (void *)&all[i], err);
            if (st == WEFT_OK)
                st = weft_comm_barrier(comm, err);
            if (st != WEFT_OK) {
                fprintf(stderr, "weft: %s: failed\n", all[i].name);
                return st;
            }
        }
    return WEFT_OK;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    struct weft_error err = {0};
    if (strcmp(command, "sizes") == 0)
        return list_sizes();
    if (strcmp(command, "faults") == 0)
        return list_faults();
    if (strcmp(command, "case") == 0 && argc == 3)
        return run_case(argv[2]);
    if (strcmp(command, "launcher") == 0)
        return puts(weft_comm_launcher() != NULL ? weft_comm_launcher() : "none") < 0;
    if (strcmp(command, "work") == 0 && argc == 4) {
        struct work w = {atof(argv[2]), atof(argv[3])};
        return report(weft_comm_run_mpi(work, &w, &err), &err);
    }
    if (strcmp(command, "good") == 0)
        return report(weft_comm_run_mpi(run_good, NULL, &err), &err);
    return 99;
}
