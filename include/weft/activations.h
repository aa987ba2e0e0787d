/* A store for the tensors that cross the boundary of a stage: for each micro-batch of a step
 * one activation and one gradient, of sequence length x hidden size floats each.
 *
 * It is for programs that call their stages themselves, in the order of a schedule.  The
 * executor (weft/exec.h) has its own buffers.  examples/activations.c is a complete program.
 *
 *     struct weft_activations *a = NULL;
 *     if (weft_activations_new(n_micros, seq_len, hidden_size, &a, &err) != WEFT_OK) ...
 *     weft_activations_store(a, WEFT_BOUNDARY_ACTIVATION, micro, x, n, &err);     forward
 *     const float *saved = NULL;
 *     weft_activations_get(a, WEFT_BOUNDARY_ACTIVATION, micro, &saved, &err);     backward
 *     weft_activations_drop(a, WEFT_BOUNDARY_ACTIVATION, micro, &err);
 *     weft_activations_reset(a);                                                  next step
 *     weft_activations_free(a);
 *
 * weft_activations_new() allocates everything; no other function allocates.  The system commits
 * the pages of that memory when they are first written, and the memory of a dropped tensor is
 * reused first.  A 1F1B schedule, whose stage s of P drops each activation after its backward,
 * therefore needs memory for min(P - s, M) activations and not for all M micro-batches.
 *
 * A function that fails changes nothing.  One thread at a time may use a store.
 *
 * Every function accepts NULL for a pointer: it returns WEFT_USAGE or 0, or does nothing.
 */
#ifndef WEFT_ACTIVATIONS_H
#define WEFT_ACTIVATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_activations; /* opaque */

/* What crosses a boundary between two stages. */
enum weft_boundary {
    WEFT_BOUNDARY_ACTIVATION, /* forward: the output of the earlier stage */
    WEFT_BOUNDARY_GRADIENT,   /* backward: the gradient of that output */
};

/* Creates an empty store for n_micros micro-batches.  A size may be 0: the tensors are then
 * empty, or there are none.  Returns WEFT_USAGE if the sizes overflow, and WEFT_NOMEM.  The
 * caller owns *out and frees it with weft_activations_free().  Local. */
WEFT_API enum weft_status weft_activations_new(uint32_t n_micros, size_t seq_len,
                                               size_t hidden_size,
                                               struct weft_activations **out,
                                               struct weft_error *err);

/* Frees a store.  NULL is allowed.  Local. */
WEFT_API void weft_activations_free(struct weft_activations *a);

/* Copies a tensor of `n` floats into the store and replaces an earlier one of the same
 * micro-batch.  Returns WEFT_USAGE if `micro` is out of range, if `n` is not
 * weft_activations_size(), or if `data` is NULL and n is not 0.  Local. */
WEFT_API enum weft_status weft_activations_store(struct weft_activations *a,
                                                 enum weft_boundary which, uint32_t micro,
                                                 const float *data, size_t n,
                                                 struct weft_error *err);

/* Marks a tensor as stored and sets *out to its memory, which the caller then writes: the
 * output of a stage or the buffer of a receive, without a copy.  The memory is aligned to 64
 * bytes.  Its content is undefined unless the tensor was stored before.  Borrowed until the
 * tensor is dropped.  Returns WEFT_USAGE if `micro` is out of range.  Local. */
WEFT_API enum weft_status weft_activations_place(struct weft_activations *a,
                                                 enum weft_boundary which, uint32_t micro,
                                                 float **out, struct weft_error *err);

/* Sets *out to a stored tensor of weft_activations_size() floats, or to NULL if there is none.
 * Borrowed until the tensor is dropped.  Returns WEFT_USAGE if `micro` is out of range.
 * Local. */
WEFT_API enum weft_status weft_activations_get(const struct weft_activations *a,
                                               enum weft_boundary which, uint32_t micro,
                                               const float **out, struct weft_error *err);

/* Drops a tensor, whose memory the next tensor of either kind reuses.  It is not an error if
 * nothing is stored.  Returns WEFT_USAGE if `micro` is out of range.  Local. */
WEFT_API enum weft_status weft_activations_drop(struct weft_activations *a,
                                                enum weft_boundary which, uint32_t micro,
                                                struct weft_error *err);

/* Drops all tensors.  The memory is kept for the next step.  Local. */
WEFT_API void weft_activations_reset(struct weft_activations *a);

/* Returns the number of floats of one tensor: sequence length x hidden size.  Local. */
WEFT_API size_t weft_activations_size(const struct weft_activations *a);

/* Returns the bytes of the tensors that are stored now, activations and gradients.  Local. */
WEFT_API size_t weft_activations_bytes(const struct weft_activations *a);

#ifdef __cplusplus
}
#endif

#endif
