/* Selects how a test program starts ranks: as threads, or with the argument "socket" as
 * processes over the transport of examples/socket. */
#ifndef SUPPORT_FORKED_H
#define SUPPORT_FORKED_H

#include <string.h>

#include "socket_transport.h"
#include "weft/conformance.h"

static inline enum weft_status forked_launch(void *arg, uint32_t n, weft_rank_fn *fn,
                                             void *fn_arg, struct weft_error *err)
{
    (void)arg;
    return socket_run(n, 0, fn, fn_arg, err);
}

/* Returns the start function for the arguments of a test program; NULL: threads. */
static inline weft_launch_fn *forked_select(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "socket") == 0 ? forked_launch : NULL;
}

#endif
