/* Heartbeats during long computations. */
#ifndef TRAINING_TRAINER_HEARTBEAT_H
#define TRAINING_TRAINER_HEARTBEAT_H

#include "weft/comm.h"

/* Publishes a heartbeat, so that other ranks know that this rank is alive: the hook of a pool,
 * with a struct weft_comm.  Only the thread that owns comm may use it. */
static inline void wf_send_heartbeat(void *comm, unsigned worker)
{
    if (worker == 0)
        weft_comm_heartbeat(comm);
}

#endif
