/* How a message goes through MPI's counts, which are ints. */
#ifndef RUNTIME_COMM_MPI_PIECES_H
#define RUNTIME_COMM_MPI_PIECES_H

#include <stdbool.h>
#include <stddef.h>

/* n_blocks blocks and then `rest` bytes. */
struct weft_pieces {
    int n_blocks, rest;
};

/* All as single bytes up to `limit`, else in blocks; false when even their number is above it.
 * `limit` is at most INT_MAX, and `block` at most `limit`. */
static inline bool weft_pieces_of(size_t bytes, size_t limit, size_t block,
                                  struct weft_pieces *out)
{
    if (bytes <= limit) {
        *out = (struct weft_pieces){0, (int)bytes};
        return true;
    }
    if (bytes / block > limit)
        return false;
    *out = (struct weft_pieces){(int)(bytes / block), (int)(bytes % block)};
    return true;
}

#endif
