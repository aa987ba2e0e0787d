/* The ranks of a run that share a machine. */
#ifndef TRAINING_LAYOUT_LOCAL_RANKS_H
#define TRAINING_LAYOUT_LOCAL_RANKS_H

#include <stdint.h>

/* Returns the number of ranks that the launcher (mpirun, srun) started on this machine, or 0 if
 * it is not known.  Local. */
uint32_t wf_launched_local_ranks(void);

/* Returns the number of ranks, of n_ranks in total, that share the memory of a machine: all if
 * ranks are threads of this process or if the number is not known.  Local. */
uint32_t wf_ranks_per_host(uint32_t n_ranks);

/* Returns how many threads each rank should have, if n_ranks ranks are started: the cores are
 * divided among the ranks that share them.  n_ranks counts only if the ranks are threads of this
 * process.  Returns 0 if each rank may use all cores of its thread or process.  Local. */
uint32_t wf_threads_per_rank(uint32_t n_ranks);

#endif
