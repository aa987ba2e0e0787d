/* AdamW over all tensors of a model, and the norm of their gradients.
 *
 *     struct weft_optim *o;
 *     weft_optim_new(tensors, n, &settings, pool, &o, &err);     the moments, once
 *     norm = sqrt(weft_optim_squares(o));
 *     weft_optim_update(o, &step, pack_rows, stage);             step.t = 1, 2, 3, ...
 *
 * Both run on the pool.  How the work is cut, and in which order partial sums are added, depends
 * on the tensors' shapes alone.  A step allocates nothing. */
#ifndef COMPUTE_OPTIM_ADAMW_H
#define COMPUTE_OPTIM_ADAMW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/kern/pool.h"
#include "weft/status.h"

struct weft_optim_tensor {
    const char *name;  /* borrowed: while the optimizer lives, like all that is given here */
    size_t rows, cols; /* vectors: cols is 1 */
    float *value;      /* what is trained */
    int64_t *exact;    /* its gradient in units of 2^-50 ... */
    float *fast;       /* ... or in fp32; the other is NULL */
    bool decay;        /* weight decay applies */
    /* The elements that are this optimizer's: from a block of WEFT_NORM_BLOCK to the end of one.
     * 0, 0: all.  It looks at no others. */
    size_t begin, end;
    float *m, *v; /* the moments of these: made and owned by the optimizer */
};

struct weft_optim_settings {
    double beta1, beta2, eps, weight_decay;
};

struct weft_optim_step {
    uint64_t t; /* the number of this update, from 1 */
    double lr;
    double scale; /* every gradient is multiplied by it: clipping */
};

/* Rows [row0, row1) of a tensor that is wholly the optimizer's have their new values and are still
 * in this thread's cache.  row0 is a multiple of 16, and row1 too unless it is the last.  Called from all threads of the pool,
 * for different rows. */
typedef void weft_updated_fn(void *arg, size_t tensor, size_t row0, size_t row1);

struct weft_optim;

/* Takes a copy of the list, in model order, and makes the moments, all zero.  weft_optim_free()
 * frees. */
enum weft_status weft_optim_new(const struct weft_optim_tensor *tensors, size_t n,
                                const struct weft_optim_settings *settings,
                                struct weft_pool *pool, struct weft_optim **out,
                                struct weft_error *err);
void weft_optim_free(struct weft_optim *o); /* NULL is allowed */

/* The tensors with their moments, for checkpoints; borrowed. */
const struct weft_optim_tensor *weft_optim_tensors(const struct weft_optim *o, size_t *n);
size_t weft_optim_bytes(const struct weft_optim *o); /* of the moments */

/* The sum of the squares of all gradients, in double: over blocks of WEFT_NORM_BLOCK elements from
 * each tensor's start, blocks in order, tensors in order. */
double weft_optim_squares(struct weft_optim *o);

/* The same without the sum: one number for each block, in that order; borrowed until the next. */
const double *weft_optim_block_squares(struct weft_optim *o, size_t *n);

/* After either of them: the first tensor whose gradient is not finite, or n. */
size_t weft_optim_find_bad(const struct weft_optim *o);

/* One step of AdamW for all tensors.  `updated` may be NULL. */
void weft_optim_update(struct weft_optim *o, const struct weft_optim_step *step,
                       weft_updated_fn *updated, void *arg);

#endif
