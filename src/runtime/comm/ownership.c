/* Loans of memory to other ranks, and objects that are freed after them. */
#include "runtime/comm/ownership.h"

#include "base/error.h"
#include "runtime/comm/comm_priv.h"

void wf_comm_lend(struct weft_comm *comm)
{
    if (comm != NULL)
        comm->n_loans++;
}

void wf_comm_end_loan(struct weft_comm *comm)
{
    if (comm != NULL)
        comm->n_loans--;
}

void wf_comm_dispose(struct weft_comm *comm, struct wf_disposal *d)
{
    struct weft_error first;
    bool aborted = comm != NULL && comm->ops.aborted(comm->self, &first);
    if (comm == NULL || (aborted ? comm->ops.by_reference : comm->n_loans == 0)) {
        d->free_object(d->object);
        return;
    }
    d->next = comm->disposals;
    comm->disposals = d;
}

void wf_comm_free_disposals(struct weft_comm *comm)
{
    struct weft_error first, early;
    if (comm->disposals == NULL)
        return;
    if (!comm->ops.aborted(comm->self, &first)) {
        (void)WEFT_FAIL(&early, WEFT_INTERNAL,
                        "rank %u closed its endpoint while other ranks may read its memory",
                        comm->rank);
        comm->ops.abort(comm->self, &early);
    }
    if (!comm->ops.by_reference)
        return;
    while (comm->disposals != NULL) {
        struct wf_disposal *d = comm->disposals;
        comm->disposals = d->next;
        d->free_object(d->object);
    }
}
