/* Ranks as threads, but with messages that are copied, as between processes: a send may be over at
 * once, or only when the receiver has asked for it. */
#ifndef SUPPORT_COPYING_H
#define SUPPORT_COPYING_H

#include "weft/comm.h"

enum copying { COPYING_NONE, COPYING_SOME_EAGER, COPYING_RENDEZVOUS };

/* Another end for the rank of `inner`, which must not be used for messages meanwhile.  Collective;
 * so is closing. */
enum weft_status copying_open(struct weft_comm *inner, enum copying how, struct weft_comm **out,
                              struct weft_error *err);
void copying_close(struct weft_comm *comm); /* NULL is allowed */

#endif
