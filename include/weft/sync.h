/* Gradient reduction over ranks for other programs: register the parameters of a step, push
 * their gradients as they become available, and wait.
 *
 *     struct weft_sync *sync = NULL;
 *     weft_sync_new(comm, WEFT_SYNC_MEAN, &sync, &err);
 *     for (uint64_t step = 0; step < steps; step++) {
 *         weft_sync_register(sync, step, ids, sizes, n, &err);
 *         for (size_t i = n; i-- > 0;) {
 *             backward(layer[i], grad[i]);
 *             weft_sync_push(sync, step, ids[i], grad[i], &err);    reduced meanwhile
 *         }
 *         weft_sync_wait(sync, step, &err);                         grad[i] is now the mean
 *         update(weights, grad);
 *     }
 *     weft_sync_free(sync);
 *
 * A parameter is identified by a number that is the same on all ranks.  The result of a
 * parameter is the sum, or the mean, over the ranks that registered it for that step.  The sets
 * of parameters may differ between ranks and may be empty.  A rank may skip steps, run ahead of
 * the others, or have fewer steps.
 *
 * Sums are exact: each element is rounded once to a multiple of 2^-50 and added as an integer,
 * and the sum is rounded once to fp32 (for the mean, after a division in double).  The result
 * therefore does not depend on the order of arrival or on the number of messages.  Elements and
 * sums must stay below 2^12 in magnitude; larger values and non-finite elements result in
 * WEFT_NUMERIC, and the error names the parameter.
 *
 * There are two kinds of errors:
 *   - Misuse of a call (WEFT_USAGE: a parameter that was not registered or is pushed twice, a step
 *     that was not registered, a wait before everything was pushed, ...) changes nothing.  The
 *     rank can correct the call and continue.  If it calls weft_sync_free() or returns the error
 *     from its weft_rank_fn instead, all other ranks end with that error.
 *   - All other errors (sizes or operations that differ between ranks, numbers out of range, out of
 *     memory, a lost peer) end all waits of all ranks, and every later call returns the same error.
 * A rank that never registers or never pushes is reported by its number after the time-out of the
 * transport (weft_comm_set_timeout).  Every wait ends.
 *
 * All calls are made from the thread that uses `comm`.  A comm has at most one weft_sync, which
 * sets the progress function of the comm (weft_comm_on_progress).  Every call below sends a
 * heartbeat (weft_comm_publish).  A rank that computes for a long time between calls should
 * call weft_comm_progress() regularly, because other ranks may wait for sums that this rank
 * computes.
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

/* Creates a reducer.  All ranks must create their reducers with the same op.  The caller owns
 * *out and frees it before `comm` is closed.  Local. */
WEFT_API enum weft_status weft_sync_new(struct weft_comm *comm, enum weft_sync_op op,
                                        struct weft_sync **out, struct weft_error *err);

/* Calls weft_sync_leave(), waits until the other ranks have finished the steps that this rank
 * registered, and frees the reducer.  A registered step without all pushes ends the other ranks
 * with an error.  A caller that stops because of another error calls weft_comm_abort() first.
 * NULL is allowed.  Local. */
WEFT_API void weft_sync_free(struct weft_sync *s);

/* Registers the n parameters ids[i] with sizes[i] elements that this rank will push in a step.
 * Called once per step, with ascending steps; several steps may be open at the same time.  A
 * rank without parameters registers an empty set, or skips the step by registering a later step
 * or by leaving.  The step is not reduced before the rank does one of these.  The arrays are
 * copied.  Never waits.  Local. */
WEFT_API enum weft_status weft_sync_register(struct weft_sync *s, uint64_t step,
                                             const uint32_t *ids, const size_t *sizes, size_t n,
                                             struct weft_error *err);

/* Pushes the gradient of a registered parameter.  The caller must not use `grad` until
 * weft_sync_wait() returns; `grad` then contains the result.  Pushes may come in any order and
 * before the other ranks have registered.  Never waits.  Local. */
WEFT_API enum weft_status weft_sync_push(struct weft_sync *s, uint64_t step, uint32_t id,
                                         float *grad, struct weft_error *err);

/* Sets *done to whether the whole step is reduced.  Never waits.  Local. */
WEFT_API enum weft_status weft_sync_test(struct weft_sync *s, uint64_t step, bool *done,
                                         struct weft_error *err);

/* Waits until everything that this rank pushed in the step is reduced, and ends the step.  All
 * registered parameters must have been pushed.  A step can be waited for once.  Local. */
WEFT_API enum weft_status weft_sync_wait(struct weft_sync *s, uint64_t step,
                                         struct weft_error *err);

/* Declares that this rank registers no more steps, so that the other ranks continue without
 * it.  Open steps must still be pushed and waited for.  Never waits.  Local. */
WEFT_API enum weft_status weft_sync_leave(struct weft_sync *s, struct weft_error *err);

/* Totals since the creation of the reducer. */
struct weft_sync_counts {
    uint64_t messages, bytes; /* messages and bytes sent */
    uint64_t work; /* number of pieces sent, received and summed, plus number of look-ups */
    /* Bytes that are currently allocated; memory is reused and grows on demand. */
    uint64_t memory;
};

/* Returns the totals.  Local. */
WEFT_API struct weft_sync_counts weft_sync_counts(const struct weft_sync *s);

#ifdef __cplusplus
}
#endif

#endif
