/* What the head of a run says of all its ranks: their speed together, and their memory. */
#define _DEFAULT_SOURCE /* gethostname */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/train.h"

/* What each rank tells. */
struct card {
    double peak;
    uint32_t threads;
    struct weft_cores cores;
    struct weft_rank_bytes bytes;
    char host[64];
};

/* Each rank says what its threads could do if each had a core to itself (so that what else runs on
 * the machine does not count).  Those of one machine have no more than its cores together. */
static double peak_of_host(const struct card *cards, uint32_t n, const char *host)
{
    struct weft_cores cores = {{0}};
    double sum = 0, taken = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (strcmp(cards[r].host, host) != 0)
            continue;
        weft_cores_add(&cores, &cards[r].cores);
        taken += cards[r].threads;
        sum += cards[r].peak;
    }
    double there = weft_cores_count(&cores);
    return there > 0 && there < taken ? sum * there / taken : sum;
}

static bool is_first_of_host(const struct card *cards, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++)
        if (strcmp(cards[r].host, cards[rank].host) == 0)
            return false;
    return true;
}

static struct weft_train_ranks sum_up(const struct card *cards, uint32_t n)
{
    struct weft_train_ranks out = {0};
    for (uint32_t r = 0; r < n; r++) {
        if (is_first_of_host(cards, r))
            out.peak += peak_of_host(cards, n, cards[r].host);
        out.all_bytes += cards[r].bytes.total;
        if (r == 0 || cards[r].bytes.total > out.most.total) {
            out.most = cards[r].bytes;
            out.most_rank = r;
        }
    }
    return out;
}

enum weft_status weft_train_ask_ranks(struct weft_comm *comm,
                                      const struct weft_trainer *trainer,
                                      const struct weft_cores *cores,
                                      struct weft_train_ranks *out, struct weft_error *err)
{
    struct weft_trainer_info info = weft_trainer_info(trainer);
    struct card own = {.peak = weft_trainer_peak(trainer),
                       .threads = info.threads,
                       .cores = *cores,
                       .bytes = info.bytes};
    uint32_t n = info.n_ranks;
    struct card *all = calloc(n, sizeof *all);
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        own.host[0] = '\0';
    enum weft_status st =
        all == NULL ? WEFT_FAIL(err, WEFT_NOMEM, "no memory for the speeds of %u ranks", n)
                    : weft_comm_gather_each(comm, &own, sizeof own, all, err);
    if (st == WEFT_OK && info.rank == 0)
        *out = sum_up(all, n);
    free(all);
    return st;
}
