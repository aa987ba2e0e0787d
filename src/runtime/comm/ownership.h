/* Memory that other ranks may access, and when it may be freed.
 *
 * A message lends memory: its record, its payload and the buffer of its receive.  The memory is
 * lent from the send or post until `done` is set, or until the endpoint has noticed an abort.
 * Three rules keep lent memory alive on every error path:
 *
 *   1. A function of weft/comm.h that fails aborts all ranks before it returns.  After an error
 *      from comm, the caller may free its messages.
 *   2. An operation whose messages stay in flight while other code runs, such as a reduction in
 *      the background, holds a loan (wf_comm_lend) until its last message is done.
 *   3. The owner of memory that such operations use is freed through wf_comm_dispose().  While
 *      there is a loan, comm keeps the owner until the endpoint is closed, which happens after
 *      the abort with the error of this rank.
 *
 * So a rank that fails for a reason of its own needs no abort before it frees its objects, and
 * all ranks report its error. */
#ifndef RUNTIME_COMM_OWNERSHIP_H
#define RUNTIME_COMM_OWNERSHIP_H

#include "weft/comm.h"

/* An object that is freed once no rank can access its memory.  It is a member of the object, so
 * that disposing of an object allocates nothing. */
struct wf_disposal {
    void (*free_object)(void *object);
    void *object;
    struct wf_disposal *next; /* used by comm */
};

/* Starts a loan.  A NULL `comm` means a single rank, which lends nothing.  Local. */
void wf_comm_lend(struct weft_comm *comm);

/* Ends a loan.  A NULL `comm` is allowed.  Local. */
void wf_comm_end_loan(struct weft_comm *comm);

/* Frees an object by d->free_object(d->object): now if this rank has no loan, otherwise when
 * the endpoint is closed.  After an abort, ranks that are threads free it now; the memory of a
 * process stays until its exit, because a rank that has not yet noticed the abort may still
 * read it.  A NULL `comm` is allowed.  Local. */
void wf_comm_dispose(struct weft_comm *comm, struct wf_disposal *d);

#endif
