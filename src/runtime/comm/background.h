/* Runs work that may outlast the heartbeat time-out, for example disk accesses, without losing
 * the rank. */
#ifndef RUNTIME_COMM_BACKGROUND_H
#define RUNTIME_COMM_BACKGROUND_H

#include "weft/comm.h"

typedef enum weft_status wf_background_fn(void *arg, struct weft_error *err);

/* Runs work(arg) on a separate thread while the calling thread sends heartbeats, and returns the
 * status of the work.  Calls it directly if comm is NULL or no thread can be started.  Returns
 * WEFT_PEER if another rank fails meanwhile.  Local. */
enum weft_status wf_background_run(struct weft_comm *comm, wf_background_fn *work, void *arg,
                                   struct weft_error *err);

#endif
