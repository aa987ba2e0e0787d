/* Adds up the resources of ranks, host by host. */
#include "training/trainer/rank_totals.h"

#include <stdbool.h>
#include <string.h>

/* Returns the sum of the peaks of the ranks on a host.  The peak of each rank is measured as if
 * every thread had its own core, so that other load does not affect it.  If a host has fewer
 * cores than its ranks have threads, the peaks of these ranks are scaled down. */
static double peak_of_host(const struct wf_rank_resources *ranks, uint32_t n, const char *host)
{
    struct wf_cores cores = {{0}};
    double sum = 0, threads = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (strcmp(ranks[r].host, host) != 0)
            continue;
        wf_cores_union(&cores, &ranks[r].cores);
        threads += ranks[r].threads;
        sum += ranks[r].peak;
    }
    double n_cores = wf_cores_count(&cores);
    return n_cores > 0 && n_cores < threads ? sum * n_cores / threads : sum;
}

static bool is_first_of_host(const struct wf_rank_resources *ranks, uint32_t rank)
{
    for (uint32_t r = 0; r < rank; r++)
        if (strcmp(ranks[r].host, ranks[rank].host) == 0)
            return false;
    return true;
}

struct wf_rank_totals wf_rank_totals(const struct wf_rank_resources *ranks, uint32_t n)
{
    struct wf_rank_totals out = {0};
    for (uint32_t r = 0; r < n; r++) {
        if (is_first_of_host(ranks, r))
            out.peak += peak_of_host(ranks, n, ranks[r].host);
        out.all_bytes += ranks[r].bytes.total;
        if (r == 0 || ranks[r].bytes.total > out.largest.total) {
            out.largest = ranks[r].bytes;
            out.largest_rank = r;
        }
    }
    return out;
}
