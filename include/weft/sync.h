/* Gradients summed over ranks: say which parameters a step has, push their gradients as they
 * come, wait.
 *
 *     struct weft_sync *sync = NULL;
 *     weft_sync_new(comm, WEFT_SYNC_MEAN, &sync, &err);
 *     for (uint64_t step = 0; step < steps; step++) {
 *         weft_sync_register(sync, step, ids, sizes, n, &err);
 *         for (size_t i = n; i-- > 0;) {
 *             backward(layer[i], grad[i]);
 *             weft_sync_push(sync, step, ids[i], grad[i], &err);    reduced while others compute
 *         }
 *         weft_sync_wait(sync, step, &err);                         grad[i] is now the mean
 *         update(weights, grad);
 *     }
 *     weft_sync_free(sync);
 *
 * A parameter is a number that all ranks know it by.  Its result is over the ranks that registered
 * it for that step: their sum, or their sum divided by how many they are.  The sets of ranks may
 * differ and may be empty; a rank may skip steps, run ahead of the others, or have fewer steps.
 *
 * Sums are exact: each element is rounded once to a multiple of 2^-50 and added as an integer, and
 * the sum is rounded once to fp32, for the mean after a division in double.  So no order of
 * arrival, and no number of messages, changes a bit.  An element, and a sum, must stay below 2^12;
 * one that does not (or is not a number) is WEFT_NUMERIC, and the parameter is named.
 *
 * There are two kinds of errors:
 *   - misuse of a call (WEFT_USAGE: pushing what was not registered, or twice; a step that was not
 *     registered; waiting before everything was pushed; ...) changes nothing.  The call may be made
 *     again, rightly; a rank that gives up instead ends all others with that error, by
 *     weft_sync_free() or by returning it from its weft_rank_fn.
 *   - all others (sizes or operations that differ between ranks, numbers out of range, no memory,
 *     a lost peer) are everyone's: they end all waits of all ranks, and every later call returns
 *     the same error.
 * A rank that never registers, never pushes or never comes is named when the transport's timeout is
 * over (weft_comm_set_timeout).  No call waits for ever.
 *
 * All calls are made from the thread that has `comm`.  A comm has one weft_sync at a time, which
 * uses its progress function (weft_comm_on_progress); every call below is a heartbeat
 * (weft_comm_publish).  A rank that computes for long between calls should call weft_comm_progress()
 * now and then: others may wait for sums that it makes.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/comm.h"
#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_sync;

enum weft_sync_op { WEFT_SYNC_SUM, WEFT_SYNC_MEAN };

/* On success the caller owns *out and frees it before `comm` ends.  All ranks make one, with the
 * same op.  Local. */
WEFT_API enum weft_status weft_sync_new(struct weft_comm *comm, enum weft_sync_op op,
                                        struct weft_sync **out, struct weft_error *err);

/* Leaves, and returns when the others have finished the steps that this rank registered.  A step of
 * this rank that lacks pushes ends the other ranks with an error; when there is an error of the
 * caller's own, weft_comm_abort() it first.  NULL is allowed.  Local. */
WEFT_API void weft_sync_free(struct weft_sync *s);

/* This rank will push the n parameters ids[i] with sizes[i] elements in this step.  Once a step;
 * steps ascend, and need not be waited for before the next is registered.  A rank without
 * parameters registers an empty set, or skips the step: until it does one or the other, or leaves,
 * nothing of the step is reduced.  The arrays are copied.  Local; never waits. */
WEFT_API enum weft_status weft_sync_register(struct weft_sync *s, uint64_t step,
                                             const uint32_t *ids, const size_t *sizes, size_t n,
                                             struct weft_error *err);

/* grad (as many elements as registered) is weft's until weft_sync_wait() returns, and is then the
 * result.  In any order; before others have registered, too.  Local; never waits. */
WEFT_API enum weft_status weft_sync_push(struct weft_sync *s, uint64_t step, uint32_t id,
                                         float *grad, struct weft_error *err);

/* Is the whole step reduced?  Local; never waits. */
WEFT_API enum weft_status weft_sync_test(struct weft_sync *s, uint64_t step, bool *done,
                                         struct weft_error *err);

/* Returns when everything that this rank pushed in the step is reduced, and ends the step: it
 * cannot be waited for again.  All that was registered must have been pushed.  Local. */
WEFT_API enum weft_status weft_sync_wait(struct weft_sync *s, uint64_t step,
                                         struct weft_error *err);

/* This rank registers no more steps: the others go on without it.  What it registered is still to
 * be pushed and waited for.  Local; never waits. */
WEFT_API enum weft_status weft_sync_leave(struct weft_sync *s, struct weft_error *err);

/* What it took so far. */
struct weft_sync_counts {
    uint64_t messages, bytes; /* sent */
    uint64_t work;            /* pieces of parameters sent, received and summed; look-ups */
    uint64_t memory; /* bytes held now: it is used again, and grows to what is needed */
};

WEFT_API struct weft_sync_counts weft_sync_counts(const struct weft_sync *s);

#ifdef __cplusplus
}
#endif

#endif
