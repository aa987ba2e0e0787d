/* A transport for tests: ranks are threads, but messages are copied, as between processes.
 * A send completes at once or when the receiver has posted its receive. */
#ifndef SUPPORT_COPYING_H
#define SUPPORT_COPYING_H

#include "weft/comm.h"

enum copying { COPYING_NONE, COPYING_SOME_EAGER, COPYING_RENDEZVOUS };

/* Opens another endpoint for the rank of `inner`, which must not carry messages until it is
 * closed.  Collective; so is closing. */
enum weft_status copying_open(struct weft_comm *inner, enum copying how, struct weft_comm **out,
                              struct weft_error *err);
void copying_close(struct weft_comm *comm); /* NULL is allowed */

#endif
