/* Gradient reduction over ranks for other programs: register the parameters of a step, push
 * their gradients as they become available, and wait, or react to callbacks.
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
 * A parameter is identified by a number that is the same on all ranks.  A rank pushes one
 * gradient, or several gradients, of each parameter that it registered for a step.  The result
 * of a parameter is the sum of all gradients of all ranks, or their mean: the sum divided by
 * the number of gradients.  Every pushed gradient is replaced by the result.  The sets of
 * parameters and the numbers of gradients may differ between ranks, and a set may be empty.  A
 * rank may skip steps, run ahead of the others, or have fewer steps.
 *
 * Sums are exact over the whole range of the element type (fp32, bf16 or fp64), including
 * subnormal numbers.  The result is the exact sum, for the mean divided by the number of
 * gradients, rounded once to the element type, to nearest, ties to even.  It therefore does not
 * depend on the order of arrival or on the number of messages: 1e30 + 1 - 1e30 is 1.  A sum of
 * exactly zero is +0.  A NaN or an infinite element, and a result that is out of the range of
 * the type, result in WEFT_NUMERIC, and the error names the parameter.  Intermediate sums
 * cannot overflow.  Sums require the default floating-point mode of the calling thread
 * (rounding to nearest; subnormal numbers are not flushed to zero).
 *
 * weft_sync_on_complete() sets functions that are called when a parameter and when a step is
 * complete.  weft_sync_test() and weft_sync_wait() work with and without them.
 *
 * There are two kinds of errors:
 *   - Misuse of a call (WEFT_USAGE: a parameter that was not registered or is pushed twice, a
 *     step that was not registered, a wait before everything was pushed, ...) changes nothing.
 *     The rank can correct the call and continue.  If it calls weft_sync_free() or returns the
 *     error from its weft_rank_fn instead, all other ranks end with that error.
 *   - All other errors (sizes or operations that differ between ranks, numbers out of range,
 *     out of memory, a lost peer) end all waits of all ranks, and every later call returns
 *     the same error.
 * A rank that never registers or never pushes is reported by its number after the time-out of
 * the transport (weft_comm_set_timeout).  Every wait ends.
 *
 * All calls are made from the thread that uses `comm`.  A comm has at most one weft_sync, which
 * sets the progress function of the comm (weft_comm_on_progress).  Every call below sends a
 * heartbeat (weft_comm_publish).  A rank that computes for a long time between calls should
 * call weft_comm_progress() regularly, because other ranks may wait for sums that this rank
 * computes.
 *
 * Every function accepts NULL for a pointer: it returns WEFT_USAGE or zeros, or does nothing.
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

/* Types of elements. */
enum weft_sync_type {
    WEFT_SYNC_F32,
    WEFT_SYNC_BF16, /* uint16_t: the upper half of an fp32 */
    WEFT_SYNC_F64
};

/* A parameter of a step.  All ranks that register it give the same size and type. */
struct weft_sync_param {
    uint32_t id;
    /* Number of gradients that this rank pushes; 0 means 1.  At most 2^30 over all ranks. */
    uint32_t n_grads;
    size_t size; /* number of elements */
    enum weft_sync_type type;
};

/* Creates a reducer.  All ranks must create their reducers with the same op.  The caller owns
 * *out and frees it before `comm` is closed.  Local. */
WEFT_API enum weft_status weft_sync_new(struct weft_comm *comm, enum weft_sync_op op,
                                        struct weft_sync **out, struct weft_error *err);

/* Calls weft_sync_leave(), waits until the other ranks have finished the steps that this rank
 * registered, and frees the reducer.  A registered step without all pushes ends the other ranks
 * with an error.  A caller that stops because of another error calls weft_comm_abort() first.
 * NULL is allowed.  Local. */
WEFT_API void weft_sync_free(struct weft_sync *s);

/* -- callbacks ----------------------------------------------------------------------------- */

/* Called when all gradients of a parameter contain the result.  From then on they belong to the
 * caller again. */
typedef enum weft_status weft_sync_param_fn(void *arg, uint64_t step, uint32_t id,
                                            struct weft_error *err);

/* Called when all parameters of a step are complete, after their callbacks.  A step without
 * parameters is complete when it is registered. */
typedef enum weft_status weft_sync_step_fn(void *arg, uint64_t step, struct weft_error *err);

/* Sets the functions that are called when a parameter and when a step of this rank is complete,
 * each once.  Either may be NULL.  `arg` is borrowed until the functions are replaced or the
 * reducer is freed.  Call this function before the first step is registered: what is complete
 * already is not reported later.
 *
 * The functions run in the thread that uses the comm, inside any function of this header that
 * takes an `err`, inside weft_sync_free(), inside weft_comm_progress() and inside every wait of
 * the comm; never at the same time, and never inside each other.  Parameters are reported in
 * the order in which they are complete.  weft_sync_wait() returns after the callbacks of its
 * step.
 *
 * A callback may call weft_sync_register(), weft_sync_register_params(), weft_sync_push(),
 * weft_sync_test(), weft_sync_leave() and weft_sync_counts(), for any step.  These calls do not
 * call other callbacks.  The callback of a step may call weft_sync_wait() for this step, which
 * ends the step without waiting, unless the caller is in weft_sync_wait() for the same step.
 * Any other weft_sync_wait() is an error (WEFT_USAGE).  A callback must not call
 * weft_sync_free() or a function of weft/comm.h that waits.
 *
 * A return value other than WEFT_OK ends all waits of all ranks with this error.  After such an
 * error, or any other error that is not a misuse, no callback is called.  Local. */
WEFT_API void weft_sync_on_complete(struct weft_sync *s, weft_sync_param_fn *on_param,
                                    weft_sync_step_fn *on_step, void *arg);

/* -- steps --------------------------------------------------------------------------------- */

/* Registers the n parameters that this rank will push in a step.  Called once per step, with
 * ascending steps; several steps may be open at the same time.  A rank without parameters
 * registers an empty set, or skips the step by registering a later step or by leaving.  The
 * step is not reduced before the rank does one of these.  The array is copied.  Never waits.
 * Local. */
WEFT_API enum weft_status weft_sync_register_params(struct weft_sync *s, uint64_t step,
                                                    const struct weft_sync_param *params,
                                                    size_t n, struct weft_error *err);

/* Registers n parameters of type fp32 with one gradient each: ids[i] with sizes[i] elements.
 * The same as weft_sync_register_params() otherwise.  Local. */
WEFT_API enum weft_status weft_sync_register(struct weft_sync *s, uint64_t step,
                                             const uint32_t *ids, const size_t *sizes, size_t n,
                                             struct weft_error *err);

/* Pushes a gradient of a registered parameter: an array of the registered size and type.  A
 * parameter with several gradients is pushed once for each of them, from arrays that do not
 * overlap.  The caller must not use `grad` until the parameter is complete: until its callback,
 * or until weft_sync_wait() returns.  `grad` then contains the result.  Pushes may come in any
 * order and before the other ranks have registered.  Never waits.  Local. */
WEFT_API enum weft_status weft_sync_push(struct weft_sync *s, uint64_t step, uint32_t id,
                                         void *grad, struct weft_error *err);

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
