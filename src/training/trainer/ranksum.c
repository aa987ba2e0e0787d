#include "training/trainer/ranksum.h"

#include <stdbool.h>
#include <string.h>

/* Each rank says what its threads could do if each had a core to itself (so that what else runs on
 * the machine does not count).  Those of one machine have no more than its cores together. */
static double peak_of_host(const struct weft_rank_card *cards, uint32_t n, const char *host)
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

static bool is_first_of_host(const struct weft_rank_card *cards, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++)
        if (strcmp(cards[r].host, cards[rank].host) == 0)
            return false;
    return true;
}

struct weft_rank_sum weft_rank_sum(const struct weft_rank_card *cards, uint32_t n)
{
    struct weft_rank_sum out = {0};
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
