/* Runs random reductions as ranks under MPI and compares the bits with exact sums. */
#include <stdio.h>

#include "base/error.h"
#include "reduction.h"

static enum weft_status run_all(struct weft_comm *comm, void *arg, struct weft_error *err)
{
    (void)arg;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct reduction w = {.seed = seed,
                              .timing = seed,
                              .n_ranks = weft_comm_size(comm),
                              .op = seed % 2 == 0 ? WEFT_SYNC_SUM : WEFT_SYNC_MEAN};
        enum weft_status st = reduction_init(&w) ? reduction_rank(comm, &w, err)
                                                 : WEFT_FAIL(err, WEFT_NOMEM, "no memory");
        reduction_release(&w);
        WEFT_TRY(st);
    }
    return WEFT_OK;
}

int main(void)
{
    struct weft_error err = {0};
    if (weft_comm_run_mpi(run_all, NULL, &err) == WEFT_OK)
        return 0;
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
