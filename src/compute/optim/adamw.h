/* AdamW over all tensors of a model, and the norm of their gradients.
 *
 *     struct wf_optim *o;
 *     wf_optim_new(tensors, n, &settings, pool, &o, &err);     the moments, once
 *     norm = sqrt(wf_optim_norm_squared(o));
 *     wf_optim_update(o, &step, pack_rows, stage);             step.t = 1, 2, 3, ...
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

struct wf_optim_tensor {
    const char *name;  /* borrowed: while the optimizer lives, like all that is given here */
    size_t rows, cols; /* vectors: cols is 1 */
    float *value;      /* what is trained */
    int64_t *exact;    /* its gradient in units of 2^-50 ... */
    float *fast;       /* ... or in fp32; the other is NULL */
    bool decay;        /* weight decay applies */
    /* The elements that are this optimizer's: from a block of WF_NORM_SEGMENT to the end of one.
     * 0, 0: all.  It looks at no others. */
    size_t begin, end;
    float *m, *v; /* the moments of these: made and owned by the optimizer */
};

struct wf_optim_settings {
    double beta1, beta2, eps, weight_decay;
};

struct wf_optim_step {
    uint64_t t; /* the number of this update, from 1 */
    double lr;
    double scale; /* every gradient is multiplied by it: clipping */
};

/* Rows [row0, row1) of a tensor that is wholly the optimizer's have their new values and are still
 * in this thread's cache.  row0 is a multiple of 16, and row1 too unless it is the last.  Called from all threads of the pool,
 * for different rows. */
typedef void wf_optim_updated_fn(void *arg, size_t tensor, size_t row0, size_t row1);

struct wf_optim;

/* Takes a copy of the list, in model order, and makes the moments, all zero.  wf_optim_free()
 * frees. */
enum weft_status wf_optim_new(const struct wf_optim_tensor *tensors, size_t n,
                              const struct wf_optim_settings *settings, struct wf_pool *pool,
                              struct wf_optim **out, struct weft_error *err);
void wf_optim_free(struct wf_optim *o); /* NULL is allowed */

/* The tensors with their moments, for checkpoints; borrowed. */
const struct wf_optim_tensor *wf_optim_tensors(const struct wf_optim *o, size_t *n);
size_t wf_optim_bytes(const struct wf_optim *o); /* of the moments */

/* The sum of the squares of all gradients, in double: over blocks of WF_NORM_SEGMENT elements from
 * each tensor's start, blocks in order, tensors in order. */
double wf_optim_norm_squared(struct wf_optim *o);

/* The same without the sum: one number for each block, in that order; borrowed until the next. */
const double *wf_optim_segment_squares(struct wf_optim *o, size_t *n);

/* One step of AdamW for all tensors.  `updated` may be NULL. */
void wf_optim_update(struct wf_optim *o, const struct wf_optim_step *step,
                     wf_optim_updated_fn *updated, void *arg);

#endif
