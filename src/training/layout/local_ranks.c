/* Reads the number of ranks on this machine from the environment. */
#include "training/layout/local_ranks.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cores.h"
#include "base/error.h"
#include "weft/comm.h"

uint32_t wf_launched_local_ranks(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                        "SLURM_NTASKS_PER_NODE"};
    for (size_t i = 0; i < WEFT_LEN(names); i++)
        if (getenv(names[i]) != NULL && atoi(getenv(names[i])) > 0)
            return (uint32_t)atoi(getenv(names[i]));
    return 0;
}

uint32_t wf_ranks_per_host(uint32_t n_ranks)
{
    uint32_t n = weft_comm_launcher() == NULL ? 0 : wf_launched_local_ranks();
    return n != 0 && n < n_ranks ? n : n_ranks;
}

/* Returns how many ranks on this machine share the cores that this process may use.  Returns 1
 * if the launcher bound each rank to its own cores. */
static uint32_t ranks_sharing_cores(uint32_t n_ranks)
{
    if (weft_comm_launcher() == NULL)
        return n_ranks;
    if (wf_cores_available() < (uint32_t)sysconf(_SC_NPROCESSORS_ONLN))
        return 1;
    uint32_t n = wf_launched_local_ranks();
    return n != 0 ? n : 1;
}

uint32_t wf_threads_per_rank(uint32_t n_ranks)
{
    uint32_t n = ranks_sharing_cores(n_ranks), cores = wf_cores_available();
    /* Ranks that are threads of one process choose their cores themselves if there are
     * enough. */
    bool enough = weft_comm_launcher() == NULL && n <= cores;
    if (n <= 1 || enough)
        return 0;
    return cores / n > 0 ? cores / n : 1;
}
