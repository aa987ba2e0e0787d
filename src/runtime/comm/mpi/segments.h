/* How a message goes through MPI's counts, which are ints. */
#ifndef RUNTIME_COMM_MPI_SEGMENTS_H
#define RUNTIME_COMM_MPI_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* n_segments blocks and then `rest` bytes. */
struct wf_mpi_segments {
    int n_segments, rest;
};

/* All as single bytes up to `limit`, else in blocks; false when even their number is above it.
 * `limit` is at most INT_MAX, and `block` at most `limit`. */
static inline bool wf_mpi_split(size_t bytes, size_t limit, size_t block,
                                struct wf_mpi_segments *out)
{
    if (bytes <= limit) {
        *out = (struct wf_mpi_segments){0, (int)bytes};
        return true;
    }
    if (bytes / block > limit)
        return false;
    *out = (struct wf_mpi_segments){(int)(bytes / block), (int)(bytes % block)};
    return true;
}

#endif
