#ifndef COMM_COMM_PRIV_H
#define COMM_COMM_PRIV_H

#include "comm/transport.h"

/* Ranks as threads of this process: a group, and each rank's end of it.  The group is freed by
 * whoever made it, when all ends are closed. */
struct weft_inproc;
enum weft_status weft_inproc_new(uint32_t n, struct weft_inproc **out, struct weft_error *err);
void weft_inproc_free(struct weft_inproc *group); /* NULL is allowed */
enum weft_status weft_inproc_open(struct weft_inproc *group, uint32_t rank,
                                  struct weft_comm **out, struct weft_error *err);

#endif
