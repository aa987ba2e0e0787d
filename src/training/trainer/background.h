/* Work that may take longer than others wait for a heartbeat: a disk's. */
#ifndef TRAINING_TRAINER_BACKGROUND_H
#define TRAINING_TRAINER_BACKGROUND_H

#include "weft/comm.h"

/* Runs work(arg) on a thread of its own, while this one tells the other ranks that it lives, and
 * returns what it returned; with comm NULL it is called at once.  WEFT_PEER and the like when
 * another rank has failed meanwhile.  Local. */
typedef enum weft_status wf_background_fn(void *arg, struct weft_error *err);
enum weft_status wf_background_run(struct weft_comm *comm, wf_background_fn *work, void *arg,
                                   struct weft_error *err);

#endif
