/* What the head of a run says of all its ranks: their speed together, and their memory. */
#define _DEFAULT_SOURCE /* gethostname */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/train.h"

enum weft_status wf_train_ask_ranks(struct weft_comm *comm, const struct wf_trainer *trainer,
                                    const struct wf_cores *cores, struct wf_rank_totals *out,
                                    struct weft_error *err)
{
    struct wf_trainer_info info = wf_trainer_info(trainer);
    struct wf_rank_resources own = {.peak = wf_trainer_peak_flops(trainer),
                                    .threads = info.threads,
                                    .cores = *cores,
                                    .bytes = info.bytes};
    uint32_t n = info.n_ranks;
    struct wf_rank_resources *all = calloc(n, sizeof *all);
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        own.host[0] = '\0';
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the speeds of %u ranks", n)
                    : weft_comm_gather_equal(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && info.rank == 0)
        *out = wf_rank_totals(all, n);
    free(all);
    return st;
}
