/* What the head of a run says of all its ranks: their speed together, and their memory. */
#define _DEFAULT_SOURCE /* gethostname */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/train.h"

enum weft_status weft_train_ask_ranks(struct weft_comm *comm,
                                      const struct weft_trainer *trainer,
                                      const struct weft_cores *cores, struct weft_rank_sum *out,
                                      struct weft_error *err)
{
    struct weft_trainer_info info = weft_trainer_info(trainer);
    struct weft_rank_card own = {.peak = weft_trainer_peak(trainer),
                                 .threads = info.threads,
                                 .cores = *cores,
                                 .bytes = info.bytes};
    uint32_t n = info.n_ranks;
    struct weft_rank_card *all = calloc(n, sizeof *all);
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        own.host[0] = '\0';
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the speeds of %u ranks", n)
                    : weft_comm_gather_each(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && info.rank == 0)
        *out = weft_rank_sum(all, n);
    free(all);
    return st;
}
