/* Programs of ranks that are run over every transport: as threads and under each MPI.  Each rank
 * checks what it gets against a formula, and returns an error when it is wrong. */
#ifndef SUPPORT_RANKS_H
#define SUPPORT_RANKS_H

#include "weft/comm.h"

/* Numbers go round a ring, 200 times. */
weft_rank_fn ranks_ring;

/* Gather, spread and barrier; up to 8 ranks. */
weft_rank_fn ranks_collect;

/* Messages of 0 to 30 million bytes from each rank to the next, alone and "up to". */
weft_rank_fn ranks_sizes;

/* A rank that was busy for longer than the timeout, and has heard nobody all the while, blames
 * nobody for it: two ranks. */
weft_rank_fn ranks_busy;

/* A rank that waits for something of its own for longer than the timeout is not lost. */
weft_rank_fn ranks_own_work;

/* Three ranks, the first of which makes trouble: `arg` is one of the cases. */
weft_rank_fn ranks_faulty;

struct ranks_fault {
    const char *name;
    enum weft_status status;
    const char *said;     /* part of the message */
    uint32_t n_reporting; /* how many of the three ranks are there to say it */
};

extern const struct ranks_fault ranks_faults[];
extern const size_t ranks_n_faults;

#endif
