/* Splits a message so that its counts fit MPI's int. */
#ifndef RUNTIME_COMM_MPI_SEGMENTS_H
#define RUNTIME_COMM_MPI_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* A message of `n_segments` segments followed by `rest` bytes. */
struct wf_mpi_segments {
    int n_segments, rest;
};

/* Splits a message.  A message of at most `limit` bytes has no segments; a larger message is
 * split into segments.  Returns false if the number of segments exceeds `limit` as well.
 * `limit` must be at most INT_MAX, and `segment` at most `limit`. */
static inline bool wf_mpi_split(size_t bytes, size_t limit, size_t segment,
                                struct wf_mpi_segments *out)
{
    if (bytes <= limit) {
        *out = (struct wf_mpi_segments){0, (int)bytes};
        return true;
    }
    if (bytes / segment > limit)
        return false;
    *out = (struct wf_mpi_segments){(int)(bytes / segment), (int)(bytes % segment)};
    return true;
}

#endif
