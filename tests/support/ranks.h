/* Programs that every transport runs: threads and each MPI.  Each rank compares the data
 * that it receives with a formula and returns an error if they differ. */
#ifndef SUPPORT_RANKS_H
#define SUPPORT_RANKS_H

#include "weft/comm.h"

/* Passes numbers around a ring of ranks, 200 times. */
weft_rank_fn ranks_ring;

/* Runs gather, broadcast and barrier; at most 8 ranks. */
weft_rank_fn ranks_collect;

/* Sends messages of 0 to 30 million bytes from each rank to the next one, as exact sizes and as
 * maximum sizes. */
weft_rank_fn ranks_sizes;

/* Works for longer than the time-out without receiving anything; no rank may be reported as
 * lost.  Two ranks. */
weft_rank_fn ranks_busy;

/* Waits for a local condition for longer than the time-out; the rank may not be reported as
 * lost. */
weft_rank_fn ranks_own_work;

/* Injects the fault `arg` (struct ranks_fault) on rank 0 of three ranks. */
weft_rank_fn ranks_faulty;

struct ranks_fault {
    const char *name;
    enum weft_status status;
    const char *message;  /* part of the error message */
    uint32_t n_reporting; /* how many of the three ranks report it */
};

extern const struct ranks_fault ranks_faults[];
extern const size_t ranks_n_faults;

#endif
