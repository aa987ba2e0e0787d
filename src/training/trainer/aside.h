/* Work that may take longer than others wait for a sign of life: a disk's. */
#ifndef TRAINING_TRAINER_ASIDE_H
#define TRAINING_TRAINER_ASIDE_H

#include "weft/comm.h"

/* Runs work(arg) on a thread of its own, while this one tells the other ranks that it lives, and
 * returns what it returned; with comm NULL it is called at once.  WEFT_PEER and the like when
 * another rank has failed meanwhile.  Local. */
typedef enum weft_status weft_aside_fn(void *arg, struct weft_error *err);
enum weft_status weft_aside(struct weft_comm *comm, weft_aside_fn *work, void *arg,
                            struct weft_error *err);

#endif
