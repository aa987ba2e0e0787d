/* Sends and receives single messages and waits for their completion. */
#ifndef RUNTIME_COMM_BLOCKING_H
#define RUNTIME_COMM_BLOCKING_H

#include "weft/comm.h"

/* Sends a message and returns once its memory may be reused.  Local. */
enum weft_status wf_comm_send_blocking(struct weft_comm *comm, struct weft_message m,
                                       struct weft_error *err);

/* Receives m.bytes bytes and stores them in m.data, even if the transport delivers them in
 * other memory.  Local. */
enum weft_status wf_comm_receive_blocking(struct weft_comm *comm, struct weft_message m,
                                          struct weft_error *err);

#endif
